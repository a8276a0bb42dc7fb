"""The state of a transactional id, and its record in `__transaction_state`, byte for byte Apache Kafka's; how a partition of
them is loaded, and the ids that have expired are removed; and what others see of an id (DescribeTransactions and
ListTransactions: KIP-664, KIP-994, KIP-1152)."""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum

from coterie.log.partition_log import PartitionLog
from coterie.log.reading import SkippedBatch, chunks
from coterie.records.batch import HEADER_BYTES, BatchError
from coterie.records.compression import CompressionError
from coterie.records.decoding import decode_keys_and_values
from coterie.records.encoding import encode_batch
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.stored.transaction_state import PartitionsSchema, TransactionLogKey, TransactionLogValue
from coterie.wire.messages.transactions.describe_transactions import DescribedTransaction, TransactionTopic
from coterie.wire.messages.transactions.list_transactions import ListedTransaction

TopicPartition = tuple[str, int]
_VERSION = struct.Struct(">h")
_KEY_VERSION = 0
BUMPS_FROM = 2  # the transaction.version in which the end of each transaction bumps the epoch (KIP-890)
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


class Status(IntEnum):
    """A transaction's state, by Kafka's numbers."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5


PREPARED = {Status.PREPARE_COMMIT: Status.COMPLETE_COMMIT, Status.PREPARE_ABORT: Status.COMPLETE_ABORT}
COMPLETE = frozenset(PREPARED.values())
OPEN = frozenset({Status.ONGOING, *PREPARED})  # its partitions hold records that no marker has settled


@dataclass(frozen=True, slots=True)
class Transaction:
    """Times in ms since 1970; ``started_ms`` -1 before the first. ``last_epoch``: what the producer had before its own
    InitProducerId or EndTxn gave it this one, -1 where another one took over; kept in memory only, as in Kafka.
    ``previous_producer_id``: that of the state before. ``next_producer_id``: the one that follows when the markers are
    written, -1 where it stays. ``client_transaction_version``: 2 where the epoch is bumped at the end, else 0."""

    transactional_id: str
    producer_id: int
    epoch: int
    timeout_ms: int
    status: Status = Status.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    updated_ms: int = -1
    started_ms: int = -1
    last_epoch: int = -1
    previous_producer_id: int = -1
    next_producer_id: int = -1
    client_transaction_version: int = 0

    @property
    def is_commit(self) -> bool:
        """Whether a prepared transaction commits."""
        return self.status == Status.PREPARE_COMMIT

    def next_producer(self) -> tuple[int, int]:
        """The producer id and epoch of the transaction after a prepared or completed one."""
        return (self.producer_id, self.epoch) if self.next_producer_id < 0 else (self.next_producer_id, 0)

    def record_epochs(self) -> range:
        """The epochs under which records of this transaction may stand in a log: a prepared one may have bumped its own."""
        return range(self.epoch - (self.status in PREPARED), self.epoch + 1)

    def key(self) -> bytes:
        return _VERSION.pack(_KEY_VERSION) + TransactionLogKey(self.transactional_id).encode(_KEY_VERSION)

    def value(self, transaction_version: int) -> bytes:
        """``transaction_version``: the finalized level, which decides the record's version (TransactionLog.valueToBytes)."""
        topics: dict[str, PartitionsSchema] = {}
        for topic, partition in sorted(self.partitions):
            topics.setdefault(topic, PartitionsSchema(topic)).partition_ids.append(partition)
        version = min(transaction_version, 1)
        message = TransactionLogValue(
            self.producer_id,
            self.epoch,
            transaction_timeout_ms=self.timeout_ms,
            transaction_status=self.status,
            transaction_partitions=None if self.status == Status.EMPTY else list(topics.values()),
            transaction_last_update_timestamp_ms=self.updated_ms,
            transaction_start_timestamp_ms=self.started_ms,
            previous_producer_id=self.previous_producer_id,
            next_producer_id=self.next_producer_id,
            client_transaction_version=self.client_transaction_version,
        )
        return _VERSION.pack(version) + message.encode(version)


def transactional_id_of(key: bytes) -> str:
    """Raises WireError or ValueError for a key that is neither ours nor Kafka's."""
    version = int.from_bytes(key[: _VERSION.size], "big")
    if version != _KEY_VERSION:
        raise ValueError(f"a key of version {version}, which is not known")
    return TransactionLogKey.decode(key, _KEY_VERSION, _VERSION.size).transactional_id


def decode_transaction(key: bytes, value: bytes) -> Transaction:
    """Raises WireError or ValueError for what is neither ours nor Kafka's."""
    version = int.from_bytes(value[: _VERSION.size], "big")
    if version not in TransactionLogValue.versions:
        raise ValueError(f"a state of version {version}, which is not known")
    stored = TransactionLogValue.decode(value, version, _VERSION.size)
    return Transaction(
        transactional_id_of(key),
        stored.producer_id,
        stored.producer_epoch,
        stored.transaction_timeout_ms,
        status=Status(stored.transaction_status),
        partitions=frozenset((t.topic, p) for t in stored.transaction_partitions or () for p in t.partition_ids),
        updated_ms=stored.transaction_last_update_timestamp_ms,
        started_ms=stored.transaction_start_timestamp_ms,
        previous_producer_id=stored.previous_producer_id,
        next_producer_id=stored.next_producer_id,
        client_transaction_version=stored.client_transaction_version,
    )


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


STATE_NAMES = {
    Status.EMPTY: "Empty",
    Status.ONGOING: "Ongoing",
    Status.PREPARE_COMMIT: "PrepareCommit",
    Status.PREPARE_ABORT: "PrepareAbort",
    Status.COMPLETE_COMMIT: "CompleteCommit",
    Status.COMPLETE_ABORT: "CompleteAbort",
}
# States of Kafka's that a transactional id is never listed in here: it is fenced and aborted within one step.
_UNUSED_STATES = ("Dead", "PrepareEpochFence")
KNOWN_STATES = frozenset({*STATE_NAMES.values(), *_UNUSED_STATES})


def describe_transaction(transaction: Transaction) -> DescribedTransaction:
    """The row of DescribeTransactions; topics in order of name, ``transaction_start_time_ms`` -1 where none has begun
    (KIP-664)."""
    topics: dict[str, TransactionTopic] = {}
    for topic, partition in sorted(transaction.partitions):
        topics.setdefault(topic, TransactionTopic(topic)).partitions.append(partition)
    return DescribedTransaction(
        transactional_id=transaction.transactional_id,
        transaction_state=STATE_NAMES[transaction.status],
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_start_time_ms=transaction.started_ms,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.epoch,
        topics=list(topics.values()),
    )


def list_transactions(
    transactions: Iterable[Transaction],
    states: Collection[str],
    producer_ids: Collection[int],
    longer_than_ms: int,
    now_ms: int,
    matches: Callable[[str], bool],
) -> Iterator[ListedTransaction]:
    """Empty collections filter nothing, nor does a negative duration. A duration is counted from the start of the last
    transaction, also after its end, as in Kafka."""
    for t in transactions:
        state = STATE_NAMES[t.status]
        if states and state not in states:
            continue
        if producer_ids and t.producer_id not in producer_ids:
            continue
        if longer_than_ms >= 0 and now_ms - t.started_ms <= longer_than_ms:
            continue
        if matches(t.transactional_id):
            yield ListedTransaction(t.transactional_id, t.producer_id, state)
