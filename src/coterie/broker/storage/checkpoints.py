"""Checkpoints of logs for the next start: their start offsets, their high watermarks, how far they are compacted, and how they
were closed.

Start and compaction are kept twice: in Kafka's own checkpoint files, which have no checksum, and in `log-checkpoint.json`,
which has one and is written first. Where the two differ, it counts: no deleted record comes back, and none is hidden, for the
sake of a damaged file. Kafka's files count where it cannot be read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from coterie.log import checked_files
from coterie.log.checked_files import Finding, Report, UnreadableFile
from coterie.log.filesystem import FileSystem
from coterie.log.partition_log import PartitionLog
from coterie.log.segments.segment_loader import ClosedLog

FILE = "log-checkpoint.json"
START_OFFSETS = "log-start-offset-checkpoint"
CLEANED_OFFSETS = "cleaner-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
_CONTENT_DAMAGED = "it is damaged"
_Own = tuple[dict[str, int], dict[str, int], dict[str, ClosedLog]]  # starts, compaction, logs that were closed


class LogCheckpoints:
    """Offsets by directory of the log; ``closed`` only after an orderly end. ``is_own``: whether they are from our own file."""

    def __init__(self, fs: FileSystem, report: Report) -> None:
        self._fs, self._report = fs, report
        self.starts: dict[str, int] = {}
        self.cleaned: dict[str, int] = {}
        self.high_watermarks: dict[str, int] = {}
        self.closed: dict[str, ClosedLog] = {}
        self.is_own = False

    def load(self, *, clean: bool) -> bool:
        """Reads the files; False where the logs have to be opened as after a crash."""
        is_written = self._fs.exists(FILE)
        own = self._read_own() if is_written else None
        action = "replicas begin with high watermark 0, and learn it from their leaders"
        self.high_watermarks = self._read_kafkas(HIGH_WATERMARKS, action, required=False) or {}
        starts, cleaned, closed = own or (None, None, {})
        self.starts = self._counting(START_OFFSETS, starts)
        self.cleaned = self._counting(CLEANED_OFFSETS, cleaned)
        self.closed = closed if clean else {}
        self.is_own = own is not None
        return clean and not (is_written and own is None)

    def _read_own(self) -> _Own | None:
        try:
            kept = checked_files.read_json(self._fs, FILE, "")
            starts, cleaned = ({d: int(offset) for d, offset in kept[name].items()} for name in ("starts", "cleaned"))
            return starts, cleaned, {d: ClosedLog.of_json(log) for d, log in kept.get("closed", {}).items()}
        except (UnreadableFile, KeyError, TypeError, ValueError, AttributeError):
            action = "every log is opened as after a crash, and Kafka's checkpoints count"
            self._report(Finding(FILE, None, _CONTENT_DAMAGED, action))
            return None

    def _counting(self, checkpoint: str, own: dict[str, int] | None) -> dict[str, int]:
        action = f"{FILE} counts, or else the logs as they are: deleted records may come back"
        kafkas = self._read_kafkas(checkpoint, action, required=bool(own))
        if own is None or kafkas is None:
            return kafkas or own or {}
        for directory in sorted(kafkas.keys() | own.keys()):
            one, other = kafkas.get(directory, 0), own.get(directory, 0)
            if one != other:
                problem = f"it has offset {one} for {directory}, and {FILE} has {other}"
                self._report(Finding(checkpoint, None, problem, f"{FILE} counts, because it has a checksum"))
        return own

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
        if not new.isdisjoint(self.high_watermarks):
            self.high_watermarks = {d: offset for d, offset in self.high_watermarks.items() if d not in new}
            self._write_kafkas(HIGH_WATERMARKS, self.high_watermarks)
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

    def save_high_watermarks(self, logs: Iterable[tuple[str, int, PartitionLog]], *, if_moved: bool = False) -> None:
        """Writes the high watermarks; ``if_moved``: not where they are as in the file. Raises OSError."""
        present = {f"{topic}-{index}": log.high_watermark for topic, index, log in logs}
        if not if_moved or present != self.high_watermarks:
            self._write_kafkas(HIGH_WATERMARKS, present)
            self.high_watermarks = present

    def save_closed(self, closed: dict[str, ClosedLog]) -> None:
        """Writes the state of logs that were closed cleanly. Raises OSError."""
        self._write(self.starts, self.cleaned, closed)

    def _write(self, starts: dict[str, int], cleaned: dict[str, int], closed: dict[str, ClosedLog]) -> None:
        logs = {directory: log.as_json() for directory, log in closed.items()}
        content = {"starts": starts, "cleaned": cleaned, "closed": logs}
        self._fs.write_file(FILE, checked_files.to_json(content))
