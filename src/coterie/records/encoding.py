"""Batches made of records: a producer's, what compaction leaves of one, and the same in another compression.

A producer's records are written by the compiled part where it was built (`_encoding`), in a twentieth of the time.
"""

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
    Header,
)
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
    rows = ((record.offset - header.base_offset, (record.timestamp, *record[2:])) for record in records)
    pieces, _ = _pieces(rows, header.base_timestamp)
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


def _pieces(rows: Iterable[tuple[int, NewRecord]], base_timestamp: int) -> tuple[list[bytes], int]:
    """The parts of records, each with its offset delta, and their largest timestamp. One loop without a call for each record:
    it is what a producer without the compiled part spends most of its time in."""
    varint, pieces = _VARINT, list[bytes]()
    add, last, newest, start = pieces.extend, base_timestamp, base_timestamp, b"\0\0"
    for delta, (timestamp, key, value, headers) in rows:
        if timestamp != last:
            last, start = timestamp, b"\0" + varint[timestamp - base_timestamp]
            newest = max(newest, timestamp)
        before = start + varint[delta]
        before += b"\x01" if key is None else varint[len(key)] + key
        size = 0 if value is None else len(value)
        before += b"\x01" if value is None else varint[size]
        counted = _encode_headers(headers) if headers else b"\0"
        add((varint[len(before) + size + len(counted)], before, value or b"", counted))
    return pieces, newest


def record_bytes(
    timestamp_delta: int, offset_delta: int, key: bytes | None, value: bytes | None, headers: Sequence[Header]
) -> int:
    """The bytes that a record takes in a batch without compression (Kafka's DefaultRecord.sizeInBytes)."""
    return sum(map(len, _pieces([(offset_delta, (timestamp_delta, key, value, headers))], 0)[0]))


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
            pieces, newest_of_chunk = _pieces(enumerate(chunk, count), first)
            newest = max(newest, newest_of_chunk)
            yield b"".join(pieces)
            count += len(chunk)

    body = compression.compress_pieces(codec, pieces())
    assert first is not None, "a batch holds at least one record"
    fields = _COUNTED.pack(codec, count - 1, first, newest, NO_PRODUCER_ID, -1, NO_SEQUENCE, count)
    return _sealed(fields, body, 0, -1)


def _encoded(items: Sequence[NewRecord]) -> tuple[bytes, int]:
    """The records of a batch, and their largest timestamp."""
    pieces, newest = _pieces(enumerate(items), items[0][0])
    return b"".join(pieces), newest


def _encode_headers(headers: Sequence[Header]) -> bytes:
    pieces = [_VARINT[len(headers)]]
    for name, value in headers:
        raw = name.encode()
        pieces += [_VARINT[len(raw)], raw]
        pieces += [b"\x01"] if value is None else [_VARINT[len(value)], value]
    return b"".join(pieces)
