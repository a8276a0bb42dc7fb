"""A consumed record and its partition, as clients, the Spark source and the laboratory return them. Each is a tuple with named
fields: equal to and hashed like the plain tuple, and unpacked like it."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Generic, NamedTuple

from coterie.records.batch import Header

if TYPE_CHECKING:
    # PEP 696: `Consumer` without parameters is `Consumer[bytes, bytes]` for a type checker. Python has this from 3.13 on.
    from typing_extensions import TypeVar

    K = TypeVar("K", default=bytes)
    V = TypeVar("V", default=bytes)
else:
    from typing import TypeVar

    K = TypeVar("K")
    V = TypeVar("V")


class TopicPartition(NamedTuple):
    """A partition of a topic. A plain tuple ``(topic, partition)`` can stand for it as argument and as key."""

    topic: str
    partition: int


class TimestampType(IntEnum):
    """What a record's timestamp is: the producer's time, or the time at which the broker appended the record (the topic's
    message.timestamp.type)."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class Record(NamedTuple, Generic[K, V]):
    """A record that was consumed (Kafka's ConsumerRecord). ``key`` and ``value`` are bytes without deserializers; None is
    Kafka's null, a tombstone's value. ``timestamp_ms`` since 1970, -1 where the record has none; headers in order, names may
    repeat. ``leader_epoch``: the epoch of the leader that appended the record, -1 where it is not known (KIP-320)."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: K | None
    value: V | None
    headers: tuple[Header, ...] = ()
    timestamp_type: TimestampType = TimestampType.CREATE_TIME
    leader_epoch: int = -1


class ShareRecord(NamedTuple, Generic[K, V]):
    """A record that a share group delivered (KIP-932): the fields of `Record`, and ``delivery_count``: how often it was
    delivered, this time included."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: K | None
    value: V | None
    headers: tuple[Header, ...] = ()
    timestamp_type: TimestampType = TimestampType.CREATE_TIME
    leader_epoch: int = -1
    delivery_count: int = 1
