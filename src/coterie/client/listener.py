"""What a consumer notifies: rebalance listeners and interceptors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from coterie.client.types import Record, TopicPartition

Polled = dict[TopicPartition, list[Record[Any, Any]]]


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

    def on_consume(self, records: Polled) -> Polled:
        """The records that the poll returns in place of these, by partition."""
        return records

    def on_commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Called with the offsets that were committed."""


async def call(result: Any) -> None:
    """Awaits what an async listener method returned."""
    if hasattr(result, "__await__"):
        await result
