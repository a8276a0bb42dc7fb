"""BlockingConsumer: written by tests/client/blocking_source.py from `coterie.client.Consumer`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Generic

from coterie.client.blocking.thread import BlockingClient
from coterie.client.consumer.committer import Callback, Offsets
from coterie.client.consumer.consumer import ARROW_BYTES, Consumer
from coterie.client.serialization import DeserializerLike
from coterie.client.settings.typed import ConsumerSettings
from coterie.client.types import (
    ByPartition,
    ConsumerGroupMetadata,
    GroupMembershipOperation,
    K,
    OffsetAndMetadata,
    PartitionLike,
    RebalanceListener,
    Record,
    SubscriptionPattern,
    TopicPartition,
    V,
)

if TYPE_CHECKING:
    import pyarrow as pa


class BlockingConsumer(BlockingClient[Consumer[K, V]], Generic[K, V]):
    """`coterie.client.Consumer` for programs without asyncio. Listeners, interceptors and callbacks run on the client's
    own thread.

    >>> from_start = settings | {"auto.offset.reset": "earliest"}
    >>> with BlockingConsumer(from_start, value_deserializer=StringDeserializer()) as reader:
    ...     reader.assign([("orders", 0)])
    ...     print([record.value for records in reader.poll(10_000).values() for record in records])
    ['1', '2', '3']
    """

    def __init__(
        self,
        settings: ConsumerSettings | Mapping[str, Any],
        *,
        key_deserializer: DeserializerLike[K] | None = None,
        value_deserializer: DeserializerLike[V] | None = None,
    ) -> None:
        super().__init__(
            lambda: Consumer(settings, key_deserializer=key_deserializer, value_deserializer=value_deserializer)
        )

    def __iter__(self) -> Iterator[Record[K, V]]:
        """Records one after the other; each counts as a poll. Raises as `poll` does, and PartitionsLostError."""
        records = aiter(self._client)
        while True:
            yield self._await(anext, records)

    def subscribe(
        self, topics: Iterable[str] | re.Pattern[str] | SubscriptionPattern, listener: RebalanceListener | None = None
    ) -> None:
        """Joins the group; a compiled pattern stands for all topics whose whole name it matches, now and later, and so does a
        `SubscriptionPattern`, which the broker matches. Partitions of topics that are no longer subscribed to are not read any
        more, and revoked by the next rebalance. Raises ConfigError without a group.id, after `assign` or a subscription of
        another kind, or for a SubscriptionPattern without group.protocol=consumer; TypeError, ValueError; RuntimeError after
        `close`."""
        self._call(self._client.subscribe, topics, listener)

    def subscription(self) -> set[str]:
        """The topics subscribed to; for a compiled pattern, the topics that it matches so far; for a SubscriptionPattern none,
        since only the broker knows them."""
        return self._call(self._client.subscription)

    def unsubscribe(self) -> None:
        """Gives everything up and leaves the group; then another `subscribe` or `assign` is possible."""
        self._await(self._client.unsubscribe)

    def assign(self, partitions: Iterable[PartitionLike]) -> None:
        """Reads these partitions, without membership: from where `seek` puts them, else from the committed offset, else by
        auto.offset.reset; the first poll looks that up. What was read of the partitions assigned before is committed where that
        is automatic; none at all is as `unsubscribe`."""
        self._await(self._client.assign, partitions)

    def assignment(self) -> set[TopicPartition]:
        """The partitions that are read now: after `subscribe` those of the last rebalance, after `assign` those given."""
        return self._call(self._client.assignment)

    def group_metadata(self) -> ConsumerGroupMetadata:
        """For `Producer.send_offsets_to_transaction`; after the membership is lost still that of the member, whose offsets are
        then refused. Raises ConfigError without a group.id; RuntimeError after `close`."""
        return self._call(self._client.group_metadata)

    @property
    def generation(self) -> int:
        """That of the last assignment, with group.protocol=consumer the member epoch; -1 outside the group."""
        return self._call(lambda: self._client.generation)

    def enforce_rebalance(self, reason: str | None = None) -> None:
        """Has the group rebalance, with the next polls (KIP-568): for an `Assignor` whose user data changed, say. ``reason`` is
        sent to the coordinator (KIP-800). Without effect while a rebalance is under way, and with group.protocol=consumer.
        Raises ConfigError without a subscription, TypeError."""
        self._call(self._client.enforce_rebalance, reason)

    def poll(self, timeout_ms: float = 0, max_records: int | None = None) -> dict[TopicPartition, list[Record[K, V]]]:
        """Records by partition, at most ``max_records`` (None: max.poll.records); empty when none came in time. Raises
        KafkaError, WakeupError, and what a listener raised; CorruptBatchError at a batch that cannot be read and
        RecordDeserializationError at a record that a deserializer refuses, with each poll until one seeks past it."""
        return self._await(self._client.poll, timeout_ms, max_records)

    def poll_arrow(self, timeout_ms: float = 0, max_bytes: int = ARROW_BYTES) -> pa.Table:
        """Whole batches as one Arrow table: topic, partition, offset, timestamp, key, value. Not to be mixed with `poll`
        in the middle of a batch. Raises as `poll` does, and ConfigError without pyarrow."""
        return self._await(self._client.poll_arrow, timeout_ms, max_bytes)

    def wakeup(self) -> None:
        """Ends the poll under way, or the next one, with WakeupError."""
        self._call(self._client.wakeup)

    def committed(self, partitions: Iterable[PartitionLike]) -> dict[TopicPartition, int]:
        """The group's committed offsets, by partition; -1 where there is none. Raises KafkaError, ConfigError without a
        group.id."""
        return self._await(self._client.committed, partitions)

    def committed_metadata(self, partitions: Iterable[PartitionLike]) -> dict[TopicPartition, OffsetAndMetadata]:
        """As `committed`, with leader epoch and text."""
        return self._await(self._client.committed_metadata, partitions)

    def commit(self, offsets: Offsets | None = None, timeout_ms: float | None = None) -> None:
        """Commits positions, or the offsets given, and waits for it, default.api.timeout.ms at most. Raises
        CommitFailedError when the group has moved on, RebalanceInProgressError while it rebalances; TypeError or
        ValueError for offsets that cannot be."""
        self._await(self._client.commit, offsets, timeout_ms)

    def metrics(self) -> dict[str, float]:
        """Counts since the start; safe to call from any thread."""
        return self._call(self._client.metrics)

    def close(
        self,
        timeout_ms: float = 30000,
        group_membership_operation: GroupMembershipOperation = GroupMembershipOperation.DEFAULT,
    ) -> None:
        """Commits if that is automatic, leaves the group unless it is static or is to remain (KIP-1092), waits for asynchronous
        commits, closes; takes no longer than that, and END_S beyond. What is not done by then is left to the session timeout,
        and so is all of it where the event loop of the consumer is closed already. Raises TypeError, ValueError."""
        self._close(self._client.close, timeout_ms, group_membership_operation)

    def position(self, partition: PartitionLike) -> int:
        """The offset of the next record that poll returns; -1 while it is not known yet. Raises KeyError for a partition
        that is not assigned."""
        return self._call(self._client.position, partition)

    def lag(self) -> dict[TopicPartition, int]:
        """Records not read yet, by partition, as of the last fetch or `end_offsets`; never negative. With read_committed up to
        the first open transaction."""
        return self._call(self._client.lag)

    def seek(self, partition: PartitionLike, offset: int | OffsetAndMetadata) -> None:
        """The next poll reads there. With a leader epoch, as of `committed_metadata`, the leader's log is first checked for the
        position (KIP-320). Raises TypeError, ValueError for a negative offset or a partition not assigned."""
        self._call(self._client.seek, partition, offset)

    def seek_to_beginning(self, partitions: Iterable[PartitionLike] | None = None) -> None:
        """The next poll reads these partitions (None: all that are assigned) from the start of their logs. Raises KafkaError,
        ValueError for a partition that is not assigned."""
        self._await(self._client.seek_to_beginning, partitions)

    def seek_to_end(self, partitions: Iterable[PartitionLike] | None = None) -> None:
        """As `seek_to_beginning`, to the end: with read_committed to the first open transaction."""
        self._await(self._client.seek_to_end, partitions)

    def seek_to_timestamp(self, timestamp_ms: int, partitions: Iterable[PartitionLike] | None = None) -> None:
        """The next poll reads these partitions (None: all that are assigned) from the first record whose timestamp is at least
        so many ms since 1970, or from the end where there is none. Raises KafkaError, ValueError."""
        self._await(self._client.seek_to_timestamp, timestamp_ms, partitions)

    def pause(self, partitions: Iterable[PartitionLike]) -> None:
        """`poll` returns no records of these partitions until `resume`; the member keeps them. Raises ValueError for a
        partition that is not assigned."""
        self._call(self._client.pause, partitions)

    def resume(self, partitions: Iterable[PartitionLike]) -> None:
        """Ends what `pause` began. Raises ValueError for a partition that is not assigned."""
        self._call(self._client.resume, partitions)

    def paused(self) -> set[TopicPartition]:
        """The partitions that `pause` stopped."""
        return self._call(self._client.paused)

    def end_offsets(self, partitions: Iterable[PartitionLike]) -> dict[TopicPartition, int]:
        """The offset after the last record of each partition, with read_committed that of the first open transaction. Raises
        KafkaError."""
        return self._await(self._client.end_offsets, partitions)

    def beginning_offsets(self, partitions: Iterable[PartitionLike]) -> dict[TopicPartition, int]:
        """The offset of the first record that each partition still has. Raises KafkaError."""
        return self._await(self._client.beginning_offsets, partitions)

    def offsets_for_times(self, timestamps: ByPartition[int]) -> dict[TopicPartition, int]:
        """By partition the offset of the first record whose timestamp is at least so many ms since 1970; -1 where there is
        none. Raises KafkaError."""
        return self._await(self._client.offsets_for_times, timestamps)

    def commit_async(self, offsets: Offsets | None = None, callback: Callback | None = None) -> Future[None]:
        """As `coterie.client.Consumer.commit_async`; the future raises what the commit failed with."""
        return self._future(self._client.commit_async, offsets, callback)
