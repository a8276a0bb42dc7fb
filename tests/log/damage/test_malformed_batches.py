"""Batches that lie, with a right CRC: what Apache Kafka 3.9.1 refuses is refused with its code, what it stores is stored."""

from __future__ import annotations

import random
from typing import Any

import pytest

from coterie.log.config import LogConfig
from coterie.log.filesystem import MemoryFileSystem
from coterie.log.partition_log import PartitionLog
from coterie.log.reading import max_timestamp_offset, offset_for_timestamp
from coterie.log.validation import produced_batch
from coterie.records import compiled, compression
from coterie.records.batch import NO_TIMESTAMP, read_header
from coterie.records.decoding import decode_records
from coterie.records.encoding import encode_batch, sealed
from coterie.wire.errors import ErrorCode, Refusal
from coterie.wire.messages.logs.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from coterie.wire.primitives import write_varint
from coterie_conformance.fuzzing.inputs import malformed_batch, malformed_message_set

NOW = 1_700_000_000_000
STORED, INVALID, UNKNOWN = ErrorCode.NONE, ErrorCode.INVALID_RECORD, ErrorCode.UNKNOWN_SERVER_ERROR
FIELDS = b"\0\0\0\x02k\x02v"  # all but the headers


def of_body(body: bytes, count: int = 1, **fields: int) -> bytes:
    header = read_header(encode_batch([(NOW, b"k", b"v", ())]))
    return sealed(body, header._replace(record_count=count, last_offset_delta=count - 1, **fields))


def record(fields: bytes, length: int | None = None) -> bytes:
    return write_varint(len(fields) if length is None else length) + fields


def packed(codec: int, body: bytes, count: int = 1) -> bytes:
    return of_body(compression.compress(codec, body), count, attributes=codec)


RIGHT = record(FIELDS + b"\0")
SEVENS = record(b"\0\0\x0e\x02k\x02v\0") * 3
LIES: dict[str, tuple[bytes, ErrorCode]] = {  # answers of Apache Kafka 3.9.1 to the same bytes
    "says 5 records, has 1": (of_body(RIGHT, 5), INVALID),
    "says 2^31-1 records": (of_body(RIGHT, 2**31 - 1), INVALID),
    "says 1 record, has 5": (of_body(RIGHT * 5), INVALID),
    "random bytes": (of_body(random.Random(1).randbytes(100)), INVALID),
    "record length -5": (of_body(record(FIELDS + b"\0", -5)), INVALID),
    "record length 2^31-1": (of_body(record(FIELDS + b"\0", 2**31 - 1)), INVALID),
    "key length 2^40": (of_body(record(b"\0\0\0" + write_varint(2**40) + b"k\x02v\0")), INVALID),
    "key length -2": (of_body(record(b"\0\0\0\x03\x02v\0")), STORED),
    "header name of length -1": (of_body(record(FIELDS + b"\x02\x01\x01")), INVALID),
    "header name not UTF-8": (of_body(record(FIELDS + b"\x02\x02\xff\x01")), STORED),
    "negative header count": (of_body(record(FIELDS + b"\x01")), INVALID),
    "headers without end": (of_body(record(FIELDS + b"\xfe" + b"\xff" * 7 + b"\x01\x03")), INVALID),
    "gzip of garbage": (of_body(b"garbage" * 5, attributes=1), UNKNOWN),
    "snappy of garbage": (of_body(b"garbage" * 5, attributes=2), UNKNOWN),
    "lz4 of garbage": (of_body(b"garbage" * 5, attributes=3), UNKNOWN),
    "zstd of garbage": (of_body(b"garbage" * 5, attributes=4), UNKNOWN),
    "gzip of nothing": (of_body(b"", attributes=1), UNKNOWN),
    "gzip, says 5 records, has 1": (packed(1, RIGHT, 5), INVALID),
    "zstd, headers without end": (packed(4, record(FIELDS + b"\xfe" + b"\xff" * 7 + b"\x01\x03")), INVALID),
    "gzip, a byte after the last record": (packed(1, RIGHT + b"x"), INVALID),
    "offset deltas 7, 7, 7": (of_body(SEVENS, 3), STORED),
    "gzip, offset deltas 7, 7, 7": (packed(1, SEVENS, 3), UNKNOWN),
    "max timestamp 2^63-1": (of_body(RIGHT, max_timestamp=2**63 - 1), STORED),
    "max timestamp untrue": (of_body(RIGHT, max_timestamp=5), STORED),
    "base 2^63-1 and a delta": (of_body(record(b"\0\x0a\0\x02k\x02v\0"), base_timestamp=2**63 - 1), STORED),
}


@pytest.fixture(params=["compiled", "python"], autouse=True)
def how(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the compiled part was not built, both are the same; tests/records says where it has to be."""
    monkeypatch.setattr(compiled, "COMPILED", compiled.COMPILED and request.param == "compiled")


def append(data: bytes, version: int = 9, **config: Any) -> tuple[ErrorCode | None, PartitionLog]:
    """The answer, None for an old Produce of nothing whole, which no log sees; and the log."""
    log = PartitionLog.open(MemoryFileSystem(), "t-0", LogConfig(**config), clean=True)
    try:
        produced = produced_batch(data, version)
        if produced is None:
            return None, log
        log.append(produced[0], NOW)
    except Refusal as refusal:
        assert log.end_offset == 0
        return refusal.code, log
    return ErrorCode.NONE, log


@pytest.mark.parametrize("compact", [False, True])
@pytest.mark.parametrize("name", LIES)
def test_the_answers_are_kafkas(name: str, compact: bool) -> None:
    data, code = LIES[name]
    if compact and name == "key length -2":
        code = INVALID  # a record without a key
    assert append(data, cleanup_compact=compact)[0] == code


def test_what_is_stored_can_be_read() -> None:
    for name, (data, code) in LIES.items():
        if code == STORED:
            log = append(data)[1]
            batch = log.read(0, 10_000)
            header = read_header(batch)
            records = decode_records(batch, 0, header)
            assert len(records) == header.record_count, name
            assert header.max_timestamp == max(NO_TIMESTAMP, *(r.timestamp for r in records)), name


def test_a_compressed_record_whose_length_lies_is_refused() -> None:
    """Kafka stores it, since it only skips over records that it keeps compressed; no consumer can read it."""
    assert append(packed(1, record(FIELDS + b"\0", -5)))[0] == INVALID


def test_a_batch_to_be_compressed_anew() -> None:
    """Kafka then writes records again: deltas become consecutive, negative timestamps fail."""
    code, log = append(of_body(SEVENS, 3), compression=compression.GZIP)
    assert code == STORED
    batch = log.read(0, 10_000)
    assert [r.offset for r in decode_records(batch, 0, read_header(batch))] == [0, 1, 2]
    negative = of_body(record(b"\0\x0a\0\x02k\x02v\0"), base_timestamp=2**63 - 1)
    assert append(negative, compression=compression.GZIP)[0] == UNKNOWN
    assert append(negative, compression=compression.GZIP, append_time=True)[0] == UNKNOWN


def test_a_bomb_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    big = packed(4, record(b"\0\0\0\x01" + write_varint(2_000_000) + bytes(2_000_000) + b"\0"))
    assert append(big)[0] == STORED
    monkeypatch.setattr("coterie.log.validation.MAX_STORED_BYTES", 1_000_000)
    assert append(big)[0] == ErrorCode.MESSAGE_TOO_LARGE


def test_a_timestamp_beyond_javas_longs_is_looked_up_as_in_kafka() -> None:
    """2^63-1 and a delta wrap to a time before all that anyone looks for; 2^63-1 itself is found."""
    log = append(LIES["base 2^63-1 and a delta"][0])[1]
    assert [offset_for_timestamp(log, t) for t in (0, NOW, 2**63 - 1)] == [None] * 3
    assert max_timestamp_offset(log) == (-1, -1)
    log.append(of_body(RIGHT, base_timestamp=2**63 - 1), NOW)
    assert offset_for_timestamp(log, NOW) == (1, 2**63 - 1)
    assert max_timestamp_offset(log) == (1, 2**63 - 1)
    response = ListOffsetsPartitionResponse(0, timestamp=2**63 - 1, offset=1)
    assert ListOffsetsResponse(topics=[ListOffsetsTopicResponse("t", [response])]).encode(5)  # it fits into the answer


def test_any_malformed_batch_is_answered_and_what_is_stored_can_be_read() -> None:
    for seed in range(1_500):
        rng = random.Random(seed)
        data, version = (malformed_batch(rng), 9) if seed % 3 else (malformed_message_set(rng), 2)
        code, log = append(data, version, cleanup_compact=seed % 2 == 0, compression=rng.choice((None, 0, 1)))
        if code == STORED:
            batch = log.read(0, 10_000_000)
            header = read_header(batch)
            assert len(decode_records(batch, 0, header)) == header.record_count > 0, seed
