"""Message sets of format 0 and 1 beside kafka-python's, an independent reader and writer: to batches, and back."""

from __future__ import annotations

import random
import struct
import zlib
from typing import Any

import pytest
from kafka.record.legacy_records import LegacyRecordBatchBuilder
from kafka.record.memory_records import MemoryRecords

from coterie.records.batch import CONTROL_BIT, TIMESTAMP_TYPE_BIT, batches, check_crc, read_header, stamp, stamp_times
from coterie.records.compression import (
    GZIP,
    LZ4,
    NONE,
    SNAPPY,
    ZSTD,
    CompressionError,
    _xxhash32,
    compress,
    decompress_lz4_format_0,
    lz4_of_format_0,
)
from coterie.records.decoding import decode_records
from coterie.records.encoding import encode_batch
from coterie.records.message_sets import OVERSIZED, CannotConvert, is_legacy, to_batch, to_message_set
from coterie.wire.errors import ErrorCode, Refusal

OLD_CODECS = [NONE, GZIP, SNAPPY, LZ4]
# kafka-python would need xxhash for the LZ4 frames of format 0.
COMPARED = [(magic, codec) for magic in (0, 1) for codec in OLD_CODECS if (magic, codec) != (0, LZ4)]
Message = tuple[int, int | None, bytes | None, bytes | None]


def written(magic: int, codec: int, messages: list[Message]) -> bytes:
    builder = LegacyRecordBatchBuilder(magic=magic, compression_type=codec, batch_size=100_000)
    for offset, timestamp, key, value in messages:
        builder.append(offset, timestamp=timestamp, key=key, value=value)
    return bytes(builder.build())


def read(message_set: bytes) -> list[tuple[Any, ...]]:
    """(offset, timestamp, timestamp type, key, value) of each message, as kafka-python sees them."""
    decoded, records = [], MemoryRecords(message_set)
    while records.has_next():
        batch = records.next_batch()
        assert batch.validate_crc()
        decoded += [(r.offset, r.timestamp, r.timestamp_type, r.key, r.value) for r in batch]
    return decoded


def batch_at(offset: int, codec: int = NONE, count: int = 3, size: int = 1, attributes: int = 0) -> bytes:
    header = random.Random(offset).randbytes(100)  # makes a batch larger than what becomes of it
    items = [(1000 + n, b"k%d" % n if n else None, b"v" * size, [("h", header)]) for n in range(count)]
    data = bytearray(encode_batch(items, codec=codec, attributes=attributes))
    stamp(data, 0, offset, 0)
    return bytes(data)


@pytest.mark.parametrize(("magic", "codec"), COMPARED)
def test_message_sets_become_batches(magic: int, codec: int) -> None:
    """Format 0 has no timestamps, and none is made up."""
    data = written(magic, codec, [(0, 1234, b"k", b"v" * 100), (1, 1235, None, b"w"), (2, 1236, b"k", None)])
    assert is_legacy(data)
    batch = to_batch(data)
    header = read_header(batch)
    check_crc(batch, 0, header)
    assert (header.codec, header.max_timestamp) == (codec, 1236 if magic else -1)
    assert [(r.timestamp, r.key, r.value) for r in decode_records(batch, 0, header)] == [
        (1234 if magic else -1, b"k", b"v" * 100),
        (1235 if magic else -1, None, b"w"),
        (1236 if magic else -1, b"k", None),
    ]


def test_a_damaged_message_is_refused() -> None:
    data = bytearray(written(1, NONE, [(0, 1, b"k", b"v")]))
    data[-1] ^= 1
    with pytest.raises(Refusal, match="CRC") as refusal:
        to_batch(bytes(data))
    assert refusal.value.code == ErrorCode.CORRUPT_MESSAGE


def old_message(
    magic: int, codec: int, timestamp: int, key: bytes | None, value: bytes | None, /, **lies: int
) -> bytes:
    rest = struct.pack(">bB", magic, codec) + (struct.pack(">q", timestamp) if magic else b"")
    for name, field in (("key", key), ("value", value)):
        rest += struct.pack(">i", lies.get(name, -1 if field is None else len(field))) + (field or b"")
    crc = zlib.crc32(rest) ^ lies.get("crc", 0)
    return struct.pack(">qiI", 0, lies.get("size", len(rest) + 4), crc) + rest


ONE = old_message(1, NONE, 5, b"k", b"v")
WRAPPED = compress(GZIP, ONE)


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (ONE, None),
        (ONE + ONE[:-1], None),
        (old_message(1, NONE, 5, b"k", b"v", key=-2, value=-7), ErrorCode.UNKNOWN_SERVER_ERROR),
        (old_message(1, NONE, 5, None, None, key=-2, value=-7), None),
        (old_message(1, NONE, 5, b"k", b"v", key=2**31 - 1), ErrorCode.UNKNOWN_SERVER_ERROR),
        (old_message(1, NONE, 5, b"k", b"v", value=2), ErrorCode.UNKNOWN_SERVER_ERROR),
        (old_message(1, NONE, 5, b"k", b"v", size=-1), ErrorCode.CORRUPT_MESSAGE),
        (old_message(1, NONE, 5, b"k", b"v", size=13), ErrorCode.CORRUPT_MESSAGE),
        (old_message(1, NONE, 5, b"k", b"v", crc=1), ErrorCode.CORRUPT_MESSAGE),
        (old_message(1, NONE, -2, b"k", b"v"), ErrorCode.UNKNOWN_SERVER_ERROR),
        (ONE + old_message(0, NONE, 5, b"k", b"v"), ErrorCode.INVALID_RECORD),
        (old_message(1, GZIP, 5, None, WRAPPED), None),
        (old_message(1, GZIP, 5, None, None), ErrorCode.INVALID_RECORD),
        (old_message(1, GZIP, 5, None, b"garbage"), ErrorCode.UNKNOWN_SERVER_ERROR),
        (old_message(1, GZIP, 5, None, compress(GZIP, b"")), ErrorCode.INVALID_RECORD),
        (old_message(0, GZIP, 5, None, WRAPPED), ErrorCode.INVALID_RECORD),
        (old_message(1, ZSTD, 5, None, compress(ZSTD, ONE)), ErrorCode.INVALID_RECORD),
        (
            old_message(1, GZIP, 5, None, compress(GZIP, old_message(1, GZIP, 5, None, WRAPPED))),
            ErrorCode.INVALID_RECORD,
        ),
        (old_message(1, GZIP, 5, None, WRAPPED) + ONE, ErrorCode.INVALID_RECORD),
    ],
)
def test_old_messages_that_lie_are_refused_as_by_kafka(data: bytes, code: ErrorCode | None) -> None:
    if code is None:
        batch = to_batch(data)
        assert read_header(batch).record_count == 1
        return
    with pytest.raises(Refusal) as refusal:
        to_batch(data)
    assert refusal.value.code == code


@pytest.mark.parametrize(("magic", "codec"), COMPARED)
def test_batches_become_message_sets(magic: int, codec: int) -> None:
    """Keys, values and offsets stay; headers go, and with format 0 timestamps."""
    message_set = to_message_set(batch_at(40, codec, size=200) + batch_at(43, codec, size=200), magic, 40)
    times = [None] * 3 if magic == 0 else [1000, 1001, 1002]
    time_type = None if magic == 0 else 0
    assert read(message_set) == [
        (base + n, times[n], time_type, b"k%d" % n if n else None, b"v" * 200) for base in (40, 43) for n in range(3)
    ]


@pytest.mark.parametrize("codec", OLD_CODECS)
def test_append_time_is_kept_in_format_1(codec: int) -> None:
    batch = bytearray(batch_at(5, codec))
    header = read_header(bytes(batch))
    stamp_times(batch, header, header.attributes | TIMESTAMP_TYPE_BIT, 7777)
    assert {(t, kind) for _, t, kind, _, _ in read(to_message_set(bytes(batch), 1, 5))} == {(7777, 1)}


def test_an_uncompressed_batch_begins_at_the_offset_that_was_requested() -> None:
    """Some versions of librdkafka rely on it; a compressed batch comes whole."""
    assert [m[0] for m in read(to_message_set(batch_at(10), 1, 12))] == [12]
    assert [m[0] for m in read(to_message_set(batch_at(10, GZIP), 1, 12))] == [10, 11, 12]


@pytest.mark.parametrize("magic", [0, 1])
def test_offsets_after_compaction_stay_as_they_are(magic: int) -> None:
    from coterie.records.encoding import rebuild_batch

    data = batch_at(10, GZIP, count=5)
    header = read_header(data)
    kept = [r for r in decode_records(data, 0, header) if r.offset in (11, 13)]
    assert [m[0] for m in read(to_message_set(rebuild_batch(header, kept), magic, 10))] == [11, 13]


def test_control_batches_are_left_out() -> None:
    control = batch_at(3, count=1, attributes=CONTROL_BIT)
    assert [m[0] for m in read(to_message_set(batch_at(0) + control + batch_at(4), 0, 0))] == [0, 1, 2, 4, 5, 6]
    assert to_message_set(control, 0, 3) == b""


def test_zstd_is_unknown_to_the_old_formats() -> None:
    with pytest.raises(CannotConvert):
        to_message_set(batch_at(0, ZSTD), 1, 0)
    assert [m[0] for m in read(to_message_set(batch_at(0) + batch_at(3, ZSTD), 1, 0))] == [0, 1, 2]


def test_a_message_set_is_no_larger_than_the_batches_it_comes_of() -> None:
    """Many empty records take more bytes in the old formats; the last message may be cut short, as in a Fetch."""
    items = [(0, None, None, ())] * 100
    one, two = (bytearray(encode_batch(items)) for _ in range(2))
    stamp(two, 0, 100, 0)
    data = bytes(one + two)
    first = to_message_set(bytes(one), 1, 0)
    both = to_message_set(data, 1, 0)
    assert len(first) > len(one)
    assert len(both) == max(len(data), len(first))
    assert [m[0] for m in read(first)] == list(range(100))


def test_a_message_too_large_is_one_cut_short() -> None:
    assert not MemoryRecords(OVERSIZED).has_next()
    assert list(batches(OVERSIZED)) == []


def test_lz4_of_format_0_has_its_own_checksum() -> None:
    """KAFKA-3160: the checksum of the header covers the magic bytes too; readers of format 0 take either."""
    data = b"hello" * 100
    frame, standard = lz4_of_format_0(compress(LZ4, data)), compress(LZ4, data)
    assert [(a, b) for a, b in zip(frame, standard, strict=True) if a != b] == [(frame[6], standard[6])]
    assert standard[6] == _xxhash32(standard[4:6]) >> 8 & 0xFF
    assert frame[6] == _xxhash32(frame[:6]) >> 8 & 0xFF
    assert decompress_lz4_format_0(frame) == decompress_lz4_format_0(standard) == data
    with pytest.raises(CompressionError):
        decompress_lz4_format_0(frame[:5])
    batch = batch_at(40, LZ4)
    assert [r.offset for r in decode_records(to_batch(to_message_set(batch, 0, 40)), 0, read_header(batch))] == [
        40,
        41,
        42,
    ]


def test_xxhash32_as_published() -> None:
    assert [_xxhash32(data) for data in (b"", b"a", b"abc")] == [0x02CC5D05, 0x550D7456, 0x32D153FF]
