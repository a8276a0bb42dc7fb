"""A batch read as Spark plans it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from coterie.pipeline import sentences
from coterie.pipeline.options.options import SourceOptions
from coterie.pipeline.reading.pushdown import Bounds, bounds
from coterie.pipeline.reading.tasks import Task, TaskReader
from coterie.pipeline.reading.topics import TopicReader


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
