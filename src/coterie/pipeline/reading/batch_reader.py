"""A batch read as Spark plans it, and the filters that need not fetch what they drop: topic, partition, offset, earliest time.

Spark evaluates every filter again; here they only make the ranges smaller. An upper bound of the timestamp does not:
timestamps need not rise with offsets, so a record that is early enough may stand behind one that is not.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from pyspark.sql.datasource import (
    DataSourceReader,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    LessThan,
    LessThanOrEqual,
)
from pyspark.sql.types import StructType

from coterie.pipeline import sentences
from coterie.pipeline.offsets import TopicPartition
from coterie.pipeline.options.options import SourceOptions
from coterie.pipeline.reading.tasks import Task, TaskReader
from coterie.pipeline.reading.topics import TopicReader


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


class CoterieReader(DataSourceReader):
    """A batch read: from startingOffsets to endingOffsets as of now."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self.options, self.schema = options, schema
        self.bounds = Bounds()

    @sentences.alone()
    def partitions(self) -> list[Task]:
        """A task for each range between the bounds of the options and of the filters."""
        reader = TopicReader(self.options)
        try:
            wanted = {tp: bounds for tp, bounds in reader.bounds().items() if self.bounds.admits(tp)}
            since_ms = self.bounds.since_ms
            if since_ms is not None and wanted:
                times = reader.offsets_of(dict.fromkeys(wanted, since_ms))
                wanted = {tp: (max(first, times[tp]), last) for tp, (first, last) in wanted.items() if times[tp] >= 0}
            limits = self.bounds.first_offset, self.bounds.end_offset
            wanted = {tp: (max(first, limits[0]), min(last, limits[1])) for tp, (first, last) in wanted.items()}
            return [Task(r) for r in reader.plan_ranges(wanted)]
        finally:
            reader.close()

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """On an executor: the records of one task, as Arrow batches."""
        return TaskReader(self.options.client, self.schema, self.options.fail_on_data_loss).read(partition)

    def __reduce__(self) -> tuple[object, ...]:
        """Executors get what a task needs alone."""
        return TaskReader, (self.options.client, self.schema, self.options.fail_on_data_loss)


class FilteringReader(CoterieReader):
    """A reader that is given filters: with `pushDownPredicate`, which needs spark.sql.python.filterPushdown.enabled=true
    (`make_session` sets it)."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Keeps what bounds partitions, offsets and times; returns all, since none is evaluated to the end here."""
        self.bounds = bounds(filters)
        return filters  # Spark evaluates all of them once more
