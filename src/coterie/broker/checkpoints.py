"""Checkpoints of logs for the next start: their start offsets, their high watermarks, how far they are compacted, and how they
were closed.

Start and compaction are kept twice: in Kafka's own checkpoint files, which have no checksum, and in `log-checkpoint.json`.
Where the two differ, the lower offset counts: no record is hidden or dropped for the sake of a damaged file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from coterie.log import checked_files
from coterie.log.filesystem import FileSystem
from coterie.log.findings import Finding, Report, UnreadableFile
from coterie.log.partition_log import PartitionLog
from coterie.log.segment_loader import ClosedLog

FILE = "log-checkpoint.json"
START_OFFSETS = "log-start-offset-checkpoint"
CLEANED_OFFSETS = "cleaner-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
_CONTENT_DAMAGED = "it is damaged"


class LogCheckpoints:
    """Offsets by directory of the log; ``closed`` only after an orderly end."""

    def __init__(self, fs: FileSystem, report: Report) -> None:
        self._fs, self._report = fs, report
        self.starts: dict[str, int] = {}
        self.cleaned: dict[str, int] = {}
        self.high_watermarks: dict[str, int] = {}
        self.closed: dict[str, ClosedLog] = {}

    def load(self, *, clean: bool) -> bool:
        """Reads the files; False where the logs have to be opened as after a crash."""
        own = self._read_own()
        action = "replicas begin with high watermark 0, and learn it from their leaders"
        self.high_watermarks = self._read_kafkas(HIGH_WATERMARKS, action, required=False) or {}
        kept = {} if own is None else own
        try:
            self.starts = self._agreed(START_OFFSETS, None if own is None else own["starts"])
            self.cleaned = self._agreed(CLEANED_OFFSETS, None if own is None else own["cleaned"])
            closed = {directory: ClosedLog.of_json(log) for directory, log in kept.get("closed", {}).items()}
        except (KeyError, TypeError, ValueError, AttributeError):
            self._report(Finding(FILE, None, _CONTENT_DAMAGED, "every log is opened as after a crash"))
            return False
        self.closed = closed if clean else {}
        return clean and not (own is None and self._fs.exists(FILE))

    def _read_own(self) -> dict[str, dict[str, int]] | None:
        if not self._fs.exists(FILE):
            return None
        try:
            kept: dict[str, dict[str, int]] = checked_files.read_json(self._fs, FILE, "")
        except UnreadableFile:
            self._report(Finding(FILE, None, _CONTENT_DAMAGED, "every log is opened as after a crash"))
            return None
        return kept

    def _agreed(self, checkpoint: str, own: dict[str, int] | None) -> dict[str, int]:
        action = f"{FILE} counts, or else the logs as they are: deleted records may come back"
        kafkas = self._read_kafkas(checkpoint, action, required=bool(own))
        if kafkas is None or own is None:
            return kafkas or own or {}
        agreed = {}
        for directory in sorted(kafkas.keys() | own.keys()):
            one, other = kafkas.get(directory, 0), int(own.get(directory, 0))
            if one != other:
                problem = f"it has offset {one} for {directory}, and {FILE} has {other}"
                self._report(Finding(checkpoint, None, problem, "the lower one counts"))
            agreed[directory] = min(one, other)
        return agreed

    def _read_kafkas(self, checkpoint: str, action: str, *, required: bool) -> dict[str, int] | None:
        """None where there is no such file, or none that can be read. Kafka makes the file empty and fills it later: an
        empty one is damaged only where it is ``required`` because ours has offsets."""
        if not self._fs.exists(checkpoint):
            return None
        content = self._fs.read_file(checkpoint)
        if not content and not required:
            return None
        try:
            version, count, *lines = content.decode().splitlines()
            rows = [line.split() for line in lines]
            if int(version) != 0 or int(count) != len(rows):
                raise ValueError(checkpoint)
            return {f"{topic}-{int(index)}": int(offset) for topic, index, offset in rows}
        except ValueError:
            self._report(Finding(checkpoint, None, _CONTENT_DAMAGED, action))
            return None

    def save_starts(self, logs: Iterable[tuple[str, int, PartitionLog]]) -> None:
        """Writes the start offsets that DeleteRecords or retention moved. Raises OSError."""
        self.starts = self._save(START_OFFSETS, logs, lambda log: log.log_start_offset, cleaned=False)

    def save_cleaned(self, logs: Iterable[tuple[str, int, PartitionLog]]) -> None:
        """Writes how far logs are compacted. Raises OSError."""
        self.cleaned = self._save(CLEANED_OFFSETS, logs, lambda log: log.cleaned_until, cleaned=True)

    def forget(self, directories: Iterable[str]) -> None:
        """The logs in these directories are new: what is kept of former ones there, of deleted topics, goes. Raises OSError."""
        new = set(directories)
        if new.isdisjoint(self.starts) and new.isdisjoint(self.cleaned):
            return
        self.starts = {directory: offset for directory, offset in self.starts.items() if directory not in new}
        self.cleaned = {directory: offset for directory, offset in self.cleaned.items() if directory not in new}
        self._write(self.starts, self.cleaned, {})
        for checkpoint, offsets in ((START_OFFSETS, self.starts), (CLEANED_OFFSETS, self.cleaned)):
            self._write_kafkas(checkpoint, offsets)

    def _save(
        self,
        checkpoint: str,
        logs: Iterable[tuple[str, int, PartitionLog]],
        offset_of: Callable[[PartitionLog], int],
        *,
        cleaned: bool,
    ) -> dict[str, int]:
        offsets = {f"{topic}-{index}": offset for topic, index, log in logs if (offset := offset_of(log)) > 0}
        self._write(self.starts if cleaned else offsets, offsets if cleaned else self.cleaned, {})
        self._write_kafkas(checkpoint, offsets)
        return offsets

    def _write_kafkas(self, checkpoint: str, offsets: Mapping[str, int]) -> None:
        lines = "".join(f"{' '.join(directory.rsplit('-', 1))} {offset}\n" for directory, offset in offsets.items())
        self._fs.write_file(checkpoint, f"0\n{len(offsets)}\n{lines}".encode())

    def save_high_watermarks(self, logs: Iterable[tuple[str, int, PartitionLog]]) -> None:
        """Writes the high watermarks. Raises OSError."""
        self._write_kafkas(HIGH_WATERMARKS, {f"{topic}-{index}": log.high_watermark for topic, index, log in logs})

    def save_closed(self, closed: dict[str, ClosedLog]) -> None:
        """Writes the state of logs that were closed cleanly. Raises OSError."""
        self._write(self.starts, self.cleaned, closed)

    def _write(self, starts: dict[str, int], cleaned: dict[str, int], closed: dict[str, ClosedLog]) -> None:
        logs = {directory: log.as_json() for directory, log in closed.items()}
        content = {"starts": starts, "cleaned": cleaned, "closed": logs}
        self._fs.write_file(FILE, checked_files.to_json(content))
