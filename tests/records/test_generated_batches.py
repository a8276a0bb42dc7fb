"""Generated records in every format and codec: what is written is read, by every decoder and an independent reader."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record.memory_records import MemoryRecords

from coterie.records import columnar, compiled, compression
from coterie.records.batch import (
    CONTROL_BIT,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    BatchError,
    BatchRecord,
    batch_span,
    batches,
    check_crc,
    is_undamaged,
    read_header,
    stamp,
    stamp_times,
)
from coterie.records.compression import LZ4, CompressionError, UncompressedTooLarge
from coterie.records.decoding import decode_records
from coterie.records.encoding import encode_batch, rebuild_batch
from coterie.records.message_sets import is_legacy, to_batch, to_message_set
from coterie.wire.primitives import java_long
from tests.records.test_malformed_records import check_all
from tests.records.test_old_formats import COMPARED, OLD_CODECS, read

Item = tuple[int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]

CODECS = range(5)
EXTREME_TIMESTAMPS = (-1, 0, 1, 2**31, 1_700_000_000_000, 2**62, 2**63 - 1)
# Lengths around those at which a varint takes one byte more.
blobs = st.none() | st.binary(max_size=12) | st.sampled_from((0, 63, 64, 65, 300, 8_191, 8_192)).map(lambda n: b"x" * n)
timestamps = st.sampled_from(EXTREME_TIMESTAMPS) | st.integers(-1, 2**63 - 1)
header_lists = st.lists(
    st.tuples(st.sampled_from(("", "h", "h", "ä€𝄞")), st.none() | st.binary(max_size=3)), max_size=3
)
items = st.tuples(timestamps, blobs, blobs, header_lists.map(tuple))
# `decode_records` takes numpy from 32 records on.
item_lists = st.lists(items, min_size=1, max_size=6) | st.lists(items, min_size=3, max_size=6).map(
    lambda some: some * 12
)


def as_items(records: Sequence[BatchRecord]) -> list[Item]:
    return [(r.timestamp, r.key, r.value, r.headers) for r in records]


def at_offset(data: bytes | bytearray, offset: int, epoch: int = 0) -> bytes:
    stamped = bytearray(data)
    stamp(stamped, 0, offset, epoch)
    return bytes(stamped)


def independent(data: bytes) -> list[tuple[Any, ...]]:
    """(offset, timestamp, key, value, headers) of each record of batches v2, as kafka-python sees them; a sum of base
    timestamp and delta wraps in Java, and not in Python."""
    decoded: list[tuple[Any, ...]] = []
    reader = MemoryRecords(data)
    while reader.has_next():
        batch = reader.next_batch()
        assert batch.validate_crc()
        decoded += [(r.offset, java_long(r.timestamp), r.key, r.value, tuple(r.headers)) for r in batch]
    return decoded


@settings(max_examples=120, derandomize=True)
@given(item_lists, st.sampled_from(CODECS))
def test_every_decoder_reads_what_was_written(given_items: list[Item], codec: int) -> None:
    data = encode_batch(given_items, codec=codec)
    assert as_items(decode_records(data, 0, read_header(data))) == given_items
    with pytest.MonkeyPatch.context() as patch:
        check_all(data, patch)
    assert [row[1:] for row in independent(data)] == given_items


@settings(max_examples=80, derandomize=True)
@given(
    item_lists,
    st.sampled_from(CODECS),
    st.integers(0, 2**62),
    st.integers(0, 2**31 - 1),
    st.integers(-1, 2**62),
    st.integers(-1, 2**15 - 1),
    st.integers(-1, 2**31 - 1) | st.integers(2**31 - 9, 2**31 - 1),
    st.sampled_from((0, TRANSACTIONAL_BIT, TIMESTAMP_TYPE_BIT, TRANSACTIONAL_BIT | CONTROL_BIT)),
)
def test_the_header_is_that_of_an_independent_reader(
    given_items: list[Item],
    codec: int,
    offset: int,
    leader_epoch: int,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
    attributes: int,
) -> None:
    data = encode_batch(
        given_items,
        codec=codec,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        attributes=attributes,
    )
    crc = read_header(data).crc
    data = at_offset(data, offset, leader_epoch)
    header, other = read_header(data), MemoryRecords(data).next_batch()
    check_crc(data, 0, header)
    assert is_undamaged(data, header)
    assert (header.base_offset, header.leader_epoch, header.magic, header.crc) == (offset, leader_epoch, 2, crc)
    assert (header.size, header.record_count) == (len(data), len(given_items))
    assert batch_span(data, 0) == (header.last_offset, len(data)) == (offset + len(given_items) - 1, len(data))
    assert header.max_timestamp == max(item[0] for item in given_items)
    assert (other.base_offset, other.leader_epoch, other.magic, other.crc) == header[:1] + header[2:5]
    assert (other.attributes, other.last_offset_delta, header.base_timestamp) == (*header[5:7], given_items[0][0])
    assert (other.max_timestamp, other.producer_id, other.producer_epoch, other.base_sequence) == header[8:12]
    assert (header.codec, header.is_transactional, header.is_control) == (
        other.compression_type,
        other.is_transactional,
        other.is_control_batch,
    )
    last = base_sequence
    for _ in range(len(given_items) - 1):
        last = 0 if last == 2**31 - 1 else last + 1
    assert base_sequence < 0 or header.last_sequence == last


@settings(max_examples=80, derandomize=True)
@given(item_lists, st.sampled_from(CODECS), st.data())
def test_a_rebuilt_batch_keeps_offsets_and_describes_what_is_left(
    given_items: list[Item], codec: int, data: st.DataObject
) -> None:
    """The largest timestamp is that of the records left (Kafka's MemoryRecords.filterTo builds the batch again)."""
    whole = encode_batch(given_items, codec=codec, attributes=TRANSACTIONAL_BIT, producer_id=7, producer_epoch=1)
    header = read_header(whole)
    records = decode_records(whole, 0, header)
    kept = [r for r in records if data.draw(st.booleans())] or records[-1:]
    rebuilt = rebuild_batch(header, kept)
    after = read_header(rebuilt)
    check_crc(rebuilt, 0, after)
    assert decode_records(rebuilt, 0, after) == kept
    with pytest.MonkeyPatch.context() as patch:
        check_all(rebuilt, patch)
    assert after.max_timestamp == max(r.timestamp for r in kept)
    assert after == header._replace(
        length=after.length,
        crc=after.crc,
        attributes=codec,
        max_timestamp=after.max_timestamp,
        record_count=len(kept),
    )
    assert [row[0] for row in independent(rebuilt)] == [r.offset for r in kept]


@settings(max_examples=60, derandomize=True)
@given(
    st.lists(
        st.tuples(st.lists(items, min_size=1, max_size=4), st.sampled_from(CODECS), st.integers(0, 3)),
        min_size=1,
        max_size=6,
    ),
    st.integers(0, 60),
)
def test_columns_of_many_batches(sets: list[tuple[list[Item], int, int]], cut: int) -> None:
    """Batches of every codec, of create and append time, in and out of transactions, control batches among them, and the
    last one cut short: the columns are the records of the whole ones, with the compiled part and without."""
    data, offset, expected, controls, last = b"", 0, [], [], 0
    for given_items, codec, kind in sets:
        attributes = (0, TIMESTAMP_TYPE_BIT, TRANSACTIONAL_BIT, TRANSACTIONAL_BIT | CONTROL_BIT)[kind]
        batch = bytearray(encode_batch(given_items, codec=codec, attributes=attributes, producer_id=9))
        if kind == 1:
            stamp_times(batch, read_header(bytes(batch)), attributes | codec, 77)
        stamp(batch, 0, offset, 0)
        if kind == 3:
            controls.append(len(data))
        else:
            for number, (timestamp, key, value, headers) in enumerate(given_items):
                row = (77 if kind == 1 else timestamp, int(kind == 1), 9 if kind == 2 else -1, key, value, headers)
                expected.append((offset + number, *row))
        last, data, offset = len(data), data + bytes(batch), offset + len(given_items) + kind
    tail = data[last:][: -cut - 1]  # never whole
    for is_compiled in {False, columnar.COMPILED}:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(columnar, "COMPILED", is_compiled)
            patch.setattr(compiled, "COMPILED", is_compiled)
            columns, at = columnar.unfold(data + tail, with_headers=True)
        assert at == controls
        if columns is None:
            assert expected == []
            continue
        rows = zip(
            columns.offsets.tolist(),
            columns.timestamps.tolist(),
            columns.timestamp_types.tolist(),
            columns.producer_ids.tolist(),
            columns.keys.to_pylist(),
            columns.values.to_pylist(),
            [tuple((h["key"], h["value"]) for h in row) for row in columns.headers.to_pylist()],
            strict=True,
        )
        assert list(rows) == expected


@settings(max_examples=300, derandomize=True)
@given(item_lists)
def test_both_encoders_write_the_same_bytes(given_items: list[Item]) -> None:
    written = set()
    for is_compiled in {False, compiled.ENCODING_COMPILED}:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(compiled, "ENCODING_COMPILED", is_compiled)
            written.add(encode_batch(given_items))
    assert len(written) == 1


@settings(max_examples=80, derandomize=True)
@given(item_lists, st.sampled_from((0, 1)), st.sampled_from(OLD_CODECS), st.integers(0, 2**40), st.booleans())
def test_old_formats_there_and_back(
    given_items: list[Item], magic: int, codec: int, offset: int, append_time: bool
) -> None:
    """Headers go, and with format 0 timestamps; keys, values, offsets and codec stay."""
    batch = bytearray(encode_batch(given_items, codec=codec))
    if append_time:
        stamp_times(batch, read_header(bytes(batch)), TIMESTAMP_TYPE_BIT | codec, 77)
    message_set = to_message_set(at_offset(batch, offset), magic, offset)
    assert is_legacy(message_set)
    back = to_batch(message_set)
    header = read_header(back)
    check_crc(back, 0, header)
    times = [-1 if magic == 0 else 77 if append_time else item[0] for item in given_items]
    assert header.codec == codec
    assert as_items(decode_records(back, 0, header)) == [
        (time, key, value, ()) for time, (_, key, value, _) in zip(times, given_items, strict=True)
    ]
    if (magic, codec) in COMPARED:
        kind = None if magic == 0 else int(append_time)
        assert read(message_set) == [
            (offset + n, None if magic == 0 else times[n], kind, key, value)
            for n, (_, key, value, _) in enumerate(given_items)
        ]


@settings(max_examples=60, derandomize=True)
@given(
    st.lists(st.tuples(st.lists(items, min_size=1, max_size=4), st.sampled_from((0, 1, 2))), min_size=1, max_size=5),
    st.sampled_from((0, 1)),
    st.data(),
)
def test_a_message_set_holds_the_first_records_from_the_offset_on(
    sets: list[tuple[list[Item], int]], magic: int, data: st.DataObject
) -> None:
    stored, offset, records = b"", 0, []
    for given_items, codec in sets:
        stored += at_offset(encode_batch(given_items, codec=codec), offset)
        records += [(offset + n, item[1], item[2]) for n, item in enumerate(given_items)]
        offset += len(given_items)
    first = data.draw(st.integers(0, offset - 1))
    starting = next(position for position, header in batches(stored) if header.last_offset >= first)
    message_set = to_message_set(stored[starting:], magic, first)
    got = [(o, key, value) for o, _, _, key, value in read(message_set)]
    begin = got[0][0]
    assert begin == (first if not read_header(stored, starting).codec else read_header(stored, starting).base_offset)
    assert got == records[begin : begin + len(got)]
    assert len(message_set) >= len(stored) - starting or got[-1][0] == offset - 1


@settings(max_examples=60, derandomize=True)
@given(items, st.sampled_from(CODECS), st.data())
def test_a_flipped_bit_is_refused_from_the_crc_on(item: Item, codec: int, data: st.DataObject) -> None:
    batch = bytearray(encode_batch([item], codec=codec))
    at = data.draw(st.integers(17, len(batch) - 1))
    batch[at] ^= 1 << data.draw(st.integers(0, 7))
    header = read_header(bytes(batch))
    assert not is_undamaged(bytes(batch), header)
    with pytest.raises(BatchError):
        check_crc(bytes(batch), 0, header)


pieces = st.lists(st.tuples(st.binary(min_size=1, max_size=40), st.sampled_from((1, 2, 700, 3_000))), max_size=5)


@settings(max_examples=80, derandomize=True)
@given(
    pieces.map(lambda some: b"".join(piece * times for piece, times in some)), st.sampled_from(range(1, 5)), st.data()
)
def test_compression_is_bounded_to_the_byte(plain: bytes, codec: int, data: st.DataObject) -> None:
    packed = compression.compress(codec, plain)
    assert compression.decompress(codec, packed, limit=len(plain)) == plain
    if plain:
        with pytest.raises(UncompressedTooLarge):
            compression.decompress(codec, packed, limit=data.draw(st.integers(0, len(plain) - 1)))
    cut = packed[: data.draw(st.integers(0, len(packed) - 1))]
    try:
        unfolded = compression.decompress(codec, cut)
    except CompressionError:
        pass
    else:  # snappy's blocks stand alone, so that a cut between two is none
        assert codec == compression.SNAPPY
        assert plain.startswith(unfolded)
    if codec == LZ4:
        assert (
            compression.decompress_lz4_format_0(
                compression.lz4_of_format_0(compression.compress(compression.LZ4, plain))
            )
            == plain
        )
