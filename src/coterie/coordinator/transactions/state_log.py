"""One partition of `__transaction_state`: its transactional ids are loaded, and removed when they have expired."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from coterie.coordinator.transactions.state import Transaction
from coterie.log.partition_log import PartitionLog
from coterie.log.reading import SkippedBatch, chunks
from coterie.records.batch import HEADER_BYTES, BatchError
from coterie.records.compression import CompressionError
from coterie.records.decoding import decode_keys_and_values
from coterie.records.encoding import encode_batch
from coterie.wire.errors import ErrorCode

_TOMBSTONE_BYTES = 16  # at most, without its key
Load = Callable[[bytes | None, bytes | None, int], None]
# As Kafka's TransactionStateManager.appendTransactionToLog.
_STORE_ERRORS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}


def load_by_chunks(log: PartitionLog, load: Load, skipped: Callable[[SkippedBatch], None]) -> Iterator[int]:
    """Passes key, value and offset of each record to ``load``, some milliseconds at a time; yields the number of records in
    each chunk. A batch that cannot be read goes to ``skipped``, and the load goes on, as Kafka's of transactions. Raises
    OSError."""
    for data, headers in chunks(log):
        loaded = 0
        for position, header in headers:
            try:
                records = decode_keys_and_values(data, position, header)
            except (BatchError, CompressionError) as error:
                skipped(SkippedBatch(header.base_offset, header.last_offset, str(error)))
                continue
            for offset, (key, value, _) in enumerate(records, header.base_offset):
                load(key, value, offset)
            loaded += len(records)
        yield loaded


def tombstone_batches(
    expired: Iterable[Transaction], max_bytes: int, now_ms: int
) -> Iterator[tuple[list[Transaction], bytes]]:
    """Batches that remove transactional ids, none above ``max_bytes`` but for one of a single record."""
    chosen: list[Transaction] = []
    size = HEADER_BYTES
    for transaction in expired:
        more = len(transaction.key()) + _TOMBSTONE_BYTES
        if chosen and size + more > max_bytes:
            yield chosen, _tombstones(chosen, now_ms)
            chosen, size = [], HEADER_BYTES
        chosen.append(transaction)
        size += more
    if chosen:
        yield chosen, _tombstones(chosen, now_ms)


def _tombstones(transactions: list[Transaction], now_ms: int) -> bytes:
    return encode_batch([(now_ms, transaction.key(), None, ()) for transaction in transactions])


def store_error(error: ErrorCode) -> ErrorCode:
    """What a producer receives where the log refuses its state."""
    return _STORE_ERRORS.get(error, error)
