"""How much a micro-batch may take: at most so many rows or bytes, and not before there are so many (Spark's Kafka source:
maxOffsetsPerTrigger, minOffsetsPerTrigger with maxTriggerDelay; Kinesis and file sources: bytes)."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from coterie.pipeline.offsets import TopicPartition
from coterie.pipeline.options import SourceOptions


@dataclass(frozen=True, slots=True)
class Limits:
    """What Spark allows in this trigger; None for no limit."""

    rows: int | None = None
    size_bytes: int | None = None


class Sampler(Protocol):
    def record_bytes(self, positions: Mapping[TopicPartition, int]) -> dict[TopicPartition, float]:
        """The mean size of the records there, per partition."""
        ...


class Admission:
    """Remembers when the last batch was let in."""

    def __init__(self, options: SourceOptions, sampler: Sampler, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._options, self._sampler, self._clock_s = options, sampler, clock_s
        self._last_s = clock_s()

    def admit(
        self, start: Mapping[TopicPartition, int], ends: dict[TopicPartition, int], limits: Limits, *, now: bool = False
    ) -> dict[TopicPartition, int]:
        """How far the next batch goes, partition by partition; ``start`` itself when it is to wait for more. ``now``: it
        does not wait."""
        available = _available(start, ends)
        total = sum(available.values())
        fewest, now_s = self._options.min_offsets_per_trigger, self._clock_s()
        waits = fewest is not None and total < fewest and not now
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
    """Ends that are at most about ``rows`` records away, each partition in proportion to what it has."""
    available = _available(start, ends)
    total = sum(available.values())
    if total <= rows:
        return ends
    return _at_least_one(start, available, {tp: size * rows // total for tp, size in available.items()})


def limit_bytes(
    start: Mapping[TopicPartition, int],
    ends: dict[TopicPartition, int],
    size_bytes: int,
    record_bytes: Mapping[TopicPartition, float],
) -> dict[TopicPartition, int]:
    """The same by bytes, as far as a sample tells how large records are."""
    available = _available(start, ends)
    total = sum(size * record_bytes.get(tp, 0.0) for tp, size in available.items())
    if total <= size_bytes:
        return ends
    return _at_least_one(start, available, {tp: int(size * size_bytes / total) for tp, size in available.items()})


def _at_least_one(
    start: Mapping[TopicPartition, int], available: dict[TopicPartition, int], taken: dict[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """Less allowed than one record each: still one record, so that the query goes on."""
    if not any(taken.values()):
        taken[next(tp for tp, size in available.items() if size)] = 1
    return {tp: start.get(tp, 0) + count for tp, count in taken.items()}
