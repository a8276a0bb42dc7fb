"""The state of a transactional id, and its record in `__transaction_state`, byte for byte Apache Kafka's."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum

from coterie.wire.messages.stored.transaction_state import PartitionsSchema, TransactionLogKey, TransactionLogValue

TopicPartition = tuple[str, int]
_VERSION = struct.Struct(">h")
_KEY_VERSION = 0
BUMPS_FROM = 2  # the transaction.version in which the end of each transaction bumps the epoch (KIP-890)


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
