"""Opening a log's files: names give the segments, suffixes of names the work that a crash interrupted, and the batches
themselves what the rest is worth. Nothing is removed because of a header.

What was written down at an orderly close (`ClosedLog`) shows files that changed or went since. Without it the files are checked
against each other.

How far a log had come, its files show (`reached`): a process that is killed leaves no record of the sizes of its files, but an
index entry, a producers' snapshot, an aborted transaction and a leader epoch each name an offset that the log had reached. So
an emptied or shortened segment is seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import google_crc32c

from coterie.log.checked_files import Finding, Report
from coterie.log.filesystem import FileSystem
from coterie.log.leader_epochs import FILE as EPOCHS_FILE
from coterie.log.leader_epochs import LeaderEpochs, read_epochs
from coterie.log.producer_states import decode_index
from coterie.log.segments.recovery import SET_ASIDE, recover
from coterie.log.segments.segment import DELETED, Segment, segment_name
from coterie.log.segments.segment_index import INDEX_ENTRY
from coterie.log.segments.survey import survey
from coterie.records.batch import BatchHeader

CLEANED = ".cleaned"  # Kafka's mark of a file that compaction is writing
SWAP = ".swap"  # and of one that is whole and about to take its segments' place
_OF_A_SEGMENT = (".index", ".timeindex", ".txnindex")


@dataclass(frozen=True, slots=True)
class ClosedLog:
    """A log as it was closed: its end; of each segment, by base offset, the bytes of its `.log` and the checksum of its
    index; the checksum of all `.txnindex`; whether there was a producers' `.snapshot`; and the entries of the file of leader
    epochs, None where an earlier coterie closed the log."""

    end_offset: int
    segments: dict[int, tuple[int, int]]
    aborted: int
    snapshot: bool
    epochs: list[tuple[int, int]] | None = None

    def as_json(self) -> dict[str, Any]:
        segments = {str(base): list(values) for base, values in self.segments.items()}
        content = {"end": self.end_offset, "segments": segments, "aborted": self.aborted, "snapshot": self.snapshot}
        return content if self.epochs is None else content | {"epochs": [list(entry) for entry in self.epochs]}

    @classmethod
    def of_json(cls, kept: Any) -> ClosedLog:
        """Raises KeyError, TypeError or ValueError for what `as_json` did not make."""
        segments = {int(base): (int(size), int(crc)) for base, (size, crc) in kept["segments"].items()}
        entries = kept.get("epochs")
        epochs = None if entries is None else [(int(epoch), int(start)) for epoch, start in entries]
        return cls(int(kept["end"]), segments, int(kept["aborted"]), bool(kept["snapshot"]), epochs)


def checksum_of_aborted(fs: FileSystem, directory: str, names: Iterable[str]) -> int:
    """The checksum of the content of the `.txnindex` files among ``names``; 0 where there is none."""
    crc = 0
    for name in sorted(names):
        if name.endswith(".txnindex"):
            crc = google_crc32c.extend(crc, fs.read_file(f"{directory}/{name}"))
    return crc


@dataclass(slots=True)
class SegmentLoader:
    """Opens the segments of one directory. ``clean``: the log was closed in order; ``closed`` its files then, if known;
    ``lost_power``: it was not, and the machine may have gone down since;
    ``contiguous``: no compaction leaves gaps; ``has_gaps``: of a replica, whose last segment may have some too. Afterwards
    ``trusted``: whether producers and transactions may be read from their files."""

    fs: FileSystem
    directory: str
    report: Report
    index_interval_bytes: int
    clean: bool
    closed: ClosedLog | None = None
    contiguous: bool = False
    has_gaps: bool = False
    leader_epoch: int = 0
    lost_power: bool = False
    trusted: bool = True
    _names: list[str] = field(default_factory=list)
    _epochs: LeaderEpochs = field(default_factory=LeaderEpochs)

    def load(self) -> list[Segment]:
        """The segments in order. Raises OSError, or UnreadableFile."""
        names = self._names = self._finish_what_was_begun()
        self._epochs = LeaderEpochs.of_log(self.fs, self.directory, names, self.leader_epoch, is_replica=self.has_gaps)
        bases = sorted(int(n[:-4]) for n in names if n.endswith(".log") and n[:-4].isdigit())
        lost = self._drop_orphans(names, set(bases)) | self._report_missing(bases)
        segments: list[Segment] = []
        self.trusted = self.clean and not lost
        for number, base in enumerate(bases):
            bound = bases[number + 1] if number + 1 < len(bases) else None
            segments.append(self._open(base, bound, is_cut=any(base < other for other in lost)))
        if self.contiguous and not self.clean:
            self._report_gaps(segments, names)
        if self.has_gaps:
            self._drop_detached(segments)
        return segments

    def _drop_detached(self, segments: list[Segment]) -> None:
        """A segment was about to be begun before the one in front of it was cut: a replica fetches what is between."""
        while len(segments) > 1 and not segments[-1].size and segments[-2].next_offset < segments[-1].base_offset:
            segments.pop().delete()

    def _open(self, base: int, bound: int | None, *, is_cut: bool) -> Segment:
        """``is_cut``: segments behind it are lost."""
        crashed = not self.clean
        problem: str | None = None
        if not crashed or bound is not None:
            segment = Segment(self.fs, self.directory, base)
            problem = (
                self._changed_since_close(segment)
                or segment.load(bound, self._names, self._epochs)
                or self._differs(segment, bound, is_cut)
            )
            if problem is None:
                return segment
            segment.close_files()
        self.trusted = False
        return recover(
            self.fs,
            self.directory,
            base,
            self.report,
            epochs=self._epochs,
            bound=bound,
            end_offset=self.closed.end_offset if self.closed is not None and bound is None and not is_cut else None,
            has_gaps=is_cut or self.has_gaps,
            crashed=crashed and bound is None,
            lost_power=crashed and self.lost_power and bound is None,
            problem=problem,
            index_interval_bytes=self.index_interval_bytes,
        )

    def _changed_since_close(self, segment: Segment) -> str | None:
        kept = None if self.closed is None else self.closed.segments.get(segment.base_offset)
        if kept is not None and kept[0] != segment.size:
            return f"it has {segment.size} bytes, but had {kept[0]} when it was closed"
        return None

    def _differs(self, segment: Segment, bound: int | None, is_cut: bool) -> str | None:
        """After loading: what the files' own checks do not see."""
        if self.closed is not None:
            kept = self.closed.segments.get(segment.base_offset)
            if kept is not None and kept[1] != segment.index.checksum:
                return "its index is not the one that was written"
            if bound is None and not is_cut and segment.next_offset != self.closed.end_offset:
                end = self.closed.end_offset
                return f"it ends at offset {segment.next_offset}, but ended at {end} when it was closed"
        elif not self.clean:
            return self._walk(segment)
        return None

    def _walk(self, segment: Segment) -> str | None:
        """After a crash every header is read anyway, for the sake of producers: so the whole index is checked by them."""
        headers = segment.headers(0)
        end, next_offset, largest = 0, segment.base_offset, -1
        for position, header in headers:
            if header.base_offset < next_offset:
                return f"the batch at byte {position} does not follow the one before"
            end, next_offset, largest = (
                position + header.size,
                header.last_offset + 1,
                max(largest, header.max_timestamp),
            )
        if end != segment.size:
            return f"no whole batch at byte {end}"
        if largest != segment.max_timestamp:
            return "its time index does not have its largest timestamp"
        at = {position: header.last_offset for position, header in headers}
        entries = zip(segment.index.positions, segment.index.offsets, strict=True)
        if any(at.get(position, offset + 1) > offset for position, offset in entries):
            return "an entry of its index is not that of a batch"
        return None

    def _report_gaps(self, segments: list[Segment], names: list[str]) -> None:
        for one, other in pairwise(segments):
            if one.next_offset >= other.base_offset:
                continue
            name = segment_name(one.base_offset) + ".log"
            if not any(n.startswith(name + SET_ASIDE) for n in names):
                problem = f"offsets {one.next_offset} to {other.base_offset - 1} are in no segment"
                self.report(Finding(f"{self.directory}/{name}", one.size, problem, "reads go on behind them"))

    # -- names of files -----------------------------------------------------------------------------------------------

    def _finish_what_was_begun(self) -> list[str]:
        """Removes what was to be removed, and puts whole compacted files in place; returns the names of what is left."""
        names = self.fs.names(self.directory)
        if not any(name.endswith((CLEANED, DELETED, SWAP)) for name in names):
            return names
        for name in names:
            if name.endswith(".log" + SWAP) and name[: -len(".log" + SWAP)].isdigit():
                self._finish_swap(int(name[: -len(".log" + SWAP)]), names)
        names = self.fs.names(self.directory)
        for name in names:
            if name.endswith(".log" + DELETED) and name[: -len(DELETED)] not in names:
                for suffix in _OF_A_SEGMENT:
                    with suppress(FileNotFoundError):
                        self.fs.remove(f"{self.directory}/{name[: -len('.log' + DELETED)]}{suffix}")
            if name.endswith((CLEANED, DELETED, SWAP)):
                self.fs.remove(f"{self.directory}/{name}")
        return self.fs.names(self.directory)

    def _finish_swap(self, base: int, names: list[str]) -> None:
        """A whole compacted file takes the place of its segments where it holds nothing but batches of theirs; else it is
        set aside, and they stay."""
        path = f"{self.directory}/{segment_name(base)}.log"
        old = sorted(
            (int(stem), suffix)
            for name in names
            for stem, dot, suffix in [name.partition(".")]
            if dot and stem.isdigit() and suffix in ("log", "log" + DELETED) and int(stem) >= base
        )
        swapped = self._batches(path + SWAP, base)
        if swapped is not None and (base, "log") not in old:
            self.fs.rename(path + SWAP, path)  # Kafka's order: the old segments are gone by now
            return
        reached = -1 if not swapped else swapped[-1].last_offset
        replaced = [(b, s) for b, s in old if b == base or b <= reached]
        known = {
            (h.base_offset, h.last_offset_delta, h.base_timestamp, h.producer_id, h.base_sequence)
            for b, s in replaced
            for h in self._batches(f"{self.directory}/{segment_name(b)}.{s}", b) or []
        }
        if swapped is not None and all(
            (h.base_offset, h.last_offset_delta, h.base_timestamp, h.producer_id, h.base_sequence) in known
            for h in swapped
        ):
            for b, suffix in replaced:
                if b != base and suffix == "log":
                    stem = f"{self.directory}/{segment_name(b)}.log"
                    self.fs.rename(stem, stem + DELETED)
            self.fs.rename(path + SWAP, path)
            return
        for b, suffix in old:
            if suffix != "log" and (b, "log") not in old:
                stem = f"{self.directory}/{segment_name(b)}.log"
                self.fs.rename(stem + DELETED, stem)
        self.fs.rename(path + SWAP, f"{path}{SWAP}.damaged")
        self.report(
            Finding(
                path + SWAP,
                None,
                "compaction left a file that holds other batches than the segments it was made of",
                f"it is set aside as {segment_name(base)}.log{SWAP}.damaged, and the segments stay",
            )
        )

    def _batches(self, path: str, base: int) -> list[BatchHeader] | None:
        """The headers of a file without damage; None for one with any."""
        file = self.fs.open(path)
        try:
            result = survey(file, file.size(), base, has_gaps=True)
        finally:
            file.close()
        return [header for _, header in result.batches] if result.undamaged else None

    def _drop_orphans(self, names: list[str], bases: set[int]) -> set[int]:
        """Index files without a segment go, as in Kafka, but reported; returns whose they were."""
        lost = set[int]()
        for name in names:
            stem, dot, suffix = name.partition(".")
            if dot + suffix in _OF_A_SEGMENT and stem.isdigit() and int(stem) not in bases:
                action = "the index is removed; the records are lost unless the file is put back"
                self.report(Finding(f"{self.directory}/{name}", None, f"there is no {stem}.log", action))
                self.fs.remove(f"{self.directory}/{name}")
                lost.add(int(stem))
        return lost

    def _report_missing(self, bases: list[int]) -> set[int]:
        lost = set() if self.closed is None else set(self.closed.segments) - set(bases)
        for base in sorted(lost):
            name = f"{self.directory}/{segment_name(base)}.log"
            action = "its records are lost unless the file is put back"
            self.report(Finding(name, None, "the file was there when the log was closed, and is gone", action))
        return lost


def reached(fs: FileSystem, directory: str) -> tuple[int, str]:
    """The furthest end offset that a file shows, and its name; 0 where none shows any. Raises OSError."""
    return max(_shown(fs, directory, fs.names(directory)), default=(0, ""))


def _shown(fs: FileSystem, directory: str, names: Sequence[str]) -> Iterator[tuple[int, str]]:
    for name in names:
        stem, _, suffix = name.partition(".")
        if not stem.isdigit():
            continue
        if suffix == "snapshot":
            yield int(stem), name
        elif suffix == "index":
            yield int(stem) + _last_relative_offset(fs.read_file(f"{directory}/{name}")) + 1, name
        elif suffix == "txnindex":
            yield max((a.last_offset + 1 for a in decode_index(fs.read_file(f"{directory}/{name}"))), default=0), name
    for entry in read_epochs(fs, directory, names) or []:
        yield entry.start_offset, EPOCHS_FILE


def _last_relative_offset(index: bytes) -> int:
    """Of the last entry; Kafka reserves zeros behind it. -1 in an index without any."""
    whole = index[: len(index) - len(index) % INDEX_ENTRY.size]
    return max((relative for relative, position in INDEX_ENTRY.iter_unpack(whole) if relative or position), default=-1)
