"""Bytes in flight of all connections together: of requests that are being received, and of answers that nobody has read.

Requests are bounded as by Kafka's memory pool (KIP-72); answers, which Kafka sends from the page cache, by a setting of ours.
"""

from __future__ import annotations

from collections.abc import Callable

NO_LIMIT = -1
_UNLIMITED_BYTES = 2**62


class RequestMemory:
    """queued.max.request.bytes. As in Kafka a request gets its bytes as long as any are left, however large it is, so that
    the largest is never refused for good; requests that get none wait, in the order of their arrival."""

    def __init__(self, limit_bytes: int) -> None:
        self._left = _UNLIMITED_BYTES if limit_bytes < 0 else limit_bytes
        self._waiting: dict[object, Callable[[], None]] = {}

    @property
    def short(self) -> bool:
        """Whether a request waits for memory: then connections that stand still are not kept."""
        return bool(self._waiting)

    def reserve(self, size: int) -> bool:
        """Takes the bytes of a request, where any are left; `release` gives them back."""
        if self._left <= 0:
            return False
        self._left -= size
        return True

    def wait(self, owner: object, wake: Callable[[], None]) -> None:
        """Has ``wake`` called once when there is memory again."""
        self._waiting[owner] = wake

    def forget(self, owner: object) -> None:
        """Ends the wait of a connection that is gone."""
        self._waiting.pop(owner, None)

    def release(self, size: int) -> None:
        """Gives back what `reserve` took, and wakes the first that wait."""
        self._left += size
        while self._waiting and self._left > 0:
            wake = self._waiting.pop(next(iter(self._waiting)))
            wake()


class AnswerMemory:
    """coterie.queued.max.response.bytes: the answers that clients have not read. A fetch returns no more than there is
    room for, and waits where there is none."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit = _UNLIMITED_BYTES if limit_bytes < 0 else limit_bytes
        self._unread = 0

    @property
    def room(self) -> int:
        """How many bytes a further answer may have; 0 where the limit is reached."""
        return max(0, self._limit - self._unread)

    @property
    def short(self) -> bool:
        """Whether more than half is taken: then connections that stand still are not kept."""
        return self._unread > self._limit // 2

    def change(self, by: int) -> None:
        """Counts answers that wait in a connection, or no longer do."""
        self._unread += by
