"""Group mode: records that are gone, and starts, that nothing may turn into a silent gap; call by call as Spark makes them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from coterie.pipeline.offsets import DataLossError
from coterie.pipeline.queries import _commit_last
from tests.awaiting import until_in_thread
from tests.broker_process import BrokerProcess
from tests.pipeline.group.group_query import (
    MEMBER,
    Query,
    broker_of_600,
    committed,
    forget_offsets,
    lose_the_end,
    produce,
    tear_the_end,
)

pytestmark = pytest.mark.slow


@pytest.fixture(params=list(MEMBER))
def protocol(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def broker(tmp_path: Path, protocol: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[BrokerProcess]:
    monkeypatch.setattr(Query, "member_options", MEMBER[protocol])
    with broker_of_600(tmp_path / "data") as process:
        yield process


def until_heard(query: Query) -> None:
    """The broker that was started again has answered the member, which can then leave."""
    member = query.stream.member._member
    responded = member.counts["heartbeats"]
    until_in_thread(lambda: member.counts["heartbeats"] > responded and member.machine.coordinator_known, "a heartbeat")


def test_a_log_that_was_cut_and_grew_again_is_data_loss(broker: BrokerProcess) -> None:
    """KIP-320: the offsets are as they were, the records are others."""
    query = Query(broker)
    assert query.drain() == 600
    lose_the_end(broker, 3)
    query.stream.until_now()
    for _ in range(2):
        with pytest.raises(DataLossError, match=r"t-3 was cut at 0 by a new leader, before the group's offset 100"):
            query.plan()
    until_heard(query)
    query.stream.leave()
    another = Query(broker)
    with pytest.raises(DataLossError, match="t-3 was cut at 0"):
        another.drain()
    another.stream.leave()


def test_without_the_error_reading_goes_on_where_the_log_was_cut(broker: BrokerProcess) -> None:
    query = Query(broker, failOnDataLoss="false")
    assert query.drain() == 600
    query.stream.leave()
    lose_the_end(broker, 3)
    another = Query(broker, failOnDataLoss="false")
    assert another.drain() == 600
    assert committed(broker) == dict.fromkeys(range(6), 200) | {3: 100}
    assert not another.plan()
    another.stream.leave()


def crash(query: Query) -> None:
    """The query's process ends as by kill -9; a new one has its checkpoint."""
    query.stream.leave()
    query.start()


def test_a_log_that_was_cut_is_not_committed_over_before_it_has_records_again(broker: BrokerProcess) -> None:
    """The position goes back to where the log ends; the batch before, which Spark names at each trigger until there is another,
    may not be committed again: the next life would begin there, behind records that nobody has read."""
    query = Query(broker, failOnDataLoss="false")
    assert query.drain() == 600
    tear_the_end(broker, 3)
    for _ in range(3):
        assert not query.plan()
    until_heard(query)
    crash(query)
    produce(broker, 600)
    query.drain()
    query.stream.leave()
    assert {offset for partition, offset in query.sink if partition == 3} == set(range(100))
    assert query.sink[3, 0] == 2, "of the log before, and of the one after"


def test_the_same_range_after_a_log_was_cut_is_another_batch(broker: BrokerProcess) -> None:
    query = Query(broker, failOnDataLoss="false", subscribe="one")
    produce(broker, 100, "one", partitions=1)
    assert query.drain() == 100
    tear_the_end(broker, 0, "one")
    produce(broker, 100, "one", partitions=1)
    assert query.drain() == 100
    assert query.sink[0, 0] == 2
    query.stream.leave()


def test_a_batch_that_is_run_again_begins_where_the_log_was_cut(broker: BrokerProcess) -> None:
    query = Query(broker)
    assert query.drain() == 600
    produce(broker, 600)
    query.stream.until_now()
    while not query.plan():
        pass
    query.stream.leave()  # in the checkpoint, and never run
    lose_the_end(broker, 3, 1200)
    query.start()
    with pytest.raises(DataLossError, match=r"t-3 was cut at 0 by a new leader, before the group's offset 100"):
        query.plan()
    query.stream.leave()


def test_a_batch_of_a_query_that_starts_at_the_latest_offset_is_run_again(broker: BrokerProcess) -> None:
    """The first batch is in the checkpoint, and the group has committed nothing else; meanwhile there are more records."""
    query = Query(broker, startingOffsets="latest")
    while not query.stream.member.positions:
        assert not query.plan()
    produce(broker, 600)
    while not query.plan():
        pass
    crash(query)
    produce(broker, 600)
    assert query.plan()
    assert query.run() == 600
    query.stream.until_now()
    assert query.drain() == 600
    query.stream.leave()
    assert set(query.sink) == {(p, o) for p in range(6) for o in range(100, 300)}


def test_the_commit_of_an_orderly_stop_has_the_leaders_epoch(broker: BrokerProcess) -> None:
    query = Query(broker)
    query.stream.until_now()
    while not query.plan():
        pass
    query.run()
    _commit_last(query.options, json.loads(json.dumps(query.done)))
    assert committed(broker) == dict.fromkeys(range(6), 100)
    query.stream.leave()
    lose_the_end(broker, 3)
    query.start()
    query.stream.until_now()
    with pytest.raises(DataLossError, match="t-3 was cut at 0"):
        query.plan()
    query.stream.leave()


def test_where_a_query_started_is_committed_before_its_first_batch(broker: BrokerProcess) -> None:
    query = Query(broker, startingOffsets="latest")
    while not query.stream.member.positions:
        assert not query.plan()
    assert committed(broker) == dict.fromkeys(range(6), 100)
    crash(query)
    produce(broker, 600)
    assert query.drain() == 600
    query.stream.leave()


def test_a_batch_whose_offsets_the_group_has_lost_is_run_again(broker: BrokerProcess) -> None:
    """The group's offsets expired while the query was down: the checkpoint still has where its batch begins."""
    query = Query(broker, startingOffsets="latest")
    while not query.stream.member.positions:
        assert not query.plan()
    produce(broker, 600)
    while not query.plan():
        pass
    query.stream.leave()
    forget_offsets(broker)
    produce(broker, 600)
    query.start()
    assert query.plan()
    assert query.run() == 600
    assert query.drain() == 600
    query.stream.leave()
