"""The values that a client takes and returns, by the names of Kafka's Java client: each is a tuple with named fields, equal to
and hashed like the plain tuple, and unpacked like it. And what a consumer notifies, rebalance listeners and interceptors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias, TypeVar

from coterie.consuming.record import K, Record, TimestampType, TopicPartition, V
from coterie.member.config import GroupMembershipOperation

__all__ = [
    "ByPartition",
    "ClientQuotaEntity",
    "ConsumerGroupMetadata",
    "GroupMembershipOperation",
    "K",
    "OffsetAndMetadata",
    "PartitionLike",
    "Record",
    "RecordMetadata",
    "SubscriptionPattern",
    "T",
    "TimestampType",
    "TopicPartition",
    "V",
]
T = TypeVar("T")
# What methods take where they return `TopicPartition`s. A mapping's keys are invariant, hence two mappings.
PartitionLike: TypeAlias = TopicPartition | tuple[str, int]
ByPartition: TypeAlias = Mapping[TopicPartition, T] | Mapping[tuple[str, int], T]
# What has client quotas: (type, name) of user, client-id or ip; None is the default of all.
ClientQuotaEntity: TypeAlias = tuple[tuple[str, str | None], ...]


class RecordMetadata(NamedTuple):
    """Where a record that was sent is. ``offset`` is -1 with acks=0, where the broker does not respond. ``timestamp_ms`` is the
    record's own, or the broker's time of the append where the topic's message.timestamp.type is LogAppendTime."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int


class OffsetAndMetadata(NamedTuple):
    """A committed position: the offset of the next record, the leader's epoch there (-1: unknown), and a text of the user's."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""


class ConsumerGroupMetadata(NamedTuple):
    """What a transactional producer needs to commit for a consumer (KIP-447)."""

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class SubscriptionPattern:
    """A regular expression in RE2's syntax, by which the broker chooses the topics whose whole name it matches, now and later
    (KIP-848); for `Consumer.subscribe` with group.protocol=consumer."""

    pattern: str


Polled = dict[TopicPartition, list[Record[Any, Any]]]


class RebalanceListener:
    """Called with partitions as they come and go. Subclass it; methods may be plain or async."""

    def on_partitions_revoked(self, partitions: list[TopicPartition]) -> Any:
        """They are still ours: a last chance to commit."""

    def on_partitions_assigned(self, partitions: list[TopicPartition]) -> Any:
        """They are ours from now on; where they are read from may be changed with `Consumer.seek`."""

    def on_partitions_lost(self, partitions: list[TopicPartition]) -> Any:
        """They may have new owners already; by default as revoked."""
        return self.on_partitions_revoked(partitions)


class ConsumerInterceptor:
    """Sees records before the user does, and commits once they are made; both plain."""

    def on_consume(self, records: Polled) -> Polled:
        """The records that the poll returns in place of these, by partition."""
        return records

    def on_commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Called with the offsets that were committed."""


async def call(result: Any) -> None:
    """Awaits what an async listener method returned."""
    if hasattr(result, "__await__"):
        await result
