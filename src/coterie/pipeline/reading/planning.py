"""A batch's ranges of offsets, one per task. Plain functions.

A topic partition is one task, so that its records keep their order. Only `minPartitions` (more tasks than partitions) and
`maxRecordsPerPartition` cut partitions, by the rule of Spark's connector (KafkaOffsetRangeCalculator)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
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
        """The range's size in offsets; a compacted log has fewer records."""
        return self.end - self.start


def divide(
    ranges: Sequence[OffsetRange], min_partitions: int | None = None, max_records: int | None = None
) -> list[OffsetRange]:
    """The ranges that have records, cut by the two options: first to at most ``max_records`` each, then, if
    that makes fewer than ``min_partitions``, the large ones in proportion to their size, to about as many."""
    whole = [r for r in ranges if r.size > 0]
    if max_records is not None:
        whole = [piece for r in whole for piece in _cut(r, -(-r.size // max_records))]
    if min_partitions is None or len(whole) >= min_partitions:
        return whole
    total = sum(r.size for r in whole)
    large = [r for r in whole if _share(r.size, total, min_partitions) > 1]
    # The small ones are tasks already; what is left of the number is for the large ones alone.
    left = max(min_partitions - (len(whole) - len(large)), 1)
    large_total = sum(r.size for r in large)
    parts = {r: _share(r.size, large_total, left) for r in large}
    return [piece for r in whole for piece in _cut(r, parts.get(r, 1))]


def _share(size: int, total: int, tasks: int) -> int:
    """At least 1; halves are rounded up, as Java rounds them."""
    return max(math.floor(size / total * tasks + 0.5), 1)


def _cut(r: OffsetRange, parts: int) -> Iterator[OffsetRange]:
    """The range in that many pieces of about equal size, in order."""
    start = r.start
    for part in range(parts):
        end = start + (r.end - start) // (parts - part)
        if end > start:
            yield replace(r, start=start, end=end)
        start = end
