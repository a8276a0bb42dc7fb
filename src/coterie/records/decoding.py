"""The records of a batch, unfolded.

Speed: by the compiled part where it was built (`_rows`); else record by record, or many at once where numpy is installed
(`unfolding`). Errors are those of Kafka's DefaultRecord.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from itertools import accumulate, repeat
from typing import Any, NamedTuple, TypeVar

from coterie.records import compiled, compression
from coterie.records.batch import (
    HEADER_BYTES,
    TIMESTAMP_TYPE_BIT,
    BatchError,
    BatchHeader,
    BatchRecord,
    decode_headers,
    payload,
    skip_headers,
)
from coterie.wire.primitives import java_long, read_varint, read_varlong

R = TypeVar("R")

LONGEST = 2**63 - 1  # int64's
MANY = 32  # from so many records on numpy is worth its while
PIECE = 4096


def decode_records(data: bytes, position: int, header: BatchHeader) -> list[BatchRecord]:
    """The records of one batch. A length below 0 is null, as in Kafka; a header's name that is not UTF-8 is read with
    U+FFFD. Raises BatchError or CompressionError if they cannot be read."""
    return decode_rows(data, position, header, BatchRecord)


def decode_rows(
    data: bytes,
    position: int,
    header: BatchHeader,
    make: type[R],
    before: tuple[Any, ...] = (),
    after: tuple[Any, ...] = (),
) -> list[R]:
    """As `decode_records`, with each record an instance of the NamedTuple class ``make``: its fields are ``before``, those of
    `BatchRecord`, and ``after``. Made in one step, because a second object for each record would cost as much again."""
    if not header.record_count:
        return []
    return _rows_between(*_body(data, position, header), header, make, before, after)


class ValueLines(NamedTuple):
    """The values of so many records, the last of them at ``last_offset``, with a line break behind each."""

    data: bytes
    records: int
    last_offset: int


def decode_lines(
    data: bytes, position: int, header: BatchHeader, first_offset: int, limit: int, piece_bytes: int
) -> list[ValueLines]:
    """The values of ``limit`` records of a batch at most, from ``first_offset`` on, in pieces of ``piece_bytes``, or of one
    record that is larger. Null is an empty line. Raises BatchError or CompressionError if any record cannot be read."""
    if compiled.ROWS_COMPILED and header.record_count:
        try:
            body, at, end = _body(data, position, header)
            bounds = first_offset, limit, piece_bytes
            pieces = compiled.lines(body, at, end, header.record_count, header.base_offset, *bounds)
        except (IndexError, ValueError) as error:
            raise _unreadable(header, error) from error
        return [ValueLines(*piece) for piece in pieces]
    records = [record for record in decode_records(data, position, header) if record.offset >= first_offset][:limit]
    values = [record.value or b"" for record in records]
    ends = list(accumulate(len(value) + 1 for value in values))
    made: list[ValueLines] = []
    begin = written = 0
    while begin < len(values):
        end = max(bisect_right(ends, written + piece_bytes), begin + 1)
        made.append(ValueLines(b"\n".join([*values[begin:end], b""]), end - begin, records[end - 1].offset))
        begin, written = end, ends[end - 1]
    return made


def decode_pieces(data: bytes, position: int, header: BatchHeader) -> Iterator[list[BatchRecord]]:
    """As `decode_records`, `PIECE` records at a time: a batch of a megabyte may unfold to millions. An error comes behind the
    records before it."""
    body, at, stop = _body(data, position, header)
    for first in range(0, header.record_count, PIECE):
        count, end = min(PIECE, header.record_count - first), at
        try:
            for _ in range(count):
                size, end = read_varint(body, end)
                end += max(size, 0)
                if end > stop:
                    raise IndexError("a record runs past the end of its batch")
        except (IndexError, ValueError) as error:
            raise _unreadable(header, error) from error
        if first + count == header.record_count:
            end = stop
        yield _rows_between(body, at, end, header._replace(record_count=count), BatchRecord, (), ())
        at = end


def _body(data: bytes, position: int, header: BatchHeader) -> tuple[bytes, int, int]:
    """What holds the records, unfolded, with their start and end; what is not compressed stays where it is."""
    if header.codec == compression.NONE:
        return data, position + HEADER_BYTES, min(position + header.size, len(data))
    body = payload(data, position, header)
    return body, 0, len(body)


def _rows_between(
    data: bytes,
    at: int,
    end: int,
    header: BatchHeader,
    make: type[R],
    before: tuple[Any, ...],
    after: tuple[Any, ...],
) -> list[R]:
    """``header``: of so many records as are there."""
    append_time = bool(header.attributes & TIMESTAMP_TYPE_BIT)
    try:
        if compiled.ROWS_COMPILED:
            time = header.max_timestamp if append_time else None
            offset, timestamp = header.base_offset, header.base_timestamp
            return compiled.rows(
                data, at, end, header.record_count, offset, timestamp, time, make, decode_headers, before, after
            )
        body = data[at:end]
        if header.record_count >= MANY:
            unfold = _numpys()
            if unfold is not None:

                def times(deltas: Any) -> Iterable[int]:
                    return repeat(header.max_timestamp) if append_time else (deltas + header.base_timestamp).tolist()

                return unfold(body, header.record_count, header.base_offset, times, make, decode_headers, before, after)
        return _decode_each(body, header, append_time, make, before, after)
    except (IndexError, ValueError) as error:
        raise _unreadable(header, error) from error


def _unreadable(header: BatchHeader, error: Exception) -> BatchError:
    return BatchError(f"a record of the batch at offset {header.base_offset} cannot be read: {error}")


@cache
def _numpys() -> Callable[..., list[Any]] | None:
    """The fast way, where numpy is installed; loaded at first use, since a broker that only passes batches on needs none."""
    try:
        from coterie.records.unfolding import unfold
    except ImportError:
        return None
    return unfold


def _decode_each(
    body: bytes,
    header: BatchHeader,
    append_time: bool,
    make: type[R],
    before: tuple[Any, ...] = (),
    after: tuple[Any, ...] = (),
) -> list[R]:
    """Varints of one byte are read in place; the others by the function."""
    if header.record_count < 0:
        raise BatchError(f"the batch claims {header.record_count} records")
    out: list[R] = []
    new: Callable[[Any, tuple[Any, ...]], R] = tuple.__new__
    at, size, base_time, base_offset = 0, len(body), header.base_timestamp, header.base_offset
    for _ in range(header.record_count):
        length, at = (body[at] >> 1 ^ -(body[at] & 1), at + 1) if body[at] < 0x80 else read_varint(body, at)
        end = at + length
        at += 1
        time, at = (body[at] >> 1 ^ -(body[at] & 1), at + 1) if body[at] < 0x80 else read_varlong(body, at)
        delta, at = (body[at] >> 1 ^ -(body[at] & 1), at + 1) if body[at] < 0x80 else read_varint(body, at)
        length, at = (body[at] >> 1 ^ -(body[at] & 1), at + 1) if body[at] < 0x80 else read_varint(body, at)
        key = value = None
        if length >= 0:
            key, at = body[at : at + length], at + length
        length, at = (body[at] >> 1 ^ -(body[at] & 1), at + 1) if body[at] < 0x80 else read_varint(body, at)
        if length >= 0:
            value, at = body[at : at + length], at + length
        headers, at = (decode_headers(body, at, end), end) if body[at] else ((), at + 1)
        if at != end or end > size:
            raise BatchError("a record's fields do not fill its length")
        offset = base_offset + delta
        timestamp = header.max_timestamp if append_time else base_time + time
        if not (-LONGEST <= offset <= LONGEST and -LONGEST <= timestamp <= LONGEST):
            offset, timestamp = java_long(offset), java_long(timestamp)
        out.append(new(make, before + (offset, timestamp, key, value, headers) + after))
    if at != size:
        raise BatchError("there are bytes after the last record")
    return out


def decode_keys_and_values(
    data: bytes, position: int, header: BatchHeader
) -> list[tuple[bytes | None, bytes | None, int]]:
    """(key, value, timestamp ms) of each record: what loading a compacted topic needs, and no object more. Raises
    BatchError or CompressionError."""
    if compiled.ROWS_COMPILED:
        return [(key, value, time) for _, time, key, value, _ in decode_records(data, position, header)]
    if not header.record_count:
        return []
    body = payload(data, position, header)
    base, append_time = header.base_timestamp, bool(header.attributes & TIMESTAMP_TYPE_BIT)
    out: list[tuple[bytes | None, bytes | None, int]] = []
    at, size = 0, len(body)
    try:
        for _ in range(header.record_count):
            # Varints of one byte are read in place; the others by the function.
            length, at = (body[at] >> 1 ^ -(body[at] & 1), at + 1) if body[at] < 0x80 else read_varint(body, at)
            end = at + length
            at += 1
            delta, at = (body[at] >> 1 ^ -(body[at] & 1), at + 1) if body[at] < 0x80 else read_varlong(body, at)
            at = at + 1 if body[at] < 0x80 else read_varint(body, at)[1]
            length, at = (body[at] >> 1 ^ -(body[at] & 1), at + 1) if body[at] < 0x80 else read_varint(body, at)
            key = None
            if length >= 0:
                key, at = body[at : at + length], at + length
            length, at = (body[at] >> 1 ^ -(body[at] & 1), at + 1) if body[at] < 0x80 else read_varint(body, at)
            value = None
            if length >= 0:
                value, at = body[at : at + length], at + length
            at = skip_headers(body, at, end) if body[at] else at + 1
            if at != end or end > size:
                raise BatchError("a record's fields do not fill its length")
            out.append((key, value, header.max_timestamp if append_time else java_long(base + delta)))
        if at != size or header.record_count < 0:
            raise BatchError(f"the batch does not hold the {header.record_count} records that it claims")
    except (IndexError, ValueError) as error:
        raise BatchError(f"a record of the batch at offset {header.base_offset} cannot be read: {error}") from error
    return out
