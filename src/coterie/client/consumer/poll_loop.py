"""The loop of a consumer's poll: callbacks that are due, an automatic commit, missing positions, then records."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from coterie.client import arguments
from coterie.client.connection.cluster import Cluster
from coterie.client.consumer.auto_commit import AutoCommit
from coterie.client.consumer.callbacks import Callbacks
from coterie.client.consumer.fetcher import Fetcher
from coterie.client.consumer.membership import Membership
from coterie.client.consumer.starting_positions import StartingPositions
from coterie.client.errors import ConfigError, WakeupError
from coterie.client.types import Record, TopicPartition

R = TypeVar("R")
TURN_S = 0.1


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
