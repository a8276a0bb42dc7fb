"""The state of a transactional id, and its record in `__transaction_state`, byte for byte Apache Kafka's."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum

from coterie.wire.messages.transaction_state import PartitionsSchema, TransactionLogKey, TransactionLogValue

TopicPartition = tuple[str, int]
_VERSION = struct.pack(">h", 0)


class Status(IntEnum):
    """Kafka's numbers."""

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
    """Times in ms since 1970; ``started_ms`` -1 before the first. ``last_producer_id`` and ``last_epoch``: what the producer
    had before its own InitProducerId gave it these, -1 where another one took over; kept in memory only, as in Kafka."""

    transactional_id: str
    producer_id: int
    epoch: int
    timeout_ms: int
    status: Status = Status.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    updated_ms: int = -1
    started_ms: int = -1
    last_producer_id: int = -1
    last_epoch: int = -1

    def key(self) -> bytes:
        return _VERSION + TransactionLogKey(self.transactional_id).encode(0)

    def value(self) -> bytes:
        topics: dict[str, PartitionsSchema] = {}
        for topic, partition in sorted(self.partitions):
            topics.setdefault(topic, PartitionsSchema(topic)).partition_ids.append(partition)
        message = TransactionLogValue(
            self.producer_id,
            self.epoch,
            self.timeout_ms,
            self.status,
            None if self.status == Status.EMPTY else list(topics.values()),
            self.updated_ms,
            self.started_ms,
        )
        return _VERSION + message.encode(0)


def decode_transaction(key: bytes, value: bytes) -> Transaction:
    """Raises WireError or ValueError for what is neither ours nor Kafka's."""
    stored = TransactionLogValue.decode(value, 0, 2)
    return Transaction(
        TransactionLogKey.decode(key, 0, 2).transactional_id,
        stored.producer_id,
        stored.producer_epoch,
        stored.transaction_timeout_ms,
        Status(stored.transaction_status),
        frozenset((t.topic, p) for t in stored.transaction_partitions or () for p in t.partition_ids),
        stored.transaction_last_update_timestamp_ms,
        stored.transaction_start_timestamp_ms,
    )
