"""Bytes in flight of all connections together, of requests that are being received and of unread responses, and one
connection's part in them, which also measures for how long neither has changed.

Requests are bounded as by Kafka's memory pool (KIP-72); responses, which Kafka sends from the page cache, by a setting.
"""

from __future__ import annotations

from collections.abc import Callable

_UNLIMITED_BYTES = 2**62


class RequestMemory:
    """queued.max.request.bytes. As in Kafka a request gets its bytes as long as any are left, however large it is, so that
    the largest is never refused for good; requests that get none wait, in the order of their arrival."""

    def __init__(self, limit_bytes: int) -> None:
        self.has_limit = limit_bytes >= 0
        self._left = limit_bytes if self.has_limit else _UNLIMITED_BYTES
        self._waiting: dict[object, Callable[[], None]] = {}

    @property
    def short(self) -> bool:
        """Whether a request waits for memory: then stalled connections are aborted."""
        return bool(self._waiting)

    def reserve(self, size: int) -> bool:
        """Reserves the bytes of a request; False where none are left."""
        if self._left <= 0:
            return False
        self._left -= size
        return True

    def wait(self, owner: object, wake: Callable[[], None]) -> None:
        """Calls ``wake`` once when there is memory again."""
        self._waiting[owner] = wake

    def forget(self, owner: object) -> None:
        """Ends the wait of a closed connection."""
        self._waiting.pop(owner, None)

    def release(self, size: int) -> None:
        """Releases the bytes of a request, and wakes waiting connections in their order."""
        self._left += size
        while self._waiting and self._left > 0:
            wake = self._waiting.pop(next(iter(self._waiting)))
            wake()


class ResponseMemory:
    """coterie.queued.max.response.bytes: the bytes of unread responses. A fetch returns no more than there is
    room for, and waits where there is none."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit = _UNLIMITED_BYTES if limit_bytes < 0 else limit_bytes
        self._unread = 0

    @property
    def room(self) -> int:
        """The bytes that a further response may have; 0 where the limit is reached."""
        return max(0, self._limit - self._unread)

    @property
    def short(self) -> bool:
        """Whether more than half is in use: then stalled connections are aborted."""
        return self._unread > self._limit // 2

    def change(self, by: int) -> None:
        """Adds ``by`` bytes, which may be negative, to the unread responses."""
        self._unread += by


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
