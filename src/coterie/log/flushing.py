"""What of a log is not on the disk yet, and what of it readers must not get before it is (flush.messages).

Kafka's UnifiedLog.append syncs within the append, before the high watermark moves. Here syncs are shared by many appends, and
the high watermark follows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from coterie.log.config import NO_LIMIT


@dataclass(slots=True)
class Flushing:
    """``messages`` were appended since the last sync began, the oldest at ``since_ms``. ``on_visible`` is called when a sync
    has moved the high watermark."""

    messages: int = 0
    since_ms: int = 0
    on_visible: Callable[[], None] | None = None
    _held_from: int | None = None
    _due_end: int = 0  # behind the last append that is to be synced
    _shortest: int = NO_LIMIT  # at which the log ended since the last sync began

    @property
    def is_held(self) -> bool:
        """Whether readers wait for a sync."""
        return self._held_from is not None

    def high_watermark(self, end_offset: int) -> int:
        """Readers get what is before it, of a log that ends at ``end_offset``."""
        return end_offset if self._held_from is None else self._held_from

    def appended(self, base_offset: int, end_offset: int, flush_messages: int, now_ms: int) -> None:
        """From ``flush_messages`` on, what was appended is to be synced before it is acknowledged and read."""
        if not self.messages:
            self.since_ms = now_ms
        self.messages += end_offset - base_offset
        if self.messages >= flush_messages:
            self._due_end = end_offset
            if self._held_from is None:
                self._held_from = base_offset

    def begin(self) -> None:
        """A sync of all that was appended begins."""
        self.messages, self._shortest = 0, NO_LIMIT

    def cut(self, end_offset: int) -> None:
        """The log was cut to end at ``end_offset``: what a sync under way covers behind it is gone."""
        self._shortest = min(self._shortest, end_offset)
        self._due_end = min(self._due_end, end_offset)
        if self._held_from is not None and self._held_from >= end_offset:
            self._held_from = None

    def synced(self, end_offset: int) -> None:
        """A sync that began when the log ended at ``end_offset`` has succeeded."""
        end_offset = min(end_offset, self._shortest)
        if self._held_from is not None:
            self._held_from = max(self._held_from, end_offset) if end_offset < self._due_end else None
            if self.on_visible is not None:
                self.on_visible()
