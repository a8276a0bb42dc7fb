"""A partition's log: offsets, reads, times, segments, retention, producers, and what a crash leaves."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from coterie.log.config import LogConfig
from coterie.log.filesystem import FileSystem, MemoryFile, MemoryFileSystem
from coterie.log.partition_log import PartitionLog
from coterie.log.reading import max_timestamp_offset, offset_for_timestamp
from coterie.log.retention import delete_records, retain
from coterie.records.batch import batches
from coterie.records.decoding import decode_records
from coterie.records.encoding import encode_batch
from coterie.wire.errors import ErrorCode, Refusal

NOW = 1_700_000_000_000


def open_log(fs: FileSystem, clean: bool = True, **config: Any) -> PartitionLog:
    return PartitionLog.open(fs, "t-0", LogConfig(**config), clean=clean)


def fill(log: PartitionLog, count: int, per_batch: int = 3, start_ms: int = NOW) -> None:
    for n in range(count):
        log.append(encode_batch([(start_ms + n, b"k", b"v" * 50, ())] * per_batch), start_ms + n)


def offsets_in(data: bytes) -> list[int]:
    return [r.offset for p, h in batches(data) for r in decode_records(data, p, h)]


def test_offsets_go_on_over_batches_and_segments() -> None:
    log = open_log(MemoryFileSystem(), segment_bytes=2000, index_interval_bytes=200)
    fill(log, 100)
    assert log.end_offset == 300
    assert len(log.segments) > 5
    read: list[int] = []
    while len(read) < 300:
        read += offsets_in(log.read(len(read), 700))
    assert read == list(range(300))


@pytest.mark.parametrize("offset", range(0, 300, 7))
def test_a_read_begins_with_the_batch_that_holds_the_offset(offset: int) -> None:
    log = open_log(MemoryFileSystem(), segment_bytes=2000, index_interval_bytes=200)
    fill(log, 100)
    first = offsets_in(log.read(offset, 1))
    assert offset in first
    assert len(first) == 3, "a batch larger than the limit comes whole"
    assert log.read(offset, 1, at_least_one=False) == b""


def test_reading_outside_of_the_log() -> None:
    log = open_log(MemoryFileSystem())
    fill(log, 2)
    assert log.read(6, 1000) == b""
    for offset in (-1, 7):
        with pytest.raises(Refusal) as refused:
            log.read(offset, 1000)
        assert refused.value.code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_offsets_by_time() -> None:
    log = open_log(MemoryFileSystem(), segment_bytes=2000, index_interval_bytes=200)
    fill(log, 100)
    assert offset_for_timestamp(log, 0) == (0, NOW)
    assert offset_for_timestamp(log, NOW + 50) == (150, NOW + 50)
    assert offset_for_timestamp(log, NOW + 100) is None
    assert max_timestamp_offset(log) == (297, NOW + 99)


@pytest.mark.parametrize("clean", [True, False])
def test_reopening_finds_everything(clean: bool) -> None:
    fs = MemoryFileSystem()
    log = open_log(fs, segment_bytes=2000, index_interval_bytes=200)
    fill(log, 100)
    log.close()
    again = open_log(fs, clean, segment_bytes=2000, index_interval_bytes=200)
    assert again.end_offset == 300
    assert offset_for_timestamp(again, NOW + 77) == (231, NOW + 77)
    assert offsets_in(again.read(298, 10_000)) == [297, 298, 299]
    fill(again, 1)
    assert again.end_offset == 303


def test_the_index_files_are_kafkas() -> None:
    """Kafka's DumpLogSegments --verify-index-only found our first index pointing at a batch's first offset, not its
    last; and a timestamp's offset must be that of the batch which has it."""
    fs = MemoryFileSystem()
    log = open_log(fs, index_interval_bytes=200)
    fill(log, 100)
    fill(log, 5, start_ms=NOW)
    data = bytes(fs.files["t-0/00000000000000000000.log"].data)
    by_position = dict(batches(data))
    entries = list(struct.iter_unpack(">ii", fs.files["t-0/00000000000000000000.index"].data))
    assert len(entries) > 20
    assert all(by_position[position].last_offset == offset for offset, position in entries)
    times = list(struct.iter_unpack(">qi", fs.files["t-0/00000000000000000000.timeindex"].data))
    assert len(times) > 20
    largest = {h.last_offset: h.max_timestamp for h in by_position.values()}
    for timestamp, offset in times:
        assert largest[offset] == timestamp
        assert all(t <= timestamp for last, t in largest.items() if last <= offset)


def test_a_torn_tail_is_cut_off_at_every_length() -> None:
    fs = MemoryFileSystem()
    log = open_log(fs)
    fill(log, 5)
    whole = bytes(fs.files["t-0/00000000000000000000.log"].data)
    last = max(p for p, _ in batches(whole))
    for length in range(last, len(whole)):
        torn = MemoryFileSystem()
        torn.open("t-0/00000000000000000000.log").append(whole[:length])
        assert open_log(torn, clean=False).end_offset == 12, f"cut at {length}"
        assert torn.files["t-0/00000000000000000000.log"].size() == last


def test_a_flipped_bit_in_the_last_segment_costs_one_batch() -> None:
    fs = MemoryFileSystem()
    fill(open_log(fs), 5)
    data = fs.files["t-0/00000000000000000000.log"].data
    data[len(data) // 2] ^= 1
    log = open_log(fs, clean=False)
    assert log.end_offset == 15
    assert offsets_in(log.read(0, 10_000)) == [0, 1, 2, 3, 4, 5, 9, 10, 11, 12, 13, 14]


def test_a_bad_batch_is_refused_whole() -> None:
    log = open_log(MemoryFileSystem(), max_message_bytes=300)
    good = encode_batch([(NOW, b"k", b"v", ())])
    damaged = bytearray(good)
    damaged[-1] ^= 1
    too_large = encode_batch([(NOW, b"k", b"v" * 400, ())])
    control = encode_batch([(NOW, b"k", b"v", ())], attributes=0x20)
    for data, code in (
        (bytes(damaged), ErrorCode.CORRUPT_MESSAGE),
        (good + good, ErrorCode.CORRUPT_MESSAGE),
        (good[:-1], ErrorCode.CORRUPT_MESSAGE),
        (b"", ErrorCode.CORRUPT_MESSAGE),
        (too_large, ErrorCode.MESSAGE_TOO_LARGE),
        (control, ErrorCode.INVALID_RECORD),
    ):
        with pytest.raises(Refusal) as refused:
            log.append(data, NOW)
        assert refused.value.code == code
    assert log.end_offset == 0


def test_append_time() -> None:
    log = open_log(MemoryFileSystem(), append_time=True)
    assert log.append(encode_batch([(5, b"k", b"v", ())]), NOW).log_append_time_ms == NOW
    data = log.read(0, 1000)
    ((position, header),) = batches(data)
    assert decode_records(data, position, header)[0].timestamp == NOW
    assert offset_for_timestamp(log, NOW) == (0, NOW)


def idempotent(sequence: int, count: int = 2, epoch: int = 0, producer: int = 7) -> bytes:
    items = [(NOW, b"k", b"v", ())] * count
    return encode_batch(items, producer_id=producer, producer_epoch=epoch, base_sequence=sequence)


def code_of(log: PartitionLog, data: bytes) -> ErrorCode:
    with pytest.raises(Refusal) as refused:
        log.append(data, NOW)
    return refused.value.code


def test_idempotence() -> None:
    fs = MemoryFileSystem()
    log = open_log(fs)
    first = [log.append(idempotent(s), NOW) for s in (0, 2, 4, 6, 8, 10)]
    assert [a.base_offset for a in first] == [0, 2, 4, 6, 8, 10]
    for sequence, offset in ((10, 10), (2, 2)):
        repeat = log.append(idempotent(sequence), NOW)
        assert (repeat.base_offset, repeat.duplicate) == (offset, True)
    assert code_of(log, idempotent(0)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, "older than the last five batches"
    assert code_of(log, idempotent(14)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert code_of(log, idempotent(5, epoch=1)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    log.append(idempotent(0, epoch=1), NOW)
    assert code_of(log, idempotent(12)) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert log.end_offset == 14


@pytest.mark.parametrize("clean", [True, False])
def test_producers_survive_a_restart(clean: bool) -> None:
    fs = MemoryFileSystem()
    log = open_log(fs)
    log.append(idempotent(0), NOW)
    log.append(idempotent(2), NOW)
    if clean:
        log.close()
    again = open_log(fs, clean=clean)
    assert again.append(idempotent(2), NOW).duplicate
    assert again.append(idempotent(4), NOW).base_offset == 4


def test_sequences_wrap() -> None:
    log = open_log(MemoryFileSystem())
    log.append(idempotent(2**31 - 2), NOW)
    assert log.append(idempotent(0), NOW).base_offset == 2


def test_retention_by_time_and_size() -> None:
    fs = MemoryFileSystem()
    log = open_log(fs, segment_bytes=2000, retention_ms=1000)
    fill(log, 50)
    fill(log, 50, start_ms=NOW + 5000)
    assert retain(log, NOW + 5500) > 0
    assert 0 < log.log_start_offset <= 150
    assert retain(log, NOW + 60_000) > 0
    assert (log.log_start_offset, log.end_offset) == (300, 300)
    small = open_log(MemoryFileSystem(), segment_bytes=2000, retention_bytes=5000, retention_ms=-1)
    fill(small, 100)
    retain(small, NOW)
    assert 5000 <= small.size < 8000


def test_records_without_a_timestamp_are_as_old_as_their_last_write() -> None:
    """Those of Produce 0 and 1 were deleted by retention.ms as soon as they were there."""
    log = open_log(MemoryFileSystem(), segment_bytes=200, retention_ms=1_000)
    for n in range(4):
        log.append(encode_batch([(-1, b"k", b"v" * 50, ())]), NOW + n * 600)
    assert retain(log, NOW + 1_000) == 0
    assert retain(log, NOW + 1_800) > 0
    assert log.log_start_offset > 0
    assert retain(log, NOW + 2_801) > 0
    assert log.log_start_offset == log.end_offset


def append_at(log: PartitionLog, timestamp_ms: int, now_ms: int) -> int:
    """The number of segments after an append of one record."""
    log.append(encode_batch([(timestamp_ms, b"k", b"v", ())]), now_ms)
    return len(log.segments)


def test_segments_roll_by_the_timestamps_of_their_batches() -> None:
    """testTimeBasedLogRollDuringAppend: the age was that of the first append, and started again when the log was opened."""
    fs = MemoryFileSystem()
    log = open_log(fs, segment_ms=1_000)
    assert append_at(log, NOW, NOW) == 1
    assert append_at(log, NOW + 1_000, NOW) == 1, "as old as segment.ms is not older"
    assert append_at(log, NOW + 500, NOW + 90_000) == 1, "the clock does not count"
    log.close()
    log = open_log(fs, segment_ms=1_000)
    assert append_at(log, NOW + 1_001, NOW) == 2
    assert append_at(log, NOW - 90_000, NOW) == 2, "older than the segment's first"
    assert append_at(log, NOW + 2_002, NOW) == 3
    assert [segment.first_timestamp for segment in log.segments] == [NOW, NOW + 1_001, NOW + 2_002]


def test_segments_without_timestamps_roll_by_the_clock() -> None:
    """Also Kafka's counts again from the opening."""
    fs = MemoryFileSystem()
    log = open_log(fs, segment_ms=1_000)
    assert append_at(log, -1, NOW) == 1
    assert append_at(log, NOW + 90_000, NOW + 1_000) == 1, "the first batch decides"
    assert append_at(log, -1, NOW + 1_001) == 2
    log.close()
    log = open_log(fs, segment_ms=1_000)
    assert append_at(log, -1, NOW + 5_000) == 2
    assert append_at(log, -1, NOW + 6_001) == 3


@pytest.mark.parametrize("setting", [{"retention_bytes": 0, "retention_ms": -1}, {"retention_ms": 0}])
def test_retention_of_nothing_deletes_the_active_segment_too(setting: dict[str, Any]) -> None:
    """Kafka's UnifiedLog.deleteSegments rolls where no segment would be left."""
    log = open_log(MemoryFileSystem(), segment_bytes=200, **setting)
    fill(log, 3, per_batch=1)
    count = len(log.segments)
    assert retain(log, NOW + 10) == count
    assert (log.log_start_offset, log.end_offset, log.size) == (3, 3, 0)
    assert retain(log, NOW + 10) == 0
    log = open_log(log.fs, segment_bytes=200)
    assert (log.log_start_offset, log.end_offset) == (3, 3)


def test_retention_deletes_a_segment_whose_records_were_deleted_while_it_was_the_last() -> None:
    """Kafka's UnifiedLog.deleteLogStartOffsetBreachedSegments; the file stayed until the next DeleteRecords."""
    log = open_log(MemoryFileSystem(), segment_bytes=200, retention_ms=-1)
    fill(log, 1, per_batch=1)
    delete_records(log, 1)
    fill(log, 1, per_batch=2)
    assert [segment.base_offset for segment in log.segments] == [0, 1]
    assert retain(log, NOW) == 1
    assert [segment.base_offset for segment in log.segments] == [1]


def test_the_last_stable_offset_is_not_below_the_logs_start() -> None:
    """Offsets for the latest record that readers of committed records may have were out of range."""
    log = open_log(MemoryFileSystem())
    fill(log, 1)
    for sequence in (0, 1):
        sent = encode_batch(
            [(NOW, b"k", b"v", ())], producer_id=7, producer_epoch=0, base_sequence=sequence, attributes=0x10
        )
        log.append(sent, NOW)
    assert log.last_stable_offset == 3
    delete_records(log, 4)
    assert log.last_stable_offset == 4


def test_delete_records() -> None:
    fs = MemoryFileSystem()
    log = open_log(fs, segment_bytes=2000)
    fill(log, 100)
    assert delete_records(log, 150) == 150
    assert log.log_start_offset == 150
    with pytest.raises(Refusal):
        log.read(149, 100)
    with pytest.raises(Refusal):
        delete_records(log, 301)
    assert delete_records(log, -1) == 300
    assert len([n for n in fs.names("t-0") if n.endswith(".log")]) == 1


class FillingFile(MemoryFile):
    """Takes only half of a write once its disk is full."""

    def __init__(self, disk: FullDisk) -> None:
        super().__init__()
        self._disk = disk

    def append(self, data: bytes | bytearray) -> None:
        if self._disk.full:
            super().append(bytes(data[: len(data) // 2]))
            raise OSError(28, "No space left on device")
        super().append(data)


class FullDisk(MemoryFileSystem):
    full = False

    def open(self, path: str) -> MemoryFile:
        return self.files.setdefault(path, FillingFile(self)) if path.endswith(".log") else super().open(path)


def test_a_full_disk_leaves_no_half_batch() -> None:
    fs = FullDisk()
    log = open_log(fs)
    fill(log, 2)
    fs.full = True
    with pytest.raises(OSError, match="No space"):
        fill(log, 1)
    fs.full = False
    fill(log, 1)
    assert offsets_in(log.read(0, 10_000)) == list(range(9))
    assert open_log(fs, clean=False).end_offset == 9


def test_a_fenced_producer_s_own_batches_are_refused() -> None:
    """A transaction's marker under a newer epoch fences what the old producer still sends."""
    from coterie.records.markers import end_of_transaction

    log = PartitionLog.open(MemoryFileSystem(), "o-0", LogConfig(), clean=True)
    log.append_own(end_of_transaction(7, 3, False, 0, 0), 0)
    with pytest.raises(Refusal) as refused:
        log.append_own(end_of_transaction(7, 2, True, 0, 0), 0)
    assert refused.value.code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert log.end_offset == 1


def test_records_of_the_broker_s_own_are_appended_as_the_batch_of_them_is() -> None:
    logs = [
        PartitionLog.open(MemoryFileSystem(), "o-0", LogConfig(segment_bytes=400), clean=True, leader_epoch=3)
        for _ in range(2)
    ]
    for count in (1, 3, 2):
        items = [(NOW + n % 2, b"k", None if n else b"v", ()) for n in range(count)]
        first, second = logs[0].append_own(encode_batch(items), NOW), logs[1].append_records(items, NOW)
        assert first == second
    for log in logs:
        with pytest.raises(Refusal) as refused:
            log.append_records([(NOW, b"k", b"v" * 400, ())], NOW)
        assert refused.value.code == ErrorCode.RECORD_LIST_TOO_LARGE
    whole = [log.read(0, 10_000) for log in logs]
    assert whole[0] == whole[1]
    assert [header.leader_epoch for _, header in batches(whole[0])] == [3, 3, 3]
    assert logs[0].epochs.cache.end_of(3, 6) == logs[1].epochs.cache.end_of(3, 6)


@pytest.mark.parametrize("keep", [0, 1, 80, 10_000])
def test_a_preallocated_segment_after_a_power_cut(keep: int) -> None:
    """The zeros that were reserved are no batches."""
    fs = MemoryFileSystem()
    log = open_log(fs, preallocate=True, segment_bytes=2000)
    fill(log, 4)
    log.sync()
    fill(log, 4)
    fs.crash(keep)
    assert fs.files[log.segments[-1].stem + ".log"].size() == 2000
    again = open_log(fs, clean=False, preallocate=True, segment_bytes=2000)
    assert 12 <= again.end_offset <= 24
    assert again.end_offset == (24 if keep == 10_000 else 12)
    fill(again, 20)
    assert offsets_in(again.read(0, 100_000))[0] == 0
    again.close()
    assert open_log(fs, preallocate=True, segment_bytes=2000).end_offset == again.end_offset


def test_a_closed_segment_gives_back_what_it_reserved() -> None:
    fs = MemoryFileSystem()
    log = open_log(fs, preallocate=True, segment_bytes=2000)
    fill(log, 20)
    assert [fs.files[s.stem + ".log"].reserved for s in log.segments] == [0] * (len(log.segments) - 1) + [2000]
    log.close()
    assert fs.files[log.segments[-1].stem + ".log"].reserved == 0
