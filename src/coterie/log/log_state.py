"""What a log knows of its batches: how far it reaches, its producers, transactions and leader epochs; these come from their own
files where the files may be trusted, else from the batches.

And what of it is not on the disk yet, and what readers must not get before it is (flush.messages). Kafka's UnifiedLog.append
syncs within the append, before the high watermark moves. Here syncs are shared by many appends, and the high watermark
follows.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass

from coterie.log.checked_files import Report
from coterie.log.config import NO_LIMIT, LogConfig
from coterie.log.filesystem import FileSystem
from coterie.log.leader_epochs import FILE as EPOCHS_FILE
from coterie.log.leader_epochs import EpochComparison, LeaderEpochs, LogEpochs
from coterie.log.producer_files import drop_aborted, load_kept
from coterie.log.producer_states import Aborted, PartitionTransactions, Producers
from coterie.log.segments.recovery import recover
from coterie.log.segments.segment import Segment
from coterie.log.segments.segment_loader import ClosedLog
from coterie.machines.values import value
from coterie.records.batch import BatchHeader, is_undamaged
from coterie.records.markers import coordinator_epoch_of, marker_of


@value
class Appended:
    """The result of an append: its offsets, the append time (-1 for CreateTime), and whether it was a repeat (then
    the time is that of the first batch)."""

    base_offset: int
    last_offset: int
    log_append_time_ms: int
    duplicate: bool = False


class LogState:
    """The segments of a log, and what follows from them. ``leader_epoch``: what appended batches are stamped with.
    ``replicas_high_watermark``: up to where all replicas in sync have the log; None for the log of a lone replica, whose high
    watermark is the end of the log, or of what is synced where that is required."""

    def __init__(self, fs: FileSystem, directory: str, config: LogConfig, report: Report) -> None:
        self.directory = directory
        self.config = config
        self.producers = Producers()
        self.transactions = PartitionTransactions()
        self.epochs = LogEpochs(fs, directory)
        self.leader_epoch = 0
        self.replicas_high_watermark: int | None = None
        self.segments: list[Segment] = []
        self.log_start_offset = 0
        self.flushing = Flushing()
        self.appended_bytes = 0  # of batches, since the log was opened
        self.cleaned_until = 0  # compaction has seen everything before this offset
        self.surveyed_until = 0  # compaction has nothing to do before it, since the log was opened
        self.fs = fs
        self.cuts = 0  # of the end, by `follower_log`, since the log was opened
        self.is_closed = False  # its folder may be gone, or that of a later log
        self.epoch_due = True  # the next batch may begin an epoch, or the file of epochs is to be written
        self._report = report
        self._stale_aborted = False  # a `.txnindex` lacks entries

    @property
    def last_stable_offset(self) -> int:
        """Records before it belong to no open transaction; not below the log's start (Kafka's UnifiedLog)."""
        return max(self.log_start_offset, self.transactions.last_stable_offset(self.high_watermark))

    @property
    def end_offset(self) -> int:
        """The offset that the next record will get."""
        return self.segments[-1].next_offset

    @property
    def high_watermark(self) -> int:
        """Readers get what is before it: all but what has to be synced first."""
        visible = self.flushing.high_watermark(self.end_offset)
        return visible if self.replicas_high_watermark is None else min(visible, self.replicas_high_watermark)

    @property
    def has_hidden_tail(self) -> bool:
        """Whether readers may not read to the end."""
        return self.flushing.is_held or self.replicas_high_watermark is not None

    @property
    def size(self) -> int:
        return sum(segment.size for segment in self.segments)

    @property
    def gap_offset(self) -> int | None:
        """The first offset whose records damage took since the log was opened, while others follow; None without such a gap.
        Compaction forgets it."""
        gaps = (segment.gap_offset for segment in self.segments)
        return next((gap for gap in gaps if gap is not None and gap >= self.log_start_offset), None)

    def load_state(self, trusted: bool, closed: ClosedLog | None = None) -> None:
        """Producers, transactions and leader epochs: from their files where these may be trusted, else from the batches."""
        names = self.fs.names(self.directory)
        kept = load_kept(self.fs, self.directory, self.end_offset, closed, self._report) if trusted else None
        epochs_fit = self.epochs.load(names, None if closed is None else closed.epochs)
        if kept is not None and epochs_fit:
            self.producers, self.transactions = kept
        else:
            comparison = EpochComparison(self.epochs)
            self.replay(comparison)
            self.epochs.replace(comparison.result(f"{self.directory}/{EPOCHS_FILE}", self._report))
        self.epochs.cut(self.end_offset)
        self.epochs.start_at(self.log_start_offset)
        if not self.size:
            self.epochs.clear()
        elif not self.epochs.cache.entries:
            self.epochs.assign(0, self.log_start_offset)
        self.leader_epoch = max(self.epochs.cache.latest, self.leader_epoch)
        self.epoch_due = True

    def replay(self, comparison: EpochComparison | None = None) -> None:
        """Producers and transactions from the log's batches."""
        try:
            drop_aborted(self.fs, self.directory)
            self._stale_aborted = False
        except OSError:
            self._stale_aborted = True
        self.producers, self.transactions = Producers(), PartitionTransactions()
        if comparison is not None:
            comparison.begin()
        for slot, segment in enumerate(self.segments):
            for position, header in segment.headers(0):
                marker = segment.file.read(position, header.size) if header.is_control else b""
                if marker and not is_undamaged(marker, header):
                    self.replace_segment(slot, None)
                    self.replay(comparison)
                    return
                # The file has no earlier ones.
                if comparison is not None and header.last_offset >= self.log_start_offset:
                    comparison.batch(header.leader_epoch, header.base_offset)
                if header.producer_id >= 0:
                    self.remember(header, marker)

    def remember(self, header: BatchHeader, marker: bytes) -> None:
        """A batch of a producer is in the log; ``marker``: its bytes, if it is a control batch."""
        if not header.is_control:
            self.producers.appended(header, header.last_offset)
            self.transactions.appended(header)
            return
        self.producers.ended(header, coordinator_epoch_of(marker, 0, header))
        committed = marker_of(marker, 0, header)
        entry = None if committed is None else self.transactions.ended(header, committed)
        if entry is not None:
            self._index_aborted(entry)
        self.transactions.replicated(self.high_watermark)

    def _index_aborted(self, entry: Aborted) -> None:
        """The file only helps: one that cannot be written is written again when the log is closed."""
        if self._stale_aborted:
            return
        try:
            index = self.fs.open(self.segments[self._segment_of(entry.last_offset)].stem + ".txnindex")
            try:
                index.append(entry.encode())
            finally:
                index.close()
        except OSError:
            self._stale_aborted = True

    def move_high_watermark(self, offset: int) -> None:
        """Sets ``replicas_high_watermark``, within the log; fetches that wait are called."""
        before = self.high_watermark
        self.replicas_high_watermark = max(min(offset, self.end_offset), self.log_start_offset)
        after = self.high_watermark
        self.transactions.replicated(after)
        if after > before and self.flushing.on_visible is not None:
            self.flushing.on_visible()

    def begin_epoch(self, leader_epoch: int) -> None:
        """This replica leads from the end of its log on, in that epoch. The file of epochs is written with the first batch."""
        self.leader_epoch = leader_epoch
        self.epochs.assign(leader_epoch, self.end_offset)
        self.epoch_due = True

    def _note_epoch(self, base_offset: int) -> None:
        """Before the first batch of an epoch its entry is in the file."""
        self.epochs.assign(self.leader_epoch, base_offset)
        self.epochs.write()
        self.epoch_due = False

    def replace_segment(self, slot: int, problem: str | None) -> Segment:
        """Recovers a segment that is damaged; ``problem``: what is reported. Producers and transactions may need a `replay`."""
        old, is_last = self.segments[slot], slot == len(self.segments) - 1
        fs, is_replica = self.fs, self.replicas_high_watermark is not None
        names = fs.names(self.directory)
        segment = recover(
            fs,
            self.directory,
            old.base_offset,
            self._report,
            epochs=LeaderEpochs.of_log(fs, self.directory, names, self.leader_epoch, is_replica=is_replica),
            bound=None if is_last else self.segments[slot + 1].base_offset,
            end_offset=old.next_offset if is_last else None,
            has_gaps=is_replica,
            problem=problem or "its index does not fit its batches",
            index_interval_bytes=self.config.index_interval_bytes,
        )
        segment.first_append_ms = old.first_append_ms
        gaps = [gap for gap in (old.gap_offset, segment.gap_offset) if gap is not None]
        segment.gap_offset = min(gaps, default=None)
        if is_last:
            segment.next_offset = max(segment.next_offset, old.next_offset)
        old.close_files()
        self.segments[slot] = segment
        return segment

    def _segment_of(self, offset: int) -> int:
        if offset >= self.segments[-1].base_offset:
            return len(self.segments) - 1
        return max(bisect_right(self.segments, offset, key=lambda segment: segment.base_offset) - 1, 0)


@dataclass(slots=True)
class Flushing:
    """``messages`` were appended since the last sync began, the oldest at ``since_ms``. ``on_visible`` is called when a sync
    has moved the high watermark."""

    messages: int = 0
    since_ms: int = 0
    on_visible: Callable[[], None] | None = None
    _held_from: int | None = None
    _due_end: int = 0  # behind the last append that is to be synced
    _shortest: int = NO_LIMIT  # at which the log ended since the last sync began

    @property
    def is_held(self) -> bool:
        """Whether readers wait for a sync."""
        return self._held_from is not None

    def high_watermark(self, end_offset: int) -> int:
        """Readers get what is before it, of a log that ends at ``end_offset``."""
        return end_offset if self._held_from is None else self._held_from

    def appended(self, base_offset: int, end_offset: int, flush_messages: int, now_ms: int) -> None:
        """From ``flush_messages`` on, what was appended is to be synced before it is acknowledged and read."""
        if not self.messages:
            self.since_ms = now_ms
        self.messages += end_offset - base_offset
        if self.messages >= flush_messages:
            self._due_end = end_offset
            if self._held_from is None:
                self._held_from = base_offset

    def begin(self) -> None:
        """A sync of all that was appended begins."""
        self.messages, self._shortest = 0, NO_LIMIT

    def cut(self, end_offset: int) -> None:
        """The log was cut to end at ``end_offset``: what a sync under way covers behind it is gone."""
        self._shortest = min(self._shortest, end_offset)
        self._due_end = min(self._due_end, end_offset)
        if self._held_from is not None and self._held_from >= end_offset:
            self._held_from = None

    def synced(self, end_offset: int) -> None:
        """A sync that began when the log ended at ``end_offset`` has succeeded."""
        end_offset = min(end_offset, self._shortest)
        if self._held_from is not None:
            self._held_from = max(self._held_from, end_offset) if end_offset < self._due_end else None
            if self.on_visible is not None:
                self.on_visible()
