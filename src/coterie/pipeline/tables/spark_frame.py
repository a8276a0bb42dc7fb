"""Frames on Spark, for an input of any size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from coterie.pipeline.tables.frame import Frame, Frames, OfBatches, OfGroup, OfTwoGroups, column_names


@dataclass(frozen=True, slots=True)
class SparkFrame(Frame):
    """A `Frame` over a DataFrame; nothing is done before it is written."""

    frame: DataFrame

    def select(self, schema: str) -> SparkFrame:
        return SparkFrame(self.frame.select(*column_names(schema)))

    def where(self, column: str, *values: Any) -> SparkFrame:
        return SparkFrame(self.frame.where(f.col(column).isin(*values)))

    def where_null(self, column: str, *, is_null: bool = True) -> SparkFrame:
        return SparkFrame(self.frame.where(f.col(column).isNull() if is_null else f.col(column).isNotNull()))

    def union(self, other: SparkFrame) -> SparkFrame:
        return SparkFrame(self.frame.unionByName(other.frame))

    def map(self, run: OfBatches, schema: str) -> SparkFrame:
        return SparkFrame(self.frame.mapInArrow(run, schema))

    def group(self, keys: Sequence[str], run: OfGroup, schema: str) -> SparkFrame:
        if len(keys) > 1:
            return self._group_by_number(keys, run, schema)

        def of_group(key: Any, table: Any) -> Any:
            return run((key[0].as_py(),), table)

        return SparkFrame(self.frame.groupBy(*keys).applyInArrow(of_group, schema))

    def _group_by_number(self, keys: Sequence[str], run: OfGroup, schema: str) -> SparkFrame:
        """Grouped by a number in place of several texts, which is what most of the time would go to. Numbered here and not by
        Spark: its numbers are not the same when they are computed again."""
        distinct = self.frame.select(*keys).distinct()
        known = [tuple(row) for row in distinct.collect()]
        rows = [(*key, number) for number, key in enumerate(known)]
        numbers = distinct.sparkSession.createDataFrame(rows, distinct.schema.add("number", "integer"))

        def of_number(number: Any, table: Any) -> Any:
            return run(known[number[0].as_py()], table.drop(["number"]))

        numbered = self.frame.join(f.broadcast(numbers), list(keys)).drop(*keys)
        return SparkFrame(numbered.groupBy("number").applyInArrow(of_number, schema))

    def cogroup(self, other: SparkFrame, key: str, run: OfTwoGroups, schema: str) -> SparkFrame:
        both = self.frame.groupBy(key).cogroup(other.frame.groupBy(key))
        return SparkFrame(both.applyInArrow(run, schema))

    def newest(self, keys: Sequence[str]) -> SparkFrame:
        last = self.frame.groupBy(*keys).agg(f.max("log_offset").alias("log_offset"))
        position = ["log_partition", "log_offset"]
        return SparkFrame(self.frame.join(last.select(*position), position, "left_semi"))

    @contextmanager
    def kept(self) -> Iterator[SparkFrame]:
        persisted = self.frame.persist()
        try:
            yield SparkFrame(persisted)
        finally:
            persisted.unpersist()  # or the next run of this session would find it again, as old as it then is

    def write(self, path: Path, files: int | None = None) -> SparkFrame:
        frame = self.frame if files is None else self.frame.coalesce(files)
        frame.write.mode("overwrite").parquet(str(path))
        # Without the schema Spark would run a job to find it out.
        return SparkFrame(frame.sparkSession.read.schema(frame.schema).parquet(str(path)))


@dataclass(frozen=True, slots=True)
class SparkFrames(Frames):
    """`Frames` of a session."""

    spark: SparkSession

    def of_rows(self, rows: Sequence[tuple[Any, ...]], schema: str, tasks: int = 1) -> SparkFrame:
        frame = self.spark.createDataFrame(list(rows), schema)
        return SparkFrame(frame.repartition(max(tasks, 1)) if rows else frame)

    def read(self, path: Path, schema: str) -> SparkFrame:
        if not path.exists():
            return self.of_rows([], schema)
        return SparkFrame(self.spark.read.schema(schema).parquet(str(path)).select(*column_names(schema)))
