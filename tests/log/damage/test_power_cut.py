"""What a log keeps of its unsynced end after a power cut, which may take any page of it (Kafka: LogSegment.recover)."""

from __future__ import annotations

import random
from contextlib import suppress

import pytest

from coterie.log.checked_files import Finding
from coterie.log.config import LogConfig
from coterie.log.filesystem import MemoryFileSystem
from coterie.log.partition_log import PartitionLog
from coterie.records.batch import TRANSACTIONAL_BIT
from coterie.records.encoding import encode_batch
from coterie.records.markers import end_of_transaction
from coterie.simulation.disk import Disk
from coterie_conformance.fuzzing.disk_fuzz import DIRECTORY, read_all

NOW = 1_700_000_000_000
PRODUCER = 7


def batch(number: int) -> bytes:
    return encode_batch([(NOW + number, b"k", b"%d" % number, ())])


def filled(fs: MemoryFileSystem, config: LogConfig, count: int) -> PartitionLog:
    log = PartitionLog.open(fs, DIRECTORY, config, clean=True)
    for number in range(count):
        log.append(batch(number), NOW)
    return log


def zero_batch(fs: MemoryFileSystem, log: PartitionLog, slot: int, number: int) -> tuple[str, int]:
    """A page with a batch of a segment was never written; returns its file and position."""
    segment = log.segments[slot]
    position, header = segment.headers(0)[number]
    path = segment.stem + ".log"
    fs.files[path].data[position : position + header.size] = bytes(header.size)
    return path, position


def reopened(fs: MemoryFileSystem, config: LogConfig, *, lost_power: bool) -> tuple[PartitionLog, list[Finding]]:
    findings: list[Finding] = []
    log = PartitionLog.open(fs, DIRECTORY, config, clean=False, lost_power=lost_power, report=findings.append)
    return log, findings


def test_the_log_ends_at_the_first_damage_after_a_power_cut() -> None:
    """Batches behind a hole are set aside with it, and the log goes on without a gap."""
    fs, config = MemoryFileSystem(), LogConfig()
    path, position = zero_batch(fs, filled(fs, config, 10), 0, 4)
    unsynced = bytes(fs.files[path].data[position:])
    log, findings = reopened(fs, config, lost_power=True)
    assert log.end_offset == 4
    assert fs.read_file(f"{path}.unsynced-{position}") == unsynced
    assert [(f.file, f.position) for f in findings] == [(path, position)]
    assert "the machine may have gone down" in findings[0].action
    assert log.append(batch(10), NOW).base_offset == 4
    assert [stored.value for stored in read_all(log).values()] == [b"0", b"1", b"2", b"3", b"10"]


def test_a_hole_in_the_last_batch_is_of_what_was_not_synced() -> None:
    """It was set aside as damage: a coordinator then refused its groups until that loss was accepted (story seed 51)."""
    fs, config = MemoryFileSystem(), LogConfig()
    segment = filled(fs, config, 5).segments[0]
    position, header = segment.headers(0)[4]
    path = segment.stem + ".log"
    fs.files[path].data[-3:] = bytes(3)
    log, findings = reopened(fs, config, lost_power=True)
    assert log.end_offset == 4
    assert [name for name in fs.names(DIRECTORY) if "damaged" in name] == []
    assert len(fs.read_file(f"{path}.unsynced-{position}")) == header.size
    assert "the machine may have gone down" in findings[0].action


def test_only_the_damaged_batch_goes_after_the_end_of_a_process() -> None:
    """The system keeps what a process wrote, so damage is rot, and what follows is whole."""
    fs, config = MemoryFileSystem(), LogConfig()
    zero_batch(fs, filled(fs, config, 10), 0, 4)
    log, _ = reopened(fs, config, lost_power=False)
    assert sorted(read_all(log)) == [0, 1, 2, 3, 5, 6, 7, 8, 9]


def test_a_segment_that_was_synced_when_it_was_full_loses_the_damaged_batch_alone() -> None:
    fs, config = MemoryFileSystem(), LogConfig(segment_bytes=3 * len(batch(0)))
    zero_batch(fs, filled(fs, config, 8), 1, 1)
    log, _ = reopened(fs, config, lost_power=True)
    assert sorted(read_all(log)) == [0, 1, 2, 3, 5, 6, 7]


def test_zeros_that_were_reserved_are_not_set_aside() -> None:
    fs, config = MemoryFileSystem(), LogConfig(preallocate=True, segment_bytes=10_000)
    log = filled(fs, config, 10)
    path, position = zero_batch(fs, log, 0, 4)
    end = log.segments[0].size
    fs.files[path].data += bytes(10_000 - end)
    log, findings = reopened(fs, config, lost_power=True)
    assert log.end_offset == 4
    assert len(fs.read_file(f"{path}.unsynced-{position}")) == end - position
    assert [f.position for f in findings] == [position, end]


def test_a_transaction_that_lost_records_has_no_marker() -> None:
    """Its marker was behind the hole: readers of committed records would have got a part of it."""
    fs, config = MemoryFileSystem(), LogConfig()
    log = PartitionLog.open(fs, DIRECTORY, config, clean=True)
    for number in range(3):
        data = encode_batch(
            [(NOW, b"k", b"%d" % number, ())],
            producer_id=PRODUCER,
            producer_epoch=0,
            base_sequence=number,
            attributes=TRANSACTIONAL_BIT,
        )
        log.append(data, NOW)
    log.append_own(end_of_transaction(PRODUCER, 0, True, 0, NOW), NOW)
    zero_batch(fs, log, 0, 1)
    log, _ = reopened(fs, config, lost_power=True)
    assert log.end_offset == 1
    assert list(log.transactions.open) == [PRODUCER]
    assert log.last_stable_offset == 0


def test_a_batch_out_of_its_order_ends_the_log_too() -> None:
    """Of a tail that was cut off before, and written over in part."""
    fs, config = MemoryFileSystem(), LogConfig()
    log = filled(fs, config, 6)
    position, header = log.segments[0].headers(0)[3]
    path = log.segments[0].stem + ".log"
    fs.files[path].data[position : position + 8] = (header.base_offset + 40).to_bytes(8, "big")
    log, _ = reopened(fs, config, lost_power=True)
    assert log.end_offset == 3


@pytest.mark.parametrize("seed", range(60))
def test_a_prefix_stays_whatever_the_disk_has_written(seed: int) -> None:
    """Appends with syncs now and then, and a power cut that leaves any pages of the rest: the log is a prefix of what was
    appended, with everything that was synced."""
    rng = random.Random(seed)
    disk = Disk(rng, lambda: NOW)
    mounted = disk.mount()
    config = LogConfig(segment_bytes=8_000, index_interval_bytes=200, preallocate=seed % 4 == 3)
    log = PartitionLog.open(mounted, DIRECTORY, config, clean=True)
    synced = 0
    for life in range(3):
        for number in range(rng.randrange(200)):
            log.append(batch(number + 1_000 * life), NOW)
            synced = max(synced, log.segments[-1].base_offset)
            if rng.random() < 0.03:
                disk.failing_syncs = int(rng.random() < 0.2)
                with suppress(OSError):
                    log.sync()
                    synced = log.end_offset
                if disk.failures:
                    break
        before = read_all(log)
        mounted.is_over = True
        disk.power_cut()
        disk.mend()
        disk.failures, mounted = 0, disk.mount()
        log = PartitionLog.open(mounted, DIRECTORY, config, clean=False, lost_power=True)
        after = read_all(log)
        assert list(after) == list(range(len(after)))
        assert after == {offset: before[offset] for offset in after}
        assert len(after) >= synced
        synced = len(after)
