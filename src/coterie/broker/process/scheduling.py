"""Time as the broker's parts use it. An asyncio event loop is a `Scheduler`; the laboratory has one in virtual time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class Timer(Protocol):
    """A call that is due later."""

    def cancel(self) -> None: ...


class Scheduler(Protocol):
    """Calls functions later, one at a time. Times in seconds, from an arbitrary start."""

    def time(self) -> float: ...

    def call_soon(self, callback: Callable[[], object], /) -> object:
        """Calls ``callback`` after what runs now and after all that was to be called soon before."""

    def call_later(self, delay: float, callback: Callable[[], object], /) -> Timer:
        """Calls ``callback`` in ``delay`` seconds unless the timer is cancelled."""
