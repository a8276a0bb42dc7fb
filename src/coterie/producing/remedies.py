"""What a failed attempt to send a batch calls for (Sender.completeBatch, TransactionManager.canRetry)."""

from __future__ import annotations

from enum import Enum

from coterie.producing.batch import ProduceFailure, ProducerBatch
from coterie.producing.partition_queue import PartitionQueue
from coterie.wire.errors import ErrorCode


class BatchRemedy(Enum):
    """One of these for each failed attempt; ACKNOWLEDGE and FAIL end the batch."""

    RETRY = "send it again after a pause"
    KEEP_AS_REFUSED = "its number was refused: see what becomes of the numbers after it"
    ACKNOWLEDGE = "it is in the log, at an offset that is not known"
    SPLIT = "send its halves"
    FAIL = "fail it"


def remedy_of(
    failure: ProduceFailure, batch: ProducerBatch, queue: PartitionQueue, log_start_offset: int, in_transaction: bool
) -> BatchRemedy:
    """``log_start_offset`` of the response, -1 where it has none."""
    code = failure.code
    if code == ErrorCode.MESSAGE_TOO_LARGE and len(batch.items) > 1:
        return BatchRemedy.SPLIT
    if batch.sequence >= 0 and code in (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID):
        if queue.sequence.holds(batch.producer, batch.sequence, len(batch.items)):
            return BatchRemedy.ACKNOWLEDGE  # a broker that was restarted knows only a producer's last batch again
        if code == ErrorCode.UNKNOWN_PRODUCER_ID:
            return _of_an_unknown_producer(queue, log_start_offset, in_transaction)
        return BatchRemedy.KEEP_AS_REFUSED
    return BatchRemedy.RETRY if failure.is_retriable else BatchRemedy.FAIL


def _of_an_unknown_producer(queue: PartitionQueue, log_start_offset: int, in_transaction: bool) -> BatchRemedy:
    """The broker has forgotten the producer: its records are gone from the log, where retention deleted them (KIP-360)."""
    if log_start_offset < 0:
        return BatchRemedy.RETRY
    lost = in_transaction and queue.sequence.last_offset >= log_start_offset
    return BatchRemedy.FAIL if lost else BatchRemedy.KEEP_AS_REFUSED
