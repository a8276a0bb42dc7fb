"""The size of a micro-batch: at most so many rows or bytes, and not before there are so many (maxOffsetsPerTrigger,
minOffsetsPerTrigger and maxTriggerDelay as in Spark's KafkaMicroBatchStream; the bytes are ours)."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from coterie.pipeline.offsets import TopicPartition
from coterie.pipeline.options.options import SourceOptions


@dataclass(frozen=True, slots=True)
class Limits:
    """Spark's limits for this trigger; None for no limit. ``at_once``: it does not wait for a minimum."""

    rows: int | None = None
    size_bytes: int | None = None
    at_once: bool = False


class Sampler(Protocol):
    """What estimates the size of the next records, for limits in bytes."""

    def record_bytes(self, positions: Mapping[TopicPartition, int]) -> dict[TopicPartition, float]:
        """The mean size of the records there, per partition."""
        ...


class Admission:
    """Remembers when the last batch was let in."""

    def __init__(self, options: SourceOptions, sampler: Sampler, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._options, self._sampler, self._clock_s = options, sampler, clock_s
        self._last_s = -math.inf  # the first batch does not wait

    def admit(
        self, start: Mapping[TopicPartition, int], ends: dict[TopicPartition, int], limits: Limits, *, now: bool = False
    ) -> dict[TopicPartition, int]:
        """The end of the next batch, partition by partition; ``start`` itself when it is to wait for more. ``now``: it
        does not wait."""
        available = _available(start, ends)
        total = sum(available.values())
        fewest, now_s = self._options.min_offsets_per_trigger, self._clock_s()
        waits = fewest is not None and total < fewest and not now and not limits.at_once
        if not total or (waits and now_s - self._last_s < self._options.max_trigger_delay_s):
            return {tp: start.get(tp, 0) for tp in ends}
        self._last_s = now_s
        if limits.rows is not None:
            ends = limit_rows(start, ends, limits.rows)
        if limits.size_bytes is not None:
            waiting = {tp: start.get(tp, 0) for tp, size in available.items() if size}
            ends = limit_bytes(start, ends, limits.size_bytes, self._sampler.record_bytes(waiting))
        return ends


def _available(start: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    return {tp: max(last - start.get(tp, 0), 0) for tp, last in ends.items()}


def limit_rows(
    start: Mapping[TopicPartition, int], ends: dict[TopicPartition, int], rows: int
) -> dict[TopicPartition, int]:
    """Ends about ``rows`` records away in all: each partition in proportion to what it has, but at least one record of each
    that has any, so that none waits for the others (more than ``rows``, then, where there are more partitions)."""
    available = _available(start, ends)
    total = sum(available.values())
    if total <= rows:
        return ends
    return {tp: start.get(tp, 0) + _share(size, size * rows // total) for tp, size in available.items()}


def limit_bytes(
    start: Mapping[TopicPartition, int],
    ends: dict[TopicPartition, int],
    size_bytes: int,
    record_bytes: Mapping[TopicPartition, float],
) -> dict[TopicPartition, int]:
    """The same by bytes, by the record size of a sample."""
    available = _available(start, ends)
    total = sum(size * record_bytes.get(tp, 0.0) for tp, size in available.items())
    if total <= size_bytes:
        return ends
    return {tp: start.get(tp, 0) + _share(size, int(size * size_bytes / total)) for tp, size in available.items()}


def _share(size: int, share: int) -> int:
    return max(share, 1) if size else 0
