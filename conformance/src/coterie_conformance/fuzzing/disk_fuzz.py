"""A log on a disk that fails and rots, by seed, under the real `PartitionLog`.

A run has lives. In each, producers (with and without idempotence, in transactions) append records that are all different,
and try again what fails; segments are compacted or dropped; then the log is closed or its process killed, one thing on
the disk may change, and the next life reads everything back. What must hold stands in `DiskRun.check`.
"""

from __future__ import annotations

import random
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field

from coterie.log.checked_files import Finding
from coterie.log.compaction import clean, plan, swap
from coterie.log.config import LogConfig
from coterie.log.filesystem import FileSystem
from coterie.log.log_state import Appended
from coterie.log.partition_log import PartitionLog
from coterie.log.segments.recovery import SET_ASIDE
from coterie.log.segments.segment_loader import SWAP, ClosedLog
from coterie.records.batch import TRANSACTIONAL_BIT, BatchError, batches, check_crc
from coterie.records.decoding import decode_records
from coterie.records.encoding import encode_batch
from coterie.records.markers import end_of_transaction
from coterie.wire.errors import Refusal
from coterie_conformance.fuzzing.disk import ERRORS, FaultyFileSystem

DIRECTORY = "t-0"
SEGMENT_BYTES, INDEX_INTERVAL_BYTES = 2_500, 200
TRIES = 12  # of one append
READ_BYTES = 600
# Without an orderly close nothing shows that there were more batches.
UNTRACEABLE = " between two batches, after a kill"
IDEMPOTENT, TRANSACTIONAL, PLAIN = 7, 9, -1


class DiskCheckFailed(AssertionError):
    """A rule of the run was broken."""


@dataclass(frozen=True, slots=True)
class AcknowledgedRecord:
    """A record as it was acknowledged, and the batch it is in, by its first offset; ``control`` for a marker."""

    value: bytes | None
    batch: int
    control: bool = False


@dataclass
class DiskRun:
    """One seed's run. ``compacts``: the topic's policy."""

    seed: int
    compacts: bool = False
    fs: FaultyFileSystem = field(default_factory=FaultyFileSystem)
    findings: list[Finding] = field(default_factory=list)
    kinds: Counter[str] = field(default_factory=Counter)
    acknowledged: dict[int, AcknowledgedRecord] = field(default_factory=dict)
    superseded: set[int] = field(default_factory=set)
    sent: int = 0
    closed: ClosedLog | None = None

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.sequences = {IDEMPOTENT: 0, TRANSACTIONAL: 0}
        self.config = LogConfig(
            segment_bytes=SEGMENT_BYTES,
            index_interval_bytes=INDEX_INTERVAL_BYTES,
            cleanup_compact=self.compacts,
            cleanup_delete=not self.compacts,
            delete_retention_ms=0,
        )

    def open(self, fs: FileSystem | None = None) -> PartitionLog:
        """The log as the next life has it. Raises OSError, UnreadableFile."""
        return PartitionLog.open(
            fs or self.fs,
            DIRECTORY,
            self.config,
            clean=self.closed is not None,
            closed=self.closed,
            report=self.findings.append,
        )

    # -- a life -------------------------------------------------------------------------------------------------------

    def live(self, log: PartitionLog, steps: int) -> None:
        """Appends, ends transactions, compacts and closes segments."""
        for _ in range(steps):
            choice = self.random.random()
            if choice < 0.35:
                self.append(log, PLAIN)
            elif choice < 0.65:
                self.append(log, IDEMPOTENT)
            elif choice < 0.85:
                self.append(log, TRANSACTIONAL)
            elif choice < 0.97:
                self.end_transaction(log, committed=self.random.random() < 0.5)
            elif self.compacts:
                self.compact(log)

    def append(self, log: PartitionLog, producer: int) -> None:
        """One batch, tried again while the disk fails; without idempotence it is sent once."""
        count = self.random.randint(1, 3)
        values = [
            b"%d-%d" % (self.sent + n, self.random.randrange(10**9)) * self.random.randint(1, 6) for n in range(count)
        ]
        self.sent += count
        items = [(self.sent, b"key%d" % self.random.randrange(40), value, ()) for value in values]
        if producer == PLAIN:
            data = encode_batch(items)
        else:
            attributes = TRANSACTIONAL_BIT if producer == TRANSACTIONAL else 0
            data = encode_batch(
                items,
                producer_id=producer,
                producer_epoch=0,
                base_sequence=self.sequences[producer],
                attributes=attributes,
            )
        for _ in range(1 if producer == PLAIN else TRIES):
            with suppress(OSError):
                appended = log.append(data, self.sent)
                for number, value in enumerate(values):
                    self.acknowledged[appended.base_offset + number] = AcknowledgedRecord(value, appended.base_offset)
                if producer != PLAIN:
                    self.sequences[producer] += count
                return
        if producer != PLAIN:
            raise DiskCheckFailed("the disk never took the batch again")

    def end_transaction(self, log: PartitionLog, *, committed: bool) -> Appended | None:
        """The marker, tried again while the disk fails."""
        for _ in range(TRIES):
            with suppress(OSError):
                appended = log.append_own(end_of_transaction(TRANSACTIONAL, 0, committed, 0, self.sent), self.sent)
                self.acknowledged[appended.base_offset] = AcknowledgedRecord(None, appended.base_offset, control=True)
                return appended
        raise DiskCheckFailed("the disk never took the marker again")

    def compact(self, log: PartitionLog) -> None:
        """Compaction as the broker's cleaner does it; the model keeps what a reader still sees."""
        wanted = plan(log, self.sent, force=True)
        if wanted is None:
            return
        try:
            swap(log, clean(wanted))
        except OSError:
            self.superseded = set(self.acknowledged) - set(self._compacted_elsewhere())
        except BatchError:
            log.verify()
        later = {offset: stored for offset, stored in self.acknowledged.items() if offset >= wanted.end}
        self.acknowledged = later | {o: stored for o, stored in read_all(log).items() if o < wanted.end}

    def _compacted_elsewhere(self) -> dict[int, AcknowledgedRecord]:
        """The records after a compaction without faults: the next start may finish one that failed."""
        log = PartitionLog.open(self.fs.copy(), DIRECTORY, self.config, clean=False)
        wanted = plan(log, self.sent, force=True)
        if wanted is not None:
            swap(log, clean(wanted))
        return read_all(log)

    def stop(self, log: PartitionLog, *, orderly: bool) -> None:
        """Closes the log, or lets its process be killed."""
        self.closed = None
        if orderly:
            with suppress(OSError):
                self.closed = log.close()

    # -- what must hold -----------------------------------------------------------------------------------------------

    def check(self, damaged: str | None) -> PartitionLog:
        """Opens the log and reads all of it: every acknowledged record is there once, at its offset and as it was; or what
        ``damaged`` may cost is gone, and there is a finding. The model continues with the rest."""
        self.findings.clear()
        is_swapped = any(name.endswith(SWAP) for name in self.fs.names(DIRECTORY))
        log = self.open()
        got = read_all(log)
        log.verify()
        if is_swapped:  # opening finished a compaction
            self.acknowledged = {o: s for o, s in self.acknowledged.items() if o in got or o not in self.superseded}
        missing = {self.acknowledged[offset].batch for offset in self.acknowledged if offset not in got}
        changed = [o for o, s in got.items() if o in self.acknowledged and self.acknowledged[o].value != s.value]
        values = Counter(s.value for s in got.values() if s.value is not None)
        twice = [value for value, count in values.items() if count > 1]
        if changed or twice:
            raise DiskCheckFailed(f"seed {self.seed}: offsets {changed} changed, {twice} came twice ({damaged})")
        if missing and not self.findings and not (damaged or "").endswith(UNTRACEABLE):
            raise DiskCheckFailed(f"seed {self.seed}: batches {sorted(missing)} are gone in silence ({damaged})")
        if len(missing) > 1 and not (damaged or "").startswith(("tear", "lose")):
            raise DiskCheckFailed(f"seed {self.seed}: batches {sorted(missing)} are gone ({damaged})")
        self.acknowledged = {offset: s for offset, s in got.items() if offset in self.acknowledged}
        return log

    def damage(self) -> str:
        """Damages one file on the disk; returns the damage's name."""
        paths = sorted(p for p, f in self.fs.files.items() if f.data and SET_ASIDE not in p)
        path = self.random.choice(paths)
        size = self.fs.files[path].size()
        kind = self.random.choices(("flip", "tear", "lose"), (8, 2, 1))[0]
        if kind == "flip":
            position, bit = self.random.randrange(size), self.random.randrange(8)
            self.fs.flip(path, position, bit)
            kind = f"flip of bit {bit} at {position}"
        elif kind == "tear":
            left = self.random.randrange(size)
            self.fs.tear(path, left)
            if path.endswith(".log") and self.closed is None and _ends_whole(self.fs.read_file(path)):
                path += UNTRACEABLE
        else:
            self.fs.lose(path)
        self.kinds[kind.split()[0] + " ." + path.split(".", 1)[1]] += 1
        return f"{kind} {path}"


def _ends_whole(data: bytes) -> bool:
    end = 0
    for position, header in batches(data):
        end = position + header.size
    return end == len(data)


def read_all(log: PartitionLog) -> dict[int, AcknowledgedRecord]:
    """Every record that a consumer gets, with the checks of a consumer. Raises BatchError for what it would refuse."""
    out: dict[int, AcknowledgedRecord] = {}
    offset = log.log_start_offset
    while offset < log.end_offset:
        data = log.read(offset, READ_BYTES)
        before = offset
        for position, header in batches(data):
            check_crc(data, position, header)
            for record in decode_records(data, position, header):
                if record.offset < offset:
                    continue
                value = None if header.is_control else record.value
                out[record.offset] = AcknowledgedRecord(value, header.base_offset, header.is_control)
            offset = header.last_offset + 1
        if offset <= before:
            break
    return out


def run(seed: int, lives: int = 6, steps: int = 40) -> DiskRun:
    """One seed. Raises DiskCheckFailed."""
    story = DiskRun(seed, compacts=seed % 3 == 0)
    log, damaged = story.open(), None
    for _ in range(lives):
        error = story.random.choice(ERRORS)
        with story.fs.failing(story.random.randrange(60), story.random.randint(0, 4), error):
            story.live(log, steps)
        story.stop(log, orderly=story.random.random() < 0.5)
        damaged = story.damage() if story.random.random() < 0.7 else None
        try:
            log = story.check(damaged)
        except (BatchError, Refusal) as failure:
            raise DiskCheckFailed(f"seed {seed}: {failure} ({damaged})") from failure
        story.sequences = {p: _next_sequence(log, p) for p in story.sequences}
    return story


def _next_sequence(log: PartitionLog, producer: int) -> int:
    """Damage may have taken what the log knew of a producer: it continues with a new sequence."""
    known = log.producers.by_id.get(producer)
    return known.last_sequence + 1 if known is not None else 0
