"""A streaming read as Spark drives it: one reader for the whole query, in a process of its own."""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Iterator
from functools import cached_property
from types import TracebackType
from typing import Any, Protocol

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
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
from coterie.pipeline import sentences
from coterie.pipeline.columns import check_columns
from coterie.pipeline.offsets import Offset
from coterie.pipeline.options.options import SourceOptions, source_options, warn
from coterie.pipeline.options.types import OptionError
from coterie.pipeline.reading.planning import OffsetRange
from coterie.pipeline.reading.tasks import Task, TaskReader
from coterie.pipeline.streaming.admission import Limits
from coterie.pipeline.streaming.assigned_stream import AssignedStream


class QueryStream(Protocol):
    """One query's reader. Every method may raise KafkaError; a method with an offset as argument raises DataLossError
    for an offset of the other mode."""

    def initial(self) -> Offset:
        """The first offset of a query without a checkpoint; the same at each call."""

    def until_now(self) -> None:
        """Trigger.AvailableNow: read no further than what there is now."""

    def latest(self, start: Offset, limits: Limits) -> Offset:
        """The end of the next batch; ``start`` itself when there is none yet. Spark has finished all before ``start``."""

    def plan(self, start: Offset, end: Offset) -> list[OffsetRange]:
        """A batch's tasks."""

    def report(self) -> Offset:
        """The available records, for the query's progress."""

    def leave(self) -> None:
        """Closes connections, and leaves the group."""


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
        """Executors get what a task needs alone. Bad options are reported by the driver's reader, which is another one."""
        try:
            options = self.options
        except OptionError:
            return type(self), (self.given, self.schema)
        return TaskReader, (options.client, self.schema, options.fail_on_data_loss)

    def _connected(self) -> QueryStream:
        if self._stream is None:
            check_columns(self.schema)
            warn(self.options.warnings)
            if self.options.in_group:
                from coterie.pipeline.streaming.group_stream import GroupStream

                self._stream = GroupStream(self.options)
            else:
                self._stream = AssignedStream(self.options)
            _stop_at_sigterm(self)
        return self._stream

    @sentences.alone()
    def initialOffset(self) -> dict[str, Any]:
        """Where a query without a checkpoint begins."""
        return self._connected().initial()

    @sentences.alone()
    def prepareForTriggerAvailableNow(self) -> None:
        """The query ends at what is there now."""
        self._connected().until_now()

    @sentences.alone()
    def getDefaultReadLimit(self) -> ReadLimit:
        """The limit of a batch, by the options maxOffsetsPerTrigger, maxBytesPerTrigger and minOffsetsPerTrigger."""
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

    @sentences.alone()
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """The end of the next batch; Spark has finished the one before."""
        return self._connected().latest(start, self._limits(limit))

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """The ends of the logs, for the progress of the query; None while no broker responds."""
        with contextlib.suppress(KafkaError):
            return self._connected().report()
        return None

    @sentences.alone()
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[Task]:
        """A task for each range of the batch."""
        return [Task(r) for r in self._connected().plan(start, end)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """On an executor: the records of one task, as Arrow batches."""
        return TaskReader(self.options.client, self.schema, self.options.fail_on_data_loss).read(partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing: it comes a batch late, and never for the last one; `latestOffset` commits."""

    def stop(self) -> None:
        """Leaves, once, whether Spark's end of the socket or its SIGTERM comes first."""
        if self.stopping:
            return
        self.stopping = True
        if sentences.is_in_process_of_spark():
            sys.excepthook = _print_exception
        if self._stream is not None:
            self._stream.leave()


def _print_exception(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
    """Prints an error that ends the process. When Spark has closed the socket, PySpark reports that on the same socket; the
    traceback of its BrokenPipeError would be on the user's terminal after a stop of the query."""
    if not isinstance(error, BrokenPipeError):
        sys.__excepthook__(kind, error, traceback)


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
