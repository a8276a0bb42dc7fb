"""What a log refuses of a client's batch, naming the records, and how a topic's settings change the batch."""

from __future__ import annotations

from typing import Any

import pytest
from kafka.record.memory_records import MemoryRecords

from coterie.log.config import LogConfig
from coterie.log.filesystem import MemoryFileSystem
from coterie.log.partition_log import PartitionLog
from coterie.log.validation import RecordsRefused, produced_batch
from coterie.records.batch import (
    COMPRESSION_MASK,
    CONTROL_BIT,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    BatchHeader,
    BatchRecord,
    batches,
    read_header,
    stamp,
    stamp_times,
)
from coterie.records.compression import GZIP, LZ4, NONE, SNAPPY, ZSTD
from coterie.records.decoding import decode_records
from coterie.records.encoding import encode_batch, sealed
from coterie.records.markers import end_of_transaction
from coterie.wire.errors import ErrorCode, Refusal

NOW = 1_700_000_000_000
HOUR = 3_600_000


def new_log(**config: Any) -> PartitionLog:
    return PartitionLog.open(MemoryFileSystem(), "t-0", LogConfig(**config), clean=True)


def batch(*timestamps: int, codec: int = NONE, **fields: int) -> bytes:
    return encode_batch([(t, b"k", b"v" * 300, [("h", b"x")]) for t in timestamps], codec=codec, **fields)


def stored(log: PartitionLog) -> list[tuple[BatchHeader, list[BatchRecord]]]:
    data = log.read(0, 1_000_000)
    return [(h, decode_records(data, p, h)) for p, h in batches(data)]


def refused(log: PartitionLog, data: bytes) -> Refusal:
    with pytest.raises(Refusal) as refusal:
        log.append(data, NOW)
    assert log.end_offset == 0
    return refusal.value


def indexes(refusal: Refusal) -> list[int]:
    assert isinstance(refusal, RecordsRefused)
    return [e.batch_index for e in refusal.errors]


@pytest.mark.parametrize("codec", [NONE, GZIP])
def test_a_compacted_topic_names_every_record_without_a_key(codec: int) -> None:
    items = [(NOW, key, b"v", ()) for key in (b"k", None, b"k", None)]
    refusal = refused(new_log(cleanup_compact=True), encode_batch(items, codec=codec))
    assert refusal.code == ErrorCode.INVALID_RECORD
    assert indexes(refusal) == [1, 3]
    assert "2 of its records: record 1: a compacted topic takes no record without a key" in str(refusal)


def test_timestamps_out_of_range_are_named() -> None:
    log = new_log(timestamp_before_max_ms=HOUR, timestamp_after_max_ms=HOUR)
    refusal = refused(log, batch(NOW, NOW - HOUR - 1, NOW + HOUR + 1, NOW - HOUR, NOW + HOUR, -1))
    assert refusal.code == ErrorCode.INVALID_TIMESTAMP
    assert indexes(refusal) == [1, 2]
    log.append(batch(NOW - HOUR, NOW + HOUR, -1), NOW)


def test_only_the_upper_limit_of_timestamps() -> None:
    log = new_log(timestamp_after_max_ms=HOUR)
    assert indexes(refused(log, batch(0, NOW + HOUR + 1))) == [1]
    log.append(batch(0, NOW + HOUR), NOW)


def test_limits_do_not_hold_where_the_log_sets_the_time() -> None:
    log = new_log(timestamp_before_max_ms=HOUR, append_time=True)
    assert log.append(batch(5), NOW).log_append_time_ms == NOW
    assert stored(log)[0][1][0].timestamp == NOW


def test_a_wrong_timestamp_weighs_more_than_a_missing_key() -> None:
    log = new_log(timestamp_before_max_ms=HOUR, cleanup_compact=True)
    refusal = refused(log, encode_batch([(NOW, None, b"v", ()), (1, b"k", b"v", ()), (1, None, b"v", ())]))
    assert refusal.code == ErrorCode.INVALID_TIMESTAMP
    assert indexes(refusal) == [0, 1, 2]


def test_a_producer_that_claims_append_time() -> None:
    """A CreateTime topic takes its timestamp for a record's; where the log sets the time, every record is named."""
    data = bytearray(batch(NOW - 2, NOW - 1))
    stamp_times(data, read_header(bytes(data)), TIMESTAMP_TYPE_BIT, NOW - 1)
    refusal = refused(new_log(append_time=True), bytes(data))
    assert (refusal.code, indexes(refusal)) == (ErrorCode.INVALID_TIMESTAMP, [0, 1])
    log = new_log()
    log.append(bytes(data), NOW)
    assert [h.attributes for h, _ in stored(log)] == [0]


@pytest.mark.parametrize("target", [NONE, GZIP, SNAPPY, LZ4, ZSTD])
@pytest.mark.parametrize("codec", [NONE, GZIP, SNAPPY, LZ4, ZSTD])
def test_the_topics_compression(codec: int, target: int) -> None:
    """Offsets, timestamps, producer and transaction stay; an independent reader reads the batch."""
    log = new_log(compression=target)
    log.append(batch(NOW, codec=codec), NOW)
    sent = batch(
        NOW + 5,
        NOW,
        NOW + 9,
        codec=codec,
        producer_id=7,
        producer_epoch=1,
        base_sequence=3,
        attributes=TRANSACTIONAL_BIT,
    )
    log.append(sent, NOW)
    header, records = stored(log)[1]
    fields = header._replace(length=0, crc=0, attributes=header.attributes & ~COMPRESSION_MASK)
    assert fields == read_header(sent)._replace(
        base_offset=1, leader_epoch=0, length=0, crc=0, attributes=TRANSACTIONAL_BIT
    )
    assert header.codec == target
    assert [(r.offset, r.timestamp, r.headers) for r in records] == [
        (1, NOW + 5, (("h", b"x"),)),
        (2, NOW, (("h", b"x"),)),
        (3, NOW + 9, (("h", b"x"),)),
    ]
    other = MemoryRecords(log.read(0, 100_000))
    seen = []
    while other.has_next():
        one = other.next_batch()
        assert one.validate_crc()
        seen += [(r.offset, r.timestamp, r.value) for r in one]
    assert seen == [(0, NOW, b"v" * 300), (1, NOW + 5, b"v" * 300), (2, NOW, b"v" * 300), (3, NOW + 9, b"v" * 300)]


def test_a_batch_in_the_topics_compression_is_kept_byte_by_byte() -> None:
    log = new_log(compression=GZIP)
    sent = batch(NOW, NOW, codec=GZIP)
    log.append(sent, NOW)
    assert log.read(0, 100_000)[16:] == sent[16:]


def test_compression_with_append_time() -> None:
    log = new_log(compression=LZ4, append_time=True)
    log.append(batch(5, 9), NOW)
    header, records = stored(log)[0]
    assert (header.codec, header.max_timestamp, {r.timestamp for r in records}) == (LZ4, NOW, {NOW})


def test_the_level_of_compression() -> None:
    items = [(NOW, b"%d" % n, b"value %d" % (n * n), ()) for n in range(2000)]
    sizes = []
    for level in (1, 9):
        log = new_log(compression=GZIP, level=level)
        log.append(encode_batch(items), NOW)
        sizes.append(log.size)
    assert sizes[1] < sizes[0]


def test_a_control_batch_is_not_compressed_anew() -> None:
    log = new_log(compression=GZIP)
    log.append(batch(NOW, producer_id=7, producer_epoch=0, base_sequence=0, attributes=TRANSACTIONAL_BIT), NOW)
    log.append_own(end_of_transaction(7, 0, True, 0, NOW), NOW)
    assert [h.codec for h, _ in stored(log)] == [GZIP, NONE]


def test_a_batch_too_large_once_compressed_anew() -> None:
    sent = encode_batch([(NOW, b"k", b"v" * 5000, ())], codec=GZIP)
    assert refused(new_log(compression=NONE, max_message_bytes=1000), sent).code == ErrorCode.MESSAGE_TOO_LARGE


def test_a_batch_too_short_for_the_records_it_claims() -> None:
    """A few bytes must not use up two billion offsets."""
    sent = encode_batch([(NOW, None, None, ())] * 2)
    new_log().append(sent, NOW)
    wrong = sealed(sent[61:], read_header(sent)._replace(record_count=3, last_offset_delta=2))
    assert refused(new_log(), wrong).code == ErrorCode.INVALID_RECORD


def test_a_negative_timestamp_counts_as_none() -> None:
    log = new_log()
    log.append(batch(-5), NOW)
    assert stored(log)[0][0].max_timestamp == -1


def test_a_count_that_is_not_true_is_found_where_records_are_read() -> None:
    sent = batch(NOW, NOW)
    header = read_header(sent)
    for count in (1, 3):
        wrong = sealed(sent[61:], header._replace(record_count=count, last_offset_delta=count - 1))
        assert refused(new_log(compression=GZIP), wrong).code == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize(
    ("version", "code"),
    [(2, None), (3, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE), (7, None)],
    ids=["unchecked", "before", "since"],
)
def test_zstd_needs_produce_7(version: int, code: ErrorCode | None) -> None:
    data = batch(NOW, codec=ZSTD)
    if code is None:
        assert produced_batch(data, version) == (data, read_header(data))
        return
    with pytest.raises(Refusal) as refusal:
        produced_batch(data, version)
    assert refusal.value.code == code


def test_a_produce_carries_one_batch_for_a_partition() -> None:
    one = batch(NOW)
    assert produced_batch(one + b"torn", 3) == (one, read_header(one))
    offset = bytearray(one)
    stamp(offset, 0, 5, -1)
    assert refused(new_log(), bytes(offset)).code == ErrorCode.INVALID_RECORD
    control = batch(NOW, attributes=CONTROL_BIT)
    assert refused(new_log(), control).code == ErrorCode.INVALID_RECORD
    for data, code in (
        (b"", ErrorCode.INVALID_RECORD),
        (one[:-1], ErrorCode.INVALID_RECORD),
        (one + one, ErrorCode.INVALID_RECORD),
        (one[:16] + b"\x01" + one[17:], ErrorCode.INVALID_RECORD),
        (one[:16] + b"\x03" + one[17:], ErrorCode.CORRUPT_MESSAGE),
    ):
        with pytest.raises(Refusal) as refusal:
            produced_batch(data, 3)
        assert refusal.value.code == code


def test_a_produce_before_3_may_carry_nothing() -> None:
    """Kafka checks what a Produce carries from version 3 on; before, records without a whole batch are nothing to append."""
    one = batch(NOW)
    assert produced_batch(one, 2) == (one, read_header(one))
    for data in (b"", one[:16], one[:-1]):
        assert produced_batch(data, 2) is None


def test_a_repeat_is_answered_with_the_time_of_the_first() -> None:
    log = new_log()
    sent = batch(NOW - 7, producer_id=7, producer_epoch=0, base_sequence=0)
    assert log.append(sent, NOW).log_append_time_ms == -1
    again = log.append(sent, NOW + 1)
    assert (again.duplicate, again.base_offset, again.log_append_time_ms) == (True, 0, NOW - 7)


@pytest.mark.parametrize("codec", [NONE, GZIP, SNAPPY, LZ4, ZSTD])
def test_max_decompressed_message_bytes_limits_the_records_of_compressed_batches(codec: int) -> None:
    """A record without its length, as Kafka 4.4 counts it; batches that are not compressed have max.message.bytes."""
    sent = batch(NOW, NOW, codec=codec)
    assert new_log(max_decompressed_message_bytes=312).append(sent, NOW)
    log = new_log(max_decompressed_message_bytes=311)
    if codec == NONE:
        assert log.append(sent, NOW)
    else:
        refusal = refused(log, sent)
        assert refusal.code == ErrorCode.INVALID_RECORD
        assert str(refusal) == "record 0 has 312 bytes without compression; max.decompressed.message.bytes is 311"
