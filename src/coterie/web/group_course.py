"""What the console remembers of a group between two looks: its lag, its last rebalances, and which offsets move.

No clock, no IO.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterable

from coterie.text.lag import STALLED_AFTER_MS

POINTS, POINT_EVERY_MS = 30, 5_000  # of lag
REBALANCES_KEPT = 8
CAUSES_KEPT = 5  # of a rebalance, in a row of the list

Partition = tuple[str, int]
PartitionLag = tuple[Partition, int, int]  # with its committed offset, and its lag in records


class GroupCourse:
    """Of one group."""

    __slots__ = ("_lags", "_offsets", "_point_ms", "causes", "more_causes", "rebalances_ms")

    def __init__(self) -> None:
        self._lags = array("q")
        self._point_ms = 0  # when the last point began
        self._offsets: dict[Partition, tuple[int, int]] = {}
        self.rebalances_ms: deque[int] = deque(maxlen=REBALANCES_KEPT)
        self.causes: list[dict[str, str]] = []
        self.more_causes = 0

    def rebalanced(self, time_ms: int, causes: list[dict[str, str]]) -> None:
        """A rebalance, with its causes as in the journal."""
        self.rebalances_ms.append(time_ms)
        self.causes, self.more_causes = causes[:CAUSES_KEPT], max(len(causes) - CAUSES_KEPT, 0)

    def measured(self, lags: Iterable[PartitionLag], now_ms: int) -> None:
        """A look at the group's partitions."""
        total, offsets = 0, dict[Partition, tuple[int, int]]()
        for partition, committed, lag in lags:
            total += lag
            before = self._offsets.get(partition)
            moved = before is None or before[0] != committed or not lag
            offsets[partition] = (committed, now_ms if before is None or moved else before[1])
        self._offsets = offsets
        if not offsets:
            return
        if self._lags and now_ms - self._point_ms < POINT_EVERY_MS:
            self._lags[-1] = total
            return
        self._point_ms = now_ms
        self._lags.append(total)
        del self._lags[:-POINTS]

    @property
    def lags(self) -> list[int]:
        """In records at the last looks, oldest first. A level course is one point: of 10,000 groups at rest thirty each would
        take a megabyte of a page, and each point more would send every row again."""
        return self._lags[:1].tolist() if len(set(self._lags)) == 1 else self._lags.tolist()

    def unmoved_ms(self, partition: Partition, now_ms: int) -> int | None:
        """For how long an offset with lag is the same; None of one that was not seen."""
        kept = self._offsets.get(partition)
        return None if kept is None else max(now_ms - kept[1], 0)

    def stalls(self, now_ms: int) -> bool:
        """Whether a partition has lag and does not move."""
        return any(now_ms - since_ms >= STALLED_AFTER_MS for _, since_ms in self._offsets.values())
