"""The lookup of offsets beside simulated brokers, a rule at a time and in stories: it ends, with every offset or with an
error that a broker returned."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.backoff import Backoff
from coterie.cluster_metadata import ClusterMetadata
from coterie.consuming.fetch_effects import RefreshMetadata
from coterie.consuming.offset_lookup import LookupConfig, LookupFailure, OffsetLookup, SendListOffsets
from coterie.consuming.record import TopicPartition
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.list_offsets import ListOffsetsResponse
from tests.consuming.cluster import NO_LEADER, NODES, PARTITIONS, T0, T1, U0, SimulatedCluster

END, START = -1, -2
CONFIG = LookupConfig(timeout_ms=10_000, unknown_topic_timeout_ms=1_000, backoff=Backoff(100, 1_000))


class Driven:
    """A lookup with its driver in the test's hands; each of a cluster's logs has another length."""

    def __init__(self, timestamps: dict[TopicPartition, int], config: LookupConfig = CONFIG) -> None:
        self.cluster, self.known = SimulatedCluster(), ClusterMetadata(metadata_max_age_ms=1e9)
        for number, tp in enumerate(PARTITIONS):
            self.cluster.logs[tp].plain(5 + number)
            self.cluster.logs[tp].start = number
        self.cluster.metadata(self.known)
        self.now_ms = 0.0
        self.lookup = OffsetLookup(timestamps, config, self.known, 0.0)

    def sent(self) -> list[SendListOffsets]:
        effects = self.lookup.next(self.now_ms)
        sends = [effect for effect in effects if isinstance(effect, SendListOffsets)]
        assert sends == effects
        return sends

    def respond(self, sent: SendListOffsets) -> None:
        self.lookup.answered(sent, self.cluster.list_offsets(sent.node_id, sent.request), self.now_ms, 0.0)

    def wait(self) -> float:
        deadline_ms = self.lookup.next_deadline_ms()
        assert deadline_ms is not None
        assert self.lookup.next(self.now_ms) == [], "it pauses"
        pause_ms, self.now_ms = deadline_ms - self.now_ms, deadline_ms
        return pause_ms

    def refresh(self, code: ErrorCode = ErrorCode.NONE) -> frozenset[str]:
        (effect,) = self.lookup.next(self.now_ms)
        assert isinstance(effect, RefreshMetadata)
        if not code:
            self.cluster.metadata(self.known, effect.topics)
        self.lookup.metadata_refreshed(effect, self.now_ms, 0.0, code)
        return effect.topics


def test_each_leader_is_asked_once_for_all_of_its_partitions() -> None:
    driven = Driven({T0: END, T1: START, U0: START})
    sends = driven.sent()
    assert {sent.node_id: sent.partitions for sent in sends} == {1: {T0, U0}, 2: {T1}}
    assert driven.sent() == []
    for sent in sends:
        driven.respond(sent)
    assert driven.lookup.is_done
    assert driven.lookup.offsets == {T0: 5, T1: 1, U0: 2}


def test_only_what_failed_is_asked_for_again_from_the_leader_there_is_now() -> None:
    driven = Driven({T0: END, U0: END})
    driven.cluster.move(T0, 2)
    driven.respond(*driven.sent())
    assert driven.lookup.offsets == {U0: 7}
    assert driven.wait() == 100
    assert driven.refresh() == {"t"}
    (sent,) = driven.sent()
    assert (sent.node_id, sent.partitions) == (2, {T0})
    driven.respond(sent)
    assert driven.lookup.offsets == {T0: 5, U0: 7}


def test_metadata_that_is_lacking_is_asked_for_first() -> None:
    driven = Driven({T0: END})
    driven.known.forget_topic("t")
    driven.lookup = OffsetLookup({T0: END}, CONFIG, driven.known, 0.0)
    assert driven.refresh(ErrorCode.NETWORK_EXCEPTION) == {"t"}
    assert driven.wait() == 100
    assert driven.refresh() == {"t"}
    driven.respond(*driven.sent())
    assert driven.lookup.offsets == {T0: 5}


def test_an_error_that_stays_ends_it_at_once() -> None:
    driven = Driven({T0: END, T1: END})
    driven.cluster.errors[T0].append(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    driven.respond(driven.sent()[0])
    assert driven.lookup.is_done
    assert driven.lookup.failure == LookupFailure(ErrorCode.TOPIC_AUTHORIZATION_FAILED, T0)
    assert driven.sent() == []


def test_a_single_attempt_is_not_repeated() -> None:
    driven = Driven({T0: END}, LookupConfig(timeout_ms=0, unknown_topic_timeout_ms=1_000))
    driven.cluster.errors[T0].append(ErrorCode.LEADER_NOT_AVAILABLE)
    driven.respond(*driven.sent())
    assert driven.lookup.failure == LookupFailure(ErrorCode.LEADER_NOT_AVAILABLE, T0)


@pytest.mark.parametrize(
    ("code", "most_ms"), [(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 1_000), (ErrorCode.LEADER_NOT_AVAILABLE, 10_000)]
)
def test_what_never_passes_ends_at_its_timeout(code: ErrorCode, most_ms: float) -> None:
    driven = Driven({T0: END})
    while not driven.lookup.is_done:
        driven.cluster.errors[T0].append(code)
        driven.respond(*driven.sent())
        if not driven.lookup.is_done:
            driven.wait()
            driven.refresh()
    assert driven.lookup.failure == LookupFailure(code, T0)
    assert driven.now_ms == most_ms


def test_a_partition_without_leader_does_not_hold_the_others_up() -> None:
    driven = Driven({T0: END, U0: END})
    driven.cluster.move(T0, NO_LEADER)
    driven.cluster.metadata(driven.known)
    driven.refresh()
    driven.respond(*driven.sent())
    assert driven.lookup.offsets == {U0: 7}
    driven.wait()
    driven.cluster.move(T0, 2)
    driven.refresh()
    driven.respond(*driven.sent())
    assert driven.lookup.is_done


def test_a_response_that_lacks_a_partition_is_no_response_for_it() -> None:
    driven = Driven({T0: END})
    driven.lookup.answered(*driven.sent(), ListOffsetsResponse(), driven.now_ms, 0.0)
    driven.wait()
    driven.refresh()
    driven.respond(*driven.sent())
    assert driven.lookup.offsets == {T0: 5}


LASTING = ErrorCode.TOPIC_AUTHORIZATION_FAILED
PASSING = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LEADER_NOT_AVAILABLE)


@given(st.integers(0, 2**32), st.booleans())
def test_it_ends_with_every_offset_or_with_an_error_that_was_returned(seed: int, may_last: bool) -> None:
    rng = random.Random(seed)
    wanted = {tp: rng.choice([END, START]) for tp in PARTITIONS}
    driven = Driven(wanted)
    lookup, cluster, under_way = driven.lookup, driven.cluster, list[SendListOffsets | RefreshMetadata]()
    for _ in range(500):
        assert (
            len({e.node_id for e in under_way if isinstance(e, SendListOffsets)}) == len(under_way)
            or len(under_way) == 1
        )
        under_way += lookup.next(driven.now_ms)
        if rng.random() < 0.2:
            cluster.move(rng.choice(PARTITIONS), rng.choice([*NODES, NO_LEADER]))
        if rng.random() < 0.2:
            cluster.errors[rng.choice(PARTITIONS)].append(
                LASTING if may_last and rng.random() < 0.2 else rng.choice(PASSING)
            )
        if under_way:
            effect = under_way.pop(rng.randrange(len(under_way)))
            is_lost = rng.random() < 0.2
            if isinstance(effect, RefreshMetadata):
                code = ErrorCode.NETWORK_EXCEPTION if is_lost else ErrorCode.NONE
                if not is_lost:
                    cluster.metadata(driven.known, effect.topics)
                lookup.metadata_refreshed(effect, driven.now_ms, 0.0, code)
            elif is_lost:
                lookup.failed(effect, ErrorCode.NETWORK_EXCEPTION, driven.now_ms, 0.0)
            else:
                driven.respond(effect)
        elif not lookup.is_done:
            assert lookup.next_deadline_ms() is not None, "nothing is under way and nothing is due"
            driven.now_ms = lookup.next_deadline_ms() or 0.0
        if lookup.is_done and not under_way:
            break
    assert lookup.is_done
    assert driven.now_ms <= CONFIG.timeout_ms
    expected = {tp: cluster.logs[tp].end if at == END else cluster.logs[tp].start for tp, at in wanted.items()}
    assert lookup.offsets.items() <= expected.items()
    if lookup.failure is None:
        assert lookup.offsets == expected
    else:
        assert lookup.failure.code == LASTING or driven.now_ms >= CONFIG.unknown_topic_timeout_ms


def test_after_a_lost_connection_the_leader_is_looked_up() -> None:
    driven = Driven({T0: END, U0: END})
    driven.lookup.failed(*driven.sent(), ErrorCode.NETWORK_EXCEPTION, driven.now_ms, 0.0)
    driven.cluster.move(T0, 2)
    driven.wait()
    assert driven.refresh() == {"t", "u"}
    assert {sent.node_id: sent.partitions for sent in driven.sent()} == {1: {U0}, 2: {T0}}
