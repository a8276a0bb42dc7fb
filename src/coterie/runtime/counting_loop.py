"""An event loop that counts the events of its polls, for those who share one of its turns."""

from __future__ import annotations

import asyncio
import selectors


class CountingSelector(selectors.DefaultSelector):
    """The system's. ``events``: of the last poll that had any."""

    events = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(timeout)
        if ready:
            self.events = len(ready)
        return ready


class CountingLoop(asyncio.SelectorEventLoop):
    """As asyncio's own, with a ``poll``."""

    def __init__(self) -> None:
        self.poll = CountingSelector()
        super().__init__(self.poll)
