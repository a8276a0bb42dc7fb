"""The Python Data Source `coterie`: Spark's Kafka source's columns and options, batch and streaming.

Assign mode: Spark's checkpoint is the truth, and the group named by `kafka.group.id` receives commits of what Spark
has finished, so that its lag shows. Rules and their reasons: shared/design/spark.md sections 0, 2 and 3.
"""

from __future__ import annotations

import contextlib
import gc
import signal
from collections.abc import Iterator
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from coterie.client.errors import KafkaError
from coterie.pipeline.columns import COLUMNS, HEADERS
from coterie.pipeline.options import SourceOptions, TopicOffsets, source_options
from coterie.pipeline.reading import LATEST, OffsetRange, TopicPartition, TopicReader, limit_rows, read_range, to_arrow
from coterie.pipeline.sink import CoterieStreamWriter, CoterieWriter


class CoterieDataSource(DataSource):  # type: ignore[misc]
    """`format("coterie")`."""

    @classmethod
    def name(cls) -> str:
        return "coterie"

    def schema(self) -> str:
        with_headers = str(self.options.get("includeHeaders", "false")).lower() == "true"
        return f"{COLUMNS}, {HEADERS}" if with_headers else COLUMNS

    def reader(self, schema: StructType) -> DataSourceReader:
        return CoterieReader(source_options(dict(self.options), streaming=False), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return CoterieStreamReader(source_options(dict(self.options), streaming=True), schema)

    def writer(self, schema: StructType, overwrite: bool) -> CoterieWriter:
        return CoterieWriter(dict(self.options), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> CoterieStreamWriter:
        return CoterieStreamWriter(dict(self.options), schema)


class Ranges(InputPartition):  # type: ignore[misc]
    """What one task reads."""

    def __init__(self, ranges: list[OffsetRange]) -> None:
        super().__init__(None)
        self.ranges = ranges


def _read(options: SourceOptions, schema: StructType, partition: Ranges) -> Iterator[Any]:
    """Runs in a worker. Arrow batches must equal Spark's own schema exactly."""
    from pyspark.sql.pandas.types import to_arrow_schema

    if not gc.get_freeze_count():
        # Once per worker: after every task Spark has it collect garbage over all of pandas and pyarrow.
        gc.collect()
        gc.freeze()
    wanted = to_arrow_schema(schema, timezone="UTC")
    with_headers = "headers" in schema.fieldNames()
    for r in partition.ranges:
        for columns in read_range(r, with_headers=with_headers, fail_on_data_loss=options.fail_on_data_loss):
            yield to_arrow(columns, r.topic, r.partition, wanted)


class CoterieReader(DataSourceReader):  # type: ignore[misc]
    """A batch read: from startingOffsets to endingOffsets as of now."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self.options, self.schema = options, schema

    def partitions(self) -> list[Ranges]:
        reader = TopicReader(self.options)
        try:
            return [Ranges(ranges) for ranges in reader.plan(reader.starting(), reader.ending())]
        finally:
            reader.close()

    def read(self, partition: Ranges) -> Iterator[Any]:
        return _read(self.options, self.schema, partition)


class CoterieStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """A streaming read. Lives in one process for the whole query; connects when first asked, since a second reader is
    made elsewhere only to be pickled."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self.options, self.schema = options, schema
        self._reader: TopicReader | None = None
        self._initial: TopicOffsets | None = None
        self._goal: dict[TopicPartition, int] | None = None
        self._committed: TopicOffsets | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"options": self.options, "schema": self.schema}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["options"], state["schema"])  # type: ignore[misc]

    def _connected(self) -> TopicReader:
        if self._reader is None:
            self._reader = TopicReader(self.options)
            _stop_in_order()
        return self._reader

    def initialOffset(self) -> TopicOffsets:
        # Asked twice at a fresh start: both times the same, or "latest" could skip records.
        if self._initial is None:
            self._initial = _as_json(self._connected().starting())
        return self._initial

    def prepareForTriggerAvailableNow(self) -> None:
        self._goal = self._ends()

    def _ends(self) -> dict[TopicPartition, int]:
        reader = self._connected()
        return reader.offsets(dict.fromkeys(reader.partitions(), LATEST))

    def getDefaultReadLimit(self) -> ReadLimit:
        limit = self.options.max_offsets_per_trigger
        return ReadAllAvailable() if limit is None else ReadMaxRows(limit)

    def latestOffset(self, start: TopicOffsets, limit: ReadLimit) -> TopicOffsets:
        # By now Spark has finished everything before ``start``: the one place to commit (spark.md 0.5).
        self._commit(start)
        before = _from_json(start)
        ends = self._goal if self._goal is not None else self._ends()
        if isinstance(limit, ReadMaxRows):
            ends = limit_rows(before, ends, limit.max_rows)
        ends = before | {tp: max(end, before.get(tp, 0)) for tp, end in ends.items()}
        # Nothing new must be the same text, or Spark makes an empty batch.
        return start if ends == before else _as_json(ends)

    def reportLatestOffset(self) -> TopicOffsets | None:
        with contextlib.suppress(KafkaError):
            return _as_json(self._ends())
        return None

    def partitions(self, start: TopicOffsets, end: TopicOffsets) -> list[Ranges]:
        return [Ranges(ranges) for ranges in self._connected().plan(_from_json(start), _from_json(end))]

    def read(self, partition: Ranges) -> Iterator[Any]:
        return _read(self.options, self.schema, partition)

    def commit(self, end: TopicOffsets) -> None:
        self._commit(end)

    def _commit(self, offsets: TopicOffsets) -> None:
        if self.options.group_id is None or offsets == self._committed:
            return
        reader = self._connected()
        try:
            reader.commit(_from_json(offsets))
        except KafkaError as error:
            if error.code.retriable:
                reader.forget_connections()  # the next trigger commits again; the checkpoint is the truth
                return
            raise
        self._committed = offsets

    def stop(self) -> None:
        if self._reader is not None:
            self._reader.close()


def _stop_in_order() -> None:
    """Spark ends the reader's process with SIGTERM, usually twice; without this `stop` would never run."""

    def handler(number: int, frame: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise SystemExit(0)

    with contextlib.suppress(ValueError):  # not the main thread: then nobody sends it signals either
        signal.signal(signal.SIGTERM, handler)


def _as_json(offsets: dict[TopicPartition, int]) -> TopicOffsets:
    """Sorted, because Spark compares offsets by their text."""
    found: TopicOffsets = {}
    for (topic, partition), offset in sorted(offsets.items()):
        found.setdefault(topic, {})[str(partition)] = offset
    return found


def _from_json(offsets: TopicOffsets) -> dict[TopicPartition, int]:
    return {(topic, int(p)): offset for topic, by in offsets.items() for p, offset in by.items()}
