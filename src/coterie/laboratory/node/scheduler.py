"""The broker's scheduler and clock in virtual time, for as long as one process of the broker lives."""

from __future__ import annotations

import math
from collections.abc import Callable

from coterie.broker.clock import Clock
from coterie.laboratory.node.disk import ProcessEnded
from coterie.laboratory.world import World

BUSY_MS = 4  # of one piece of work, at most, by the time that the scheduler shows to it


class WorldTimer:
    """A call that is due later."""

    def __init__(self) -> None:
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class WorldScheduler:
    """``died`` is called where the process ends within a call. While a call runs, each look at the time may show some
    milliseconds more, so that work is cut into turns."""

    def __init__(self, world: World, died: Callable[[], None]) -> None:
        self._world, self._died = world, died
        self.alive = True
        self._busy_ms = 0
        self._busy_at_ms = 0

    def time(self) -> float:
        world = self._world
        if world.now_ms != self._busy_at_ms:
            self._busy_at_ms, self._busy_ms = world.now_ms, 0
        self._busy_ms += world.between(0, BUSY_MS)
        return (world.now_ms + self._busy_ms) / 1000

    def call_soon(self, callback: Callable[[], object], /) -> WorldTimer:
        return self.call_later(0, callback)

    def call_later(self, delay: float, callback: Callable[[], object], /) -> WorldTimer:
        timer = WorldTimer()

        def due() -> None:
            if not timer.cancelled:
                self.run(callback)

        self._world.after(math.ceil(delay * 1000), due)
        return timer

    def run(self, callback: Callable[[], object]) -> None:
        """Calls ``callback`` now, unless the process has ended."""
        if not self.alive:
            return
        self._busy_ms = 0
        try:
            callback()
        except ProcessEnded:
            self._died()


class WorldClock(Clock):
    """The world's time."""

    def __init__(self, world: World) -> None:
        self._world = world

    def now_ms(self) -> int:
        return self._world.now_ms

    def jump(self, ms: int) -> None:
        raise AssertionError("virtual time is moved by its world")
