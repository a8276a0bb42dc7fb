"""Ranges of offsets shared out over tasks. Plain functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Records of one partition from ``start`` up to but not including ``end``, and where its leader is."""

    topic: str
    partition: int
    start: int
    end: int
    host: str
    port: int

    @property
    def size(self) -> int:
        return self.end - self.start


def share_out(ranges: Sequence[OffsetRange], tasks: int) -> list[list[OffsetRange]]:
    """At most ``tasks`` lists of about equal numbers of records; a range larger than a task's share is split, and records
    of a partition stay in order."""
    share = -(-sum(r.size for r in ranges) // max(tasks, 1))
    shared: list[list[OffsetRange]] = []
    room = 0
    for r in ranges:
        start = r.start
        while start < r.end:
            if room <= 0:
                shared.append([])
                room = share
            end = min(r.end, start + room)
            shared[-1].append(replace(r, start=start, end=end))
            room -= end - start
            start = end
    return shared
