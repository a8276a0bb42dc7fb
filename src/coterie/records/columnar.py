"""Record batches straight into Arrow columns, without a Python object per record.

One Python loop hops from record to record by their lengths; everything else is numpy over all records of a fetch at
once. Keys and values are cut out of the buffer by Arrow itself: an array whose elements are alternately a wanted
stretch and what lies before the next one, of which `take` keeps every second.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from coterie.records.batch import TIMESTAMP_TYPE_BIT, BatchError, BatchHeader, Header, batches, payload
from coterie.records.varints import record_starts, varints
from coterie.wire.primitives import read_varint

_PADDING = bytes(16)  # varints near the end may be looked at past it


class Columns:
    """The records of a fetch: numpy arrays of offsets, timestamps (ms) and timestamp types, Arrow keys and values."""

    def __init__(
        self, offsets: Any, timestamps: Any, timestamp_types: Any, keys: Any, values: Any, headers: Any
    ) -> None:
        self.offsets, self.timestamps, self.timestamp_types = offsets, timestamps, timestamp_types
        self.keys, self.values = keys, values
        self.headers: list[tuple[Header, ...] | None] | None = headers

    def __len__(self) -> int:
        return len(self.offsets)

    def slice(self, first: int, last: int) -> Columns:
        """Records ``first`` up to but not including ``last``, by place."""
        return Columns(
            self.offsets[first:last],
            self.timestamps[first:last],
            self.timestamp_types[first:last],
            self.keys.slice(first, last - first),
            self.values.slice(first, last - first),
            None if self.headers is None else self.headers[first:last],
        )


Stored = tuple[bytes, int, BatchHeader]  # a batch: the data that it lies in, where, and its header


def decode_columns(data: bytes, *, with_headers: bool = False) -> Columns | None:
    """All records of the whole batches in ``data``; None if there are none. Raises BatchError, CompressionError."""
    return columns_of([(data, at, h) for at, h in batches(data) if not h.is_control], with_headers=with_headers)


def columns_of(stored: Sequence[Stored], *, with_headers: bool = False) -> Columns | None:
    """All records of these batches; None if there are none. Raises BatchError, CompressionError."""
    if not stored:
        return None
    headers = [header for _, _, header in stored]
    try:
        return _columns([payload(*batch) for batch in stored], headers, with_headers)
    except (ValueError, IndexError) as error:
        raise BatchError(f"a batch from offset {headers[0].base_offset} on cannot be read: {error}") from error


def _columns(bodies: list[bytes], headers: list[BatchHeader], with_headers: bool) -> Columns:
    body = b"".join([*bodies, _PADDING])
    starts = record_starts(bodies, [h.record_count for h in headers])
    counts = [h.record_count for h in headers]
    base_offsets: Any = np.repeat(np.array([h.base_offset for h in headers], np.int64), counts)
    base_times: Any = np.repeat(np.array([h.base_timestamp for h in headers], np.int64), counts)
    append_time = np.array([bool(h.attributes & TIMESTAMP_TYPE_BIT) for h in headers])
    buffer = np.frombuffer(body, np.uint8)
    deltas, at = varints(buffer, starts + 1)  # past the attributes byte
    offset_deltas, at = varints(buffer, at)
    timestamps = base_times + deltas
    if append_time.any():
        appended: Any = np.repeat(np.array([h.max_timestamp for h in headers], np.int64), counts)
        timestamps = np.where(np.repeat(append_time, counts), appended, timestamps)
    keys, at = _blobs(body, buffer, at)
    values, at = _blobs(body, buffer, at)
    found = [_headers(body, int(p)) if buffer[p] else () for p in at] if with_headers else None
    types: Any = np.repeat(append_time.astype(np.int32), counts)
    return Columns(base_offsets + offset_deltas, timestamps, types, keys, values, found)


def _blobs(body: bytes, buffer: Any, at: Any) -> tuple[Any, Any]:
    """A length and so many bytes at each position, as an Arrow binary array; length -1 is null."""
    lengths, at = varints(buffer, at)
    missing = lengths < 0
    ends = at + np.where(missing, 0, lengths)
    if ends.size and (ends[-1] > len(body) - len(_PADDING) or (ends < at).any()):
        raise BatchError("a key or value runs past the end of its batch")
    count = len(at)
    edges: Any = np.empty(2 * count, np.int32)
    edges[0::2] = at
    edges[1::2] = ends
    stretches = pa.Array.from_buffers(
        pa.binary(), 2 * count - 1, [None, pa.py_buffer(edges.tobytes()), pa.py_buffer(body)]
    )
    wanted = pa.array(np.arange(0, 2 * count, 2, dtype=np.int64), mask=missing if missing.any() else None)
    return stretches.take(wanted), ends


def _headers(body: bytes, at: int) -> tuple[Header, ...]:
    count, at = read_varint(body, at)
    found: list[Header] = []
    for _ in range(count):
        size, at = read_varint(body, at)
        name = body[at : at + size].decode()
        size, at = read_varint(body, at + size)
        found.append((name, body[at : at + size] if size >= 0 else None))
        at += max(size, 0)
    return tuple(found)
