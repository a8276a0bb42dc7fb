"""Fetched records while a consumer seeks, pauses and is assigned other partitions; tests named as in Kafka's
FetchRequestManagerTest and FetchCollectorTest are in brackets."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from coterie.client.consumer.positions import ConsumerPositions
from coterie.consuming.effects import SendFetch
from coterie.consuming.fetching.position import UNKNOWN
from coterie.consuming.record import TopicPartition
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.logs.fetch import PartitionData
from tests.consuming.cluster import NO_LEADER, T0, T1, U0
from tests.consuming.driven import Driven, buffered, failed, records

OUT_OF_RANGE = ErrorCode.OFFSET_OUT_OF_RANGE


def take_only(driven: Driven, partition: TopicPartition) -> None:
    """A poll while the others are paused."""
    others = [p for tp, p in driven.machine.positions.items() if tp != partition and not p.paused]
    for position in others:
        position.paused = True
    assert set(driven.offsets()) == {partition}
    for position in others:
        position.paused = False


# -- positions ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("row", [records(3), failed(OUT_OF_RANGE)], ids=["records", "out of range"])
def test_a_partition_without_a_position_takes_nothing_in(row: PartitionData) -> None:
    """[testNoResultsIfInitializing, testCollectFetchInitializationWithNullPosition,
    testCollectFetchInitializationOffsetOutOfRangeErrorWithNullPosition]"""
    driven = Driven({T0: 0})
    sent = driven.sent()
    driven.machine.seek(T0, UNKNOWN)
    assert not driven.respond(sent, {T0: row})
    assert driven.offsets() == {}
    assert (driven.machine.initializing(), driven.machine.resets_due()) == ([T0], [])
    assert driven.effects() == []


@pytest.mark.parametrize(
    "offsets",
    [
        {"high_watermark": 1_000},
        {"high_watermark": 1_000, "log_start_offset": 10},
        {"high_watermark": 1_000, "log_start_offset": 10, "last_stable_offset": 900},
        {"high_watermark": 1_000, "log_start_offset": 10, "last_stable_offset": 900, "preferred_read_replica": 2},
        {"high_watermark": 1_000, "preferred_read_replica": 21},
    ],
)
def test_a_partition_that_is_not_assigned_any_more_takes_nothing_in(offsets: dict[str, int]) -> None:
    """[testCollectFetchInitializationWithUpdateHighWatermarkOnNotAssignedPartition,
    testCollectFetchInitializationWithUpdateLogStartOffsetOnNotAssignedPartition,
    testCollectFetchInitializationWithUpdateLastStableOffsetOnNotAssignedPartition,
    testCollectFetchInitializationWithUpdatePreferredReplicaOnNotAssignedPartition]"""
    driven = Driven({T0: 42})
    sent = driven.sent()
    driven.machine.drop([T0])
    assert not driven.respond(sent, {T0: records(3, 42, **offsets)})
    assert driven.offsets() == {}
    assert driven.machine.positions == {}
    assert driven.effects() == []


def test_a_fetch_under_way_does_not_outlive_an_eager_rebalance() -> None:
    """[testFetchDuringEagerRebalance]"""
    driven = Driven({T0: 0})
    sent = driven.sent()
    driven.machine.assign([])
    driven.machine.assign([T0])
    assert not driven.respond(sent, {T0: records(3)})
    assert driven.offsets() == {}


def test_a_fetch_under_way_outlives_a_cooperative_rebalance() -> None:
    """[testFetchDuringCooperativeRebalance]"""
    driven = Driven({T0: 0})
    sent = driven.sent()
    driven.machine.assign([T0])
    assert driven.respond(sent, {T0: records(3)})
    assert driven.offsets() == {T0: [0, 1, 2]}


def test_another_partition_is_read_after_one_with_unread_records_was_revoked() -> None:
    """[testFetchAfterPartitionWithFetchedRecordsIsUnassigned]"""
    driven = buffered(T0)
    assert driven.offsets(2) == {T0: [0, 1]}
    driven.machine.assign([T1])
    driven.machine.seek(T1, 4)
    sent = driven.sent()
    assert sent.wanted == {T1: (4, 0)}
    driven.respond(sent, {T1: records(2, 4)})
    assert driven.offsets(2) == {T1: [4, 5]}
    assert driven.machine.positions[T1].offset == 6


# -- pauses ---------------------------------------------------------------------------------------------------------------


def test_what_came_for_a_paused_partition_is_handed_out_after_the_pause() -> None:
    """[testFetchOnCompletedFetchesForPausedAndResumedPartitions, testFetchingPausedPartitionsYieldsNoRecords]"""
    driven = Driven({T0: 0})
    sent, position = driven.sent(), driven.machine.positions[T0]
    position.paused = True
    driven.respond(sent, {T0: records(3)})
    assert driven.offsets() == {}
    assert position.offset == 0
    assert position.is_buffered()
    assert driven.effects() == []
    position.paused = False
    assert driven.offsets() == {T0: [0, 1, 2]}
    assert driven.offsets() == {}
    assert not position.is_buffered()


@pytest.mark.parametrize("paused", [{T0}, {T0, T1}])
def test_paused_partitions_keep_what_was_fetched(paused: set[TopicPartition]) -> None:
    """[testFetchOnCompletedFetchesForSomePausedPartitions, testFetchOnCompletedFetchesForAllPausedPartitions]"""
    driven = buffered(T0, T1)
    for partition in paused:
        driven.machine.positions[partition].paused = True
    assert set(driven.offsets()) == {T0, T1} - paused
    assert driven.offsets() == {}
    assert {tp for tp, p in driven.machine.positions.items() if p.is_buffered()} == paused


def test_a_pause_in_the_middle_of_a_batch() -> None:
    """[testPartialFetchWithPausedPartitions]"""
    driven = buffered(T0, T1)
    driven.machine.positions[T1].paused = True
    assert driven.offsets(2) == {T0: [0, 1]}
    driven.machine.positions[T0].paused = True
    assert driven.offsets(2) == {}
    driven.machine.positions[T0].paused = False
    assert driven.offsets(2) == {T0: [2]}
    assert not driven.machine.positions[T0].is_buffered()


def test_what_was_fetched_before_a_seek_in_a_pause_is_dropped() -> None:
    """[testFetchDiscardedAfterPausedPartitionResumedAndSeekedToNewOffset]"""
    driven = Driven({T0: 0})
    sent = driven.sent()
    driven.machine.positions[T0].paused = True
    driven.machine.seek(T0, 3)
    driven.machine.positions[T0].paused = False
    assert not driven.respond(sent, {T0: records(3)})
    assert driven.offsets() == {}
    assert driven.machine.positions[T0].offset == 3


def _pause(driven: Driven) -> None:
    driven.machine.positions[U0].paused = True


def _lose_leader(driven: Driven) -> None:
    driven.cluster.move(U0, NO_LEADER)
    driven.cluster.metadata(driven.known)


@pytest.mark.parametrize(
    "change",
    [
        _pause,
        _lose_leader,
        lambda driven: driven.machine.drop([U0]),
        lambda driven: driven.machine.seek(U0, UNKNOWN),
    ],
)
def test_a_neighbour_that_is_not_fetched_holds_nothing_up(change: Callable[[Driven], None]) -> None:
    """[testFetchRequestWithBufferedPartitionPaused, testFetchRequestWithBufferedPartitionMissingLeader,
    testFetchRequestWithBufferedPartitionNotAssigned, testFetchRequestWithBufferedPartitionResetOffset] Its records are
    buffered."""
    driven = buffered(T0, U0)
    take_only(driven, T0)
    assert driven.machine.positions[U0].is_buffered()
    change(driven)
    assert [set(effect.wanted) for effect in driven.effects() if isinstance(effect, SendFetch)] == [{T0}]


# -- counts ---------------------------------------------------------------------------------------------------------------


class Lagging(ConsumerPositions):
    """The positions of a consumer without its network."""

    def __init__(self, driven: Driven) -> None:
        self._fetcher = driven.machine  # type: ignore[assignment]
        self.settings = driven.machine.config  # type: ignore[assignment]


@pytest.mark.parametrize(
    ("committed_only", "end"), [(False, "high_watermark"), (True, "last_stable_offset")], ids=["all", "committed"]
)
def test_lag_is_as_of_the_last_fetch(committed_only: bool, end: str) -> None:
    """[testFetcherMetrics, testReadCommittedLagMetric]"""
    driven = Driven({T0: 0}, committed_only=committed_only)
    consumer = Lagging(driven)
    assert consumer.lag() == {}
    driven.respond(driven.sent(), {T0: records(0, **{end: 50})})
    assert driven.offsets() == {}
    assert consumer.lag() == {T0: 50}
    driven.respond(driven.sent(), {T0: records(3, **{end: 150})})
    driven.offsets()
    assert consumer.lag() == {T0: 147}
    driven.machine.assign([])
    assert consumer.lag() == {}


def test_records_and_bytes_are_counted_where_they_are_of_the_position() -> None:
    """[testFetchResponseMetrics, testFetchResponseMetricsWithSkippedOffset, testFetchResponseMetricsWithOnePartitionError,
    testFetchResponseMetricsWithOnePartitionAtTheWrongOffset] Bytes are those of the response, with the records before the
    position."""
    driven = Driven({T0: 1, T1: 0, U0: 0})
    sent = driven.sent_to()
    driven.machine.seek(T1, 5)
    row = records(3)
    driven.respond(sent[1], {T0: row, U0: failed(OUT_OF_RANGE)})
    driven.respond(sent[2], {T1: records(1)})
    assert driven.offsets() == {T0: [1, 2]}
    assert (driven.machine.records_taken, driven.machine.bytes_fetched) == (2, len(row.records or b""))
