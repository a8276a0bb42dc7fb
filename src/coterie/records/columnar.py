"""Record batches straight into Arrow columns, without a Python object per record.

The compiled part (`_unfold`) does it in one pass over the bytes. Without it, one Python loop hops from record to record by
their lengths; everything else is numpy over all records of a fetch at once, and keys and values are cut out of the buffer
by Arrow itself: an array whose elements are alternately a wanted stretch and what lies before the next one, of which `take`
keeps every second.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from coterie.records import compiled
from coterie.records.arrow_arrays import arrow_array
from coterie.records.batch import MAGIC, TIMESTAMP_TYPE_BIT, BatchError, BatchHeader, batches, decode_headers, payload
from coterie.records.compiled import COMPILED as COMPILED
from coterie.records.compression import decompress
from coterie.records.unfolding import record_bounds, varints, varlongs

if TYPE_CHECKING:
    from coterie.records._unfold import Blobs

PIECE_BYTES = 16 * 1024 * 1024
_WITHOUT_BOUND = 2**63
_COLUMN_BYTES = 2**31 - 1  # what the offsets of a binary array can count
_PADDING = bytes(16)  # varints near the end may be looked at past it
HEADERS_TYPE = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))

Stored = tuple[bytes, int, BatchHeader]  # a batch: the data that it lies in, where, and its header


@dataclass(frozen=True, slots=True)
class Columns:
    """Records: numpy arrays of offsets, timestamps (ms), timestamp types and producer ids (-1 outside of a transaction),
    Arrow keys, values and headers (HEADERS_TYPE; None if not requested)."""

    offsets: Any
    timestamps: Any
    timestamp_types: Any
    producer_ids: Any
    keys: Any
    values: Any
    headers: Any

    def __len__(self) -> int:
        return len(self.offsets)

    def slice(self, first: int, last: int) -> Columns:
        """Records ``first`` up to but not including ``last``, by place."""
        return Columns(
            self.offsets[first:last],
            self.timestamps[first:last],
            self.timestamp_types[first:last],
            self.producer_ids[first:last],
            keys=self.keys.slice(first, last - first),
            values=self.values.slice(first, last - first),
            headers=None if self.headers is None else self.headers.slice(first, last - first),
        )


def decode_columns(data: bytes, *, with_headers: bool = False) -> Columns | None:
    """All records of the whole batches in ``data``; None if there are none. Raises BatchError, CompressionError."""
    return unfold(data, with_headers=with_headers)[0]


def unfold(data: bytes, *, with_headers: bool = False) -> tuple[Columns | None, list[int]]:
    """The same, and where the control batches begin."""
    if not COMPILED:
        headers = list(batches(data))
        stored = [(data, at, h) for at, h in headers]
        return columns_of(stored, with_headers=with_headers), [at for at, h in headers if h.is_control]
    unfolder = compiled.Unfolder(decompress, with_headers)
    try:
        unfolder.add(data, 0, len(data))
        return _taken(unfolder, with_headers), unfolder.controls
    except (ValueError, OverflowError) as error:
        raise BatchError(f"a batch cannot be read: {error}") from error


def columns_of(stored: Iterable[Stored], *, with_headers: bool = False) -> Columns | None:
    """All records of these batches; None if there are none. Raises BatchError."""
    return next(columns_in_pieces(stored, with_headers=with_headers, piece_bytes=_WITHOUT_BOUND), None)


def columns_in_pieces(
    stored: Iterable[Stored], *, with_headers: bool = False, piece_bytes: int = PIECE_BYTES
) -> Iterator[Columns]:
    """All records of these batches, in order. A piece ends with the batch by which its records have ``piece_bytes``: a fetch of
    some megabytes may unfold to more than an Arrow column can hold. Raises BatchError."""
    piece, first_offset = _piece(with_headers), -1
    try:
        for data, at, header in stored:
            if header.magic != MAGIC:
                raise ValueError(f"a batch of version {header.magic}")
            if header.is_control or not header.record_count:
                continue  # compaction leaves batches without records
            if not piece.size_bytes:
                first_offset = header.base_offset
            piece.add(data, at, header)
            if piece.size_bytes >= piece_bytes:
                columns, piece = piece.columns(), _piece(with_headers)
                if columns is not None:
                    yield columns
        columns = piece.columns()
        if columns is not None:
            yield columns
    except (ValueError, IndexError, OverflowError) as error:
        raise BatchError(f"a batch from offset {first_offset} on cannot be read: {error}") from error


def _piece(with_headers: bool) -> _Unfolded | _Bodies:
    return _Unfolded(with_headers) if COMPILED else _Bodies(with_headers)


# -- compiled -----------------------------------------------------------------------------------------------------------


class _Unfolded:
    """Batches that are decoded as they are added; ``size_bytes`` counts their records uncompressed."""

    def __init__(self, with_headers: bool) -> None:
        self.size_bytes = 0
        self._with_headers = with_headers
        uncompressed_bytes: list[int] = []

        def counted(codec: int, body: bytes) -> bytes:
            uncompressed = decompress(codec, body)
            uncompressed_bytes.append(len(uncompressed))
            return uncompressed

        self._uncompressed_bytes = uncompressed_bytes
        self._unfolder = compiled.Unfolder(counted, with_headers)

    def add(self, data: bytes, at: int, header: BatchHeader) -> None:
        self._unfolder.add(data, at, at + header.size)
        self.size_bytes += self._uncompressed_bytes.pop() if self._uncompressed_bytes else header.size

    def columns(self) -> Columns | None:
        return _taken(self._unfolder, self._with_headers)


def _taken(unfolder: compiled.Unfolder, with_headers: bool) -> Columns | None:
    if not unfolder.count:
        return None
    return Columns(
        np.frombuffer(unfolder.offsets(), np.int64),
        np.frombuffer(unfolder.timestamps(), np.int64),
        timestamp_types=np.frombuffer(unfolder.timestamp_types(), np.int32),
        producer_ids=np.frombuffer(unfolder.producer_ids(), np.int64),
        keys=_array(pa.binary(), unfolder.keys()),
        values=_array(pa.binary(), unfolder.values()),
        headers=_headers_taken(unfolder) if with_headers else None,
    )


def _array(kind: pa.DataType, buffers: Blobs) -> pa.Array:
    nulls, valid, offsets, data = buffers
    parts = [None if valid is None else pa.py_buffer(valid), pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(kind, len(offsets) // 4 - 1, parts, nulls)


def _headers_taken(unfolder: compiled.Unfolder) -> pa.Array:
    ends, names, values = unfolder.headers()
    keys = _array(pa.string(), names)
    try:
        keys.validate(full=True)
    except pa.ArrowInvalid:  # names that are not UTF-8 are read as Kafka's consumers read them
        keys = pa.array([name.decode(errors="replace") for name in _array(pa.binary(), names).to_pylist()], pa.string())
    pairs = pa.StructArray.from_arrays([keys, _array(pa.binary(), values)], ["key", "value"])
    return pa.ListArray.from_arrays(
        pa.Array.from_buffers(pa.int32(), len(ends) // 4, [None, pa.py_buffer(ends)]), pairs
    )


# -- numpy --------------------------------------------------------------------------------------------------------------


class _Bodies:
    """As `_Unfolded`, decoded all at once."""

    def __init__(self, with_headers: bool) -> None:
        self.size_bytes = 0
        self._with_headers = with_headers
        self._bodies: list[bytes] = []
        self._headers: list[BatchHeader] = []

    def add(self, data: bytes, at: int, header: BatchHeader) -> None:
        body = payload(data, at, header)
        self._bodies.append(body)
        self._headers.append(header)
        self.size_bytes += len(body)

    def columns(self) -> Columns | None:
        return _columns(self._bodies, self._headers, self._with_headers) if self._bodies else None


def _columns(bodies: list[bytes], headers: list[BatchHeader], with_headers: bool) -> Columns:
    if sum(map(len, bodies)) > _COLUMN_BYTES:
        raise OverflowError("more than 2 GiB of records in one go")
    body = b"".join([*bodies, _PADDING])
    counts = [h.record_count for h in headers]
    starts, record_ends = record_bounds(bodies, counts)
    base_offsets: Any = np.repeat(np.array([h.base_offset for h in headers], np.int64), counts)
    base_times: Any = np.repeat(np.array([h.base_timestamp for h in headers], np.int64), counts)
    append_time = np.array([bool(h.attributes & TIMESTAMP_TYPE_BIT) for h in headers])
    buffer = np.frombuffer(body, np.uint8)
    deltas, at = varlongs(buffer, starts + 1)  # past the attributes byte
    offset_deltas, at = varints(buffer, at)
    timestamps = base_times + deltas
    if append_time.any():
        appended: Any = np.repeat(np.array([h.max_timestamp for h in headers], np.int64), counts)
        timestamps = np.where(np.repeat(append_time, counts), appended, timestamps)
    keys, at = _blobs(body, buffer, at, record_ends)
    values, at = _blobs(body, buffer, at, record_ends)
    header_rows = _headers(body, buffer, at, record_ends)
    types: Any = np.repeat(append_time.astype(np.int32), counts)
    producers: Any = np.repeat(
        np.array([h.producer_id if h.is_transactional else -1 for h in headers], np.int64), counts
    )
    header_column = pa.array(header_rows, HEADERS_TYPE) if with_headers else None
    return Columns(
        base_offsets + offset_deltas,
        timestamps,
        timestamp_types=types,
        producer_ids=producers,
        keys=keys,
        values=values,
        headers=header_column,
    )


def _blobs(body: bytes, buffer: Any, at: Any, record_ends: Any) -> tuple[Any, Any]:
    """A length and so many bytes at each position, as an Arrow binary array; a negative length is null."""
    lengths, at = varints(buffer, at)
    missing = lengths < 0
    ends = at + np.where(missing, 0, lengths)
    count = len(at)
    edges: Any = np.empty(2 * count, np.int64)
    edges[0::2] = at
    edges[1::2] = ends
    # Arrow trusts these: a damaged length must not send it back, past a neighbour or past the end.
    if (ends >= record_ends).any() or (edges[1:] < edges[:-1]).any():
        raise BatchError("a key or value runs past the end of its record")
    edges = edges.astype(np.int32)
    stretches = pa.Array.from_buffers(
        pa.binary(), 2 * count - 1, [None, pa.py_buffer(edges.tobytes()), pa.py_buffer(body)]
    )
    wanted = arrow_array(np.arange(0, 2 * count, 2, dtype=np.int64), missing=missing if missing.any() else None)
    return stretches.take(wanted), ends


def _headers(body: bytes, buffer: Any, at: Any, record_ends: Any) -> list[list[dict[str, Any]]]:
    """The headers of each record; they are read even where not requested, since damage shows there."""
    some = buffer[at] != 0
    if ((at + 1 != record_ends) & ~some).any():
        raise BatchError("a record's fields do not fill its length")
    headers: list[list[dict[str, Any]]] = [[]] * len(at)
    for index in np.nonzero(some)[0].tolist():
        decoded = decode_headers(body, int(at[index]), int(record_ends[index]))
        headers[index] = [{"key": name, "value": value} for name, value in decoded]
    return headers
