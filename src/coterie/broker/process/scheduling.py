"""Time as the broker's parts use it: its clock, calls that are due later, and what is done again and again."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Protocol

logger = logging.getLogger(__name__)


class Timer(Protocol):
    """A call that is due later."""

    def cancel(self) -> None: ...


class Scheduler(Protocol):
    """Calls functions later, one at a time. Times in seconds, from an arbitrary start. An asyncio event loop is one; the
    laboratory has one in virtual time."""

    def time(self) -> float: ...

    def call_soon(self, callback: Callable[[], object], /) -> object:
        """Calls ``callback`` after what runs now and after all that was to be called soon before."""

    def call_later(self, delay: float, callback: Callable[[], object], /) -> Timer:
        """Calls ``callback`` in ``delay`` seconds unless the timer is cancelled."""


class Clock:
    """One broker's: wall time at start, moved on by the monotonic clock, so that sessions survive a clock that jumps."""

    def __init__(self) -> None:
        self._offset_s = time.time() - time.monotonic()

    def now_ms(self) -> int:
        """Milliseconds since 1970."""
        return int((time.monotonic() + self._offset_s) * 1000)

    def jump(self, ms: int) -> None:
        """Moves the clock, as a test of timeouts does instead of waiting."""
        self._offset_s += ms / 1000


class Periodic:
    """Calls each function for the first time after its interval, in ms, until `stop`. One that fails is called again. All that
    has the same interval has one timer, and no task waits for it."""

    def __init__(self, scheduler: Scheduler, every: Iterable[tuple[int, Callable[[], object]]]) -> None:
        self._scheduler = scheduler
        self._calls: dict[int, list[Callable[[], object]]] = {}
        for every_ms, call in every:
            self._calls.setdefault(every_ms, []).append(call)
        self._timers: dict[int, Timer] = {}
        self._is_over = False
        for every_ms in self._calls:
            self._wait(every_ms)

    def _wait(self, every_ms: int) -> None:
        self._timers[every_ms] = self._scheduler.call_later(every_ms / 1000, partial(self._due, every_ms))

    def _due(self, every_ms: int) -> None:
        for call in self._calls[every_ms]:
            try:
                call()
            except OSError as error:
                logger.error("%s failed: %s; it will be tried again", _name(call), error)
            except Exception:
                logger.exception("%s failed; it will be tried again", _name(call))
            if self._is_over:
                return
        self._wait(every_ms)

    def stop(self) -> None:
        """Calls none of them any more."""
        self._is_over = True
        for timer in self._timers.values():
            timer.cancel()


def _name(call: Callable[[], object]) -> str:
    return getattr(call, "__name__", str(call))
