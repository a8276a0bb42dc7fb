"""The leader epochs of a log and Kafka's file of them in the log's folder, `leader-epoch-checkpoint`.

The file is written before the first batch of an epoch, so that it names every epoch of the batches. A log that has known epoch
0 alone needs none. After a crash, and where the file changed since the log was closed, the batches are compared with it; they
count where the two differ.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from itertools import pairwise

from coterie.log.epochs.epoch_cache import EpochStart, LeaderEpochCache
from coterie.log.files.filesystem import FileSystem
from coterie.log.files.findings import Finding, Report

FILE = "leader-epoch-checkpoint"


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
