"""Records of `__share_group_state`, and what the share coordinator refuses or keeps. Names are those of Kafka's
ShareCoordinatorRecordSerdeTest, ShareCoordinatorRecordHelpersTest and ShareCoordinatorShardTest (4.4.0)."""

from __future__ import annotations

from typing import Any

import pytest

from coterie.coordinator.share_state.state import (
    DeliveryBatch,
    ShareChange,
    SharePartitionKey,
    ShareState,
    ShareUpdate,
    from_bytes,
    to_bytes,
)
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.share.write_share_group_state import WrittenPartitionState
from coterie.wire.messages.stored.share_group_state import StateBatch
from coterie.wire.primitives import WireError
from tests.coordinator.share_state.test_share_shard import KEY, Driven, refused

BATCH = DeliveryBatch(1, 10, 1, 0)
SNAPSHOT, UPDATE = b"\0\0", b"\0\1"
CHANGES: list[tuple[ShareChange, bytes]] = [
    (ShareState(1, 2, 3, 4, 5, (BATCH,), 6, 7), SNAPSHOT),
    (ShareUpdate(1, 3, 4, 5, (BATCH,)), UPDATE),
    (None, SNAPSHOT),
]


@pytest.mark.parametrize(("change", "kind"), CHANGES, ids=["snapshot", "update", "tombstone"])
def test_a_record_is_read_as_it_was_written(change: ShareChange, kind: bytes) -> None:
    """testSerializeKey, testSerializeValue, testSerializeNullValue, testDeserialize, testDeserializeWithTombstoneForValue,
    testDeserializeAllRecordTypes, testNewShareSnapshotRecord, testNewShareUpdateRecord, testNewShareStateTombstoneRecord"""
    key, value = to_bytes(KEY, change)
    assert (key[:2], None if value is None else value[:2]) == (kind, None if change is None else b"\0\0")
    assert from_bytes(key, value) == (KEY, change)


@pytest.mark.parametrize(
    ("key", "value", "reads"),
    [
        (b"\0\x09rest", b"\0\0", None),
        (b"", b"\0\0", None),
        (b"\0", b"\0\0", None),
        (SNAPSHOT + b"\xff", b"\0\0", WireError),
        (to_bytes(KEY, None)[0], b"", WireError),
        (to_bytes(KEY, None)[0], b"\0\0\xff", WireError),
        (to_bytes(KEY, None)[0], b"\0\x63", WireError),
    ],
)
def test_damaged_records(key: bytes, value: bytes, reads: Any) -> None:
    """testDeserializeWithInvalidRecordType, testDeserializeWithKeyEmptyBuffer, testDeserializeWithValueEmptyBuffer,
    testDeserializeWithInvalidKeyBytes, testDeserializeWithInvalidValueBytes: those of another kind are skipped"""
    if reads is None:
        assert from_bytes(key, value) is None
    else:
        with pytest.raises(reads):
            from_bytes(key, value)


INVALID = ErrorCode.INVALID_REQUEST
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize(
    ("partition", "leader", "state", "partitions", "code"),
    [
        (-1, 0, 0, 1, INVALID),
        (0, -1, 0, 1, INVALID),
        (0, 0, -1, 1, INVALID),
        (0, 0, 0, None, UNKNOWN),
        (0, 0, 0, 0, UNKNOWN),
    ],
)
def test_requests_that_are_refused(
    partition: int, leader: int, state: int, partitions: int | None, code: ErrorCode
) -> None:
    """testWriteStateInvalidPartitionRequestData, testWriteStateInvalidLeaderEpochRequestData,
    testWriteStateInvalidStateEpochRequestData, testReadStateNegativeLeaderEpochDisallowed,
    testInitializeStateInvalidStateEpochRequestData, testDeleteTopicIdNonExistentInMetadataImage,
    testDeletePartitionIdNonExistentInMetadataImage, testInitializeTopicIdNonExistentInMetadataImage,
    testInitializePartitionIdNonExistentInMetadataImage, testWriteStateInvalidRequestData, testReadStateInvalidRequestData,
    testReadStateSummaryInvalidRequestData, testDeleteStateInvalidRequestData, testInitializeStateInvalidRequestData,
    testWriteNullMetadataImage, testReadNullMetadataImage, testDeleteNullMetadataImage, testInitializeNullMetadataImage"""
    driven = Driven()
    driven.initialize()
    shard, key = driven.shard, SharePartitionKey(KEY.group_id, KEY.topic_id, partition)
    with refused(code):
        shard.write(key, WrittenPartitionState(partition, state, leader, 0, 0, []), partitions, 1)
    if state == 0:
        with refused(code):
            shard.read(key, leader, partitions, 1)
    if leader == 0:
        with refused(code):
            shard.initialize(key, state, 0, partitions, 1)
    if (leader, state) == (0, 0):
        with refused(code):
            shard.delete(key, partitions)
        with refused(code):
            shard.summary(key, partitions)


@pytest.mark.parametrize(
    ("start", "count", "kept"),
    [(8, 1, (10, 4)), (10, 2, (10, 4)), (10, 6, (10, 6)), (12, 1, (12, 1)), (12, 9, (12, 9))],
)
def test_offsets_and_counts_do_not_go_back(start: int, count: int, kept: tuple[int, int]) -> None:
    """testWriteStateDiscardsStartOffsetRegression,
    testWriteStateDiscardsDeliveryCompleteCountRegressionIncomingStartOffsetGreater,
    testWriteStateDiscardsDeliveryCompleteCountRegressionIncomingStartOffsetEqual,
    testWriteStateDiscardsDeliveryCompleteCountRegressionIncomingStartOffsetSmaller: after a higher start offset the count is of
    another window"""
    driven = Driven()
    driven.initialize()
    driven.write(10, StateBatch(10, 19, 0, 1), count=4)
    driven.write(start, count=count)
    state = driven.shard.state(KEY)
    assert state is not None
    assert (state.start_offset, state.delivery_complete_count) == kept
