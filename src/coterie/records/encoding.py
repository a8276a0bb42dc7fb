"""Batches made of records: a producer's, what compaction leaves of one, and the same in another compression.

A producer's records are written by the compiled part where it was built (`_encoding`), in a twentieth of the time."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import google_crc32c

from coterie.records import compiled, compression
from coterie.records.batch import (
    COMPRESSION_MASK,
    HEADER_BYTES,
    LENGTH_END,
    MAGIC,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TRANSACTIONAL_BIT,
    BatchHeader,
    BatchRecord,
)
from coterie.records.fields import Header
from coterie.wire.primitives import VARINTS_KEPT, write_varint

_BEFORE_COUNTED, _COUNTED = struct.Struct(">qiibI"), struct.Struct(">hiqqqhii")  # the CRC is of what follows it


_CHUNK = 4096  # records that are in memory together
NewRecord = tuple[int, bytes | None, bytes | None, Sequence[Header]]  # timestamp in ms, key, value, headers


class _Varints(dict[int, bytes]):
    """Varints by value, each made at its first use: lengths and deltas are nearly always small ones. A dictionary, because a
    call for each of a record's five takes longer than all else about the record."""

    def __missing__(self, value: int) -> bytes:
        made = write_varint(value)
        if 0 <= value < VARINTS_KEPT:
            self[value] = made
        return made


_VARINT = _Varints()


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


def sealed(body: bytes, header: BatchHeader) -> bytes:
    """Header and body, with length and CRC."""
    return _sealed(_COUNTED.pack(*header[5:]), body, header.base_offset, header.leader_epoch)


def _sealed(fields: bytes, body: bytes, base_offset: int, leader_epoch: int) -> bytes:
    """``fields``: those of the header that the CRC covers."""
    length = HEADER_BYTES - LENGTH_END + len(body)
    crc = google_crc32c.extend(google_crc32c.value(fields), body)
    return b"".join((_BEFORE_COUNTED.pack(base_offset, length, leader_epoch, MAGIC, crc), fields, body))


def _record(
    timestamp_delta: int, offset_delta: int, key: bytes | None, value: bytes | None, headers: Sequence[Header]
) -> list[bytes]:
    """A record as its length and the rest."""
    varint = _VARINT
    before = b"\0" + varint[timestamp_delta] + varint[offset_delta]
    before += b"\x01" if key is None else varint[len(key)] + key
    before += b"\x01" if value is None else varint[len(value)]
    value = value or b""
    counted = _encode_headers(headers) if headers else b"\0"
    return [varint[len(before) + len(value) + len(counted)], before, value, counted]


def record_bytes(
    timestamp_delta: int, offset_delta: int, key: bytes | None, value: bytes | None, headers: Sequence[Header]
) -> int:
    """The bytes that a record takes in a batch without compression (Kafka's DefaultRecord.sizeInBytes)."""
    return sum(map(len, _record(timestamp_delta, offset_delta, key, value, headers)))


def encode_batch(
    items: Sequence[NewRecord],
    *,
    codec: int = compression.NONE,
    base_offset: int = 0,
    leader_epoch: int = -1,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = -1,
    base_sequence: int = NO_SEQUENCE,
    attributes: int = 0,
) -> bytes:
    """One batch; at least one item."""
    assert items, "a batch holds at least one record"
    body, newest = compiled.encoded(items) if compiled.ENCODING_COMPILED else _encoded(items)
    count = len(items)
    identity = producer_id, producer_epoch, base_sequence
    fields = _COUNTED.pack(attributes | codec, count - 1, items[0][0], newest, *identity, count)
    return _sealed(fields, compression.compress(codec, body), base_offset, leader_epoch)


def encode_stream(items: Iterable[NewRecord], codec: int) -> bytes:
    """As `encode_batch` of no producer, of records that need not be in memory together. At least one item."""
    stream, first, newest, count = iter(items), None, 0, 0

    def pieces() -> Iterator[bytes]:
        nonlocal first, newest, count
        while chunk := list(islice(stream, _CHUNK)):
            if first is None:
                first = newest = chunk[0][0]
            newest = max(newest, max(item[0] for item in chunk))
            yield b"".join(
                part
                for delta, (timestamp, key, value, headers) in enumerate(chunk, count)
                for part in _record(timestamp - first, delta, key, value, headers)
            )
            count += len(chunk)

    body = compression.compress_pieces(codec, pieces())
    assert first is not None, "a batch holds at least one record"
    fields = _COUNTED.pack(codec, count - 1, first, newest, NO_PRODUCER_ID, -1, NO_SEQUENCE, count)
    return _sealed(fields, body, 0, -1)


def _encoded(items: Sequence[NewRecord]) -> tuple[bytes, int]:
    """The records of a batch, and their largest timestamp."""
    base_timestamp = newest = items[0][0]
    pieces: list[bytes] = []
    for delta, (timestamp, key, value, headers) in enumerate(items):
        if timestamp > newest:
            newest = timestamp
        pieces += _record(timestamp - base_timestamp, delta, key, value, headers)
    return b"".join(pieces), newest


def _encode_headers(headers: Sequence[Header]) -> bytes:
    pieces = [_VARINT[len(headers)]]
    for name, value in headers:
        raw = name.encode()
        pieces += [_VARINT[len(raw)], raw]
        pieces += [b"\x01"] if value is None else [_VARINT[len(value)], value]
    return b"".join(pieces)
