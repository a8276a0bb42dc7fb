"""A batch's records checked without making them, as Kafka's LogValidator does before a batch is stored.

The rules are those of `fields`; the compiled part does it where there is one.
"""

from __future__ import annotations

from typing import NamedTuple

from coterie.records import compiled
from coterie.records.batch import HEADER_BYTES, NO_TIMESTAMP, BatchError, BatchHeader, skip_headers
from coterie.records.compression import NONE, decompressed
from coterie.wire.primitives import java_long, read_varint, read_varlong

MAX_TIMESTAMP = 2**63 - 1
# A stored batch unfolds to less than readers accept (MAX_UNCOMPRESSED_BYTES): a megabyte must not cost a broker its memory.
MAX_STORED_BYTES = 64 * 1024 * 1024


class Walked(NamedTuple):
    """Summary of a batch's records. Timestamps in ms since 1970 by the records' own deltas: ``oldest`` of the timestamps
    (2^63-1 if there is none), ``newest`` at least NO_TIMESTAMP. ``consecutive``: the offset deltas are 0, 1, 2 and so on.
    ``keyless``: some record has no key."""

    oldest: int
    newest: int
    consecutive: bool
    keyless: bool


def walk(data: bytes, header: BatchHeader, limit_bytes: int = MAX_STORED_BYTES) -> Walked:
    """Walks over the records of the one batch that ``data`` is, which unfold to ``limit_bytes`` at most. Raises BatchError if
    they do not fit it, CompressionError if they cannot be unfolded."""
    body: bytes | memoryview = data
    at = HEADER_BYTES
    codec = header.codec
    if codec != NONE:
        body, at = decompressed(codec, data[HEADER_BYTES:], limit_bytes), 0
    if header.record_count < 0:
        raise BatchError(f"the batch claims {header.record_count} records")
    try:
        if compiled.COMPILED:
            return tuple.__new__(Walked, compiled.walk(body, at, len(body), header.record_count, header.base_timestamp))
        return walk_each(body, at, len(body), header.record_count, header.base_timestamp)
    except BatchError:
        raise
    except ValueError as error:
        raise BatchError(str(error)) from error


def walk_each(body: bytes | memoryview, at: int, end: int, count: int, base_timestamp: int) -> Walked:
    """Walks over ``count`` records from ``at`` to ``end``. Varints of one byte are read in place; the others by the
    function. Raises BatchError."""
    oldest, newest, consecutive, keyless = MAX_TIMESTAMP, NO_TIMESTAMP, True, False
    index = -1
    try:
        for index in range(count):
            size, at = (body[at] >> 1 ^ -(body[at] & 1), at + 1) if body[at] < 0x80 else read_varint(body, at)
            stop = at + size
            if size <= 0 or stop > end:
                raise IndexError
            at += 1
            time, at = (body[at] >> 1 ^ -(body[at] & 1), at + 1) if body[at] < 0x80 else read_varlong(body, at)
            timestamp = java_long(base_timestamp + time)
            if timestamp > newest:
                newest = timestamp
            if timestamp < oldest and timestamp != NO_TIMESTAMP:
                oldest = timestamp
            delta, at = (body[at] >> 1 ^ -(body[at] & 1), at + 1) if body[at] < 0x80 else read_varint(body, at)
            if delta != index:
                consecutive = False
            size, at = (body[at] >> 1 ^ -(body[at] & 1), at + 1) if body[at] < 0x80 else read_varint(body, at)
            if size < 0:
                keyless = True
            else:
                at += size
            size, at = (body[at] >> 1 ^ -(body[at] & 1), at + 1) if body[at] < 0x80 else read_varint(body, at)
            if size > 0:
                at += size
            at = skip_headers(body, at, stop) if body[at] else at + 1
            if at != stop:
                raise IndexError
    except (IndexError, ValueError) as error:
        raise BatchError(f"record {index} of {count} does not fit into the batch") from error
    if at != end:
        raise BatchError(f"{end - at} bytes are left after the {count} records that the batch claims")
    return Walked(oldest, newest, consecutive, keyless)
