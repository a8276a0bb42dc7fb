"""The pure parts of the clients beside models: partitioner, and positions over fetched batches."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from coterie.client.producer.partitions import murmur2, partition_for_key
from coterie.client.types import TopicPartition
from coterie.consuming.fetching.position import Position
from coterie.records import compiled
from coterie.records.batch import BatchError, stamp
from coterie.records.encoding import encode_batch
from coterie.wire.messages.logs.fetch import PartitionData


def murmur2_by_words(data: bytes) -> int:
    """The algorithm of Kafka's Utils.murmur2, word by word, with the tail byte by byte."""
    h = (0x9747B28C ^ len(data)) & 0xFFFF_FFFF
    words = len(data) // 4
    for k in struct.unpack_from(f"<{words}I", data):
        k = k * 0x5BD1E995 % 2**32
        k ^= k >> 24
        k = k * 0x5BD1E995 % 2**32
        h = h * 0x5BD1E995 % 2**32 ^ k
    tail = data[4 * words :]
    if len(tail) == 3:
        h ^= tail[2] << 16
    if len(tail) >= 2:
        h ^= tail[1] << 8
    if tail:
        h = (h ^ tail[0]) * 0x5BD1E995 % 2**32
    h ^= h >> 13
    h = h * 0x5BD1E995 % 2**32
    return h ^ h >> 15


@given(st.binary(max_size=70))
def test_murmur2_is_that_of_words_and_tail_bytes(data: bytes) -> None:
    assert murmur2(data) == murmur2_by_words(data)
    assert not compiled.ENCODING_COMPILED or compiled.murmur2(data) == murmur2(data)


@given(st.binary(max_size=20), st.integers(1, 5000))
@example(b"21", 7)  # its hash is negative in Java
def test_a_key_has_one_partition_among_those_there_are(key: bytes, partitions: int) -> None:
    assert partition_for_key(key, partitions) == (murmur2(key) % 2**31) % partitions


@dataclass
class Log:
    """A partition's batches of so many records, with gaps of so many offsets before them, as compaction leaves."""

    data: list[bytes] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)
    end: int = 0


def log_of(batches: list[tuple[int, int]]) -> Log:
    log = Log()
    for gap, count in batches:
        first = log.end + gap
        batch = bytearray(encode_batch([(1_000, None, str(first + n).encode(), ()) for n in range(count)]))
        stamp(batch, 0, first, 0)
        log.data.append(bytes(batch))
        log.offsets += range(first, first + count)
        log.end = first + count
    return log


layouts = st.lists(st.tuples(st.integers(0, 3), st.integers(1, 5)), min_size=1, max_size=6)


@given(layouts, st.integers(0, 30), st.lists(st.integers(1, 7), min_size=1), st.booleans())
def test_every_record_from_the_position_is_handed_out_once_in_order(
    layout: list[tuple[int, int]], start: int, limits: list[int], check_crcs: bool
) -> None:
    log = log_of(layout)
    start = min(start, log.end - 1)
    position = Position(TopicPartition("t", 0))
    position.start_at(start)
    position.store(
        PartitionData(0, records=b"".join(log.data), high_watermark=log.end),
        committed_only=False,
        check_crcs=check_crcs,
    )
    wanted = [offset for offset in log.offsets if offset >= start]
    assert position.fetch_offset == log.end
    taken: list[int] = []
    for turn in range(len(wanted) + 1):
        limit = limits[turn % len(limits)]
        records = position.take(limit)
        assert len(records) <= limit
        assert [r.value for r in records] == [str(r.offset).encode() for r in records]
        taken += [r.offset for r in records]
        following = wanted[len(taken)] if len(taken) < len(wanted) else log.end
        assert (taken[-1] if taken else -1) < position.offset <= following
    assert taken == wanted
    assert (position.offset, position.buffered_bytes, position.is_buffered()) == (log.end, 0, False)


@given(layouts, st.data())
def test_a_damaged_batch_is_refused_and_those_before_it_are_read(
    layout: list[tuple[int, int]], data: st.DataObject
) -> None:
    log = log_of(layout)
    damaged = data.draw(st.integers(0, len(log.data) - 1))
    broken = bytearray(log.data[damaged])
    broken[-1] ^= 1
    log.data[damaged] = bytes(broken)
    position = Position(TopicPartition("t", 0))
    position.start_at(0)
    with pytest.raises(BatchError):
        position.store(PartitionData(0, records=b"".join(log.data)), committed_only=False, check_crcs=True)
    read: list[int] = []
    while records := position.take(100):
        read += [r.offset for r in records]
    assert read == log.offsets[: sum(count for _, count in layout[:damaged])]
    assert position.fetch_offset == (read[-1] + 1 if read else 0), "the damaged one is where it would be read again"
