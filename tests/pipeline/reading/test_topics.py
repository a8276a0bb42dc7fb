"""What the driver's side says when something is wrong: one line that says what to do. And what it waits out. Offsets as
Spark keeps them: every partition once, equal offsets as the same text; admission stays between the ends."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.client.errors import (
    AuthorizationError,
    CommitFailedError,
    FencedInstanceIdError,
    KafkaError,
    RebalanceInProgressError,
)
from coterie.pipeline import queries
from coterie.pipeline.offsets import DataLossError, as_json, from_json
from coterie.pipeline.options.options import SourceOptions, source_options
from coterie.pipeline.reading.topics import TopicReader
from coterie.pipeline.streaming.admission import Admission, Limits
from coterie.pipeline.streaming.assigned_stream import AssignedStream
from coterie.testing import ErrorCode, LocalBroker

GENERATION = 7
COMMITS: dict[ErrorCode, type[KafkaError] | None] = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: None,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: None,
    ErrorCode.NOT_COORDINATOR: None,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: None,  # the coordinator's broker may not know the topic yet
    ErrorCode.ILLEGAL_GENERATION: CommitFailedError,
    ErrorCode.UNKNOWN_MEMBER_ID: CommitFailedError,
    ErrorCode.STALE_MEMBER_EPOCH: CommitFailedError,
    ErrorCode.REBALANCE_IN_PROGRESS: RebalanceInProgressError,
    ErrorCode.FENCED_INSTANCE_ID: FencedInstanceIdError,
    ErrorCode.GROUP_AUTHORIZATION_FAILED: AuthorizationError,
    ErrorCode.KAFKA_STORAGE_ERROR: KafkaError,  # retriable elsewhere; no verdict on a commit repeats it
}


@pytest.fixture
def broker() -> Iterator[LocalBroker]:
    with LocalBroker() as running:
        running.create_topic("t", 2)
        yield running


def options(broker: LocalBroker, **more: str) -> SourceOptions:
    given = {
        "kafka.bootstrap.servers": broker.bootstrap_servers,
        "subscribe": "t",
        "startingOffsets": "earliest",
        **more,
    }
    return source_options(given, streaming=True)


def test_a_topic_that_is_missing(broker: LocalBroker) -> None:
    with pytest.raises(KafkaError, match="UNKNOWN_TOPIC_OR_PARTITION: topic nope: it does not exist; create it first"):
        TopicReader(options(broker, subscribe="nope")).starting()


def test_what_is_not_allowed(broker: LocalBroker) -> None:
    broker.fail("Metadata", ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    with pytest.raises(KafkaError, match="topic t: this client may not read it; give it the right to"):
        TopicReader(options(broker)).starting()
    broker.fail("OffsetFetch", ErrorCode.GROUP_AUTHORIZATION_FAILED)
    committed = options(broker, **{"kafka.group.id": "g", "startingOffsets": "committed"})
    with pytest.raises(KafkaError, match="GROUP_AUTHORIZATION_FAILED"):
        TopicReader(committed).starting()


def test_nobody_answers() -> None:
    given = {
        "kafka.bootstrap.servers": "127.0.0.1:1,127.0.0.1:2",
        "subscribe": "t",
        "kafka.default.api.timeout.ms": "300",
    }
    began_s = time.monotonic()
    with pytest.raises(KafkaError, match=r"no broker answers at 127\.0\.0\.1:2"):
        TopicReader(source_options(given, streaming=False)).starting()
    assert 0.1 < time.monotonic() - began_s < 5, "it was tried again for a while"


def test_errors_that_pass_are_waited_out(broker: LocalBroker) -> None:
    broker.fail("ListOffsets", ErrorCode.NOT_LEADER_OR_FOLLOWER, times=2)
    broker.fail("OffsetCommit", ErrorCode.NOT_COORDINATOR, times=2)
    stream = AssignedStream(options(broker, **{"kafka.group.id": "g", "kafka.retry.backoff.ms": "10"}))
    assert stream.initial() == {"t": {"0": 0, "1": 0}}
    stream.commit({"t": {"0": 0, "1": 0}})
    assert stream.reader.committed([("t", 0), ("t", 1)]) == {("t", 0): 0, ("t", 1): 0}


@pytest.mark.parametrize("code", COMMITS)
def test_a_refused_commit_of_a_member_means_what_it_means_to_a_consumer(broker: LocalBroker, code: ErrorCode) -> None:
    """OffsetCommitResponseHandler, without the member's machine: that of the reader is in another process."""
    given = {"kafka.group.id": "g", "kafka.retry.backoff.ms": "5", "kafka.default.api.timeout.ms": "10000"}
    reader = TopicReader(options(broker, **given))
    reader.commit({("t", 0): 0})
    raised, times, before = COMMITS[code], 2, broker.requested("OffsetCommit")
    broker.fail("OffsetCommit", code, times=times)
    if raised is None:
        with pytest.raises(CommitFailedError) as caught:  # of the broker itself, that has no such member
            reader.commit({("t", 0): 1}, "m", GENERATION)
        assert (caught.value.code, broker.requested("OffsetCommit") - before) == (
            ErrorCode.UNKNOWN_MEMBER_ID,
            times + 1,
        )
        return
    with pytest.raises(raised) as refused:
        reader.commit({("t", 0): 1}, "m", GENERATION)
    assert (refused.value.code, broker.requested("OffsetCommit") - before) == (code, 1)


@pytest.mark.parametrize(
    ("code", "warned"), [(ErrorCode.ILLEGAL_GENERATION, False), (ErrorCode.GROUP_AUTHORIZATION_FAILED, True)]
)
def test_the_last_commit_of_a_query_that_stops(
    broker: LocalBroker, caplog: pytest.LogCaptureFixture, code: ErrorCode, warned: bool
) -> None:
    """Where the group has moved on the new owners have the partitions; else the batch is read again, which is logged."""
    broker.fail("OffsetCommit", code)
    end = {"generation": GENERATION, "member": "m", "ranges": {"t": {"0": [0, 1]}}}
    queries._commit_last(options(broker, **{"kafka.group.id": "g"}), end)
    assert ("the last batch is not committed" in caplog.text) == warned
    assert broker.requested("OffsetCommit") == 1


def test_a_second_address_is_tried(broker: LocalBroker) -> None:
    both = {"kafka.bootstrap.servers": f"127.0.0.1:1,{broker.bootstrap_servers}", "subscribe": "t"}
    assert len(TopicReader(source_options(both, streaming=False)).partitions()) == 2


def test_what_became_of_the_topic(broker: LocalBroker) -> None:
    stream = AssignedStream(options(broker))
    with pytest.raises(
        DataLossError, match="t-0 ends at 0, before offset 7, where this query goes on; set failOnDataLoss=false"
    ):
        stream.latest({"t": {"0": 7, "1": 0}}, Limits())
    with pytest.raises(DataLossError, match="t-2 is gone"):
        stream.latest({"t": {"0": 0, "1": 0, "2": 5}}, Limits())
    assigned = {"kafka.bootstrap.servers": broker.bootstrap_servers, "assign": '{"t":[0,1]}'}
    for another in (options(broker), source_options(assigned, streaming=True)):
        with pytest.raises(
            DataLossError, match="u-3 is in the checkpoint and not read any more: give a query of other"
        ):
            AssignedStream(another).latest({"u": {"3": 5}}, Limits())
    lenient = AssignedStream(options(broker, failOnDataLoss="false"))
    assert lenient.latest({"t": {"0": 7, "1": 0, "2": 5}}, Limits()) == {"t": {"0": 0, "1": 0}}


def test_partitions_that_are_added_begin_with_their_first_record(broker: LocalBroker) -> None:
    stream = AssignedStream(options(broker))
    end = stream.latest({"t": {"0": 0}}, Limits())
    assert end == {"t": {"0": 0, "1": 0}}
    assert stream.plan({"t": {"0": 0}}, end) == []


def test_a_reader_is_not_held_by_other_threads(broker: LocalBroker) -> None:
    """Spark asks from one thread; the member's own thread must not need it."""
    from coterie.pipeline.streaming.group_stream import NOTHING, GroupStream

    stream = GroupStream(options(broker, mode="group", **{"kafka.group.id": "g", "kafka.heartbeat.interval.ms": "50"}))
    for _ in range(50):
        stream.latest(NOTHING, Limits())
        if stream.member.positions:
            break
    before = threading.active_count()
    broker.until_requested(
        "Heartbeat", broker.requested("Heartbeat") + 3
    )  # the main thread is away, as it is during a batch
    broker.until_stable("g", members=1)
    stream.leave()
    assert threading.active_count() <= before


offsets = st.dictionaries(
    st.tuples(st.text("abc.-_", min_size=1, max_size=4), st.integers(0, 200)), st.integers(0, 2**63 - 1), max_size=12
)


@given(offsets)
def test_offsets_are_read_as_they_were_written_and_equal_ones_have_one_text(
    wanted: dict[tuple[str, int], int],
) -> None:
    written = json.dumps(as_json(wanted))
    assert from_json(json.loads(written)) == wanted
    assert json.dumps(as_json(dict(reversed(wanted.items())))) == written


sizes = st.lists(st.tuples(st.integers(0, 500), st.floats(1, 300)), min_size=1, max_size=8)


@given(sizes, st.none() | st.integers(1, 300), st.none() | st.integers(1, 20_000))
def test_admission_goes_on_in_every_partition_and_keeps_both_limits(
    available: list[tuple[int, float]], rows: int | None, size_bytes: int | None
) -> None:
    class Sampler:
        def record_bytes(self, positions: object) -> dict[tuple[str, int], float]:
            return {("t", p): each for p, (_, each) in enumerate(available)}

    start = {("t", p): 3 for p in range(len(available))}
    ends = {("t", p): 3 + size for p, (size, _) in enumerate(available)}
    admission = Admission(SourceOptions({}), Sampler(), clock_s=lambda: 0.0)
    admitted = admission.admit(start, dict(ends), Limits(rows, size_bytes))
    taken = {tp: admitted[tp] - start[tp] for tp in ends}
    assert all(0 <= taken[tp] <= ends[tp] - start[tp] for tp in ends)
    assert all((taken[tp] > 0) == (ends[tp] > start[tp]) for tp in ends)
    waiting = [each for size, each in available if size]
    if rows is not None:
        assert sum(taken.values()) <= rows + len(waiting)
    if size_bytes is not None:
        taken_bytes = sum(taken[tp] * each for tp, (_, each) in zip(ends, available, strict=True))
        assert taken_bytes <= size_bytes * 1.000001 + sum(waiting)
    if rows is None and size_bytes is None:
        assert admitted == ends
