"""The few operations that tables are made by, wherever they run: on Spark (`spark_frame`), or in this process (`arrow_frame`).

A table is a function of frames. What it does to rows is a function of Arrow batches or tables, which is written once. So is its
schema, as Spark's DDL: `arrow_schema` has the same for Arrow, in tasks where there is no session.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol, Self

import pyarrow as pa

OfBatches = Callable[[Iterator[Any]], Iterator[Any]]  # record batches -> record batches
OfGroup = Callable[[tuple[Any, ...], Any], Any]  # the values of the keys, a group's table -> a table
OfTwoGroups = Callable[[Any, Any], Any]  # two tables, one of which may be empty -> a table
_TYPES = {
    "string": pa.string(),
    "binary": pa.binary(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "double": pa.float64(),
    "array<string>": pa.list_(pa.string()),
    "array<bigint>": pa.list_(pa.int64()),
}


class Frame(Protocol):
    """Rows of a schema, in no order. Schemas are Spark's DDL."""

    def select(self, schema: str) -> Self:
        """The columns of that schema."""
        ...

    def where(self, column: str, *values: Any) -> Self:
        """The rows in which the column has one of these values."""
        ...

    def where_null(self, column: str, *, is_null: bool = True) -> Self:
        """The rows in which it is null, or is not."""
        ...

    def union(self, other: Self) -> Self:
        """The rows of both, whose schemas are the same."""
        ...

    def map(self, run: OfBatches, schema: str) -> Self:
        """Batches of any size, each row in one of them."""
        ...

    def group(self, keys: Sequence[str], run: OfGroup, schema: str) -> Self:
        """A call for each combination of keys; of several keys none may be null, and the tables are without them."""
        ...

    def cogroup(self, other: Self, key: str, run: OfTwoGroups, schema: str) -> Self:
        """A call for each key that either has."""
        ...

    def newest(self, keys: Sequence[str]) -> Self:
        """Of each combination of keys the row with the largest `log_offset`; `log_partition` is among the keys."""
        ...

    def kept(self) -> AbstractContextManager[Self]:
        """The same rows, made once for all that is made of them inside."""
        ...

    def write(self, path: Path, files: int | None = None) -> Self:
        """The rows, written as Parquet in place of what was there; ``files``: at most so many."""
        ...


class Frames(Protocol):
    """Where frames come from."""

    def of_rows(self, rows: Sequence[tuple[Any, ...]], schema: str, tasks: int = 1) -> Frame:
        """``tasks``: how many of them at most a `map` of it has, where there are tasks."""
        ...

    def read(self, path: Path, schema: str) -> Frame:
        """The columns of that schema; no rows where there is no such folder."""
        ...


def column_names(ddl: str) -> list[str]:
    """The names of a schema's columns, in order; ``ddl`` is Spark's ``name type, name type``."""
    return [column.split()[0] for column in ddl.split(", ")]


def arrow_schema(ddl: str) -> pa.Schema:
    """Raises KeyError for a type that no table here has."""
    return pa.schema([(name, _TYPES[kind]) for name, kind in (column.split() for column in ddl.split(", "))])
