"""Record batch v2: its 61-byte header, and a batch as a whole.

A broker keeps batches opaque: it reads the header, checks the CRC, and writes offset and epoch in place (`read_header`,
`check_crc`, `stamp`). Records are read by `decoding` and written by `encoding`. Source: Kafka's documentation, "Record Batch";
KIP-98, KIP-101.

The rules of `decode_headers`, and of every decoder, are those of Kafka's DefaultRecord: a record fills its length exactly; a
negative length is a null key, value or header value, and refused for a header's name; there are at most as many headers as
bytes left.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

import google_crc32c

from coterie.records import compression
from coterie.wire.primitives import read_varint

Header = tuple[str, bytes | None]


class BatchError(ValueError):
    """Bytes that are not a whole and undamaged record batch."""


def decode_headers(body: bytes, at: int, end: int) -> tuple[Header, ...]:
    """The headers of a record that ends at ``end``. Raises BatchError unless they end there, WireError, IndexError."""
    headers: list[Header] = []
    count, at = read_varint(body, at)
    _check_header_count(count, end - at)
    for _ in range(count):
        size, at = read_varint(body, at)
        if not 0 <= size <= end - at:
            raise BatchError(f"the name of a header claims {size} bytes")
        name, at = body[at : at + size].decode(errors="replace"), at + size
        size, at = read_varint(body, at)
        headers.append((name, body[at : at + size] if size >= 0 else None))
        at += max(size, 0)
    if at != end:
        raise BatchError("a record's fields do not fill its length")
    return tuple(headers)


def skip_headers(body: bytes | memoryview, at: int, end: int) -> int:
    """As `decode_headers`, but makes nothing of them; returns where they end."""
    count, at = read_varint(body, at)
    _check_header_count(count, end - at)
    for _ in range(count):
        size, at = read_varint(body, at)
        if not 0 <= size <= end - at:
            raise BatchError(f"the name of a header claims {size} bytes")
        size, at = read_varint(body, at + size)
        at += max(size, 0)
    return at


def _check_header_count(count: int, left: int) -> None:
    if not 0 <= count <= left:
        raise BatchError(f"a record claims {count} headers in {left} bytes")


HEADER_BYTES = 61
LENGTH_END = 12  # base offset (8) and length (4): what precedes the counted bytes
MAGIC = 2
_MAGIC, _LOW_ATTRIBUTES = 16, 22  # where they stand in a batch
NO_PRODUCER_ID = -1
NO_SEQUENCE = -1
NO_TIMESTAMP = -1
COMPRESSION_MASK = 0x07
TIMESTAMP_TYPE_BIT = 0x08
TRANSACTIONAL_BIT = 0x10
CONTROL_BIT = 0x20
_HEADER = struct.Struct(">qiibIhiqqqhii")
_OFFSET, _EPOCH = struct.Struct(">q"), struct.Struct(">i")
_SPAN = struct.Struct(">qi11xi")  # base offset, length, last offset delta
_CRC_AT, _ATTRIBUTES_AT, _MAX_TIMESTAMP_AT = 17, 21, 35
_EPOCH_AT = 12
_TIMESTAMP_OF_MESSAGE = 18  # in format 1, behind offset, size, CRC, format and attributes


class BatchHeader(NamedTuple):
    """The fields of a batch's header; ``size`` is the whole batch in bytes."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        return self.length + LENGTH_END

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    def at(self, base_offset: int) -> BatchHeader:
        """The header of the same batch at another offset; twice as fast as `_replace`."""
        return tuple.__new__(BatchHeader, (base_offset, *self[1:]))

    @property
    def codec(self) -> int:
        return self.attributes & COMPRESSION_MASK

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL_BIT)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL_BIT)

    @property
    def is_of_a_transaction(self) -> bool:
        """Transactional records without a producer id belong to no transaction (Kafka's ProducerStateManager)."""
        return self.producer_id != NO_PRODUCER_ID and self.is_transactional

    @property
    def last_sequence(self) -> int:
        """Sequences wrap from 2^31-1 to 0."""
        return (self.base_sequence + self.last_offset_delta) & 0x7FFF_FFFF


class BatchRecord(NamedTuple):
    """One record. ``timestamp`` in ms since 1970; headers in order, names may repeat."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()


def read_header(data: bytes, position: int = 0) -> BatchHeader:
    """The header at ``position``. Raises BatchError when there are too few bytes for one."""
    try:
        return tuple.__new__(BatchHeader, _HEADER.unpack_from(data, position))  # `_make` would count the fields again
    except struct.error as error:
        raise BatchError("too few bytes for a batch header") from error


def batch_span(data: bytes, position: int) -> tuple[int, int]:
    """(last offset, size in bytes) of the batch at ``position``, for where the rest of its header is not needed."""
    base_offset, length, last_offset_delta = _SPAN.unpack_from(data, position)
    return base_offset + last_offset_delta, length + LENGTH_END


def batches(data: bytes) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of every whole batch of a fetch or log; a batch cut short at the end is left out."""
    position, end = 0, len(data)
    while position + HEADER_BYTES <= end:
        header = read_header(data, position)
        if header.length < HEADER_BYTES - LENGTH_END:
            raise BatchError(f"a batch claims a length of {header.length} bytes")
        following = position + header.size
        if following > end:
            return
        yield position, header
        position = following


def first_timestamp(data: bytes) -> int:
    """The timestamp of the first record of the batch, or message of an older format, that ``data`` begins with, which may be
    cut short; where the log sets the times, that of its append. NO_TIMESTAMP where it has none."""
    magic = data[_MAGIC] if len(data) > _MAGIC else 0
    if magic == 1 and len(data) >= _TIMESTAMP_OF_MESSAGE + 8:
        return int.from_bytes(data[_TIMESTAMP_OF_MESSAGE : _TIMESTAMP_OF_MESSAGE + 8], "big", signed=True)
    if magic != MAGIC or len(data) < HEADER_BYTES:
        return NO_TIMESTAMP
    header = read_header(data)
    return header.max_timestamp if header.attributes & TIMESTAMP_TYPE_BIT else header.base_timestamp


def check_crc(data: bytes, position: int, header: BatchHeader) -> None:
    """Raises BatchError unless the batch's CRC-32C is right."""
    if google_crc32c.value(data[position + _ATTRIBUTES_AT : position + header.size]) != header.crc:
        raise BatchError("the batch is damaged: its CRC-32C does not fit")


def is_undamaged(batch: bytes, header: BatchHeader) -> bool:
    """Whether ``batch`` is whole and its CRC-32C right."""
    return len(batch) == header.size and google_crc32c.value(batch[_ATTRIBUTES_AT:]) == header.crc


def stamp(data: bytearray, position: int, base_offset: int, leader_epoch: int) -> None:
    """Writes what the CRC does not cover: the offset that the log gives the batch, and the leader's epoch."""
    _OFFSET.pack_into(data, position, base_offset)
    _EPOCH.pack_into(data, position + _EPOCH_AT, leader_epoch)


def stamp_times(batch: bytearray, header: BatchHeader, attributes: int, max_timestamp: int) -> BatchHeader:
    """Writes attributes and largest timestamp of a batch, and its CRC again; the header as it is then."""
    struct.pack_into(">h", batch, _ATTRIBUTES_AT, attributes)
    struct.pack_into(">q", batch, _MAX_TIMESTAMP_AT, max_timestamp)
    crc = google_crc32c.value(bytes(batch[_ATTRIBUTES_AT:]))
    struct.pack_into(">I", batch, _CRC_AT, crc)
    return header._replace(attributes=attributes, max_timestamp=max_timestamp, crc=crc)


def payload(data: bytes, position: int, header: BatchHeader) -> bytes:
    """The batch's records, unfolded. Raises CompressionError."""
    return compression.decompress(header.codec, data[position + HEADER_BYTES : position + header.size])


def of_unknown_format(data: bytes) -> bool:
    """Whether the first batch, or old message, has an unknown format; False where the bytes are too few to tell it."""
    return len(data) > _MAGIC and data[_MAGIC] > MAGIC


def begins_whole(data: bytes) -> bool:
    """Whether the first batch, or old message, is there to its end."""
    return (
        len(data) > _MAGIC
        and int.from_bytes(data[LENGTH_END - 4 : LENGTH_END], "big", signed=True) <= len(data) - LENGTH_END
    )


def begins_transactional(data: bytes) -> bool:
    """Whether the first batch is of format 2 and transactional; False where the header is cut short."""
    return len(data) > _LOW_ATTRIBUTES and data[_MAGIC] == MAGIC and bool(data[_LOW_ATTRIBUTES] & TRANSACTIONAL_BIT)
