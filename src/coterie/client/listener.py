"""Who is told what a consumer does: rebalance listeners and interceptors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from coterie.records.batch import Record

TopicPartition = tuple[str, int]


class RebalanceListener:
    """Told of partitions that come and go. Subclass it; methods may be plain or async."""

    def on_partitions_revoked(self, partitions: list[TopicPartition]) -> Any:
        """They are still ours: a last chance to commit."""

    def on_partitions_assigned(self, partitions: list[TopicPartition]) -> Any:
        """They are ours from now on; where they are read from may be changed with `Consumer.seek`."""

    def on_partitions_lost(self, partitions: list[TopicPartition]) -> Any:
        """They may have new owners already; by default as revoked."""
        return self.on_partitions_revoked(partitions)


class ConsumerInterceptor:
    """Sees records before the user does, and commits once they are made; both plain."""

    def on_consume(self, records: dict[TopicPartition, list[Record]]) -> dict[TopicPartition, list[Record]]:
        return records

    def on_commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """These offsets are committed."""


class OffsetAndMetadata(NamedTuple):
    """A committed position: where to go on, the leader's epoch there (-1: unknown), and a text of the user's."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""


class ConsumerGroupMetadata(NamedTuple):
    """What a transactional producer needs to commit for a consumer (KIP-447)."""

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None


async def call(result: Any) -> None:
    """Awaits what an async listener method returned."""
    if hasattr(result, "__await__"):
        await result
