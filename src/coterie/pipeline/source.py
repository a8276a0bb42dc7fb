"""The Python Data Source `coterie`: Spark's Kafka source's columns and options, batch and streaming.

`mode=assign` (the default): Spark's checkpoint is the truth, and the group named by `kafka.group.id` receives commits of
what Spark has finished, so that its lag shows. `mode=group`: the reader is a member of the group, beside ordinary
consumers and other Spark applications. The reasons stand in ARCHITECTURE.md.
"""

from __future__ import annotations

import contextlib
import gc
import re
import signal
from collections.abc import Iterable, Iterator
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, Filter, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from coterie.client.errors import KafkaError
from coterie.pipeline.admission import Limits
from coterie.pipeline.assigned_stream import AssignedStream
from coterie.pipeline.columns import COLUMNS, HEADERS
from coterie.pipeline.fetching import read_range, to_arrow
from coterie.pipeline.log_folders import FileRange, file_ranges, partition_folders, pieces
from coterie.pipeline.offsets import from_json
from coterie.pipeline.options import OptionError, SourceOptions, flag, source_options, warn
from coterie.pipeline.planning import OffsetRange
from coterie.pipeline.pushdown import Bounds, bounds
from coterie.pipeline.stream import QueryStream
from coterie.pipeline.topics import TopicReader
from coterie.pipeline.worker_daemon import quiet_planner
from coterie.records.columnar import decode_columns

if TYPE_CHECKING:
    from coterie.pipeline.sink import CoterieStreamWriter, CoterieWriter

# Members and producers are imported where they are needed: Spark starts several processes for one batch read.
quiet_planner()


class CoterieDataSource(DataSource):
    """`format("coterie")`."""

    @classmethod
    def name(cls) -> str:
        return "coterie"

    def schema(self) -> str:
        with_headers = flag(dict(self.options), "includeHeaders", False)
        return f"{COLUMNS}, {HEADERS}" if with_headers else COLUMNS

    def reader(self, schema: StructType) -> DataSourceReader:
        options = source_options(dict(self.options), streaming=False)
        warn(options.warnings)
        if options.log_folder is not None:
            return FolderReader(options, schema)
        # Spark refuses a reader that can take filters where its own switch for that is off: hence two classes.
        return FilteringReader(options, schema) if options.push_down else CoterieReader(options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return CoterieStreamReader(dict(self.options), schema)

    def writer(self, schema: StructType, overwrite: bool) -> CoterieWriter:
        if overwrite:
            raise OptionError("the coterie sink adds records to a topic and cannot overwrite it: use mode append")
        from coterie.pipeline.sink import CoterieWriter

        return CoterieWriter(dict(self.options), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> CoterieStreamWriter:
        from coterie.pipeline.sink import CoterieStreamWriter

        return CoterieStreamWriter(dict(self.options), schema)


@cache
def _freeze_imported() -> None:
    """Once per worker: after every task Spark has it collect garbage, over all that it imported."""
    gc.collect()
    gc.freeze()


class Task(InputPartition):
    """The range that one task reads."""

    def __init__(self, offsets: OffsetRange) -> None:
        super().__init__(None)
        self.offsets = offsets


def _read(options: SourceOptions, schema: StructType, partition: InputPartition) -> Iterator[Any]:
    """Runs in a worker. Arrow batches must equal Spark's own schema exactly."""
    from pyspark.sql.pandas.types import to_arrow_schema

    _freeze_imported()
    wanted = to_arrow_schema(schema, timezone="UTC")
    with_headers = "headers" in schema.fieldNames()
    settings = options.settings()
    if not isinstance(partition, Task):
        return  # where there is nothing to plan, Spark makes one partition of its own
    r = partition.offsets
    for columns in read_range(r, settings, with_headers=with_headers, fail_on_data_loss=options.fail_on_data_loss):
        yield to_arrow(columns, r.topic, r.partition, wanted)


class CoterieReader(DataSourceReader):
    """A batch read: from startingOffsets to endingOffsets as of now."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self.options, self.schema = options, schema
        self.bounds = Bounds()

    def partitions(self) -> list[Task]:
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
        return _read(self.options, self.schema, partition)


class Files(InputPartition):
    """The range of a log folder that one task reads."""

    def __init__(self, topic: str, partition: int, ranges: list[FileRange], first: int, end: int) -> None:
        super().__init__(None)
        self.topic, self.partition, self.ranges, self.first, self.end = topic, partition, ranges, first, end


class FolderReader(DataSourceReader):
    """A batch read of topics' files (`logFolder`), between startingOffsets and endingOffsets where those are numbers."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self.options, self.schema = options, schema

    def partitions(self) -> list[Files]:
        o, files = self.options, list[Files]()
        start, end = (from_json(side) if isinstance(side, dict) else {} for side in (o.starting, o.ending))
        for (topic, partition), path in partition_folders(Path(o.log_folder or "")).items():
            if o.pattern is not None and not re.search(o.pattern, topic):
                continue
            if o.pattern is None and topic not in (*o.subscribe, *o.assign):
                continue
            if o.assign and partition not in o.assign[topic]:
                continue
            first, last = start.get((topic, partition), 0), end.get((topic, partition), -1)
            last = last if last >= 0 else 2**63 - 1
            files += [Files(topic, partition, [r], max(first, 0), last) for r in file_ranges(path, max(first, 0))]
        if not files:
            raise OptionError(f"there are no records of these topics in {o.log_folder}; give a broker's data folder")
        return files

    def read(self, partition: InputPartition) -> Iterator[Any]:
        from pyspark.sql.pandas.types import to_arrow_schema

        assert isinstance(partition, Files)
        wanted = to_arrow_schema(self.schema, timezone="UTC")
        with_headers = "headers" in self.schema.fieldNames()
        for r in partition.ranges:
            for piece in pieces(r):
                columns = decode_columns(piece, with_headers=with_headers)
                if columns is not None:
                    first, last = (int(columns.offsets.searchsorted(o)) for o in (partition.first, partition.end))
                    yield to_arrow(columns.slice(first, last), partition.topic, partition.partition, wanted)


class FilteringReader(CoterieReader):
    """With `pushDownPredicate`, which needs spark.sql.python.filterPushdown.enabled=true (`make_session` sets it)."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        self.bounds = bounds(filters)
        return filters  # Spark evaluates all of them once more


class CoterieStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A streaming read. Lives in one process for the whole query; connects at the first call, since a second reader is
    made elsewhere only to be pickled. Options are checked then as well: where a reader cannot be made, Spark 4.3 reports an
    UnboundLocalError of its own instead of the reason."""

    def __init__(self, given: dict[str, str], schema: StructType) -> None:
        self.given, self.schema = given, schema
        self._stream: QueryStream | None = None
        self.stopping = False

    @cached_property
    def options(self) -> SourceOptions:
        """Raises OptionError."""
        return source_options(self.given, streaming=True)

    def __reduce__(self) -> tuple[object, ...]:
        """Executors get it as it was made; the stream belongs to the driver."""
        return type(self), (self.given, self.schema)

    def _connected(self) -> QueryStream:
        if self._stream is None:
            warn(self.options.warnings)
            if self.options.in_group:
                from coterie.pipeline.group_stream import GroupStream

                self._stream = GroupStream(self.options)
            else:
                self._stream = AssignedStream(self.options)
            _stop_at_sigterm(self)
        return self._stream

    def initialOffset(self) -> dict[str, Any]:
        return self._connected().initial()

    def prepareForTriggerAvailableNow(self) -> None:
        self._connected().until_now()

    def getDefaultReadLimit(self) -> ReadLimit:
        o = self.options
        if o.max_offsets_per_trigger is not None:
            return ReadMaxRows(o.max_offsets_per_trigger)
        if o.max_bytes_per_trigger is not None:
            return ReadMaxBytes(o.max_bytes_per_trigger)
        return ReadAllAvailable() if o.min_offsets_per_trigger is None else ReadMinRows(o.min_offsets_per_trigger)

    def _limits(self, limit: ReadLimit) -> Limits:
        if isinstance(limit, ReadAllAvailable):
            return Limits(at_once=True)
        rows = limit.max_rows if isinstance(limit, ReadMaxRows) else self.options.max_offsets_per_trigger
        size_bytes = limit.max_bytes if isinstance(limit, ReadMaxBytes) else self.options.max_bytes_per_trigger
        return Limits(rows, size_bytes)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        return self._connected().latest(start, self._limits(limit))

    def reportLatestOffset(self) -> dict[str, Any] | None:
        with contextlib.suppress(KafkaError):
            return self._connected().report()
        return None

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[Task]:
        return [Task(r) for r in self._connected().plan(start, end)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return _read(self.options, self.schema, partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing: it comes a batch late, and never for the last one; `latestOffset` commits."""

    def stop(self) -> None:
        """Leaves, once, whether Spark's end of the socket or its SIGTERM comes first."""
        if self.stopping:
            return
        self.stopping = True
        if self._stream is not None:
            self._stream.leave()


def _stop_at_sigterm(reader: CoterieStreamReader) -> None:
    """Spark closes the socket of the reader's process and sends it SIGTERM, usually twice, in no certain order. The handler
    itself stops the reader, since an exception in its stead could interrupt a `stop` that the closed socket has begun."""

    def handler(number: int, frame: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if reader.stopping:
            return
        reader.stop()
        raise SystemExit(0)

    with contextlib.suppress(ValueError):  # not the main thread: signals do not arrive here then
        signal.signal(signal.SIGTERM, handler)
