"""The broker's side of orderly consumption: who holds which queue's lock (RocketMQ's RebalanceLockManager).

A lock is a client's for 60 s after its last request; until then no other client gets it, whatever its view is.
"""

from __future__ import annotations

from collections.abc import Iterable

from coterie.rocketmq.allocation import MessageQueue

LOCK_MAX_LIVE_MS = 60_000


class QueueLocks:
    """One broker's locks of all groups."""

    def __init__(self) -> None:
        self._held: dict[tuple[str, MessageQueue], tuple[str, int]] = {}  # -> client id, ms of its last request

    def lock(self, group: str, client_id: str, queues: Iterable[MessageQueue], now_ms: int) -> set[MessageQueue]:
        """The queues that the client holds now, locked or renewed."""
        locked: set[MessageQueue] = set()
        for queue in queues:
            holder, since_ms = self._held.get((group, queue), (client_id, now_ms))
            if holder == client_id or now_ms - since_ms > LOCK_MAX_LIVE_MS:
                self._held[group, queue] = client_id, now_ms
                locked.add(queue)
        return locked

    def unlock(self, group: str, client_id: str, queues: Iterable[MessageQueue]) -> None:
        """Only its own."""
        for queue in queues:
            if self._held.get((group, queue), ("", 0))[0] == client_id:
                del self._held[group, queue]

    def holder(self, group: str, queue: MessageQueue, now_ms: int) -> str | None:
        """The client that holds the lock at ``now_ms``; None where it is free or expired."""
        client_id, since_ms = self._held.get((group, queue), (None, 0))
        return client_id if now_ms - since_ms <= LOCK_MAX_LIVE_MS else None
