"""Leader epochs of batches before a replica's log start: its first segment has them, the checkpoint of epochs has not."""

from __future__ import annotations

from coterie.log.checked_files import Finding
from coterie.log.config import LogConfig
from coterie.log.filesystem import MemoryFileSystem
from coterie.log.partition_log import PartitionLog
from coterie.log.retention import delete_records
from coterie.records.encoding import encode_batch
from coterie_conformance.fuzzing.disk_fuzz import DIRECTORY

NOW = 1_700_000_000_000


def append(log: PartitionLog, epoch: int, count: int) -> None:
    """So many batches in that epoch."""
    log.begin_epoch(epoch)
    for _ in range(count):
        log.append(encode_batch([(NOW, b"k", b"v", ())]), NOW)


def test_a_crash_after_the_start_was_moved_changes_no_epoch() -> None:
    """The start was not noted yet. The batches before it got the epoch of those behind, and followers asked for its end."""
    fs, config = MemoryFileSystem(), LogConfig()
    log = PartitionLog.open(fs, DIRECTORY, config, clean=True, high_watermark=0)
    append(log, 2, 1)
    append(log, 5, 3)
    log.move_high_watermark(4)
    assert delete_records(log, 2) == 2
    append(log, 7, 2)
    assert [(entry.epoch, entry.start_offset) for entry in log.epochs.cache.entries] == [(5, 2), (7, 4)]
    findings: list[Finding] = []
    log = PartitionLog.open(fs, DIRECTORY, config, clean=False, high_watermark=4, report=findings.append)
    assert [header.leader_epoch for _, header in log.segments[0].headers(0)] == [2, 5, 5, 5, 7, 7]
    assert [finding.file for finding in findings] == [f"{DIRECTORY}/leader-epoch-checkpoint"], "read from the batches"
    assert log.epochs.cache.end_of(2, log.end_offset).end_offset == 1
