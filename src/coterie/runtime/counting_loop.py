"""An event loop that counts the events of its polls, for those who share one of its turns."""

from __future__ import annotations

import asyncio
import select
import selectors
from typing import Any

MOST_EVENTS = 64  # of a turn: what they have in the processor's cache is there until its end


class CountingSelector(selectors.DefaultSelector):
    """The system's. ``events``: of the last poll that had any, of epoll at most MOST_EVENTS."""

    events = 0
    _selector: Any  # of the system

    def __init__(self) -> None:
        super().__init__()
        if hasattr(select, "epoll"):
            self._selector = _FewEvents(self._selector)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(timeout)
        if ready:
            self.events = len(ready)
        return ready


class _FewEvents:
    """An epoll whose further events come with the next poll, before the ones that are there again."""

    def __init__(self, epoll: Any) -> None:
        self._epoll = epoll

    def poll(self, timeout: float, most: int) -> list[tuple[int, int]]:
        events: list[tuple[int, int]] = self._epoll.poll(timeout, min(most, MOST_EVENTS))
        return events

    def __getattr__(self, name: str) -> Any:
        return getattr(self._epoll, name)


class CountingLoop(asyncio.SelectorEventLoop):
    """As asyncio's own, with a ``poll``."""

    def __init__(self) -> None:
        self.poll = CountingSelector()
        super().__init__(self.poll)
