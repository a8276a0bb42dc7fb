"""The loop of a consumer's poll: callbacks that are due, an automatic commit, missing positions, then records. Where there is
no position, reading begins at the committed offset, else where auto.offset.reset says; so too where the offset is gone."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from coterie.client import arguments
from coterie.client.connection.cluster import Cluster
from coterie.client.consumer.auto_commit import AutoCommit
from coterie.client.consumer.callbacks import Callbacks
from coterie.client.consumer.committer import Committer
from coterie.client.consumer.fetcher import Fetcher
from coterie.client.consumer.membership import Membership
from coterie.client.errors import ConfigError, KafkaError, WakeupError
from coterie.client.offsets.offsets import list_offsets
from coterie.client.pauses.clock import now_ms
from coterie.client.pauses.loop_clock import until_due
from coterie.client.pauses.retrying import Retrying
from coterie.client.types import OffsetAndMetadata, Record, TopicPartition
from coterie.consuming.fetching.position import FetchState, Position
from coterie.wire.errors import ErrorCode

R = TypeVar("R")
TURN_S = 0.1
_RESET = {"earliest": -2, "latest": -1}


class StartingPositions:
    """Looks up what the fetcher does not know."""

    def __init__(self, cluster: Cluster, fetcher: Fetcher, committer: Committer, in_group: bool) -> None:
        self._cluster, self._fetcher, self._committer, self._in_group = cluster, fetcher, committer, in_group
        self._policy = cluster.settings.auto_offset_reset
        self._under_way: dict[int, Position] = {}  # by id: of the positions that a lookup is under way for
        self._retrying = Retrying(cluster.settings)
        self._reset_at_ms = float("-inf")  # not before, since the last reset failed

    def due(self) -> bool:
        """Whether a partition has no position, or one that its log does not have, and nothing is under way for it."""
        return bool(self._due())

    def _due(self) -> dict[TopicPartition, Position]:
        machine = self._fetcher.machine
        due = [*machine.initializing(), *machine.resets_due()]
        return {tp: position for tp in due if id(position := machine.positions[tp]) not in self._under_way}

    async def find(self) -> None:
        """Each position is set with the response that has it. Raises KafkaError; then the others are looked up again with the
        next call. An error is none where nothing that was looked up is assigned any more: a member that left is unknown."""
        due = self._due()
        self._under_way |= {id(position): position for position in due.values()}
        try:
            await self._find(due)
        except KafkaError:
            positions = self._fetcher.machine.positions
            if any(positions.get(tp) is position for tp, position in due.items()):
                raise
        finally:
            for position in due.values():
                del self._under_way[id(position)]

    async def _find(self, due: dict[TopicPartition, Position]) -> None:
        new = [tp for tp, position in due.items() if position.state is FetchState.INITIALIZING]
        committed = await self._committer.committed(new) if self._in_group and new else {}
        starts = {tp: at for tp, at in committed.items() if at.offset >= 0}
        self._begin(due, starts)
        await self._reset(due, [tp for tp in due if tp not in starts])

    def _begin(
        self, due: Mapping[TopicPartition, Position], starts: Mapping[TopicPartition, OffsetAndMetadata]
    ) -> None:
        for partition, start in starts.items():
            if self._fetcher.machine.positions.get(partition) is due[partition]:  # else sought or revoked meanwhile
                self._fetcher.seek(partition, start.offset, start.leader_epoch)

    async def _reset(self, due: Mapping[TopicPartition, Position], partitions: list[TopicPartition]) -> None:
        positions = self._fetcher.machine.positions
        partitions = [tp for tp in partitions if positions.get(tp) is due[tp]]  # else sought or revoked meanwhile
        if not partitions:
            return
        if self._policy == "none":
            text = f"{_name(partitions[0])} has no offset to start from, and auto.offset.reset is none"
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, text)
        await until_due(self._reset_at_ms)
        timestamps = dict.fromkeys(partitions, _RESET[self._policy])

        def arrived(offsets: dict[TopicPartition, int]) -> None:
            self._begin(due, {tp: OffsetAndMetadata(offset) for tp, offset in offsets.items()})

        try:
            committed_only = self._cluster.settings.committed_only
            await list_offsets(self._cluster, timestamps, committed=committed_only, arrived=arrived)
        except KafkaError:
            self._reset_at_ms = now_ms() + (self._retrying.next_pause_s() or 0) * 1000
            raise
        self._retrying.succeeded()


def _name(partition: TopicPartition) -> str:
    return f"{partition.topic}-{partition.partition}"


class PollLoop:
    """``membership`` is set while the consumer subscribes."""

    def __init__(
        self,
        cluster: Cluster,
        fetcher: Fetcher,
        starts: StartingPositions,
        callbacks: Callbacks,
        auto_commit: AutoCommit,
    ) -> None:
        self._cluster = cluster
        self.membership: Membership | None = None
        self.closed = False
        self._fetcher, self._starts, self._callbacks, self._auto_commit = fetcher, starts, callbacks, auto_commit
        self._lookups: set[asyncio.Task[None]] = set()
        self._running = self._woken = False
        self._turn_due_s = 0.0

    def require_open(self) -> None:
        """Raises RuntimeError after `close`, and once the event loop is closed."""
        if self.closed:
            raise RuntimeError("this consumer is closed; make a new one")
        self._cluster.require_loop()

    def require_usable(self) -> None:
        """As `require_open`, for what the listener may do while `close` calls it for the last time: commits and positions."""
        if not self._callbacks.is_last:
            self.require_open()

    async def run(self, timeout_ms: float, take: Callable[[], dict[TopicPartition, R]]) -> dict[TopicPartition, R]:
        """What ``take()`` returns once that is not empty, or at the end of the time. Raises what is due to the caller of
        `Consumer.poll`."""
        deadline_s = time.monotonic() + arguments.milliseconds(timeout_ms) / 1000
        self.require_open()
        if self.membership is None and not self._fetcher.positions:
            raise ConfigError("poll needs a subscription or an assignment; call subscribe or assign first")
        if self._running:
            raise RuntimeError("two tasks use this consumer at once; give each its own")
        self._running = True
        try:
            await self._give_a_turn()
            while True:
                self._fetcher.arrived.clear()  # before looking, so that nothing which comes meanwhile is missed
                self.require_open()
                self._raise_if_woken()
                if self.membership is not None:
                    self.membership.polled()
                    await self._callbacks.run(self.membership)
                    _raise_complaint(self.membership)
                self._auto_commit.raise_if_fenced()
                self._auto_commit.if_due()
                self._look_positions_up()
                if self._fetcher.error is not None:
                    error, self._fetcher.error = self._fetcher.error, None
                    raise error
                self._fetcher.raise_damage()
                polled = {} if self._is_lost() else take()
                left_s = deadline_s - time.monotonic()
                if polled:
                    return polled
                if left_s <= 0:
                    await asyncio.sleep(0)  # or polls in a row without a timeout would let nothing arrive
                    return polled
                await self._something_came(left_s)
        finally:
            self._running = False

    def _is_lost(self) -> bool:
        """Whether what is buffered may be another member's by now; the callback that drops it follows."""
        return self.membership is not None and self.membership.machine.lost

    async def _give_a_turn(self) -> None:
        """Lets the loop run, every TURN_S at least: user code that never awaits, between polls that find records at hand, would
        keep heartbeats, commits and callbacks waiting."""
        if time.monotonic() >= self._turn_due_s:
            await asyncio.sleep(0)
            self._turn_due_s = time.monotonic() + TURN_S

    def in_hand(self, partition: TopicPartition, limit: int) -> Iterator[Record[Any, Any]]:
        """Further records of a partition for which no poll is needed: they are decoded, no callback is due, and the last poll
        is no older than TURN_S."""
        monotonic, take, until_s = time.monotonic, self._fetcher.take_in_hand, self._turn_due_s
        for _ in range(limit):
            callbacks_due = self.membership is not None and self.membership.for_poll
            if self.closed or self._woken or self._running or callbacks_due or monotonic() >= until_s:
                return
            record = take(partition)
            if record is None:
                return
            yield record

    async def _something_came(self, left_s: float) -> None:
        try:
            async with asyncio.timeout(min(left_s, self._auto_commit.due_in_s())):
                await self._fetcher.arrived.wait()
        except TimeoutError:
            return

    def wake(self) -> None:
        """The run under way, or the next one, raises WakeupError."""
        self._woken = True
        self._fetcher.arrived.set()

    def _raise_if_woken(self) -> None:
        if self._woken:
            self._woken = False
            raise WakeupError

    def _look_positions_up(self) -> None:
        """Begins the lookup of positions that are missing; meanwhile other partitions are read. Raises the error of one that
        has ended."""
        if self._starts.due():
            task = asyncio.create_task(self._starts.find())
            self._lookups.add(task)
            task.add_done_callback(self._looked_up)
        for task in [task for task in self._lookups if task.done()]:
            self._lookups.discard(task)
            task.result()

    def _looked_up(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled():
            task.exception()  # a close may come before the next poll
        self._fetcher.arrived.set()

    def drop_ended_lookups(self) -> None:
        """What was assigned or sought since needs no such lookup, or the next poll begins another: none raises their errors."""
        self._lookups = {task for task in self._lookups if not task.done()}

    def drop_lookups(self) -> None:
        """Nothing that they look up is assigned any more: no poll raises their errors."""
        for task in self._lookups:
            task.cancel()
        self._lookups.clear()


def _raise_complaint(membership: Membership) -> None:
    if membership.failure is not None:
        raise membership.failure
    if membership.complaint is not None:
        complaint, membership.complaint = membership.complaint, None
        raise complaint
