"""Batches v2 turned into message sets v0 and v1, which Fetch 0 to 3 return.

What the old formats lack is left out: headers, control batches, and in format 0 timestamps. A compressed batch stays
one compressed message. Source: Kafka's documentation, "Old Message Format"; RecordsUtil.downConvert, KIP-283.
"""

from __future__ import annotations

import struct
import zlib

from coterie.records import compression
from coterie.records.batch import TIMESTAMP_TYPE_BIT, BatchHeader, BatchRecord, batches
from coterie.records.decoding import decode_records

# A message that claims more bytes than follow: readers treat it as cut short, and fetch a larger response.
OVERSIZED = struct.pack(">qi", -1, 61)


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
        piece = _converted(decode_records(data, position, header), header, magic, first_offset)
        if piece:
            pieces.append(piece)
    if not pieces:
        return b""
    return b"".join(pieces)[: max(len(data), len(pieces[0]))]


def _converted(records: list[BatchRecord], header: BatchHeader, magic: int, first_offset: int) -> bytes:
    time_bit = header.attributes & TIMESTAMP_TYPE_BIT if magic else 0
    if header.codec == compression.NONE:
        return b"".join(_message(r, r.offset, magic, time_bit) for r in records if r.offset >= first_offset)
    if not records:
        return b""
    base = records[0].offset if magic else 0  # format 1 counts inside of a compressed message from 0
    inner = b"".join(_message(r, r.offset - base, magic, time_bit) for r in records)
    compress = compression.compress_lz4_format_0 if (magic, header.codec) == (0, compression.LZ4) else None
    value = compress(inner) if compress else compression.compress(header.codec, inner)
    wrapper = BatchRecord(records[-1].offset, max(r.timestamp for r in records), None, value)
    return _message(wrapper, wrapper.offset, magic, time_bit | header.codec)


def _message(record: BatchRecord, offset: int, magic: int, attributes: int) -> bytes:
    pieces = [struct.pack(">bbq", 1, attributes, record.timestamp) if magic else struct.pack(">bb", 0, attributes)]
    for part in (record.key, record.value):
        pieces += [struct.pack(">i", -1)] if part is None else [struct.pack(">i", len(part)), part]
    body = b"".join(pieces)
    return struct.pack(">qiI", offset, len(body) + 4, zlib.crc32(body)) + body
