"""The leader epochs of a log, where each began (Kafka's LeaderEpochFileCache, KIP-101 and KIP-279), and Kafka's file of them in
the log's folder, `leader-epoch-checkpoint`; and which of the batches' epochs are wrong, since no CRC covers them.

The file is written before the first batch of an epoch, so that it names every epoch of the batches. A log that has known epoch
0 alone needs none. After a crash, and where the file changed since the log was closed, the batches are compared with it; they
count where the two differ.

Epochs rise from batch to batch, and the file names them all; only an earlier coterie stamped 0 behind Apache Kafka's.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from coterie.log.checked_files import Finding, Report
from coterie.log.filesystem import FileSystem

FILE = "leader-epoch-checkpoint"
UNDEFINED_EPOCH = -1
UNDEFINED_OFFSET = -1
_OWN_EPOCH = 0  # the first, and of all batches of an earlier coterie


@dataclass(frozen=True, slots=True)
class EpochStart:
    """``start_offset``: the offset of the first record that a leader of that epoch has appended."""

    epoch: int
    start_offset: int


@dataclass(frozen=True, slots=True)
class EndOfEpoch:
    """The largest epoch that is not above the requested one, and the offset behind its last record."""

    epoch: int = UNDEFINED_EPOCH
    end_offset: int = UNDEFINED_OFFSET


@dataclass(slots=True)
class LeaderEpochCache:
    """``entries``: epochs and start offsets both rise."""

    entries: list[EpochStart] = field(default_factory=list)

    @property
    def latest(self) -> int:
        """UNDEFINED_EPOCH for a log without epochs."""
        return self.entries[-1].epoch if self.entries else UNDEFINED_EPOCH

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Records that the epoch begins there, unless it is the latest and has begun; returns whether it was recorded. What
        contradicts it is removed: entries with that epoch or a later one, or with that offset or a later one."""
        if self.entries and epoch == self.latest and start_offset >= self.entries[-1].start_offset:
            return False
        self.entries = [e for e in self.entries if e.epoch < epoch and e.start_offset < start_offset]
        self.entries.append(EpochStart(epoch, start_offset))
        return True

    def end_of(self, epoch: int, log_end_offset: int) -> EndOfEpoch:
        """The response of OffsetForLeaderEpoch for a log that ends at ``log_end_offset``."""
        if not self.entries or epoch == UNDEFINED_EPOCH or epoch > self.latest:
            return EndOfEpoch()
        if epoch == self.latest:
            return EndOfEpoch(epoch, log_end_offset)
        before = [e.epoch for e in self.entries if e.epoch <= epoch]
        after = next(e for e in self.entries if e.epoch > epoch)
        return EndOfEpoch(before[-1] if before else epoch, after.start_offset)

    def truncate_from_end(self, end_offset: int) -> None:
        """The log was cut to end at ``end_offset``; UNDEFINED_OFFSET removes nothing."""
        if end_offset != UNDEFINED_OFFSET:
            self.entries = [e for e in self.entries if e.start_offset < end_offset]

    def truncate_from_start(self, start_offset: int) -> None:
        """The log now begins at ``start_offset``: of the epochs before it the last one stays and begins there."""
        before = [e for e in self.entries if e.start_offset <= start_offset]
        if before:
            after = self.entries[len(before) :]
            self.entries = [EpochStart(before[-1].epoch, start_offset), *after]


def read_epochs(fs: FileSystem, directory: str, names: Container[str]) -> list[EpochStart] | None:
    """The entries of the file, none where it is not among the folder's ``names``; None where it cannot be read. Raises
    OSError."""
    if FILE not in names:
        return []
    try:
        version, count, *lines = fs.read_file(f"{directory}/{FILE}").decode().splitlines()
        rows = [line.split() for line in lines if line.strip()]
        entries = [EpochStart(int(epoch), int(start)) for epoch, start in rows]
        return entries if int(version) == 0 and int(count) == len(rows) else None
    except ValueError:
        return None


class LogEpochs:
    """The epochs of one log. ``is_stale``: the file lacks an entry that the next batch needs, or has one too many."""

    def __init__(self, fs: FileSystem, directory: str) -> None:
        self.cache = LeaderEpochCache()
        self.is_stale = self.is_damaged = False
        self._fs, self._directory = fs, directory
        self._written: list[EpochStart] | None = None

    def load(self, names: Container[str], closed: Sequence[tuple[int, int]] | None) -> bool:
        """Reads the file; whether it may be trusted. ``closed``: the entries when the log was closed, if that is known."""
        self._written = read_epochs(self._fs, self._directory, names)
        entries = self._written or []
        rises = all(a.epoch < b.epoch and a.start_offset < b.start_offset for a, b in pairwise(entries))
        self.is_damaged = self._written is None or not rises
        if self.is_damaged:
            return False
        self.cache.entries = list(entries)
        return closed is None or list(closed) == [(e.epoch, e.start_offset) for e in entries]

    def assign(self, epoch: int, start_offset: int) -> None:
        """As `LeaderEpochCache.assign`."""
        if self.cache.assign(epoch, start_offset):
            self._changed()

    def cut(self, end_offset: int) -> None:
        """The log was cut to end at ``end_offset``."""
        self.cache.truncate_from_end(end_offset)
        self._changed()

    def start_at(self, start_offset: int) -> None:
        """The log begins at ``start_offset`` now. The file may keep what is before."""
        self.cache.truncate_from_start(start_offset)

    def clear(self) -> None:
        """The log was emptied."""
        self.cache.entries = []
        self._changed()

    def replace(self, entries: list[EpochStart]) -> None:
        """Has these, after a comparison with the batches."""
        self.cache.entries = entries
        self._changed()

    def _changed(self) -> None:
        entries = self.cache.entries
        is_implied = not self._written and all(entry.epoch == 0 for entry in entries)
        self.is_stale = entries != self._written and not is_implied

    def write(self) -> None:
        """Writes the file where it is stale. Raises OSError."""
        if not self.is_stale:
            return
        entries = list(self.cache.entries)
        lines = "".join(f"{entry.epoch} {entry.start_offset}\n" for entry in entries)
        self._fs.write_file(f"{self._directory}/{FILE}", f"0\n{len(entries)}\n{lines}".encode())
        self._written, self.is_stale = entries, False

    def as_closed(self) -> list[tuple[int, int]]:
        """The entries of the file, for `load` at the next start."""
        return [(entry.epoch, entry.start_offset) for entry in self._written or []]


class EpochComparison:
    """Compares the entries of a file with the batches of its log, in order. A batch of an earlier epoch than the one before it
    means nothing: coterie up to 0.9 stamped 0 behind the batches of Apache Kafka."""

    def __init__(self, epochs: LogEpochs) -> None:
        self._entries, self._is_damaged = list(epochs.cache.entries), epochs.is_damaged
        self.begin()

    def begin(self) -> None:
        """The batches come from the first one on."""
        self._of_batches = LeaderEpochCache()
        self._slot = 0
        self._fits = not self._is_damaged

    def batch(self, epoch: int, base_offset: int) -> None:
        """The next batch of the log."""
        if epoch < max(self._of_batches.latest, 0):
            return
        self._of_batches.assign(epoch, base_offset)
        entries = self._entries
        if not entries or epoch > entries[-1].epoch:
            entries.append(EpochStart(epoch, base_offset))  # a power cut may leave an older file
        while self._slot + 1 < len(entries) and entries[self._slot + 1].start_offset <= base_offset:
            self._slot += 1
        if entries[self._slot].epoch != epoch:
            self._fits = False

    def result(self, path: str, report: Report) -> list[EpochStart]:
        """The epochs that hold; a contradiction is reported for the file at ``path``."""
        if self._fits:
            return self._entries
        report(
            Finding(path, None, "it is damaged, or contradicts the batches", "leader epochs are read from the batches")
        )
        return self._of_batches.entries


@dataclass(frozen=True, slots=True)
class LeaderEpochs:
    """``recorded``: the epochs in the log's checkpoint; none where there is no file, None where it cannot be read. A recorded
    epoch that fits between those beside it is not seen to be wrong, nor is one before all of these: the checkpoint has none of
    what was deleted at the log's beginning, which its first segment may have. ``highest``: the last one in which the partition
    was led, so far as that is known apart from the log."""

    recorded: frozenset[int] | None = frozenset()
    highest: int = _OWN_EPOCH

    @classmethod
    def of_log(
        cls,
        fs: FileSystem,
        directory: str,
        names: Container[str],
        highest: int = _OWN_EPOCH,
        *,
        is_replica: bool = False,
    ) -> LeaderEpochs:
        """``names``: of the files in the directory. The batches of ``is_replica`` may have any epoch where there is no file.
        Raises OSError."""
        entries = read_epochs(fs, directory, names)
        if entries is None or (is_replica and not entries):
            return cls(None, highest)
        return cls(frozenset(entry.epoch for entry in entries), highest)

    def is_wrong(self, before: int | None, epoch: int, after: int | None) -> bool:
        """Whether a batch cannot have that epoch, or contradicts the batches beside it, which do not contradict each other."""
        if epoch in (before, after) and epoch >= UNDEFINED_EPOCH:
            return False
        if not self._is_known(epoch):
            return True
        if before is None or after is None:
            return False
        if before == after:
            return not (before == _OWN_EPOCH and self.recorded is not None)  # one batch of Kafka's between two of ours
        if before < after:
            return epoch != _OWN_EPOCH and not before < epoch < after
        return after == _OWN_EPOCH and _OWN_EPOCH < epoch < before

    def corrected(self, epochs: Sequence[int]) -> dict[int, int]:
        """The right epochs of batches in order, by number, where they are wrong: that of the batch before, or else behind."""
        right = list(epochs)
        for number, epoch in enumerate(epochs):
            before = right[number - 1] if number else None
            after = epochs[number + 1] if number + 1 < len(epochs) else None
            if self.is_wrong(before, epoch, after):
                beside = [e for e in (before, after) if e is not None and self._is_known(e)]
                right[number] = beside[0] if beside else max(self.recorded or (), default=_OWN_EPOCH)
        return {number: epoch for number, epoch in enumerate(right) if epoch != epochs[number]}

    def _is_known(self, epoch: int) -> bool:
        if epoch <= _OWN_EPOCH:
            return epoch >= UNDEFINED_EPOCH
        if self.recorded is None or epoch in self.recorded or epoch <= self.highest:
            return True
        return epoch < min(self.recorded, default=_OWN_EPOCH)
