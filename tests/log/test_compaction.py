"""Compaction never loses the newest value of a key."""

from __future__ import annotations

import random
import struct
import tracemalloc
from typing import Any

import google_crc32c
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.log.compaction import clean, plan, swap, swapping
from coterie.log.config import LogConfig
from coterie.log.filesystem import MemoryFile, MemoryFileSystem
from coterie.log.follower_log import append_as_follower, truncate_to
from coterie.log.partition_log import PartitionLog
from coterie.log.reading import max_timestamp_offset, offset_for_timestamp
from coterie.log.retention import delete_records
from coterie.records.batch import HEADER_BYTES, TRANSACTIONAL_BIT, BatchError, batches
from coterie.records.compression import GZIP, NONE
from coterie.records.decoding import decode_records
from coterie.records.encoding import encode_batch
from coterie.records.markers import end_of_transaction, ends_transaction
from coterie.wire.errors import ErrorCode, Refusal

Item = tuple[bytes, bytes | None]
NEVER_MS = 10**15


def new_log(fs: MemoryFileSystem | None = None, segment_bytes: int = 600) -> PartitionLog:
    config = LogConfig(segment_bytes=segment_bytes, cleanup_compact=True, cleanup_delete=False)
    return PartitionLog.open(fs or MemoryFileSystem(), "c-0", config, clean=False)


def put(log: PartitionLog, *items: Item, codec: int = NONE, producer: int = -1, at_ms: int = 0) -> None:
    attributes = TRANSACTIONAL_BIT if producer >= 0 else 0
    records = [(at_ms, key, value, ()) for key, value in items]
    log.append_own(encode_batch(records, codec=codec, producer_id=producer, producer_epoch=0, attributes=attributes), 0)


def end(log: PartitionLog, producer: int, committed: bool) -> None:
    log.append_own(end_of_transaction(producer, 0, committed, 0, 0), 0)


def roll(log: PartitionLog) -> None:
    """Fills the active segment up, so that everything before is in closed ones."""
    start = log.segments[-1].base_offset
    while log.segments[-1].base_offset == start:
        put(log, (b"filler", b"x" * 100))


def compact(log: PartitionLog, now_ms: int = 0, delete_retention_ms: int = NEVER_MS) -> None:
    log.config.delete_retention_ms = delete_retention_ms
    wanted = plan(log, now_ms, force=True)
    if wanted is not None:
        assert swap(log, clean(wanted))


def records(log: PartitionLog) -> list[tuple[int, bytes, bytes | None]]:
    """Everything that a reader of committed records sees, in order."""
    rows: list[tuple[int, bytes, bytes | None]] = []
    pending: dict[int, list[tuple[int, bytes, bytes | None]]] = {}
    for segment in log.segments:
        data = segment.file.read(0, segment.size)
        for position, header in batches(data):
            decoded = decode_records(data, position, header)
            if header.is_control:
                held = pending.pop(header.producer_id, [])
                rows += held if ends_transaction(decoded[0]) else []
            elif header.is_transactional:
                pending.setdefault(header.producer_id, []).extend((r.offset, r.key or b"", r.value) for r in decoded)
            else:
                rows += [(r.offset, r.key or b"", r.value) for r in decoded]
    return sorted(rows)


def newest(log: PartitionLog) -> dict[bytes, bytes | None]:
    newest = {key: value for _, key, value in records(log)}
    return {k: v for k, v in newest.items() if v is not None and k != b"filler"}


def test_the_newest_value_of_each_key_stays() -> None:
    log = new_log()
    for n in range(20):
        put(log, (b"k%d" % (n % 3), b"%d" % n))
    roll(log)
    before, size, end_offset = newest(log), log.size, log.end_offset
    compact(log)
    assert newest(log) == before == {b"k0": b"18", b"k1": b"19", b"k2": b"17"}
    assert log.size < size
    assert log.end_offset == end_offset
    kept = [key for _, key, _ in records(log) if key != b"filler"]
    assert sorted(kept) == [b"k0", b"k1", b"k2"]


def test_offsets_stay_and_are_found_by_them() -> None:
    log = new_log()
    for n in range(30):
        put(log, (b"a", b"%d" % n), (b"b%d" % n, b"stays"))
    roll(log)
    compact(log)
    for offset in range(log.end_offset):
        data = log.read(offset, 10_000)
        (position, header), *_ = batches(data)
        assert header.last_offset >= offset
        if offset % 2 and offset < 60:
            by_offset = {r.offset: r.key for r in decode_records(data, position, header)}
            assert by_offset.get(offset) == b"b%d" % (offset // 2)


def test_the_active_segment_is_never_touched() -> None:
    log = new_log(segment_bytes=100_000)
    put(log, (b"k", b"1"))
    put(log, (b"k", b"2"))
    assert plan(log, 0, force=True) is None
    assert [value for _, _, value in records(log)] == [b"1", b"2"]


def test_a_tombstone_stays_for_its_time_and_goes_at_the_second_look() -> None:
    log = new_log()
    put(log, (b"k", b"1"))
    put(log, (b"k", None), at_ms=1000)
    roll(log)
    compact(log, now_ms=900_000, delete_retention_ms=0)
    assert [(k, v) for _, k, v in records(log) if k == b"k"] == [(b"k", None)]
    roll(log)
    compact(log, now_ms=1500, delete_retention_ms=1000)
    assert [(k, v) for _, k, v in records(log) if k == b"k"] == [(b"k", None)]
    roll(log)
    compact(log, now_ms=3000, delete_retention_ms=1000)
    assert [k for _, k, _ in records(log) if k == b"k"] == []


def test_the_largest_timestamp_is_that_of_a_record_that_is_left() -> None:
    """ListOffsets for the largest timestamp (KIP-734) and for a time answered with no offset, and retention.ms kept the
    segment for the sake of a record that was gone."""
    log = new_log()
    log.append_own(encode_batch([(9_000, b"k", b"old", ()), (1_000, b"stays", b"v", ())]), 0)
    put(log, (b"k", b"new"), at_ms=2_000)
    roll(log)
    compact(log)
    assert max_timestamp_offset(log) == (2, 2_000)
    assert offset_for_timestamp(log, 2_001) is None
    assert log.segments[0].max_timestamp == 2_000


def test_an_aborted_record_hides_nothing_and_goes() -> None:
    log = new_log()
    put(log, (b"k", b"committed"))
    put(log, (b"k", b"aborted"), producer=7)
    end(log, 7, committed=False)
    put(log, (b"k2", b"in time"), producer=8)
    end(log, 8, committed=True)
    roll(log)
    compact(log)
    assert newest(log) == {b"k": b"committed", b"k2": b"in time"}
    assert b"aborted" not in b"".join(s.file.read(0, s.size) for s in log.segments)


def test_a_marker_stays_for_its_time_and_goes_at_the_second_look() -> None:
    log = new_log()
    put(log, (b"k", b"1"), producer=7)
    end(log, 7, committed=True)

    def markers() -> list[int]:
        return [h.base_offset for segment in log.segments for _, h in segment.headers(0) if h.is_control]

    for now_ms, left in ((1_001, [1]), (1_000, [1]), (1_001, [])):
        roll(log)
        compact(log, now_ms, delete_retention_ms=1_000)
        assert markers() == left
        assert newest(log) == {b"k": b"1"}


def test_a_replica_without_a_marker_gets_it_after_the_leaders_compaction() -> None:
    """The marker was gone: the replica, once it led, took the record for one of an open transaction, which the producer's next
    marker aborted. An acknowledged commit of a group's offset was lost (stories of three brokers, seed 800103)."""
    leader, replica = new_log(), new_log()
    put(leader, (b"k", b"committed"), producer=7)
    append_as_follower(replica, leader.read(0, 1_000), 0)
    end(leader, 7, committed=True)
    roll(leader)
    compact(leader)
    while replica.end_offset < leader.end_offset:
        append_as_follower(replica, leader.read(replica.end_offset, 1_000), 0)
    assert not replica.transactions.open
    assert newest(replica) == newest(leader) == {b"k": b"committed"}


def test_what_not_all_replicas_have_hides_nothing() -> None:
    """A replica that compacted up to its log's end, and was cut at what its next leader had, lacked the value before: a group's
    committed offset was lost (stories of four brokers, seed 803487)."""
    log = new_log()
    put(log, (b"k", b"committed"))
    end_offset = log.end_offset
    put(log, (b"k", b"cut off"))
    roll(log)
    log.move_high_watermark(end_offset)
    compact(log)
    truncate_to(log, end_offset)
    assert newest(log) == {b"k": b"committed"}


def test_nothing_is_cleaned_past_an_open_transaction() -> None:
    log = new_log()
    put(log, (b"k", b"old"))
    put(log, (b"k", b"new"))
    put(log, (b"k", b"pending"), producer=7)
    put(log, (b"k", b"newer"))
    roll(log)
    compact(log)
    assert [v for _, k, v in records(log) if k == b"k"] == [b"new", b"newer"]
    end(log, 7, committed=True)
    roll(log)
    compact(log)
    assert newest(log) == {b"k": b"newer"}


def test_compressed_batches_stay_compressed() -> None:
    log = new_log()
    for n in range(10):
        put(log, (b"k", b"%d" % n), (b"u%d" % n, b"u"), codec=GZIP)
    roll(log)
    compact(log)
    assert newest(log)[b"k"] == b"9"
    raw = b"".join(s.file.read(0, s.size) for s in log.segments)
    assert {h.codec for _, h in batches(raw)} == {GZIP, NONE}


def test_small_segments_become_one_and_a_cut_off_swap_is_mended() -> None:
    fs = MemoryFileSystem()
    log = new_log(fs)
    for n in range(60):
        put(log, (b"k%d" % (n % 2), b"%d" % n))
    roll(log)
    compact(log)  # leaves the segments small, so that the next one puts them together
    roll(log)
    before, count = newest(log), len(log.segments)
    old = {name: bytes(file.data) for name, file in fs.files.items()}
    compact(log)
    assert len(log.segments) < count
    # As if the process had died after the rename, before the other old segments were deleted.
    for name, data in old.items():
        if name.endswith(".log") and name not in fs.files:
            fs.open(name).append(data)
    fs.open("c-0/00000000000000000000.log.cleaned").append(b"half a file")
    again = new_log(fs)
    assert newest(again) == before
    assert not fs.exists("c-0/00000000000000000000.log.cleaned")


def test_a_log_that_changed_meanwhile_is_left_alone() -> None:
    log = new_log()
    for n in range(40):
        put(log, (b"k", b"%d" % n))
    wanted = plan(log, 0, force=True)
    assert wanted is not None
    cleaned = clean(wanted)
    log.config.cleanup_delete = True
    delete_records(log, log.segments[1].base_offset)
    assert not swap(log, cleaned)
    assert newest(log) == {b"k": b"39"}


def test_a_log_that_changes_between_two_exchanges_keeps_the_old_segments_that_are_left() -> None:
    """Between two groups of segments the broker does its other work: DeleteRecords takes what was not exchanged yet."""
    fs = MemoryFileSystem()
    log = new_log(fs)
    for n in range(40):
        put(log, (b"%d" % n, b"v"))
    wanted = plan(log, 0, force=True)
    assert wanted is not None
    cleaned = clean(wanted)
    assert len(cleaned.groups) > 2
    exchanging = swapping(log, cleaned)
    next(exchanging)
    second = log.segments[1]
    log.config.cleanup_delete = True
    delete_records(log, log.segments[2].base_offset)
    assert second not in log.segments
    assert list(exchanging) == []
    assert not cleaned.is_in_place
    assert log.cleaned_until == 0
    assert not [name for name in fs.names("c-0") if name.endswith((".cleaned", ".swap"))]
    compact(log)
    assert newest(log) == newest(new_log(fs))


def test_a_compacted_topic_takes_no_record_without_a_key() -> None:
    with pytest.raises(Refusal) as refused:
        new_log().append(encode_batch([(0, None, b"v", ())]), 0)
    assert refused.value.code == ErrorCode.INVALID_RECORD


def test_records_without_a_key_go() -> None:
    """The topic had cleanup.policy=delete before; Kafka's Cleaner.shouldRetainRecord."""
    log = new_log()
    log.config.cleanup_compact = False
    for n in range(40):
        log.append(encode_batch([(0, None, b"v%d" % n, ()), (0, b"k", b"%d" % n, ())]), 0)
    roll(log)
    log.config.cleanup_compact = True
    compact(log)
    assert newest(log) == {b"k": b"39"}


@settings(max_examples=60)
@given(st.integers(0, 10**6))
def test_whatever_happens_a_reader_sees_the_same_state(seed: int) -> None:
    rng = random.Random(seed)
    fs = MemoryFileSystem()
    log = new_log(fs, segment_bytes=rng.choice([300, 600, 2000]))
    for _ in range(rng.randint(5, 80)):
        action = rng.random()
        key, producer = b"k%d" % rng.randint(0, 5), rng.choice([-1, -1, 7, 8])
        if action < 0.75:
            value = None if rng.random() < 0.15 else b"%d" % rng.randint(0, 10**6)
            put(log, (key, value), (b"z", b"%d" % rng.randint(0, 9)), producer=producer, codec=rng.choice([NONE, GZIP]))
        elif action < 0.9:
            end(log, rng.choice([7, 8]), rng.random() < 0.5)
        else:
            before = newest(log)
            compact(log, now_ms=10, delete_retention_ms=rng.choice([0, NEVER_MS]))
            assert newest(log) == before
            if rng.random() < 0.3:
                log.close()
                cleaned_until = log.cleaned_until
                log = new_log(fs, log.config.segment_bytes)
                log.cleaned_until = cleaned_until
                assert newest(log) == before


def lagging(**config: Any) -> PartitionLog:
    """Four closed segments with a record each, at 0, 1000, 2000 and 3000 ms, and one at 4000 ms in the active one."""
    log = PartitionLog.open(
        MemoryFileSystem(), "t-0", LogConfig(cleanup_compact=True, segment_bytes=100, **config), clean=True
    )
    for n in range(5):
        log.append(encode_batch([(n * 1000 + 1, b"k", b"%d" % n, ())]), n * 1000 + 1)
    assert len(log.segments) == 5
    return log


@pytest.mark.parametrize(("lag_ms", "segments"), [(0, 4), (1000, 4), (1500, 3), (3500, 1), (5000, 0)])
def test_young_segments_are_not_compacted(lag_ms: int, segments: int) -> None:
    wanted = plan(lagging(min_compaction_lag_ms=lag_ms), 4002)
    assert (0 if wanted is None else len(wanted.segments)) == segments
    if wanted is not None:
        assert wanted.end == segments


@pytest.mark.parametrize(("ratio", "due"), [(0.0, True), (0.5, True), (0.51, False)])
def test_the_share_that_must_be_new(ratio: float, due: bool) -> None:
    log = lagging(min_cleanable_dirty_ratio=ratio)
    log.cleaned_until = 2
    assert (plan(log, 5000) is not None) == due


@pytest.mark.parametrize(("lag_ms", "due"), [(3000, False), (2500, True)])
def test_a_log_that_was_dirty_for_too_long_is_compacted(lag_ms: int, due: bool) -> None:
    log = lagging(min_cleanable_dirty_ratio=1.0, max_compaction_lag_ms=lag_ms)
    log.cleaned_until = 2
    assert (plan(log, 5000) is not None) == due


def test_the_active_segment_is_closed_in_time_to_be_compacted() -> None:
    config = LogConfig(cleanup_compact=True, max_compaction_lag_ms=1000)
    log = PartitionLog.open(MemoryFileSystem(), "t-0", config, clean=True)
    for now_ms in (1, 500, 1002):
        log.append(encode_batch([(now_ms, b"k", b"v", ())]), now_ms)
    assert len(log.segments) == 2


def by_producer(log: PartitionLog, sequence: int, *items: Item, producer: int = 7) -> None:
    records = [(0, key, value, ()) for key, value in items]
    log.append_own(encode_batch(records, producer_id=producer, producer_epoch=3, base_sequence=sequence), 0)


def test_a_producers_last_sequence_outlives_its_records() -> None:
    """As Kafka's LogCleaner: its last batch stays, without records, so that after a crash a
    repeated batch is known and a gap refused."""
    fs = MemoryFileSystem()
    log = new_log(fs)
    by_producer(log, 0, (b"a", b"1"), (b"b", b"1"))
    by_producer(log, 2, (b"a", b"2"), (b"b", b"2"))
    put(log, (b"a", b"3"), (b"b", b"3"))
    roll(log)
    compact(log)
    assert [(o, k, v) for o, k, v in records(log) if k != b"filler"] == [(4, b"a", b"3"), (5, b"b", b"3")]
    headers = [header for segment in log.segments for _, header in segment.headers(0) if header.producer_id == 7]
    assert [(h.base_offset, h.last_offset, h.last_sequence, h.record_count) for h in headers] == [(2, 3, 3, 0)]
    again = new_log(fs)
    entry = again.producers.by_id[7]
    assert (entry.epoch, entry.last_sequence) == (3, 3)
    roll(again)
    compact(again)
    assert new_log(fs).producers.by_id[7].last_sequence == 3, "also by the next compaction"


def test_a_producer_that_is_forgotten_leaves_nothing() -> None:
    """With producer.id.expiration.ms over, its empty batch goes."""
    log = new_log()
    by_producer(log, 0, (b"a", b"1"))
    put(log, (b"a", b"2"))
    roll(log)
    log.producers.expire(NEVER_MS)
    compact(log)
    assert not [h for segment in log.segments for _, h in segment.headers(0) if h.producer_id == 7]


def test_the_last_batch_of_an_aborted_transaction_stays_without_records() -> None:
    log = new_log()
    taken_back = [(0, b"a", b"1", ())]
    identity = {"producer_id": 9, "producer_epoch": 0, "base_sequence": 0}
    log.append_own(encode_batch(taken_back, attributes=TRANSACTIONAL_BIT, **identity), 0)
    end(log, 9, committed=False)
    roll(log)
    compact(log)
    headers = [h for segment in log.segments for _, h in segment.headers(0) if h.producer_id == 9]
    assert [(h.record_count, h.is_transactional) for h in headers if not h.is_control] == [(0, False)]
    assert b"a" not in {key for _, key, _ in records(log)}


def test_the_compaction_of_a_deleted_topic_leaves_a_later_one_alone() -> None:
    """The topic is deleted and made again, in a folder of the same name, while its log is compacted in a thread."""
    fs = MemoryFileSystem()
    log = new_log(fs)
    put(log, (b"a", b"old"))
    roll(log)
    wanted = plan(log, 0, force=True)
    assert wanted is not None
    log.close_files()
    fs.remove_directory("c-0")
    later = new_log(fs)
    put(later, (b"a", b"new"))
    assert not swap(log, clean(wanted))
    assert newest(new_log(fs)) == newest(later) == {b"a": b"new"}
    assert not [name for name in fs.names("c-0") if name.endswith(".cleaned")]


def test_a_transaction_whose_marker_is_in_the_active_segment_is_awaited() -> None:
    """Until another segment is closed: the same files were written again every log.cleaner.backoff.ms."""
    log = new_log()
    log.config.min_cleanable_dirty_ratio = 0.0
    put(log, (b"a", b"1"), (b"a", b"2"))
    put(log, (b"b", b"1"), producer=7)
    roll(log)
    end(log, 7, committed=True)
    first = plan(log, 0)
    assert first is not None
    assert swap(log, clean(first))
    assert plan(log, 0) is None
    roll(log)
    compact(log)
    assert plan(log, 0) is None
    assert newest(log) == {b"a": b"2", b"b": b"1"}
    assert log.cleaned_until == log.segments[-1].base_offset


def make_unreadable(log: PartitionLog, number: int) -> bytes:
    """Another length of a record in that batch of the first segment, with the batch's right checksum; returns the batch."""
    segment = log.segments[0]
    position, header = segment.headers(0)[number]
    data: bytearray = segment.file.data  # type: ignore[attr-defined]
    data[position + HEADER_BYTES] ^= 0x20
    struct.pack_into(
        ">I", data, position + 17, google_crc32c.value(bytes(data[position + 21 : position + header.size]))
    )
    return bytes(data[position : position + header.size])


def test_a_batch_that_cannot_be_read_stays_and_stops_nothing() -> None:
    log = new_log()
    for n in range(20):
        put(log, (b"k%d" % (n % 3), b"%d" % n))
    roll(log)
    unreadable = make_unreadable(log, 1)
    before = log.segments[0].size
    compact(log)
    kept = log.segments[0].file.read(0, log.segments[0].size)
    assert unreadable in kept
    assert len(kept) < before
    assert next(header.base_offset for _, header in batches(kept)) == 1


def test_a_batch_of_a_transaction_that_cannot_be_read_keeps_its_marker() -> None:
    log = new_log()
    put(log, (b"k", b"1"), producer=7)
    end(log, 7, committed=True)
    put(log, (b"k", b"2"))
    roll(log)
    make_unreadable(log, 0)
    wanted = plan(log, 0, force=True)
    assert wanted is not None
    with pytest.raises(BatchError):
        clean(wanted)


def test_a_batch_that_unfolds_to_many_records_is_compacted_some_at_a_time() -> None:
    """Before, each record of the batch was an object at the same time: 36 MB for 200,000 records."""
    log = new_log(segment_bytes=1_000_000)
    put(log, *((b"key", b"") for _ in range(50_000)), codec=GZIP)
    for _ in range(2):
        put(log, (b"filler", bytes(900_000)))
    wanted = plan(log, 0, force=True)
    assert wanted is not None
    tracemalloc.start()
    cleaned = clean(wanted)
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert cleaned.records_after < 20
    assert peak_bytes < 5_000_000, peak_bytes


def test_the_exchange_reads_no_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """It runs in the broker's loop: the index of what was written is made by `clean`, in its thread."""
    log = new_log()
    for number in range(20):
        put(log, (b"k%d" % (number % 3), b"v%d" % number * 20))
    wanted = plan(log, 0, force=True)
    assert wanted is not None
    cleaned = clean(wanted)

    def read(*_: object) -> bytes:
        pytest.fail("the loop waits for the disk")

    with monkeypatch.context() as patched:
        patched.setattr(MemoryFile, "read", read)
        assert swap(log, cleaned)
    assert offset_for_timestamp(log, 0) is not None
