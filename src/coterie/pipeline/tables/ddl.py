"""A table's schema, written once as Spark's DDL: its columns, and the same for Arrow, in tasks where there is no session."""

from __future__ import annotations

import pyarrow as pa

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


def column_names(ddl: str) -> list[str]:
    """The names of a schema's columns, in order; ``ddl`` is Spark's ``name type, name type``."""
    return [column.split()[0] for column in ddl.split(", ")]


def arrow_schema(ddl: str) -> pa.Schema:
    """Raises KeyError for a type that no table here has."""
    return pa.schema([(name, _TYPES[kind]) for name, kind in (column.split() for column in ddl.split(", "))])
