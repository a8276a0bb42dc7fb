"""One connection's part in the memory of all: the bytes of a request that is being received, and of responses that its
client has not read. It also measures for how long neither has changed."""

from __future__ import annotations

from collections.abc import Callable

from coterie.broker.requests.memory import RequestMemory, ResponseMemory


class ConnectionMemory:
    """``reserved_bytes`` of a request, 0 where there is none; ``lacking``: whether a request waits for memory."""

    __slots__ = ("_progress", "_progress_s", "_requests", "_responses", "_unread_bytes", "lacking", "reserved_bytes")

    def __init__(self, requests: RequestMemory, responses: ResponseMemory) -> None:
        self._requests, self._responses = requests, responses
        self.reserved_bytes = 0
        self.lacking = False
        self._unread_bytes = 0
        self._progress = (0, 0)  # unread and received bytes at the last change
        self._progress_s = 0.0

    def reserve(self, size: int, wake: Callable[[], None]) -> bool:
        """Reserves a request's bytes. False where there is no memory: ``wake`` is called once there is."""
        self.lacking = not self._requests.reserve(size)
        if self.lacking:
            self._requests.wait(self, wake)
            return False
        self.reserved_bytes = size
        return True

    def release(self) -> None:
        """Releases the bytes of the request that was received."""
        size, self.reserved_bytes = self.reserved_bytes, 0
        if size:
            self._requests.release(size)

    def count_unread(self, size: int) -> None:
        """Sets the bytes of unread responses."""
        self._responses.change(size - self._unread_bytes)
        self._unread_bytes = size

    def close(self) -> None:
        """Releases everything, and ends the wait for memory."""
        self._requests.forget(self)
        self.release()
        self.count_unread(0)

    def restart_progress(self) -> None:
        """The next call of `advance` counts as a change."""
        self._progress = (-1, -1)

    def advance(self, unread_bytes: int, received_bytes: int, now_s: float) -> bool:
        """Notes the present bytes; whether the client has read some of its responses since the last call."""
        before, after = self._progress, (unread_bytes, received_bytes)
        if after != before:
            self._progress, self._progress_s = after, now_s
        return unread_bytes < before[0]

    def stalled_s(self, now_s: float) -> float:
        """The time in seconds since the bytes last changed."""
        return now_s - self._progress_s
