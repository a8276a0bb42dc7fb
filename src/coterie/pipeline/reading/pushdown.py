"""Filters of a batch read that need not fetch what they drop: topic, partition, offset, and the earliest timestamp.

Spark evaluates every filter again; here they only make the ranges smaller. An upper bound of the timestamp does not:
timestamps need not rise with offsets, so a record that is early enough may stand behind one that is not.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pyspark.sql.datasource import EqualTo, Filter, GreaterThan, GreaterThanOrEqual, In, LessThan, LessThanOrEqual

from coterie.pipeline.offsets import TopicPartition


@dataclass(slots=True)
class Bounds:
    """The bounds that the filters leave; ``topics`` and ``partitions`` None for all."""

    topics: set[str] | None = None
    partitions: set[int] | None = None
    first_offset: int = 0
    end_offset: int = 2**63 - 1
    since_ms: int | None = None

    def admits(self, tp: TopicPartition) -> bool:
        """Whether the filters leave anything of the partition."""
        return (self.topics is None or tp[0] in self.topics) and (self.partitions is None or tp[1] in self.partitions)


def bounds(filters: Iterable[Filter]) -> Bounds:
    """Bounds of topic, partition, offset and timestamp by a conjunction of filters; filters of other columns are ignored."""
    narrowed = Bounds()
    for one in filters:
        column = ".".join(getattr(one, "attribute", ()))
        value = getattr(one, "value", None)
        if isinstance(one, In | EqualTo) and column in ("topic", "partition"):
            _narrow(narrowed, column, set(one.value) if isinstance(one, In) else {value})
        elif column == "offset" and isinstance(value, int):
            _bound_offset(narrowed, one, value)
        elif column == "timestamp" and isinstance(one, GreaterThan | GreaterThanOrEqual | EqualTo):
            since_ms = _milliseconds(value)
            if since_ms is not None:
                narrowed.since_ms = since_ms if narrowed.since_ms is None else max(since_ms, narrowed.since_ms)
    return narrowed


def _narrow(narrowed: Bounds, column: str, values: set[Any]) -> None:
    if column == "topic":
        narrowed.topics = values if narrowed.topics is None else narrowed.topics & values
    else:
        narrowed.partitions = values if narrowed.partitions is None else narrowed.partitions & values


def _bound_offset(narrowed: Bounds, one: Filter, value: int) -> None:
    match one:
        case EqualTo():
            first, end = value, value + 1
        case GreaterThan():
            first, end = value + 1, narrowed.end_offset
        case GreaterThanOrEqual():
            first, end = value, narrowed.end_offset
        case LessThan():
            first, end = narrowed.first_offset, value
        case LessThanOrEqual():
            first, end = narrowed.first_offset, value + 1
        case _:
            return
    narrowed.first_offset, narrowed.end_offset = max(first, narrowed.first_offset), min(end, narrowed.end_offset)


def _milliseconds(value: Any) -> int | None:
    """Rounded down, so that nothing is left out. A time without a zone is taken for UTC."""
    if not isinstance(value, datetime.datetime):
        return None
    zoned = value if value.tzinfo is not None else value.replace(tzinfo=datetime.UTC)
    return (zoned - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)) // datetime.timedelta(milliseconds=1)
