"""The time in which a coordinator loads a partition of `__consumer_offsets`: a log as commits leave it, read from disk."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from coterie.broker.storage.disk import DiskFileSystem
from coterie.coordinator.events import OffsetStored
from coterie.coordinator.outcome import CoordinatorConfig
from coterie.coordinator.shard import Shard
from coterie.coordinator.state import CommittedOffset
from coterie.coordinator.stored_records.offsets_log import OffsetsLog
from coterie.coordinator.stored_records.stored import to_record
from coterie.log.config import LogConfig
from coterie.log.partition_log import PartitionLog
from coterie.records.encoding import encode_batch
from coterie_conformance.bench.measurement import Measurement

RECORDS = 10_000_000
PER_COMMIT = 10
GROUPS = 1_000
SEGMENT_BYTES = 100 * 1024 * 1024
START_MS = 1_700_000_000_000


def write_commits(log: OffsetsLog, records: int) -> None:
    """So many records, in commits of PER_COMMIT partitions by GROUPS groups in turn."""
    for commit in range(records // PER_COMMIT):
        now_ms, group = START_MS + commit, f"group-{commit % GROUPS}"
        items = []
        for partition in range(PER_COMMIT):
            committed = CommittedOffset(commit, 0, "", now_ms)
            record = to_record(group, OffsetStored("some-topic", partition, committed))
            assert record is not None
            items.append((now_ms, record.key, record.value, ()))
        log.log.append_own(encode_batch(items), now_ms)


def open_log(folder: Path) -> OffsetsLog:
    """The log that `write_commits` filled in the folder, as a broker opens it after an orderly end."""
    config = LogConfig(segment_bytes=SEGMENT_BYTES)
    return OffsetsLog(PartitionLog.open(DiskFileSystem(folder), "__consumer_offsets-0", config, clean=True))


def loading(folder: Path) -> Iterator[Measurement]:
    """Writes the log, then loads it into a fresh shard."""
    log = open_log(folder)
    write_commits(log, RECORDS)
    shard = Shard(CoordinatorConfig())
    started = time.perf_counter()
    loaded = log.load(shard)
    seconds = time.perf_counter() - started
    assert loaded == RECORDS, f"{loaded} records loaded"
    assert len(shard.groups) == GROUPS
    yield Measurement(f"load {RECORDS // 1_000_000} M records of __consumer_offsets", seconds, "s")
    yield Measurement("load, records", loaded / seconds, "1/s")
