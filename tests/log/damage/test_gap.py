"""A replica's log from which damage took records, with others behind them: where the gap begins, and how a leader fills it."""

from __future__ import annotations

import pytest

from coterie.log.config import LogConfig
from coterie.log.filesystem import MemoryFileSystem
from coterie.log.partition_log import PartitionLog
from coterie.records.encoding import encode_batch
from coterie.replication.stored_log import StoredReplicaLog

DIRECTORY = "orders-0"
BATCHES, NOW_MS = 8, 1_000
BATCH = encode_batch([(NOW_MS, None, b"value", ())])
CONFIG = LogConfig(segment_bytes=3 * len(BATCH))  # offsets 0 to 2, 3 to 5, 6 and 7


def opened(fs: MemoryFileSystem) -> StoredReplicaLog:
    """By a process after the death of another."""
    log = PartitionLog.open(fs, DIRECTORY, CONFIG, clean=False, high_watermark=BATCHES)
    log.verify()
    return StoredReplicaLog(log, BATCHES, lambda: NOW_MS)


def filled() -> MemoryFileSystem:
    fs = MemoryFileSystem()
    log = PartitionLog.open(fs, DIRECTORY, CONFIG, clean=True, high_watermark=0)
    for _ in range(BATCHES):
        log.append(BATCH, NOW_MS)
    log.close_files()
    return fs


def rot(fs: MemoryFileSystem, offset: int) -> None:
    fs.files[f"{DIRECTORY}/{offset // 3 * 3:020}.log"].data[offset % 3 * len(BATCH) + len(BATCH) - 2] ^= 1


def records(fs: MemoryFileSystem) -> bytes:
    return b"".join(bytes(fs.files[path].data) for path in sorted(fs.files) if path.endswith(".log"))


@pytest.mark.parametrize("offset", range(BATCHES))
def test_the_gap_begins_where_the_damage_does(offset: int) -> None:
    fs = filled()
    rot(fs, offset)
    log = opened(fs)
    is_last = offset == BATCHES - 1  # then the log only ends earlier
    assert (log.gap_offset, log.end_offset) == (None if is_last else offset, offset if is_last else BATCHES)


def test_the_first_of_several_gaps() -> None:
    """In one segment and in two; one is found later, by a read."""
    fs = filled()
    for offset in (3, 5, 6):
        rot(fs, offset)
    log = opened(fs)
    assert log.gap_offset == 3
    log.advance_start(4)
    assert log.gap_offset == 6
    fs = filled()
    rot(fs, 3)
    log = opened(fs)
    fs.files[f"{DIRECTORY}/{3:020}.log"].data[-2] ^= 1
    log.log.recover_segment(1, None)
    assert log.gap_offset == 3
    assert len([name for name in fs.names(DIRECTORY) if ".damaged-" in name]) == 2


def test_a_whole_log_and_one_with_a_torn_end_have_no_gap() -> None:
    fs = filled()
    assert opened(fs).gap_offset is None
    del fs.files[f"{DIRECTORY}/{6:020}.log"].data[-1]
    log = opened(fs)
    assert (log.gap_offset, log.end_offset) == (None, BATCHES - 1)


@pytest.mark.parametrize("offset", range(BATCHES - 1))
def test_a_leader_fills_the_gap(offset: int) -> None:
    fs, leaders = filled(), opened(filled())
    rot(fs, offset)
    log = opened(fs)
    assert log.gap_offset is not None
    log.truncate_to(log.gap_offset)
    assert (log.end_offset, log.gap_offset) == (offset, None)
    while log.end_offset < BATCHES:
        log.append_as_follower(leaders.read(log.end_offset, BATCHES))
    assert log.gap_offset is None
    assert records(fs) == records(filled())
