"""Event loops and clocks of the broker in virtual time."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Protocol

from coterie.broker.process.clock import Clock
from coterie.laboratory.world import World
from coterie.simulation.disk import ProcessEnded

BUSY_MS = 4  # of one piece of work, at most, by the time that the scheduler shows to it


class VirtualTimer:
    """A call that is due later."""

    def __init__(self) -> None:
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class VirtualScheduler(ABC):
    """A `Scheduler` of one life of a process."""

    @abstractmethod
    def time(self) -> float:
        """See `Scheduler`."""

    def call_soon(self, callback: Callable[[], object], /) -> VirtualTimer:
        return self.call_later(0, callback)

    def call_later(self, delay: float, callback: Callable[[], object], /) -> VirtualTimer:
        """``delay`` in seconds of virtual time."""
        timer = VirtualTimer()

        def due() -> None:
            if not timer.cancelled:
                self.run(callback)

        self._after(math.ceil(delay * 1000), due)
        return timer

    @abstractmethod
    def run(self, callback: Callable[[], object]) -> None:
        """Calls ``callback`` now, unless the process has ended."""

    @abstractmethod
    def _after(self, ms: int, due: Callable[[], None]) -> None:
        """Calls ``due`` after so many ms."""


class WorldScheduler(VirtualScheduler):
    """``died`` is called where the process ends within a call. While a call runs, each look at the time may show some
    milliseconds more, so that work is cut into turns."""

    def __init__(self, world: World, died: Callable[[], None]) -> None:
        self._world, self._died = world, died
        self.alive = True
        self._busy_ms = 0
        self._busy_at_ms = 0

    def time(self) -> float:
        """Virtual time (s), moved on a little with each call in a turn, as work takes time."""
        world = self._world
        if world.now_ms != self._busy_at_ms:
            self._busy_at_ms, self._busy_ms = world.now_ms, 0
        self._busy_ms += world.between(0, BUSY_MS)
        return (world.now_ms + self._busy_ms) / 1000

    def run(self, callback: Callable[[], object]) -> None:
        """Runs a callback of the process, which may die in it."""
        if not self.alive:
            return
        self._busy_ms = 0
        try:
            callback()
        except ProcessEnded:
            self._died()

    def _after(self, ms: int, due: Callable[[], None]) -> None:
        self._world.after(ms, due)


class TimeSource(Protocol):
    """A world, or a process with a clock of its own."""

    @property
    def now_ms(self) -> int:
        """Milliseconds since 1970."""


class VirtualClock(Clock):
    """The time of ``source``."""

    def __init__(self, source: TimeSource) -> None:
        self._source = source

    def now_ms(self) -> int:
        return self._source.now_ms

    def jump(self, ms: int) -> None:
        raise AssertionError("virtual time is moved by its world")
