"""Batches v2 turned into message sets v0 and v1, which Fetch 0 to 3 return.

What the old formats lack is left out: headers, control batches, and in format 0 timestamps. A compressed batch stays
one compressed message. Source: Kafka's documentation, "Old Message Format"; RecordsUtil.downConvert, KIP-283.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator

from coterie.records import compression
from coterie.records.batch import TIMESTAMP_TYPE_BIT, BatchHeader, BatchRecord, batches
from coterie.records.decoding import decode_pieces

# A message that claims more bytes than follow: readers treat it as cut short, and fetch a larger response.
OVERSIZED = struct.pack(">qi", -1, 61)

_BEFORE = struct.Struct(">qiI")  # offset, length, CRC
_FORMAT_0, _FORMAT_1, _LENGTH = struct.Struct(">bbi"), struct.Struct(">bbqi"), struct.Struct(">i")


class CannotConvert(ValueError):
    """A batch whose compression the old formats do not know."""


def to_message_set(data: bytes, magic: int, first_offset: int) -> bytes:
    """The whole batches of ``data`` as a message set of format 0 or 1, at most as long as ``data`` or as its first
    converted batch: the last message may be cut short. Records of an uncompressed batch before ``first_offset`` are left
    out. Empty where nothing but control batches is there. Raises CannotConvert if the first batch is compressed with
    zstd, and stops before a later one; BatchError or CompressionError for records that cannot be read."""
    pieces: list[bytes] = []
    for position, header in batches(data):
        if header.is_control:
            continue
        if header.codec == compression.ZSTD:
            if pieces:
                break
            raise CannotConvert("batches compressed with zstd cannot be converted to an old message format")
        time_bit = header.attributes & TIMESTAMP_TYPE_BIT if magic else 0
        if header.codec == compression.NONE:
            piece = b"".join(
                _message(r, r.offset, magic, time_bit)
                for records in decode_pieces(data, position, header)
                for r in records
                if r.offset >= first_offset
            )
        else:
            piece = _wrapped(data, position, header, magic, time_bit)
        if piece:
            pieces.append(piece)
    if not pieces:
        return b""
    return b"".join(pieces)[: max(len(data), len(pieces[0]))]


def _wrapped(data: bytes, position: int, header: BatchHeader, magic: int, time_bit: int) -> bytes:
    """A compressed batch as one compressed message; empty for one without records."""
    last, newest = None, 0

    def messages() -> Iterator[bytes]:
        nonlocal last, newest
        base = None
        for records in decode_pieces(data, position, header):
            if base is None:
                base, newest = records[0].offset if magic else 0, records[0].timestamp  # format 1 counts inside from 0
            yield b"".join([_message(r, r.offset - base, magic, time_bit) for r in records])
            last, newest = records[-1].offset, max(newest, max(r.timestamp for r in records))

    value = compression.compress_pieces(header.codec, messages())
    if last is None:
        return b""
    if (magic, header.codec) == (0, compression.LZ4):
        value = compression.lz4_of_format_0(value)
    return _message(BatchRecord(last, newest, None, value), last, magic, time_bit | header.codec)


def _message(record: BatchRecord, offset: int, magic: int, attributes: int) -> bytes:
    key, value = record.key, record.value
    size = -1 if key is None else len(key)
    body = (_FORMAT_1.pack(1, attributes, record.timestamp, size) if magic else _FORMAT_0.pack(0, attributes, size)) + (
        key or b""
    )
    body += _LENGTH.pack(-1) if value is None else _LENGTH.pack(len(value)) + value
    return _BEFORE.pack(offset, len(body) + 4, zlib.crc32(body)) + body
