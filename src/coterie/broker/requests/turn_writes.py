"""Responses of one turn of the loop, written together: a client on the same machine is woken once for all of them. To wake a
thread that sleeps costs the sender some five microseconds, as much as the rest of the system call."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from coterie.broker.process.scheduling import Scheduler
from coterie.runtime.shared_poll import SharedPoll

MAX_WRITES = 64  # that wait for each other, about half a millisecond
SMALL_BYTES = 4096  # larger responses are written at once


class TurnWrites:
    """At the end of a turn, or after `MAX_WRITES`. A request that came alone in its turn waits for nothing, and so does each
    one without a shared poll."""

    def __init__(self, scheduler: Scheduler, poll: SharedPoll | None) -> None:
        self._scheduler, self._poll = scheduler, poll
        self._waiting: deque[Callable[[], None]] = deque()

    def add(self, write: Callable[[], None], size: int) -> None:
        """Calls ``write``, of so many bytes, once the turn is over, or at once."""
        if self._poll is None or self._poll.events <= 1 or size > SMALL_BYTES:
            write()
            return
        waiting = self._waiting
        if not waiting:
            self._scheduler.call_soon(self._write)
        waiting.append(write)
        if len(waiting) >= MAX_WRITES:
            self._write()

    def _write(self) -> None:
        waiting = self._waiting
        try:
            while waiting:
                waiting.popleft()()
        finally:
            if waiting:
                self._scheduler.call_soon(self._write)
