"""Record batch v2: its 61-byte header, its records, and building one.

A broker keeps batches opaque: it reads the header, checks the CRC, and writes offset and epoch in place
(`read_header`, `check_crc`, `stamp`). Only who reads records (`decode_records`) unfolds them.
Source: Kafka's documentation, "Record Batch"; KIP-98, KIP-101.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from itertools import repeat
from typing import Any, NamedTuple, TypeVar

import google_crc32c

from coterie.records import compression
from coterie.records.fields import BatchError as BatchError
from coterie.records.fields import Header as Header
from coterie.records.fields import decode_headers, skip_headers
from coterie.wire.primitives import java_long, read_varint, read_varlong, write_varint

R = TypeVar("R")

HEADER_BYTES = 61
LENGTH_END = 12  # base offset (8) and length (4): what precedes the counted bytes
MAGIC = 2
_MAGIC, _LOW_ATTRIBUTES = 16, 22  # where they stand in a batch
NO_PRODUCER_ID = -1
NO_SEQUENCE = -1
NO_TIMESTAMP = -1
LONGEST = 2**63 - 1  # int64's

COMPRESSION_MASK = 0x07
TIMESTAMP_TYPE_BIT = 0x08
TRANSACTIONAL_BIT = 0x10
CONTROL_BIT = 0x20

_HEADER = struct.Struct(">qiibIhiqqqhii")
_BEFORE_COUNTED, _COUNTED = struct.Struct(">qiibI"), struct.Struct(">hiqqqhii")  # the CRC is of what follows it
_OFFSET, _EPOCH = struct.Struct(">q"), struct.Struct(">i")
_SPAN = struct.Struct(">qi11xi")  # base offset, length, last offset delta
_CRC_AT, _ATTRIBUTES_AT, _MAX_TIMESTAMP_AT = 17, 21, 35
_EPOCH_AT = 12


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
        if position + header.size > end:
            return
        yield position, header
        position += header.size


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
    """Writes attributes and largest timestamp of a batch, and its CRC anew; the header as it is then."""
    struct.pack_into(">h", batch, _ATTRIBUTES_AT, attributes)
    struct.pack_into(">q", batch, _MAX_TIMESTAMP_AT, max_timestamp)
    crc = google_crc32c.value(bytes(batch[_ATTRIBUTES_AT:]))
    struct.pack_into(">I", batch, _CRC_AT, crc)
    return header._replace(attributes=attributes, max_timestamp=max_timestamp, crc=crc)


def payload(data: bytes, position: int, header: BatchHeader) -> bytes:
    """The batch's records, unfolded. Raises CompressionError."""
    return compression.decompress(header.codec, data[position + HEADER_BYTES : position + header.size])


MANY = 32  # from so many records on numpy is worth its while


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
    body = payload(data, position, header)
    append_time = bool(header.attributes & TIMESTAMP_TYPE_BIT)
    try:
        if header.record_count >= MANY:
            unfold = _numpys()
            if unfold is not None:

                def times(deltas: Any) -> Iterable[int]:
                    return repeat(header.max_timestamp) if append_time else (deltas + header.base_timestamp).tolist()

                return unfold(body, header.record_count, header.base_offset, times, make, decode_headers, before, after)
        return _decode_each(body, header, append_time, make, before, after)
    except (IndexError, ValueError) as error:
        raise BatchError(f"a record of the batch at offset {header.base_offset} cannot be read: {error}") from error


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


_VARINTS: list[bytes] = []  # of 0 to 2047, made at first use: lengths and deltas are nearly always among them


def _varint(value: int) -> bytes:
    return _VARINTS[value] if 0 <= value < len(_VARINTS) else _other_varint(value)


def _other_varint(value: int) -> bytes:
    if not _VARINTS:
        _VARINTS.extend(write_varint(n) for n in range(2048))
    return write_varint(value)


def rebuild_batch(header: BatchHeader, records: Sequence[BatchRecord]) -> bytes:
    """A batch with only these of its records, at their own offsets and in its own compression; no transaction's any more.
    What compaction leaves (Kafka's MemoryRecords.filterTo); without records it keeps its largest timestamp, and no
    compression."""
    newest = max((record.timestamp for record in records), default=header.max_timestamp)
    pieces: list[bytes] = []
    for record in records:
        pieces += _record(record.timestamp - header.base_timestamp, record.offset - header.base_offset, *record[2:])
    attributes = header.attributes & ~(TRANSACTIONAL_BIT if records else TRANSACTIONAL_BIT | COMPRESSION_MASK)
    return sealed(
        compression.compress(header.codec, b"".join(pieces)) if records else b"",
        header._replace(attributes=attributes, max_timestamp=newest, record_count=len(records)),
    )


def recompressed(header: BatchHeader, body: bytes, codec: int, level: int | None) -> bytes:
    """A batch with the records of ``body``, unfolded, in another compression; all other fields are ``header``'s."""
    attributes = header.attributes & ~COMPRESSION_MASK | codec
    return sealed(compression.compress(codec, body, level), header._replace(attributes=attributes))


def _record(
    timestamp_delta: int, offset_delta: int, key: bytes | None, value: bytes | None, headers: Sequence[Header]
) -> list[bytes]:
    """A record as its length and the rest."""
    varint = _varint
    record = b"\0" + varint(timestamp_delta) + varint(offset_delta)
    record += b"\x01" if key is None else varint(len(key)) + key
    record += b"\x01" if value is None else varint(len(value)) + value
    record += _encode_headers(headers) if headers else b"\0"
    return [varint(len(record)), record]


def sealed(body: bytes, header: BatchHeader) -> bytes:
    """Header and body, with length and CRC."""
    counted = _COUNTED.pack(*header[5:]) + body
    length = len(counted) + _ATTRIBUTES_AT - LENGTH_END
    crc = google_crc32c.value(counted)
    return _BEFORE_COUNTED.pack(header.base_offset, length, header.leader_epoch, MAGIC, crc) + counted


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


def encode_batch(
    items: Sequence[tuple[int, bytes | None, bytes | None, Sequence[Header]]],
    *,
    codec: int = compression.NONE,
    base_offset: int = 0,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = -1,
    base_sequence: int = NO_SEQUENCE,
    attributes: int = 0,
) -> bytes:
    """One batch of (timestamp ms, key, value, headers); at least one item."""
    assert items, "a batch holds at least one record"
    base_timestamp = items[0][0]
    pieces: list[bytes] = []
    for delta, (timestamp, key, value, headers) in enumerate(items):
        pieces += _record(timestamp - base_timestamp, delta, key, value, headers)
    header = BatchHeader(
        base_offset,
        0,
        -1,
        MAGIC,
        0,
        attributes | codec,
        len(items) - 1,
        base_timestamp,
        max(item[0] for item in items),
        producer_id,
        producer_epoch,
        base_sequence,
        len(items),
    )
    return sealed(compression.compress(codec, b"".join(pieces)), header)


def _encode_headers(headers: Sequence[Header]) -> bytes:
    pieces = [_varint(len(headers))]
    for name, value in headers:
        raw = name.encode()
        pieces += [_varint(len(raw)), raw]
        pieces += [b"\x01"] if value is None else [_varint(len(value)), value]
    return b"".join(pieces)
