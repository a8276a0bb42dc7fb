"""Markers in a partition of `__consumer_offsets` are checked as in any other: late ones, and those of a former coordinator."""

from __future__ import annotations

import pytest

from coterie.coordinator.stored_records.offsets_log import OffsetsLog
from coterie.log.config import LogConfig
from coterie.log.filesystem import MemoryFileSystem
from coterie.log.partition_log import PartitionLog
from coterie.records.batch import TRANSACTIONAL_BIT
from coterie.records.encoding import encode_batch
from coterie.wire.errors import ErrorCode, Refusal

PRODUCER, NOW_MS = 7, 1_000


def log_with_open_transaction(epoch: int) -> OffsetsLog:
    """With a marker of the transaction before, of coordinator epoch 3."""
    log = PartitionLog.open(MemoryFileSystem(), "__consumer_offsets-0", LogConfig(), clean=True)
    offsets = OffsetsLog(log)
    offsets.append_marker(PRODUCER, epoch, True, 3, NOW_MS)
    batch = encode_batch(
        [(NOW_MS, b"k", b"v", ())],
        producer_id=PRODUCER,
        producer_epoch=epoch,
        base_sequence=0,
        attributes=TRANSACTIONAL_BIT,
    )
    log.append_own(batch, NOW_MS)
    return offsets


def test_a_late_marker_of_version_2_does_not_end_the_next_transaction() -> None:
    """KIP-1228: a marker of version 2 is of the epoch after its transaction, so one of this epoch has come before."""
    offsets = log_with_open_transaction(epoch=1)
    with pytest.raises(Refusal) as refused:
        offsets.append_marker(PRODUCER, 1, True, 3, NOW_MS, bumps_epoch=True)
    assert refused.value.code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert PRODUCER in offsets.log.transactions.open
    offsets.append_marker(PRODUCER, 2, True, 3, NOW_MS, bumps_epoch=True)
    assert PRODUCER not in offsets.log.transactions.open


def test_a_former_coordinator_is_fenced() -> None:
    offsets = log_with_open_transaction(epoch=1)
    with pytest.raises(Refusal) as refused:
        offsets.append_marker(PRODUCER, 1, False, 2, NOW_MS)
    assert refused.value.code == ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert PRODUCER in offsets.log.transactions.open
