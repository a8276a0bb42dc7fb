"""One timer for the deadlines of all shards of a coordinator."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import closing

from coterie.broker.groups.hosted_shard import HostedShard
from coterie.broker.process.scheduling import Clock, Scheduler, Timer
from coterie.broker.requests.turns import MAX_TURN_S
from coterie.coordinator.commands import Command


class DeadlineTimer:
    """Expires the deadlines of the shards in ``hosted``, a list that may grow: ``expire`` carries each command out."""

    def __init__(
        self,
        scheduler: Scheduler,
        clock: Clock,
        hosted: Sequence[HostedShard],
        expire: Callable[[HostedShard, Command], None],
    ) -> None:
        self._scheduler, self._clock = scheduler, clock
        self._hosted, self._expire = hosted, expire
        self._timer: Timer | None = None
        self._due_ms = 0

    def arm(self, hosted: HostedShard) -> None:
        """Sets the timer where this shard's next deadline comes before the one that it is set for."""
        due_ms = hosted.shard.next_deadline_ms()
        if due_ms is None or (self._timer is not None and self._due_ms <= due_ms):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._due_ms = due_ms
        delay_ms = max(due_ms - self._clock.now_ms(), 0) + 1
        self._timer = self._scheduler.call_later(delay_ms / 1000, self.fire)

    def fire(self) -> None:
        """Expires deadlines for at most one turn; the next timer expires the others."""
        self._expire_until(self._scheduler.time() + MAX_TURN_S)

    def expire_all(self) -> None:
        """Expires every deadline that is due, however long that takes."""
        self.stop()
        self._expire_until(math.inf)

    def stop(self) -> None:
        """Cancels the timer."""
        if self._timer is not None:
            self._timer.cancel()

    def _expire_until(self, ends_s: float) -> None:
        self._timer = None
        now_ms = self._clock.now_ms()
        for hosted in self._hosted:
            due_ms = hosted.shard.next_deadline_ms()
            if not hosted.loaded or due_ms is None or due_ms > now_ms:
                continue
            with closing(hosted.shard.expired(now_ms)) as commands:
                for command in commands:
                    self._expire(hosted, command)
                    if self._scheduler.time() > ends_s:
                        break
        for hosted in self._hosted:
            self.arm(hosted)
