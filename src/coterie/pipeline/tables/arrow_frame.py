"""Frames in this process: Arrow tables in memory, for an input that is small. No JVM, and nothing to install but pyarrow."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from coterie.pipeline.tables.frame import Frame, Frames, OfBatches, OfGroup, OfTwoGroups, arrow_schema, column_names
from coterie.records.arrow_arrays import arrow_array, batch_of_rows, listed


@dataclass(frozen=True, slots=True)
class ArrowFrame(Frame):
    """A `Frame` over a table in memory; each operation is done at once."""

    table: pa.Table

    def select(self, schema: str) -> ArrowFrame:
        return ArrowFrame(self.table.select(column_names(schema)))

    def where(self, column: str, *values: Any) -> ArrowFrame:
        array = self.table.column(column)
        return ArrowFrame(self.table.filter(pc.is_in(array, value_set=listed(values, array.type))))

    def where_null(self, column: str, *, is_null: bool = True) -> ArrowFrame:
        array = self.table.column(column)
        return ArrowFrame(self.table.filter(pc.is_null(array) if is_null else pc.is_valid(array)))

    def union(self, other: ArrowFrame) -> ArrowFrame:
        return ArrowFrame(pa.concat_tables([self.table, other.table]))

    def map(self, run: OfBatches, schema: str) -> ArrowFrame:
        return ArrowFrame(pa.Table.from_batches(list(run(iter(self.table.to_batches()))), arrow_schema(schema)))

    def group(self, keys: Sequence[str], run: OfGroup, schema: str) -> ArrowFrame:
        made = [run(key, part if len(keys) == 1 else part.drop(keys)) for key, part in _parts(self.table, keys)]
        return _together(made, schema)

    def cogroup(self, other: ArrowFrame, key: str, run: OfTwoGroups, schema: str) -> ArrowFrame:
        ours, theirs = dict(_parts(self.table, [key])), dict(_parts(other.table, [key]))
        nothing, none_of_theirs = self.table.slice(0, 0), other.table.slice(0, 0)
        made = [run(ours.get(k, nothing), theirs.get(k, none_of_theirs)) for k in {**ours, **theirs}]
        return _together(made, schema)

    def newest(self, keys: Sequence[str]) -> ArrowFrame:
        ordered = self.table.sort_by("log_offset")
        numbers = arrow_array(np.arange(len(ordered)))
        newest = ordered.select(keys).append_column("row", numbers).group_by(keys).aggregate([("row", "max")])
        return ArrowFrame(ordered.take(newest["row_max"]))

    def kept(self) -> AbstractContextManager[ArrowFrame]:
        return nullcontext(self)

    def write(self, path: Path, files: int | None = None) -> ArrowFrame:
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir(parents=True)
        pq.write_table(self.table, path / "part-00000.parquet")
        return self


@dataclass(frozen=True, slots=True)
class ArrowFrames(Frames):
    """`Frames` in this process."""

    def of_rows(self, rows: Sequence[tuple[Any, ...]], schema: str, tasks: int = 1) -> ArrowFrame:
        names = column_names(schema)
        batch = batch_of_rows([dict(zip(names, row, strict=True)) for row in rows], arrow_schema(schema))
        return ArrowFrame(pa.Table.from_batches([batch]))

    def read(self, path: Path, schema: str) -> ArrowFrame:
        wanted = arrow_schema(schema)
        if not path.exists():
            return ArrowFrame(wanted.empty_table())
        return ArrowFrame(ds.dataset(path, wanted, "parquet", exclude_invalid_files=True).to_table())


def _together(tables: list[pa.Table], schema: str) -> ArrowFrame:
    return ArrowFrame(pa.concat_tables([arrow_schema(schema).empty_table(), *tables]))


def _parts(table: pa.Table, keys: Sequence[str]) -> Iterator[tuple[tuple[Any, ...], pa.Table]]:
    """The rows of each combination of keys, with the values of the keys."""
    numbered = table.select(keys).append_column("row", arrow_array(np.arange(len(table))))
    groups = numbered.group_by(keys, use_threads=False).aggregate([("row", "list"), ("row", "count")])
    sorted_rows = table.take(groups["row_list"].combine_chunks().flatten()).combine_chunks()
    first = 0
    for *key, count in zip(*(groups[name].to_pylist() for name in (*keys, "row_count")), strict=True):
        yield tuple(key), sorted_rows.slice(first, count)
        first += count
