"""A transaction that ended while it was verified (UnifiedLog.analyzeAndValidateProducerState of Kafka 4.3): whether records or
offsets that the coordinator has accepted may still be appended."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from coterie.coordinator.transactions.steps import Claim
from coterie.coordinator.transactions.verification import check_guard, guard_of
from coterie.log.config import LogConfig
from coterie.log.filesystem import MemoryFileSystem
from coterie.log.partition_log import PartitionLog
from coterie.records.batch import TRANSACTIONAL_BIT
from coterie.records.encoding import encode_batch
from coterie.records.markers import end_of_transaction
from coterie.wire.errors import ErrorCode, Refusal

PRODUCER, EPOCH = 7, 3
CLAIM = Claim(PRODUCER, EPOCH, returns_fenced=False, returns_abortable=True)
Change = Callable[[PartitionLog], None]


def records(log: PartitionLog) -> None:
    numbers = {"producer_id": PRODUCER, "producer_epoch": EPOCH, "base_sequence": 0}
    log.append_own(encode_batch([(0, None, b"v", ())], attributes=TRANSACTIONAL_BIT, **numbers), 0)


def marker(epoch: int) -> Change:
    return lambda log: [log.append_own(end_of_transaction(PRODUCER, epoch, False, 0, 0), 0)].clear()


@pytest.mark.parametrize(
    ("meanwhile", "leader_epoch", "code"),
    [
        ([], 1, ErrorCode.NONE),
        ([marker(EPOCH)], 1, ErrorCode.INVALID_TXN_STATE),  # of a producer of version 1 of transactions
        ([marker(EPOCH + 1)], 1, ErrorCode.INVALID_PRODUCER_EPOCH),  # of version 2
        ([records], 1, ErrorCode.NONE),
        ([records, marker(EPOCH)], 1, ErrorCode.INVALID_TXN_STATE),
        ([], 2, ErrorCode.NOT_ENOUGH_REPLICAS),  # another broker has led the partition: verified again
        ([marker(EPOCH), records], 1, ErrorCode.NONE),  # the next transaction, which was verified
    ],
)
def test_what_was_verified_holds_until_a_marker(meanwhile: list[Change], leader_epoch: int, code: ErrorCode) -> None:
    log = PartitionLog.open(MemoryFileSystem(), "t-0", LogConfig(), clean=False)
    before = guard_of(log, 1, CLAIM)
    for change in meanwhile:
        change(log)
    got = ErrorCode.NONE
    try:
        check_guard(before, log, leader_epoch, CLAIM)
    except Refusal as refusal:
        got = refusal.code
    assert got is code
