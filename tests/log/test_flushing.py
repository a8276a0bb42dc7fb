"""What readers get of a log that is synced before its records are acknowledged."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from coterie.log.config import LogConfig
from coterie.log.filesystem import MemoryFileSystem
from coterie.log.log_state import Flushing
from coterie.log.partition_log import PartitionLog
from coterie.log.reading import read_committed, read_message_set, read_visible
from coterie.log.retention import delete_records
from coterie.records.batch import TRANSACTIONAL_BIT, batches
from coterie.records.encoding import encode_batch

NOW = 1_700_000_000_000


def visible(log: PartitionLog) -> list[int]:
    records = read_visible(log, log.log_start_offset, 1_000_000, at_least_one=True)
    return [header.base_offset for _, header in batches(records)]


def append(log: PartitionLog) -> None:
    log.append(encode_batch([(NOW, b"k", b"v", ())]), NOW)


def test_readers_get_nothing_before_it_is_synced() -> None:
    """Kafka's UnifiedLog.append syncs before the high watermark moves; a power cut took records that readers had."""
    log = PartitionLog.open(MemoryFileSystem(), "t-0", LogConfig(flush_messages=1), clean=True)
    calls = []
    log.flushing.on_visible = lambda: calls.append(log.high_watermark)
    append(log)
    assert (visible(log), log.high_watermark, log.last_stable_offset, log.end_offset) == ([], 0, 0, 1)
    log.flushing.begin()
    append(log)
    log.flushing.synced(1)
    assert (visible(log), log.high_watermark, calls) == ([0], 1, [1])
    assert read_committed(log, 0, 1_000_000, at_least_one=True)[0] == read_visible(log, 0, 1_000_000, at_least_one=True)
    assert read_message_set(log, 1, 1_000_000, 1, at_least_one=True) == b""
    log.sync()
    assert (visible(log), log.high_watermark, calls) == ([0, 1], 2, [1, 2])
    assert delete_records(log, -1) == 2


def test_readers_of_committed_records_wait_for_the_sync_beside_an_open_transaction() -> None:
    """The last stable offset was that of a transaction behind the high watermark."""
    log = PartitionLog.open(MemoryFileSystem(), "t-0", LogConfig(flush_messages=1), clean=True)
    append(log)
    batch = encode_batch(
        [(NOW, b"k", b"v", ())], producer_id=1, producer_epoch=0, base_sequence=0, attributes=TRANSACTIONAL_BIT
    )
    log.append(batch, NOW)
    assert (log.last_stable_offset, read_committed(log, 0, 1_000_000, at_least_one=True)[0]) == (0, b"")
    log.sync()
    assert log.last_stable_offset == 1


def test_without_flush_messages_what_is_appended_is_read() -> None:
    log = PartitionLog.open(MemoryFileSystem(), "t-0", LogConfig(), clean=True)
    append(log)
    assert (visible(log), log.high_watermark, log.flushing.is_held) == ([0], 1, False)


def test_with_flush_messages_of_several_the_append_that_calls_for_the_sync_waits() -> None:
    log = PartitionLog.open(MemoryFileSystem(), "t-0", LogConfig(flush_messages=3), clean=True)
    for expected in ([0], [0, 1], [0, 1], [0, 1]):
        append(log)
        assert visible(log) == expected
    log.sync()
    assert visible(log) == [0, 1, 2, 3]


STEPS = st.lists(st.sampled_from(["append", "begin", "end", "sync"]), max_size=60)


@given(st.integers(1, 4), STEPS)
def test_the_high_watermark_beside_a_disk(flush_messages: int, steps: list[str]) -> None:
    """It never falls, no append that calls for a sync is before it unless synced, and all is read at the end."""
    flushing = Flushing()
    end = synced = before = 0
    due: list[int] = []  # offsets of appends that called for a sync
    running: list[int] = []
    for step in steps:
        if step == "append":
            flushing.appended(end, end + 1, flush_messages, NOW)
            if flushing.messages >= flush_messages:
                due.append(end)
            end += 1
        elif step == "begin" and not running:
            flushing.begin()
            running.append(end)
        elif step == "end" and running:
            synced = max(synced, running[0])
            flushing.synced(running.pop())
        elif step == "sync":
            flushing.begin()
            synced = end
            flushing.synced(end)
        high_watermark = flushing.high_watermark(end)
        assert before <= high_watermark <= end
        assert not any(synced <= offset < high_watermark for offset in due)
        before = high_watermark
    flushing.begin()
    flushing.synced(end)
    assert flushing.high_watermark(end) == end
    assert not flushing.is_held
