"""The consumer: a member machine driven by asyncio, a fetcher, and commits.

Rebalance callbacks run in the task that polls, as in Kafka; heartbeats go out from a task of their own, and from a thread
while user code holds the loop. Not for use by two tasks at once: that raises RuntimeError.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from coterie.client import arguments
from coterie.client.auto_commit import AutoCommit
from coterie.client.callbacks import Callbacks
from coterie.client.cluster import Cluster
from coterie.client.committer import Callback, Committer, Offsets
from coterie.client.errors import ConfigError, WakeupError
from coterie.client.fetcher import Fetcher
from coterie.client.listener import ConsumerInterceptor, RebalanceListener
from coterie.client.membership import Membership
from coterie.client.offsets import list_offsets
from coterie.client.positions import UNKNOWN
from coterie.client.setting_types import made
from coterie.client.settings import client_settings
from coterie.client.starting import StartingPositions
from coterie.client.types import (
    ByPartition,
    ConsumerGroupMetadata,
    OffsetAndMetadata,
    PartitionLike,
    Record,
    TopicPartition,
)

if TYPE_CHECKING:
    import pyarrow as pa

logger = logging.getLogger(__name__)

END_S = 1.0  # in which cancelled tasks must end
ARROW_BYTES = 16 * 1024 * 1024


class Consumer:
    """Settings by Kafka's names (``group.id`` and ``group_id`` are one); ``group.id`` is needed for `subscribe` and
    commits. Raises ConfigError for settings it cannot work with."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self.settings = client_settings(settings)
        self._interceptors: list[ConsumerInterceptor] = made(self.settings.interceptor_classes, ConsumerInterceptor)
        self._cluster = Cluster(self.settings)
        self._fetcher = Fetcher(self._cluster)
        self._group_id: str | None = self.settings.group_id
        self._committer = Committer(self._cluster, self._group_id, self._interceptors)
        self._starts = StartingPositions(self._cluster, self._fetcher, self._committer, self._group_id is not None)
        self._membership: Membership | None = None
        self._positions_task: asyncio.Task[None] | None = None
        self._polling = self._closed = self._woken = False
        self._assigned_by_user = False
        self._auto_commit = AutoCommit(self._committer, self.settings, self._group_id, self._consumed)
        self._callbacks = Callbacks(self._fetcher, self._auto_commit, self.settings.max_poll_interval_ms / 1000)

    async def __aenter__(self) -> Consumer:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # -- what to read -------------------------------------------------------------------------------------------------

    def subscribe(self, topics: Iterable[str] | re.Pattern[str], listener: RebalanceListener | None = None) -> None:
        """Joins the group at the next poll; a compiled pattern stands for all topics whose whole name it matches, now and
        later. Raises ConfigError without a group.id or after `assign`, TypeError, RuntimeError after `close`."""
        self._require_open()
        if listener is not None and not isinstance(listener, RebalanceListener):
            raise TypeError(f"a listener must be an object of a subclass of RebalanceListener, not {listener!r}")
        if self._group_id is None:
            raise ConfigError("subscribe needs a group.id; use assign to read without a group")
        if self._assigned_by_user:
            raise ConfigError("subscribe and assign cannot be mixed; call unsubscribe first")
        if isinstance(topics, str):
            raise ConfigError(f"subscribe takes a list of topics or a compiled pattern, not the string {topics!r}")
        if isinstance(topics, re.Pattern):
            arguments.text(topics.pattern, "the pattern")
        else:
            topics = arguments.names(topics, "topics")
        if self._membership is None:
            self._membership = Membership(self._cluster, self._group_id, self._fetcher.arrived.set)
            self._committer.membership = self._membership
        self._callbacks.listener = listener or self._callbacks.listener
        if isinstance(topics, re.Pattern):
            self._membership.subscribe_pattern(topics)
        else:
            self._membership.subscribe(topics)
        self._auto_commit.restart()

    def subscription(self) -> set[str]:
        """The topics subscribed to; those that a pattern matches so far."""
        return set() if self._membership is None else set(self._membership.machine.topics)

    async def unsubscribe(self) -> None:
        """Gives everything up and leaves the group; then another `subscribe` or `assign` is possible."""
        self._require_open()
        await self._leave("the consumer unsubscribed", self._cluster.timeout_s)
        self._fetcher.assign(())
        self._assigned_by_user = False

    async def assign(self, partitions: Iterable[PartitionLike]) -> None:
        """Reads these partitions, without membership: from the committed offset, else by auto.offset.reset. Raises
        KafkaError where that could not be looked up within request.timeout.ms; they are assigned all the same, and the
        next poll looks again."""
        self._require_open()
        if self._membership is not None:
            raise ConfigError("subscribe and assign cannot be mixed; call unsubscribe first")
        wanted = arguments.partitions(partitions)
        self._assigned_by_user = True
        self._fetcher.assign(wanted)
        self._auto_commit.restart()
        await self._starts.find_within(self._cluster.timeout_s)

    def assignment(self) -> set[TopicPartition]:
        return set(self._fetcher.positions)

    def group_metadata(self) -> ConsumerGroupMetadata:
        """For `Producer.send_offsets_to_transaction`. Raises ConfigError without a group.id."""
        if self._membership is None:
            return ConsumerGroupMetadata(self._committer.group_id())
        machine = self._membership.machine
        return ConsumerGroupMetadata(
            machine.config.group_id, machine.generation, machine.member_id, machine.config.group_instance_id
        )

    @property
    def generation(self) -> int:
        """That of the last assignment, -1 without one."""
        return -1 if self._membership is None else self._membership.machine.generation

    # -- polling ------------------------------------------------------------------------------------------------------

    async def poll(self, timeout_ms: float = 0, max_records: int | None = None) -> dict[TopicPartition, list[Record]]:
        """Records by partition; empty when none came in time. Raises KafkaError, WakeupError, and what a listener
        raised; CorruptBatchError at a batch that cannot be read, with each poll until one seeks past it."""
        limit: int = self.settings.max_poll_records
        if max_records is not None:
            limit = arguments.whole_number(max_records, "max_records", 1, 2**31 - 1)
        polled: dict[TopicPartition, list[Record]] = await self._poll(timeout_ms, lambda: self._fetcher.take(limit))
        for interceptor in self._interceptors if polled else ():
            polled = interceptor.on_consume(polled)
        return polled

    async def poll_arrow(self, timeout_ms: float = 0, max_bytes: int = ARROW_BYTES) -> pa.Table:
        """Whole batches as one Arrow table: topic, partition, offset, timestamp, key, value. Not to be mixed with `poll`
        in the middle of a batch. Raises as `poll` does, and ConfigError without pyarrow."""
        from coterie.client.arrow import table_of

        table = table_of(
            await self._poll(timeout_ms, lambda: self._fetcher.take_batches(max_bytes)), self._fetcher.put_back
        )
        if not len(table):
            self._fetcher.raise_damage()
        return table

    def _require_open(self) -> None:
        if self._closed:
            raise RuntimeError("this consumer is closed; make a new one")

    async def _poll(self, timeout_ms: float, take: Any) -> Any:
        deadline_s = time.monotonic() + arguments.milliseconds(timeout_ms) / 1000
        self._require_open()
        if self._polling:
            raise RuntimeError("two tasks use this consumer at once; give each its own")
        self._polling = True
        try:
            while True:
                self._fetcher.arrived.clear()  # before looking, so that nothing which comes meanwhile is missed
                self._require_open()
                self._raise_if_woken()
                if self._membership is not None:
                    self._membership.polled()
                    await self._callbacks.run(self._membership)
                    self._raise_complaint(self._membership)
                self._auto_commit.if_due(self._membership)
                await self._positions_known(deadline_s)
                if self._fetcher.error is not None:
                    error, self._fetcher.error = self._fetcher.error, None
                    raise error
                self._fetcher.raise_damage()
                polled = take()
                left_s = deadline_s - time.monotonic()
                if polled or left_s <= 0:
                    return polled
                await self._something_came(left_s)
        finally:
            self._polling = False

    async def _something_came(self, left_s: float) -> None:
        try:
            async with asyncio.timeout(min(left_s, self._auto_commit.due_in_s())):
                await self._fetcher.arrived.wait()
        except TimeoutError:
            return

    def wakeup(self) -> None:
        """Ends the poll under way, or the next one, with WakeupError."""
        self._woken = True
        self._fetcher.arrived.set()

    def _raise_if_woken(self) -> None:
        if self._woken:
            self._woken = False
            raise WakeupError

    @staticmethod
    def _raise_complaint(membership: Membership) -> None:
        if membership.failure is not None:
            raise membership.failure
        if membership.complaint is not None:
            complaint, membership.complaint = membership.complaint, None
            raise complaint

    async def __aiter__(self) -> AsyncIterator[Record]:
        """Records one after the other, without an end; raises as `poll` does. The position moves with each record, so that
        an automatic commit covers the records handed out and no others."""
        most = 1 if self._interceptors else self.settings.max_poll_records
        while True:
            for partition, records in (await self.poll(1000, 1)).items():
                yield records[0]
                for record in self._in_hand(partition, most - 1):
                    yield record

    def _in_hand(self, partition: TopicPartition, limit: int) -> Iterator[Record]:
        """Further records of a partition for which no poll is needed: they are decoded, and no callback is due."""
        for _ in range(limit):
            callbacks_due = self._membership is not None and self._membership.for_poll
            if self._closed or self._woken or self._polling or callbacks_due:
                return
            record = self._fetcher.take_in_hand(partition)
            if record is None:
                return
            yield record

    # -- positions ----------------------------------------------------------------------------------------------------

    async def _positions_known(self, deadline_s: float) -> None:
        """Looks missing positions up, no longer than until the deadline; the next poll waits for the same lookup."""
        task = self._positions_task
        if task is None:
            if not self._fetcher.unknown() and not self._fetcher.out_of_range:
                return
            task = self._positions_task = asyncio.create_task(self._starts.find())
            task.add_done_callback(lambda t: t.cancelled() or t.exception())  # a close may come before the next poll
        if not task.done():
            await asyncio.wait({task}, timeout=max(deadline_s - time.monotonic(), 0))
        if task.done():
            self._positions_task = None
            task.result()

    def position(self, partition: PartitionLike) -> int:
        """The offset of the next record that poll returns; -1 while it is not known yet. Raises KeyError for a partition
        that is not assigned."""
        return self._fetcher.positions[TopicPartition(*partition)].offset

    def lag(self) -> dict[TopicPartition, int]:
        """Records not read yet, by partition, as of the last fetch; never negative. With read_committed up to the first
        open transaction."""
        stable = self.settings.committed_only
        ends = {tp: p.last_stable_offset if stable else p.high_watermark for tp, p in self._fetcher.positions.items()}
        return {tp: max(end - self.position(tp), 0) for tp, end in ends.items() if end >= 0}

    def seek(self, partition: PartitionLike, offset: int) -> None:
        """The next poll reads there. Raises TypeError, ValueError for a negative offset or a partition not assigned."""
        self._require_open()
        arguments.whole_number(offset, "an offset", 0, arguments.LARGEST_OFFSET)
        self._fetcher.seek(self._owned([partition])[0], offset)

    def _owned(self, partitions: Iterable[PartitionLike]) -> list[TopicPartition]:
        wanted = arguments.partitions(partitions)
        for partition in wanted:
            if partition not in self._fetcher.positions:
                raise ValueError(f"{partition.topic}-{partition.partition} is not assigned to this consumer")
        return wanted

    async def seek_to_beginning(self, partitions: Iterable[PartitionLike] | None = None) -> None:
        await self._seek_to(partitions, -2)

    async def seek_to_end(self, partitions: Iterable[PartitionLike] | None = None) -> None:
        await self._seek_to(partitions, -1)

    async def seek_to_timestamp(self, timestamp_ms: int, partitions: Iterable[PartitionLike] | None = None) -> None:
        """To the first record that is not older; to the end where there is none."""
        await self._seek_to(partitions, timestamp_ms)

    async def _seek_to(self, partitions: Iterable[PartitionLike] | None, timestamp_ms: int) -> None:
        wanted = self._owned(self._fetcher.positions if partitions is None else partitions)
        found = await self._offsets(dict.fromkeys(wanted, timestamp_ms))
        late = [tp for tp, offset in found.items() if offset < 0]
        found.update(await self._offsets(dict.fromkeys(late, -1)) if late else {})
        for partition, offset in found.items():
            if partition in self._fetcher.positions:  # else revoked meanwhile
                self._fetcher.seek(partition, offset)

    def pause(self, partitions: Iterable[PartitionLike]) -> None:
        self._require_open()
        for partition in self._owned(partitions):
            self._fetcher.positions[partition].paused = True

    def resume(self, partitions: Iterable[PartitionLike]) -> None:
        self._require_open()
        for partition in self._owned(partitions):
            self._fetcher.positions[partition].paused = False
        self._fetcher.wake()

    def paused(self) -> set[TopicPartition]:
        return {tp for tp, p in self._fetcher.positions.items() if p.paused}

    async def _offsets(self, timestamps: ByPartition[int]) -> dict[TopicPartition, int]:
        self._require_open()
        wanted = arguments.timestamps(timestamps)
        return await list_offsets(self._cluster, wanted, committed=self.settings.committed_only)

    async def end_offsets(self, partitions: Iterable[PartitionLike]) -> dict[TopicPartition, int]:
        return await self._offsets(dict.fromkeys(arguments.partitions(partitions), -1))

    async def beginning_offsets(self, partitions: Iterable[PartitionLike]) -> dict[TopicPartition, int]:
        return await self._offsets(dict.fromkeys(arguments.partitions(partitions), -2))

    async def offsets_for_times(self, timestamps: ByPartition[int]) -> dict[TopicPartition, int]:
        """The first offset that is not older than so many ms since 1970; -1 where there is none."""
        return await self._offsets(timestamps)

    # -- commits ------------------------------------------------------------------------------------------------------

    async def committed(self, partitions: Iterable[PartitionLike]) -> dict[TopicPartition, int]:
        """The group's committed offsets; -1 where there is none. Raises KafkaError."""
        return {tp: at.offset for tp, at in (await self.committed_metadata(partitions)).items()}

    async def committed_metadata(self, partitions: Iterable[PartitionLike]) -> dict[TopicPartition, OffsetAndMetadata]:
        """As `committed`, with leader epoch and text."""
        self._require_open()
        return await self._committer.committed(arguments.partitions(partitions))

    async def commit(self, offsets: Offsets | None = None, timeout_ms: float | None = None) -> None:
        """Commits positions, or the offsets given, and waits for it, default.api.timeout.ms at most. Raises
        CommitFailedError when the group has moved on, RebalanceInProgressError while it rebalances; TypeError or
        ValueError for offsets that cannot be."""
        self._require_open()
        wanted: Offsets = self._consumed() if offsets is None else arguments.offsets_to_commit(offsets)
        default_ms = self.settings.default_api_timeout_ms
        limit_ms = default_ms if timeout_ms is None else arguments.milliseconds(timeout_ms)
        if wanted:
            await self._committer.commit(wanted, limit_ms / 1000)
        else:
            await self._committer.async_commits_done()

    def commit_async(self, offsets: Offsets | None = None, callback: Callback | None = None) -> asyncio.Task[None]:
        """Sends a commit and does not wait or retry; ``callback(offsets, error or None)`` hears of it, or the task."""
        self._require_open()
        if callback is not None and not callable(callback):
            raise TypeError(f"callback must be a function of (offsets, error), not {callback!r}")
        wanted: Offsets = self._consumed() if offsets is None else arguments.offsets_to_commit(offsets)
        return self._committer.commit_async(wanted, callback)

    def _consumed(self) -> dict[TopicPartition, int]:
        return {tp: p.offset for tp, p in self._fetcher.positions.items() if p.offset != UNKNOWN}

    # -- metrics ------------------------------------------------------------------------------------------------------

    def metrics(self) -> dict[str, float]:
        """Counts since the start; safe to call from any thread."""
        counts: dict[str, float] = {
            "records_consumed": self._fetcher.records_taken,
            "bytes_fetched": self._fetcher.bytes_fetched,
            "commits": self._committer.commits,
            "assigned_partitions": len(self._fetcher.positions),
        }
        if self._membership is not None:
            counts |= self._membership.counts
        if self._callbacks.rebalanced_s is not None:
            counts["last_rebalance_seconds_ago"] = time.monotonic() - self._callbacks.rebalanced_s
        return counts

    # -- ending -------------------------------------------------------------------------------------------------------

    async def _leave(self, reason: str, timeout_s: float) -> None:
        membership, deadline_s = self._membership, time.monotonic() + timeout_s
        if membership is None:
            if self._assigned_by_user:
                await self._auto_commit.now(timeout_s)
            return
        partitions = list(self._fetcher.positions)
        member = membership.machine.generation >= 0
        if member:
            await self._auto_commit.now(timeout_s)
        try:
            if partitions:
                await self._callbacks.notify(partitions, lost=not member)
        finally:
            await membership.leave(reason, max(deadline_s - time.monotonic(), 0.1))
            self._membership = self._committer.membership = None

    async def close(self, timeout_ms: float = 30_000) -> None:
        """Commits if that is automatic, leaves the group (a static member does not), closes; takes no longer than that, and
        END_S beyond. What is not done by then is left to the session timeout."""
        limit_s = min(arguments.milliseconds(timeout_ms) / 1000, self._cluster.timeout_s)
        if self._closed:
            return
        self._closed = True
        self._fetcher.arrived.set()  # a poll under way ends
        try:
            async with asyncio.timeout(limit_s + END_S / 2):
                await self._leave("the consumer is being closed", limit_s)
        except TimeoutError:
            logger.warning("the consumer did not leave its group within %g s", limit_s)
        finally:
            self._committer.close()
            if self._positions_task is not None:
                self._positions_task.cancel()
            try:
                await self._fetcher.close(END_S / 2)
            finally:
                self._cluster.close()
