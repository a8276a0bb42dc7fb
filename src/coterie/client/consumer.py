"""The consumer: a member machine driven by asyncio, a fetcher, and commits.

Rebalance callbacks run in the task that polls, as in Kafka; heartbeats go out from a task of their own, and from a thread
while user code holds the loop. Not for use by two tasks at once: that raises RuntimeError.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from coterie.client.cluster import Cluster
from coterie.client.committer import Callback, Committer, Offsets
from coterie.client.errors import ConfigError, KafkaError, WakeupError
from coterie.client.fetcher import Fetcher
from coterie.client.listener import (
    ConsumerGroupMetadata,
    ConsumerInterceptor,
    OffsetAndMetadata,
    RebalanceListener,
    TopicPartition,
    call,
)
from coterie.client.membership import Membership
from coterie.client.offsets import list_offsets
from coterie.client.positions import UNKNOWN
from coterie.client.settings import ClientSettings, made
from coterie.client.starting import StartingPositions
from coterie.member.effects import Assigned, Revoke
from coterie.records.batch import Record

if TYPE_CHECKING:
    import pyarrow as pa

ARROW_BYTES = 16 * 1024 * 1024
SOONEST_COMMIT_S = 0.05  # how often it is looked whether a commit in flight has come back


class Consumer:
    """Settings by Kafka's names (``group.id`` and ``group_id`` are one); ``group.id`` is needed for `subscribe` and
    commits. Raises ConfigError for settings it cannot work with."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self.settings = ClientSettings(settings)
        self._interceptors: list[ConsumerInterceptor] = made(self.settings["interceptor.classes"], ConsumerInterceptor)
        self._cluster = Cluster(self.settings)
        self._fetcher = Fetcher(self._cluster)
        self._group_id: str | None = self.settings["group.id"]
        self._committer = Committer(self._cluster, self._group_id, self._interceptors)
        self._starts = StartingPositions(self._cluster, self._fetcher, self._committer, self._group_id is not None)
        self._membership: Membership | None = None
        self._listener = RebalanceListener()
        self._positions_task: asyncio.Task[None] | None = None
        self._polling = self._closed = self._woken = False
        self._assigned_by_user = False
        self._auto_commit = self.settings["enable.auto.commit"] and self._group_id is not None
        self._next_commit_s = float("inf")
        self._committing: asyncio.Task[None] | None = None
        self._rebalanced_s: float | None = None

    async def __aenter__(self) -> Consumer:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # -- what to read -------------------------------------------------------------------------------------------------

    def subscribe(self, topics: Iterable[str] | re.Pattern[str], listener: RebalanceListener | None = None) -> None:
        """Joins the group at the next poll; a compiled pattern stands for all topics whose whole name it matches, now and
        later. Raises ConfigError without a group.id or after `assign`."""
        if self._group_id is None:
            raise ConfigError("subscribe needs a group.id; use assign to read without a group")
        if self._assigned_by_user:
            raise ConfigError("subscribe and assign cannot be mixed; call unsubscribe first")
        if isinstance(topics, str):
            raise ConfigError(f"subscribe takes a list of topics or a compiled pattern, not the string {topics!r}")
        if self._membership is None:
            self._membership = Membership(self._cluster, self._group_id, self._fetcher.arrived.set)
            self._committer.membership = self._membership
        self._listener = listener or self._listener
        if isinstance(topics, re.Pattern):
            self._membership.subscribe_pattern(topics)
        else:
            self._membership.subscribe(topics)
        self._next_commit_s = time.monotonic() + self.settings["auto.commit.interval.ms"] / 1000

    def subscription(self) -> set[str]:
        """The topics subscribed to; those that a pattern matches so far."""
        return set() if self._membership is None else set(self._membership.machine.topics)

    async def unsubscribe(self) -> None:
        """Gives everything up and leaves the group; then another `subscribe` or `assign` is possible."""
        await self._leave("the consumer unsubscribed", self._cluster.timeout_s)
        self._fetcher.assign(())
        self._assigned_by_user = False

    async def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Reads these partitions, without membership: from the committed offset, else by auto.offset.reset."""
        if self._membership is not None:
            raise ConfigError("subscribe and assign cannot be mixed; call unsubscribe first")
        self._assigned_by_user = True
        wanted = list(partitions)
        await self._cluster.topics({t for t, _ in wanted})
        self._fetcher.assign(wanted)
        self._next_commit_s = time.monotonic() + self.settings["auto.commit.interval.ms"] / 1000
        await self._starts.find()

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

    async def poll(self, timeout_ms: int = 0, max_records: int | None = None) -> dict[TopicPartition, list[Record]]:
        """Records by partition; empty when none came in time. Raises KafkaError, WakeupError, and what a listener
        raised."""
        limit = max_records or self.settings["max.poll.records"]
        polled: dict[TopicPartition, list[Record]] = await self._poll(timeout_ms, lambda: self._fetcher.take(limit))
        for interceptor in self._interceptors if polled else ():
            polled = interceptor.on_consume(polled)
        return polled

    async def poll_arrow(self, timeout_ms: int = 0, max_bytes: int = ARROW_BYTES) -> pa.Table:
        """Whole batches as one Arrow table: topic, partition, offset, timestamp, key, value. Not to be mixed with `poll`
        in the middle of a batch. Raises as `poll` does, and ConfigError without pyarrow."""
        from coterie.client.arrow import table_of

        return table_of(await self._poll(timeout_ms, lambda: self._fetcher.take_batches(max_bytes)))

    async def _poll(self, timeout_ms: int, take: Any) -> Any:
        if self._closed:
            raise RuntimeError("this consumer is closed")
        if self._polling:
            raise RuntimeError("two tasks use this consumer at once; give each its own")
        self._polling = True
        deadline_s = time.monotonic() + timeout_ms / 1000
        try:
            while True:
                self._fetcher.arrived.clear()  # before looking, so that nothing which comes meanwhile is missed
                self._raise_if_woken()
                if self._membership is not None:
                    self._membership.polled()
                    await self._run_callbacks(self._membership)
                    self._raise_complaint(self._membership)
                self._commit_if_due()
                await self._positions_known(deadline_s)
                if self._fetcher.error is not None:
                    error, self._fetcher.error = self._fetcher.error, None
                    raise error
                polled = take()
                left_s = deadline_s - time.monotonic()
                if polled or left_s <= 0:
                    return polled
                await self._something_came(left_s)
        finally:
            self._polling = False

    async def _something_came(self, left_s: float) -> None:
        if self._auto_commit:
            left_s = min(left_s, max(self._next_commit_s - time.monotonic(), SOONEST_COMMIT_S))
        try:
            async with asyncio.timeout(left_s):
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

    def __aiter__(self) -> AsyncIterator[tuple[TopicPartition, Record]]:
        return self._each()

    async def _each(self) -> AsyncIterator[tuple[TopicPartition, Record]]:
        while True:
            for partition, records in (await self.poll(1000)).items():
                for record in records:
                    yield partition, record

    # -- rebalances ---------------------------------------------------------------------------------------------------

    async def _run_callbacks(self, membership: Membership) -> None:
        """All of them run, in order; the first error is raised afterwards."""
        first: Exception | None = None
        while membership.for_poll:
            effect = membership.for_poll[0]
            try:
                if isinstance(effect, Revoke):
                    await self._revoke(effect, membership)
                else:
                    await self._assigned(effect)
            except Exception as error:
                first = first or error
            # Cancelled in the middle (testWakeupFromAssignmentCallback): the same callback runs again with the next poll.
            membership.for_poll.pop(0)
        if first is not None:
            raise first

    async def _revoke(self, effect: Revoke, membership: Membership) -> None:
        partitions = list(effect.partitions)
        try:
            if not effect.lost and self._auto_commit:
                await self._try_commit()
            told = self._listener.on_partitions_lost if effect.lost else self._listener.on_partitions_revoked
            await call(told(partitions))
        finally:
            self._fetcher.drop(partitions)
            membership.revoked()

    async def _assigned(self, effect: Assigned) -> None:
        self._rebalanced_s = time.monotonic()
        self._fetcher.assign(effect.partitions)
        await call(self._listener.on_partitions_assigned(list(effect.added)))

    # -- positions ----------------------------------------------------------------------------------------------------

    async def _positions_known(self, deadline_s: float) -> None:
        """Looks missing positions up, no longer than until the deadline; the next poll waits for the same lookup."""
        task = self._positions_task
        if task is None:
            if not self._fetcher.unknown() and not self._fetcher.out_of_range:
                return
            task = self._positions_task = asyncio.create_task(self._starts.find())
        if not task.done():
            await asyncio.wait({task}, timeout=max(deadline_s - time.monotonic(), 0))
        if task.done():
            self._positions_task = None
            task.result()

    def position(self, partition: TopicPartition) -> int:
        """The offset of the next record that poll returns; -1 while it is not known yet. Raises KeyError for a partition
        that is not assigned."""
        return self._fetcher.positions[partition].offset

    def lag(self) -> dict[TopicPartition, int]:
        """Records not read yet, by partition, as of the last fetch; never negative. With read_committed up to the first
        open transaction."""
        stable = self.settings.committed_only
        ends = {tp: p.last_stable_offset if stable else p.high_watermark for tp, p in self._fetcher.positions.items()}
        return {tp: max(end - self.position(tp), 0) for tp, end in ends.items() if end >= 0}

    def seek(self, partition: TopicPartition, offset: int) -> None:
        self._fetcher.seek(partition, offset)

    async def seek_to_beginning(self, partitions: Iterable[TopicPartition] | None = None) -> None:
        await self._seek_to(partitions, -2)

    async def seek_to_end(self, partitions: Iterable[TopicPartition] | None = None) -> None:
        await self._seek_to(partitions, -1)

    async def seek_to_timestamp(self, timestamp_ms: int, partitions: Iterable[TopicPartition] | None = None) -> None:
        """To the first record that is not older; to the end where there is none."""
        await self._seek_to(partitions, timestamp_ms)

    async def _seek_to(self, partitions: Iterable[TopicPartition] | None, timestamp_ms: int) -> None:
        wanted = list(self._fetcher.positions if partitions is None else partitions)
        found = await self._offsets(dict.fromkeys(wanted, timestamp_ms))
        late = [tp for tp, offset in found.items() if offset < 0]
        found.update(await self._offsets(dict.fromkeys(late, -1)) if late else {})
        for partition, offset in found.items():
            self._fetcher.seek(partition, offset)

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        for partition in partitions:
            self._fetcher.positions[partition].paused = True

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        for partition in partitions:
            self._fetcher.positions[partition].paused = False
        self._fetcher.wake()

    def paused(self) -> set[TopicPartition]:
        return {tp for tp, p in self._fetcher.positions.items() if p.paused}

    async def _offsets(self, timestamps: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        return await list_offsets(self._cluster, timestamps, committed=self.settings.committed_only)

    async def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return await self._offsets(dict.fromkeys(partitions, -1))

    async def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return await self._offsets(dict.fromkeys(partitions, -2))

    async def offsets_for_times(self, timestamps: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """The first offset that is not older than so many ms since 1970; -1 where there is none."""
        return await self._offsets(timestamps)

    # -- commits ------------------------------------------------------------------------------------------------------

    async def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The group's committed offsets; -1 where there is none. Raises KafkaError."""
        return {tp: said.offset for tp, said in (await self._committer.committed(partitions)).items()}

    async def committed_metadata(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata]:
        """As `committed`, with leader epoch and text."""
        return await self._committer.committed(partitions)

    async def commit(self, offsets: Offsets | None = None, timeout_ms: int | None = None) -> None:
        """Commits positions, or the offsets given, and waits for it, default.api.timeout.ms at most. Raises
        CommitFailedError when the group has moved on, RebalanceInProgressError while it rebalances."""
        wanted = self._consumed() if offsets is None else offsets
        limit_ms = self.settings["default.api.timeout.ms"] if timeout_ms is None else timeout_ms
        if wanted:
            await self._committer.commit(wanted, limit_ms / 1000)
        else:
            await self._committer.async_commits_done()

    def commit_async(self, offsets: Offsets | None = None, callback: Callback | None = None) -> asyncio.Task[None]:
        """Sends a commit and does not wait or retry; ``callback(offsets, error or None)`` hears of it, or the task."""
        return self._committer.commit_async(self._consumed() if offsets is None else offsets, callback)

    def _consumed(self) -> dict[TopicPartition, int]:
        return {tp: p.offset for tp, p in self._fetcher.positions.items() if p.offset != UNKNOWN}

    def _commit_if_due(self) -> None:
        """auto.commit.interval.ms; at most one at a time, and what fails is made up for by the next."""
        idle = self._committing is None or self._committing.done()
        if not self._auto_commit or not idle or time.monotonic() < self._next_commit_s:
            return
        self._next_commit_s = time.monotonic() + self.settings["auto.commit.interval.ms"] / 1000
        wanted = self._consumed()
        if wanted and (self._membership is None or self._membership.is_stable()):
            self._committing = self._committer.commit_async(wanted, self._auto_committed)

    def _auto_committed(self, offsets: dict[TopicPartition, int], error: Exception | None) -> None:
        if isinstance(error, KafkaError) and error.code.retriable:
            self._next_commit_s = time.monotonic() + self.settings["retry.backoff.ms"] / 1000

    async def _try_commit(self, timeout_s: float | None = None) -> None:
        wanted = self._consumed()
        if not wanted:
            return
        limit_s = self.settings["max.poll.interval.ms"] / 1000 if timeout_s is None else timeout_s
        try:
            await self._committer.commit(wanted, limit_s)
        except KafkaError:
            return  # the next owner starts at the commit before

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
        if self._rebalanced_s is not None:
            counts["last_rebalance_seconds_ago"] = time.monotonic() - self._rebalanced_s
        return counts

    # -- ending -------------------------------------------------------------------------------------------------------

    async def _leave(self, reason: str, timeout_s: float) -> None:
        membership, deadline_s = self._membership, time.monotonic() + timeout_s
        if membership is None:
            if self._auto_commit and self._assigned_by_user:
                await self._try_commit(timeout_s)
            return
        partitions = list(self._fetcher.positions)
        member = membership.machine.generation >= 0
        if self._auto_commit and member:
            await self._try_commit(timeout_s)
        try:
            if partitions:
                told = self._listener.on_partitions_revoked if member else self._listener.on_partitions_lost
                await call(told(partitions))
        finally:
            await membership.leave(reason, max(deadline_s - time.monotonic(), 0.1))
            self._membership = self._committer.membership = None

    async def close(self, timeout_ms: int = 30_000) -> None:
        """Commits if that is automatic, leaves the group (a static member does not), closes; takes no longer than that."""
        if self._closed:
            return
        self._closed = True
        try:
            await self._leave("the consumer is being closed", min(timeout_ms / 1000, self._cluster.timeout_s))
        finally:
            if self._positions_task is not None:
                self._positions_task.cancel()
            await self._fetcher.close()
            self._cluster.close()
