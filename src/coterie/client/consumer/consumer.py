"""The consumer: a member machine driven by asyncio, a fetcher, and commits.

Rebalance callbacks run in the task that polls, as in Kafka; heartbeats go out from a task of their own, and from a thread
while user code holds the loop. Not for use by two tasks at once: that raises RuntimeError.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Generic

from coterie.client import arguments
from coterie.client.connection.cluster import Cluster
from coterie.client.consumer.auto_commit import AutoCommit
from coterie.client.consumer.callbacks import Callbacks
from coterie.client.consumer.committer import Callback, Committer, Offsets
from coterie.client.consumer.consumer_membership import make_membership
from coterie.client.consumer.fetcher import Fetcher
from coterie.client.consumer.membership import Membership
from coterie.client.consumer.poll_loop import PollLoop, StartingPositions
from coterie.client.consumer.positions import ConsumerPositions
from coterie.client.errors import ConfigError, PartitionsLostError
from coterie.client.serialization import DeserializerLike, RecordDeserializers, deserialize_function
from coterie.client.settings.settings import client_settings
from coterie.client.settings.typed import ConsumerSettings
from coterie.client.settings.types import instantiate
from coterie.client.types import (
    ConsumerGroupMetadata,
    ConsumerInterceptor,
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
from coterie.consuming.fetching.position import UNKNOWN

if TYPE_CHECKING:
    import pyarrow as pa

logger = logging.getLogger(__name__)

ITERATION_MS = 10_000.0  # that one poll of an iteration waits at most; records, callbacks and errors end it
END_S = 1.0  # in which cancelled tasks must end
ARROW_BYTES = 16 * 1024 * 1024
ENFORCED = "rebalance enforced by user"
_DEFAULT = GroupMembershipOperation.DEFAULT


class Consumer(ConsumerPositions, Generic[K, V]):
    """Settings by Kafka's names (``group.id`` and ``group_id`` are one); ``group.id`` is needed for `subscribe` and
    commits. Keys and values are what the deserializers return (`coterie.client.serialization`), without one bytes. Raises
    ConfigError for settings it cannot work with.

    >>> group = {"group.id": "readers", "auto.offset.reset": "earliest"}
    >>> async with Consumer(settings | group, value_deserializer=StringDeserializer()) as reader:
    ...     reader.subscribe(["orders"])
    ...     async for record in reader:
    ...         print(record.topic, record.partition, record.offset, record.value)
    ...         break
    orders 0 0 1
    """

    def __init__(
        self,
        settings: ConsumerSettings | Mapping[str, Any],
        *,
        key_deserializer: DeserializerLike[K] | None = None,
        value_deserializer: DeserializerLike[V] | None = None,
    ) -> None:
        self.settings = client_settings(settings)
        self._interceptors: list[ConsumerInterceptor] = instantiate(
            self.settings.interceptor_classes, ConsumerInterceptor
        )
        self._cluster = Cluster(self.settings)
        deserializers = RecordDeserializers(
            deserialize_function(key_deserializer, self.settings.key_deserializer, "key_deserializer"),
            deserialize_function(value_deserializer, self.settings.value_deserializer, "value_deserializer"),
        )
        self._fetcher = Fetcher(self._cluster, deserializers)
        self._group_id: str | None = self.settings.group_id
        self._committer = Committer(self._cluster, self._group_id, self._interceptors)
        self._starts = StartingPositions(self._cluster, self._fetcher, self._committer, self._group_id is not None)
        self._membership: Membership | None = None
        self._assigned_by_user = False
        self._subscribed_by: type | None = None  # the kind of the subscription
        self._auto_commit = AutoCommit(self._committer, self.settings, self._group_id, self._consumed)
        self._callbacks = Callbacks(self._fetcher, self._auto_commit, self.settings.max_poll_interval_ms / 1000)
        self._loop = PollLoop(self._cluster, self._fetcher, self._starts, self._callbacks, self._auto_commit)

    async def __aenter__(self) -> Consumer[K, V]:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # -- what to read -------------------------------------------------------------------------------------------------

    def subscribe(
        self,
        topics: Iterable[str] | re.Pattern[str] | SubscriptionPattern,
        listener: RebalanceListener | None = None,
    ) -> None:
        """Joins the group; a compiled pattern stands for all topics whose whole name it matches, now and later, and so does a
        `SubscriptionPattern`, which the broker matches. Partitions of topics that are no longer subscribed to are not read any
        more, and revoked by the next rebalance. Raises ConfigError without a group.id, after `assign` or a subscription of
        another kind, or for a SubscriptionPattern without group.protocol=consumer; TypeError, ValueError; RuntimeError after
        `close`.

        >>> group = {"group.id": "readers", "auto.offset.reset": "earliest"}
        >>> async with Consumer(settings | group) as reader:
        ...     reader.subscribe(["orders"])
        ...     while not reader.assignment():
        ...         polled = await reader.poll(100)
        ...     print(sorted(reader.assignment())[0].topic)
        orders
        """
        self._loop.require_open()
        if listener is not None and not isinstance(listener, RebalanceListener):
            raise TypeError(f"a listener must be an object of a subclass of RebalanceListener, not {listener!r}")
        if self._group_id is None:
            raise ConfigError("subscribe needs a group.id; use assign to read without a group")
        if self._assigned_by_user:
            raise ConfigError("subscribe and assign cannot be mixed; call unsubscribe first")
        if isinstance(topics, str):
            raise ConfigError(f"subscribe takes a list of topics or a compiled pattern, not the string {topics!r}")
        if isinstance(topics, re.Pattern | SubscriptionPattern):
            arguments.pattern(topics.pattern)
        else:
            topics = arguments.subscribed_topics(topics)
        if self._membership is not None and type(topics) is not self._subscribed_by:
            raise ConfigError("topics, a pattern and a SubscriptionPattern cannot be mixed; call unsubscribe first")
        membership = self._membership or make_membership(self._cluster, self._group_id, self._fetcher.arrived.set)
        if isinstance(topics, re.Pattern):
            membership.subscribe_pattern(topics)
        elif isinstance(topics, SubscriptionPattern):
            membership.subscribe_regex(topics)
        else:
            membership.subscribe(topics)
        self._membership = self._committer.membership = self._loop.membership = membership
        self._subscribed_by = type(topics)
        self._fetcher.subscribe(topics if isinstance(topics, frozenset) else None)
        self._callbacks.listener = listener or self._callbacks.listener
        self._auto_commit.restart()

    def subscription(self) -> set[str]:
        """The topics subscribed to; for a compiled pattern, the topics that it matches so far; for a SubscriptionPattern none,
        since only the broker knows them."""
        return set() if self._membership is None else set(self._membership.machine.topics)

    async def unsubscribe(self) -> None:
        """Gives everything up and leaves the group; then another `subscribe` or `assign` is possible."""
        self._loop.require_open()
        try:
            await self._leave("the consumer unsubscribed", self._cluster.timeout_s)
        finally:
            self._loop.drop_lookups()
            self._fetcher.assign(())
            self._fetcher.subscribe(None)
            self._assigned_by_user = False

    async def assign(self, partitions: Iterable[PartitionLike]) -> None:
        """Reads these partitions, without membership: from where `seek` puts them, else from the committed offset, else by
        auto.offset.reset; the first poll looks that up. What was read of the partitions assigned before is committed where that
        is automatic; none at all is as `unsubscribe`."""
        self._loop.require_open()
        wanted = arguments.partitions(partitions)
        if not wanted:
            await self.unsubscribe()
            return
        if self._membership is not None:
            raise ConfigError("subscribe and assign cannot be mixed; call unsubscribe first")
        self._auto_commit.give_up()
        self._assigned_by_user = True
        self._fetcher.assign(wanted)
        self._loop.drop_ended_lookups()
        self._auto_commit.restart()

    def assignment(self) -> set[TopicPartition]:
        """The partitions that are read now: after `subscribe` those of the last rebalance, after `assign` those given."""
        return set(self._fetcher.positions)

    def group_metadata(self) -> ConsumerGroupMetadata:
        """For `Producer.send_offsets_to_transaction`; after the membership is lost still that of the member, whose offsets are
        then refused. Raises ConfigError without a group.id; RuntimeError after `close`."""
        self._loop.require_usable()
        if self._membership is None:
            group_id, instance_id = self._committer.group_id(), self.settings.group_instance_id
            return ConsumerGroupMetadata(group_id, group_instance_id=instance_id)
        machine = self._membership.machine
        member_id, generation = machine.committing_as
        return ConsumerGroupMetadata(machine.config.group_id, generation, member_id, machine.config.group_instance_id)

    @property
    def generation(self) -> int:
        """That of the last assignment, with group.protocol=consumer the member epoch; -1 outside the group."""
        return -1 if self._membership is None else self._membership.machine.generation

    def enforce_rebalance(self, reason: str | None = None) -> None:
        """Has the group rebalance, with the next polls (KIP-568): for an `Assignor` whose user data changed, say. ``reason`` is
        sent to the coordinator (KIP-800). Without effect while a rebalance is under way, and with group.protocol=consumer.
        Raises ConfigError without a subscription, TypeError."""
        self._loop.require_open()
        if self._membership is None:
            raise ConfigError("enforce_rebalance needs a subscription; call subscribe first")
        self._membership.enforce_rebalance(arguments.text(reason or ENFORCED, "reason"))

    # -- polling ------------------------------------------------------------------------------------------------------

    async def poll(
        self, timeout_ms: float = 0, max_records: int | None = None
    ) -> dict[TopicPartition, list[Record[K, V]]]:
        """Records by partition, at most ``max_records`` (None: max.poll.records); empty when none came in time. Raises
        KafkaError, WakeupError, and what a listener raised; CorruptBatchError at a batch that cannot be read and
        RecordDeserializationError at a record that a deserializer refuses, with each poll until one seeks past it."""
        limit: int = self.settings.max_poll_records
        if max_records is not None:
            limit = arguments.whole_number(max_records, "max_records", 1, 2**31 - 1)
        return await self._polled(timeout_ms, lambda: self._fetcher.take(limit))

    async def _polled(
        self, timeout_ms: float, take: Callable[[], dict[TopicPartition, list[Record[K, V]]]]
    ) -> dict[TopicPartition, list[Record[K, V]]]:
        polled = await self._loop.run(timeout_ms, take)
        for interceptor in self._interceptors if polled else ():
            polled = interceptor.on_consume(polled)
        return polled

    async def poll_arrow(self, timeout_ms: float = 0, max_bytes: int = ARROW_BYTES) -> pa.Table:
        """Whole batches as one Arrow table: topic, partition, offset, timestamp, key, value. Not to be mixed with `poll`
        in the middle of a batch. Raises as `poll` does, and ConfigError without pyarrow."""
        from coterie.client.consumer.arrow import table_of

        table = table_of(
            await self._loop.run(timeout_ms, lambda: self._fetcher.take_batches(max_bytes)), self._fetcher.put_back
        )
        if not len(table):
            self._fetcher.raise_damage()
        return table

    def wakeup(self) -> None:
        """Ends the poll under way, or the next one, with WakeupError."""
        self._loop.wake()

    async def __aiter__(self) -> AsyncIterator[Record[K, V]]:
        """Records one after the other, without an end; raises as `poll` does. Each record counts as a poll, and moves the
        position, so that an automatic commit covers the records handed out and no others. Raises PartitionsLostError once
        partitions are lost of which records were handed out."""
        most = 1 if self._interceptors else self.settings.max_poll_records
        wait_ms = min(self.settings.max_poll_interval_ms / 3, ITERATION_MS)
        handed_out: set[TopicPartition] = set()
        self._callbacks.take_lost()

        def take() -> dict[TopicPartition, list[Record[K, V]]]:
            lost = self._callbacks.take_lost() & handed_out
            if lost:
                raise PartitionsLostError(lost)
            return self._fetcher.take(1)

        while True:
            for partition, records in (await self._polled(wait_ms, take)).items():
                handed_out.add(partition)
                yield records[0]
                for record in self._loop.in_hand(partition, most - 1):
                    yield record

    # -- commits ------------------------------------------------------------------------------------------------------

    async def committed(self, partitions: Iterable[PartitionLike]) -> dict[TopicPartition, int]:
        """The group's committed offsets, by partition; -1 where there is none. Raises KafkaError, ConfigError without a
        group.id.

        >>> async with Consumer(settings | {"group.id": "billing"}) as reader:
        ...     print((await reader.committed([("orders", 0)]))[TopicPartition("orders", 0)])
        2
        """
        return {tp: at.offset for tp, at in (await self.committed_metadata(partitions)).items()}

    async def committed_metadata(self, partitions: Iterable[PartitionLike]) -> dict[TopicPartition, OffsetAndMetadata]:
        """As `committed`, with leader epoch and text."""
        self._loop.require_usable()
        return await self._committer.committed(arguments.partitions(partitions))

    async def commit(self, offsets: Offsets | None = None, timeout_ms: float | None = None) -> None:
        """Commits positions, or the offsets given, and waits for it, default.api.timeout.ms at most. Raises
        CommitFailedError when the group has moved on, RebalanceInProgressError while it rebalances; TypeError or
        ValueError for offsets that cannot be.

        >>> async with Consumer(settings | {"group.id": "billing"}) as reader:
        ...     await reader.commit({("orders", 0): 3})
        >>> broker.committed("billing")
        {('orders', 0): 3}
        """
        self._loop.require_usable()
        wanted = self._to_commit(offsets)
        default_ms = self.settings.default_api_timeout_ms
        limit_ms = default_ms if timeout_ms is None else arguments.milliseconds(timeout_ms)
        if wanted:
            await self._committer.commit(wanted, limit_ms / 1000)
        else:
            await self._committer.async_commits_done()

    def commit_async(self, offsets: Offsets | None = None, callback: Callback | None = None) -> asyncio.Task[None]:
        """Sends a commit, without a wait or retry; the result goes to ``callback(offsets, error or None)``, or to the task."""
        self._loop.require_usable()
        if callback is not None and not callable(callback):
            raise TypeError(f"callback must be a function of (offsets, error), not {callback!r}")
        return self._committer.commit_async(self._to_commit(offsets), callback)

    def _to_commit(self, offsets: Offsets | None) -> dict[TopicPartition, OffsetAndMetadata]:
        if offsets is None:
            return self._consumed()
        checked = arguments.offsets_to_commit(offsets)
        self._cluster.known.epochs_seen(checked)
        return checked

    def _consumed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        positions = self._fetcher.positions
        return {tp: OffsetAndMetadata(p.offset, p.offset_epoch) for tp, p in positions.items() if p.offset != UNKNOWN}

    # -- metrics ------------------------------------------------------------------------------------------------------

    def metrics(self) -> dict[str, float]:
        """Counts since the start; safe to call from any thread."""
        counts: dict[str, float] = {
            "records_consumed": self._fetcher.machine.records_taken,
            "bytes_fetched": self._fetcher.machine.bytes_fetched,
            "commits": self._committer.commits,
            "assigned_partitions": len(self._fetcher.positions),
        }
        if self._membership is not None:
            counts |= self._membership.counts
        if self._callbacks.rebalanced_s is not None:
            counts["last_rebalance_seconds_ago"] = time.monotonic() - self._callbacks.rebalanced_s
        return counts

    # -- ending -------------------------------------------------------------------------------------------------------

    async def _leave(self, reason: str, timeout_s: float, operation: GroupMembershipOperation = _DEFAULT) -> None:
        if self._membership is None:
            if self._assigned_by_user:
                await self._auto_commit.now(timeout_s)
            return
        try:
            await self._callbacks.leave(self._membership, reason, operation, timeout_s)
        finally:
            self._membership = self._committer.membership = self._loop.membership = None

    async def close(
        self,
        timeout_ms: float = 30_000,
        group_membership_operation: GroupMembershipOperation = GroupMembershipOperation.DEFAULT,
    ) -> None:
        """Commits if that is automatic, leaves the group unless it is static or is to remain (KIP-1092), waits for asynchronous
        commits, closes; takes no longer than that, and END_S beyond. What is not done by then is left to the session timeout,
        and so is all of it where the event loop of the consumer is closed already. Raises TypeError, ValueError."""
        operation = arguments.membership_operation(group_membership_operation)
        limit_s = min(arguments.milliseconds(timeout_ms) / 1000, self._cluster.timeout_s)
        if self._loop.closed:
            return
        self._loop.closed = True
        if self._cluster.has_lost_loop:
            logger.warning("the consumer's event loop was closed before it; its group waits for its session timeout")
            if self._membership is not None:
                self._membership.abandon()
            self._cluster.close()
            return
        self._fetcher.arrived.set()  # a poll under way ends
        try:
            async with asyncio.timeout(limit_s + END_S / 2):
                await self._leave("the consumer is being closed", limit_s, operation)
                await self._committer.async_commits_done()
        except TimeoutError:
            logger.warning("the consumer did not leave its group within %g s", limit_s)
        finally:
            self._committer.close()
            self._loop.drop_lookups()
            try:
                await self._fetcher.close(END_S / 2)
            finally:
                self._cluster.close()
