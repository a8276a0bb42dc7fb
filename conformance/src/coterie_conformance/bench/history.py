"""The history over many commits: log folders made here as a broker writes them, then `coterie pipeline history`'s job."""

from __future__ import annotations

import os
import shutil
import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import google_crc32c

from coterie.coordinator.events import OffsetStored
from coterie.coordinator.state import CommittedOffset
from coterie.coordinator.stored_records.stored import to_record
from coterie.records.batch import HEADER_BYTES
from coterie.records.encoding import encode_batch

if TYPE_CHECKING:
    from coterie_conformance.bench.measurement import Measurement

LOG_PARTITIONS = 4
GROUPS, PARTITIONS_EACH = 40, 8  # a commit of eight partitions is one batch, as a consumer makes it
INDEX_EVERY = 1024 * 1024
START_MS = 1_700_000_000_000


def make_log(data: Path, records: int) -> int:
    """So many commits, spread over groups and log partitions; returns the bytes. One row of numpy bytes per batch: a group's
    batch is a template of which offsets and times are filled in."""
    written = 0
    for log_partition in range(LOG_PARTITIONS):
        folder = data / f"__consumer_offsets-{log_partition}"
        folder.mkdir(parents=True)
        batches = records // LOG_PARTITIONS // PARTITIONS_EACH
        written += _write_partition(folder, log_partition, batches)
    return written


def _write_partition(folder: Path, log_partition: int, batches: int) -> int:
    per_group = GROUPS // LOG_PARTITIONS
    written = offset = turn = 0
    while turn * per_group < batches:
        rounds = min(20_000, -(-(batches - turn * per_group) // per_group))
        base = offset
        segment = bytearray()
        index = bytearray()
        for block in _blocks(log_partition, per_group, rounds, turn):
            if len(segment) >= len(index) // 8 * INDEX_EVERY + INDEX_EVERY:
                last_delta = offset - base + block[1] - 1
                index += struct.pack(">ii", last_delta, len(segment))
            filled = bytearray(block[0])
            _fill_in(filled, offset, block[2])
            segment += filled
            offset += block[1]
        (folder / f"{base:020}.log").write_bytes(segment)
        (folder / f"{base:020}.index").write_bytes(index)
        written += len(segment)
        turn += rounds
    return written


def _fill_in(block: bytearray, offset: int, size: int) -> None:
    import numpy as np

    rows = np.frombuffer(block, np.uint8).reshape(-1, size)
    bases: Any = offset + np.arange(len(rows), dtype=np.int64) * PARTITIONS_EACH
    rows[:, 0:8] = bases.astype(">i8").view(np.uint8).reshape(-1, 8)


def _blocks(log_partition: int, per_group: int, rounds: int, turn: int) -> Iterator[tuple[bytes, int, int]]:
    """(batches, their records, the size of each): of each group some hundred commits in a row."""
    import numpy as np

    step = 200
    for first in range(0, rounds, step):
        count = min(step, rounds - first)
        for index in range(per_group):
            group = f"group-{index * LOG_PARTITIONS + log_partition:04}"
            template, spots = _template(group)
            rows = np.tile(np.frombuffer(template, np.uint8), (count, 1))
            turns: Any = turn + first + np.arange(count, dtype=np.int64)
            now_ms: Any = START_MS + turns * 1000
            for at in (27, 35):
                rows[:, at : at + 8] = now_ms.astype(">i8").view(np.uint8).reshape(-1, 8)
            for number, (offset_at, time_at) in enumerate(spots):
                offsets: Any = turns * 100 + number
                rows[:, offset_at : offset_at + 8] = offsets.astype(">i8").view(np.uint8).reshape(-1, 8)
                rows[:, time_at : time_at + 8] = now_ms.astype(">i8").view(np.uint8).reshape(-1, 8)
            for row in rows:
                row[17:21] = np.frombuffer(google_crc32c.value(row[21:].tobytes()).to_bytes(4, "big"), np.uint8)
            yield rows.tobytes(), count * PARTITIONS_EACH, len(template)


def _template(group: str) -> tuple[bytes, list[tuple[int, int]]]:
    """A batch, and where in it each commit's offset and time stand."""
    marks = [(0x1122334455660000 + n, 0x66778899AABB0000 + n) for n in range(PARTITIONS_EACH)]
    items = []
    for partition, (offset, time_ms) in enumerate(marks):
        record = to_record(group, OffsetStored("orders", partition, CommittedOffset(offset, 0, "", time_ms)))
        assert record is not None
        items.append((START_MS, record.key, record.value, ()))
    batch = encode_batch(items)
    spots = [tuple(batch.index(mark.to_bytes(8, "big"), HEADER_BYTES) for mark in pair) for pair in marks]
    return batch, [(a, b) for a, b in spots]


def history(folder: Path) -> Iterator[Measurement]:
    """The whole job over 5 and 50 million commits on local[2]: commits/s, and the most memory that the driver, the JVM and its
    workers had at once."""
    from coterie_conformance.bench.measurement import Measurement

    for millions in (5, 50):
        seconds, peak_mib = _measured(folder / str(millions), millions * 1_000_000)
        yield Measurement(f"history, {millions} M commits", millions * 1_000_000 / seconds, "1/s")
        yield Measurement(f"history, {millions} M commits, time", seconds, "s")
        yield Measurement(f"history, {millions} M commits, memory", peak_mib, "MiB")


def _measured(scratch: Path, records: int) -> tuple[float, int]:
    from coterie.pipeline.history.job import Sources, run_history
    from coterie.pipeline.session import make_session

    make_log(scratch / "data", records)
    spark = make_session("local[2]", "coterie-bench-history", scratch / "spark")
    try:
        spark.range(1).count()
        began_s = time.monotonic()
        with PeakMemory() as peak:
            counts = run_history(spark, Sources(None, (scratch / "data",)), scratch / "out")
        seconds = time.monotonic() - began_s
    finally:
        spark.stop()
    assert counts["cadence"] == GROUPS * PARTITIONS_EACH, counts
    assert counts["commits"] >= records, counts
    shutil.rmtree(scratch)
    return seconds, peak.mib


class PeakMemory:
    """Looks five times a second between `with` and its end. ``mib`` is 0 where there is no /proc."""

    def __init__(self) -> None:
        self.mib = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> PeakMemory:
        self._thread.start()
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(0.2):
            self.mib = max(self.mib, sum(_resident_kib(pid) for pid in _family(os.getpid())) // 1024)


def _family(root: int) -> set[int]:
    parents: dict[int, int] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(entry.parent.name)] = int(entry.read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError):
            continue
    family = {root}
    while more := {pid for pid, parent in parents.items() if parent in family and pid not in family}:
        family |= more
    return family


def _resident_kib(pid: int) -> int:
    """Proportional share, so that what forked workers share counts once."""
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1])
    except OSError:
        pass
    return 0
