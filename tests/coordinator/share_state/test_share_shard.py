"""The share coordinator's decisions, re-created from Kafka's ShareCoordinatorShardTest and ShareCoordinatorOffsetsManagerTest
(4.4.0), whose names these tests have: testWriteStateSuccess is `test_write_state_success`."""

from __future__ import annotations

import pytest

from coterie.coordinator.share_state.share_shard import RedundantOffsets, ShareShard
from coterie.coordinator.share_state.state import (
    DeliveryBatch,
    ShareChange,
    SharePartitionKey,
    ShareState,
    ShareUpdate,
    from_bytes,
    parse_key,
    to_bytes,
)
from coterie.wire.errors import ErrorCode, Refusal
from coterie.wire.messages.share.write_share_group_state import WrittenPartitionState
from coterie.wire.messages.stored.share_group_state import StateBatch

KEY = SharePartitionKey("group1", bytes(range(16)), 0)
PARTITIONS = 1


class Driven:
    """A shard whose changes are appended at the next offset."""

    def __init__(self, updates_per_snapshot: int = 50) -> None:
        self.shard, self.offset, self.changes = ShareShard(updates_per_snapshot), 0, list[ShareChange]()

    def keep(self, change: ShareChange, key: SharePartitionKey = KEY) -> ShareChange:
        key, change = from_bytes(*to_bytes(key, change)) or (key, None)  # as it is read from the log
        self.shard.replay(key, change, self.offset)
        self.changes.append(change)
        self.offset += 1
        return change

    def initialize(
        self, state_epoch: int = 0, start: int = 0, key: SharePartitionKey = KEY, now_ms: int = 1
    ) -> ShareChange:
        return self.keep(self.shard.initialize(key, state_epoch, start, PARTITIONS, now_ms), key)

    def write(
        self, start: int, *batches: StateBatch, leader: int = 0, state: int = 0, count: int = 0, now_ms: int = 1
    ) -> ShareChange:
        written = WrittenPartitionState(KEY.partition, state, leader, start, count, list(batches))
        return self.keep(self.shard.write(KEY, written, PARTITIONS, now_ms))


def refused(code: ErrorCode) -> pytest.RaisesExc[Refusal]:
    return pytest.RaisesExc(Refusal, check=lambda refusal: refusal.code == code)


def test_write_state_success() -> None:
    """testReplayWithShareSnapshot, testWriteStateSuccess, testInitializeStateSuccess."""
    driven = Driven()
    assert driven.initialize(start=0) == ShareState(0, 0, 0, 0, 0, (), 1, 1)
    assert driven.write(0, StateBatch(0, 10, 0, 1)) == ShareUpdate(0, 0, 0, 0, (DeliveryBatch(0, 10, 1, 0),))
    assert driven.shard.state(KEY) == ShareState(0, 0, 0, 0, 0, (DeliveryBatch(0, 10, 1, 0),), 1, 1)


def test_write_fails_on_uninitialized_partition() -> None:
    """testWriteFailsOnUninitializedPartition, testReadFailsOnUninitializedPartition."""
    shard = ShareShard(50)
    with refused(ErrorCode.INVALID_REQUEST):
        shard.write(KEY, WrittenPartitionState(0, 0, 0, 0, 0, []), PARTITIONS, 1)
    with refused(ErrorCode.INVALID_REQUEST):
        shard.read(KEY, 0, PARTITIONS, 1)


def test_subsequent_write_state_snapshot_epoch_updates_successfully() -> None:
    """testSubsequentWriteStateSnapshotEpochUpdatesSuccessfully, testNonSequentialBatchUpdates: after so many updates comes
    a snapshot, with the next epoch."""
    driven = Driven(updates_per_snapshot=2)
    driven.initialize()
    for first in (0, 20, 10):
        change = driven.write(0, StateBatch(first, first + 9, 0, 1), now_ms=5)
    assert change == ShareState(1, 0, 0, 0, 0, (DeliveryBatch(0, 29, 1, 0),), 5, 5)
    assert isinstance(driven.write(0, StateBatch(30, 39, 0, 1)), ShareUpdate)


def test_snapshot_update_count_boundary() -> None:
    """testSnapshotUpdateCountBoundary."""
    driven = Driven(updates_per_snapshot=1)
    driven.initialize()
    kinds = [type(driven.write(0, StateBatch(at, at, 0, 1))) for at in range(4)]
    assert kinds == [ShareUpdate, ShareState, ShareUpdate, ShareState]


def test_write_state_fenced_leader_epoch_error() -> None:
    """testWriteStateFencedLeaderEpochError, testReadStateFencedLeaderEpochError."""
    driven = Driven()
    driven.initialize()
    read, change = driven.shard.read(KEY, 5, PARTITIONS, 1)
    assert read.start_offset == 0
    assert change == ShareUpdate(0, 5, 0, 0)
    driven.keep(change)
    with refused(ErrorCode.FENCED_LEADER_EPOCH):
        driven.write(0, leader=4)
    with refused(ErrorCode.FENCED_LEADER_EPOCH):
        driven.shard.read(KEY, 4, PARTITIONS, 1)


def test_write_state_fenced_state_epoch_error() -> None:
    """testWriteStateFencedStateEpochError."""
    driven = Driven()
    driven.initialize(state_epoch=1)
    with refused(ErrorCode.FENCED_STATE_EPOCH):
        driven.write(0, state=0)
    with refused(ErrorCode.FENCED_STATE_EPOCH):
        driven.initialize(state_epoch=0)
    assert driven.initialize(state_epoch=2, start=-1) == ShareState(1, 2, 0, -1, -1, (), 1, 1)


def test_read_state_success() -> None:
    """testReadStateSuccess, testReadStateLeaderEpochUpdateSuccess, testReadStateLeaderEpochUpdateNoUpdate."""
    driven = Driven()
    driven.initialize(start=3)
    driven.write(3, StateBatch(3, 10, 2, 1), count=8)
    read, change = driven.shard.read(KEY, 2, PARTITIONS, 1)
    assert (read.start_offset, read.state_epoch, read.state_batches) == (3, 0, [StateBatch(3, 10, 2, 1)])
    assert change == ShareUpdate(0, 2, 3, 8)
    driven.keep(change)
    assert driven.shard.read(KEY, 2, PARTITIONS, 1) == (read, None)


def test_read_state_summary_success() -> None:
    """testReadStateSummarySuccess: also of what is not initialized."""
    driven = Driven()
    assert driven.shard.summary(KEY, PARTITIONS).start_offset == -1
    driven.initialize(start=3)
    driven.write(5, count=2)
    summary = driven.shard.summary(KEY, PARTITIONS)
    assert (summary.start_offset, summary.delivery_complete_count, summary.leader_epoch) == (5, 2, 0)


def test_the_start_offset_and_the_count_only_rise() -> None:
    """As Kafka 4.4 since KAFKA-20204: a write that comes late changes neither."""
    driven = Driven()
    driven.initialize(start=10)
    driven.write(20, count=4)
    assert driven.write(15, StateBatch(15, 30, 2, 1), count=9) == ShareUpdate(
        0, 0, 20, 4, (DeliveryBatch(20, 30, 1, 2),)
    )
    assert driven.write(20, count=2) == ShareUpdate(0, 0, 20, 4)
    assert driven.write(21, count=1) == ShareUpdate(0, 0, 21, 1)


def test_delete_state_success() -> None:
    """testDeleteStateSuccess, testDeleteStateUninitializedRecord."""
    driven = Driven()
    assert not driven.shard.delete(KEY, PARTITIONS)
    driven.initialize()
    assert driven.shard.delete(KEY, PARTITIONS)
    driven.keep(None)
    assert driven.shard.state(KEY) is None
    assert not len(driven.shard)
    assert driven.initialize(state_epoch=0) == ShareState(0, 0, 0, 0, 0, (), 1, 1)


def test_snapshot_cold_partitions_partial_eligible_partitions() -> None:
    """testSnapshotColdPartitionsNoEligiblePartitions, testSnapshotColdPartitionsSnapshotUpdateNotConsidered,
    testSnapshotColdPartitionsPartialEligiblePartitions, testSnapshotColdPartitionsDoesNotPerpetuallySnapshot: once each has had
    its own, no more."""
    driven, other = Driven(), SharePartitionKey("group1", KEY.topic_id, 1)
    driven.initialize(now_ms=100)
    driven.keep(driven.shard.initialize(other, 0, 0, 2, 150), other)
    assert driven.shard.cold(199, 100) == []
    driven.write(0, StateBatch(0, 1, 0, 1), now_ms=199)  # an update is no snapshot
    assert driven.shard.cold(200, 100) == [(KEY, ShareState(1, 0, 0, 0, 0, (DeliveryBatch(0, 1, 1, 0),), 100, 200))]
    for key, snapshot in driven.shard.cold(250, 100):
        driven.keep(snapshot, key)
    assert driven.shard.cold(10_000, 100) == []


def test_on_topics_deleted_topic_ids() -> None:
    """testOnTopicsDeletedEmptyTopicIds, testOnTopicsDeletedTopicIds."""
    driven = Driven()
    driven.initialize()
    assert driven.shard.of_topics(set()) == driven.shard.of_topics({bytes(16)}) == []
    assert driven.shard.of_topics({KEY.topic_id}) == [KEY]


def test_last_redundant_offset() -> None:
    """testLastRedundantOffset, testUpdateStateAddsToInternalState, testUpdateStateNoRedundantState,
    testUpdateStateRedundantState, testUpdateStateComplexCases."""
    redundant = RedundantOffsets()
    assert redundant.before() is None
    for key, offset, before in (
        ("a", 10, 10),
        ("b", 11, 10),
        ("b", 12, 10),
        ("a", 13, 12),
        ("c", 14, 12),
        ("b", 15, 13),
    ):
        redundant.snapshot(key, offset)
        assert redundant.before() == before, offset
    redundant.snapshot("a", 16, deleted=True)
    assert redundant.before() == 14


def test_a_key_is_read_as_it_is_written() -> None:
    assert parse_key(KEY.text()) == KEY
    assert parse_key("a:b:AAECAwQFBgcICQoLDA0ODw:7") == SharePartitionKey("a:b", KEY.topic_id, 7)
    for text in ("", "group1", "group1:0", "group1:AAECAwQFBgcICQoLDA0ODw:x", ":AAECAwQFBgcICQoLDA0ODw:0", "g:AAE:0"):
        with pytest.raises(ValueError):
            parse_key(text)
