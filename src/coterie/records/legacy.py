"""Message sets v0 and v1, as Produce 0-2 carries them, turned into batches v2 before they reach a log.

Source: Kafka's documentation, "Old Message Format". A compressed message wraps a whole message set.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator

from coterie.records import compression
from coterie.records.batch import BatchError, encode_batch

_ENTRY = struct.Struct(">qi")
_MAX_DEPTH = 1


def is_legacy(data: bytes) -> bool:
    """Whether the first entry is a message of format 0 or 1: the format byte stands at the same place in all."""
    return len(data) > 16 and data[16] < 2


def to_batch(data: bytes) -> bytes:
    """One batch v2 with the messages of the set, compressed as the first wrapper was. Messages of format 0 have no
    timestamp (-1). Raises BatchError."""
    messages = list(_messages(data, 0))
    if not messages:
        raise BatchError("the message set is empty")
    items = [(timestamp, key, value, ()) for _, timestamp, key, value in messages]
    return encode_batch(items, codec=messages[0][0])


def _messages(data: bytes, depth: int) -> Iterator[tuple[int, int, bytes | None, bytes | None]]:
    at = 0
    try:
        while at + 12 <= len(data):
            _, size = _ENTRY.unpack_from(data, at)
            at += 12
            message = data[at : at + size]
            if len(message) < size or size < 14:
                raise BatchError("a message of the old format is cut short")
            at += size
            yield from _message(message, depth)
    except (struct.error, compression.CompressionError) as error:
        raise BatchError(f"a message of the old format cannot be read: {error}") from error


def _message(message: bytes, depth: int) -> Iterator[tuple[int, int, bytes | None, bytes | None]]:
    crc, magic, attributes = struct.unpack_from(">IbB", message)
    if magic not in (0, 1):
        raise BatchError(f"message format {magic} in an old message set")
    if zlib.crc32(message[4:]) != crc:
        raise BatchError("a message of the old format is damaged: its CRC-32 does not fit")
    at, timestamp = 6, -1
    if magic == 1:
        (timestamp,) = struct.unpack_from(">q", message, at)
        at += 8
    key, at = _nullable(message, at)
    value, at = _nullable(message, at)
    codec = attributes & 0x07
    if codec == compression.NONE:
        yield codec, timestamp, key, value
        return
    if depth >= _MAX_DEPTH or value is None:
        raise BatchError("a compressed message of the old format must hold a plain message set")
    if (magic, codec) == (0, compression.LZ4):
        inner = compression.decompress_lz4_format_0(value)
    else:
        inner = compression.decompress(codec, value)
    for _, inner_timestamp, inner_key, inner_value in _messages(inner, depth + 1):
        yield codec, inner_timestamp, inner_key, inner_value


def _nullable(message: bytes, at: int) -> tuple[bytes | None, int]:
    (size,) = struct.unpack_from(">i", message, at)
    at += 4
    if size < 0:
        return None, at
    if at + size > len(message):
        raise BatchError("a field of an old message runs past its end")
    return message[at : at + size], at + size
