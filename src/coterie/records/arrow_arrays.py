"""Arrow arrays over numpy's memory, of Python values, and of one value repeated; and back to numpy.

`pyarrow.array`, `scalar`, `from_pylist` and `to_numpy` import pandas where it is installed: a quarter of a second of CPU in
each worker of a Spark job, and objects that Spark's collection of garbage visits after every task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

_NUMBERS = {pa.int32(): np.int32, pa.int64(): np.int64, pa.float64(): np.float64}


def arrow_array(values: Any, kind: pa.DataType | None = None, missing: Any = None) -> pa.Array:
    """A one-dimensional numpy array of numbers, not copied, as that type (default: its own; another must be as wide).
    ``missing``: a numpy array of bool, true where a value is null."""
    valid = None if missing is None else bit_buffer(~missing)
    kind = pa.from_numpy_dtype(values.dtype) if kind is None else kind
    return pa.Array.from_buffers(kind, len(values), [valid, pa.py_buffer(np.ascontiguousarray(values))])


def repeated_text(text: str, count: int) -> pa.Array:
    """``count`` strings."""
    encoded = text.encode()
    ends = np.array([0, len(encoded)], np.int32)
    one = pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(ends), pa.py_buffer(encoded)])
    return pa.repeat(one[0], count)


def flag_array(flags: Any, missing: Any = None) -> pa.Array:
    """A numpy array of bool; ``missing`` as in `arrow_array`."""
    valid = None if missing is None else bit_buffer(~missing)
    return pa.Array.from_buffers(pa.bool_(), len(flags), [valid, bit_buffer(flags)])


def bit_buffer(flags: Any) -> pa.Buffer:
    """A numpy array of bool as Arrow has flags and the validity of values: a bit each."""
    return pa.py_buffer(np.packbits(flags, bitorder="little"))


def listed(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Python values, None for null: texts, bytes, bools, numbers, or lists of these. Raises KeyError for another type."""
    missing = np.fromiter((value is None for value in values), bool, len(values))
    if kind == pa.bool_():
        return flag_array(np.fromiter((bool(value) for value in values), bool, len(values)), missing)
    if kind in _NUMBERS:
        numbers = np.array([0 if value is None else value for value in values], _NUMBERS[kind])
        return arrow_array(numbers, kind, missing)
    valid = bit_buffer(~missing)
    if pa.types.is_list(kind):
        items = [item for value in values if value is not None for item in value]
        ends = _ends([() if value is None else value for value in values])
        children = [listed(items, kind.value_type)]
        return pa.Array.from_buffers(kind, len(values), [valid, ends], children=children)
    if kind not in (pa.string(), pa.binary()):
        raise KeyError(f"no array of {kind} is made of Python values")
    encoded = [b"" if value is None else value.encode() if kind == pa.string() else value for value in values]
    return pa.Array.from_buffers(kind, len(values), [valid, _ends(encoded), pa.py_buffer(b"".join(encoded))])


def _ends(values: Sequence[Sequence[Any]]) -> pa.Buffer:
    ends: Any = np.zeros(len(values) + 1, np.int32)
    np.cumsum([len(value) for value in values], out=ends[1:])
    return pa.py_buffer(ends)


def batch_of_rows(rows: Sequence[Mapping[str, Any]], schema: pa.Schema) -> pa.RecordBatch:
    """A batch of that schema; a name that a row lacks is null."""
    arrays = [listed([row.get(field.name) for row in rows], field.type) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def table_of_rows(rows: Sequence[Mapping[str, Any]], schema: pa.Schema) -> pa.Table:
    """As `batch_of_rows`."""
    return pa.Table.from_batches([batch_of_rows(rows, schema)])


def flags_of(array: pa.Array) -> Any:
    """A numpy array of bool, of one without nulls."""
    return _bits(array, array.buffers()[1])


def valid_of(array: pa.Array) -> Any:
    """A numpy array of bool, false where a value is null."""
    return _bits(array, array.buffers()[0]) if array.null_count else np.ones(len(array), bool)


def _bits(array: pa.Array, buffer: pa.Buffer) -> Any:
    bits = np.frombuffer(buffer, np.uint8)
    return np.unpackbits(bits, count=array.offset + len(array), bitorder="little")[array.offset :].astype(bool)


def blobs_of(array: pa.Array) -> list[bytes | None]:
    """What an array of texts or bytes holds, as bytes. Texts are encoded nowhere: Arrow has them in UTF-8."""
    kind = {pa.string(): pa.binary(), pa.large_string(): pa.large_binary()}.get(array.type)
    if kind is not None:
        array = pa.Array.from_buffers(kind, len(array), array.buffers(), array.null_count, array.offset)
    blobs: list[bytes | None] = array.to_pylist()
    return blobs


def numbers_of(array: pa.Array | pa.ChunkedArray) -> Any:
    """A numpy array of what an array of numbers holds; nulls are any number."""
    if isinstance(array, pa.ChunkedArray):
        return np.concatenate([np.empty(0, _NUMBERS[array.type]), *map(numbers_of, array.chunks)])
    first, last = array.offset, array.offset + len(array)
    return np.frombuffer(array.buffers()[1], _NUMBERS[array.type])[first:last]
