"""Arrow arrays over numpy's memory, and of one value repeated.

`pyarrow.array` and `pyarrow.scalar` import pandas where it is installed: a quarter of a second of CPU in each worker of a Spark
job, and objects that Spark's collection of garbage visits after every task."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa


def arrow_array(values: Any, kind: pa.DataType | None = None, missing: Any = None) -> pa.Array:
    """A one-dimensional numpy array of numbers, not copied, as that type (default: its own; another must be as wide).
    ``missing``: a numpy array of bool, true where a value is null."""
    valid = None if missing is None else pa.py_buffer(np.packbits(~missing, bitorder="little"))
    kind = pa.from_numpy_dtype(values.dtype) if kind is None else kind
    return pa.Array.from_buffers(kind, len(values), [valid, pa.py_buffer(np.ascontiguousarray(values))])


def repeated_text(text: str, count: int) -> pa.Array:
    """``count`` strings."""
    encoded = text.encode()
    ends = np.array([0, len(encoded)], np.int32)
    one = pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(ends), pa.py_buffer(encoded)])
    return pa.repeat(one[0], count)
