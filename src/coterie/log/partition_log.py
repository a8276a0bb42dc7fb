"""A partition's log: append, read, recover after a crash. `time_lookup` and `retention` are functions over it.

Batches are kept opaque: an append checks them (`validation`), gives offsets, and writes the bytes. A replica's log is also
cut (`truncation`) and takes the leader's batches (`following`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from contextlib import suppress

from coterie.log.appended import Appended
from coterie.log.config import NO_LIMIT, LogConfig
from coterie.log.epoch_checkpoint import FILE as EPOCHS_FILE
from coterie.log.epoch_checkpoint import EpochComparison, LogEpochs
from coterie.log.filesystem import FileSystem
from coterie.log.findings import Finding, Report, unreported
from coterie.log.flushing import Flushing
from coterie.log.leader_epochs import LeaderEpochs
from coterie.log.loading import ClosedLog, SegmentLoader, checksum_of_aborted
from coterie.log.producer_files import drop_aborted, load_kept, write_aborted, write_snapshot
from coterie.log.producers import Producers
from coterie.log.recovery import recover
from coterie.log.segment import Segment
from coterie.log.transactions import Aborted, PartitionTransactions
from coterie.log.validation import checked_header, prepared
from coterie.records import batch as batches_module
from coterie.records.batch import HEADER_BYTES, BatchHeader, batch_span, is_undamaged, read_header
from coterie.records.markers import coordinator_epoch_of, marker_of
from coterie.wire.errors import ErrorCode, Refusal

SyncFailed = Callable[[OSError], None]


class PartitionLog:
    """The log of one partition in one directory. ``leader_epoch``: what appended batches are stamped with.
    ``replicas_high_watermark``: up to where all replicas in sync have the log; None for the log of a lone replica, whose high
    watermark is the end of the log, or of what is synced where that is required."""

    def __init__(
        self, fs: FileSystem, directory: str, config: LogConfig, report: Report, sync_failed: SyncFailed
    ) -> None:
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
        self.fs = fs
        self._report, self._sync_failed = report, sync_failed
        self.cuts = 0  # of the end, by `truncation`, since the log was opened
        self._stale_aborted = False  # a `.txnindex` lacks entries
        self._unwanted: str | None = None  # the `.log` of a segment that could not be begun, nor removed
        self.epoch_due = True  # the next batch may begin an epoch, or the file of epochs is to be written

    @classmethod
    def open(
        cls,
        fs: FileSystem,
        directory: str,
        config: LogConfig,
        *,
        clean: bool,
        start_offset: int = 0,
        high_watermark: int | None = None,
        leader_epoch: int = 0,
        closed: ClosedLog | None = None,
        report: Report = unreported,
        sync_failed: SyncFailed = lambda error: None,
    ) -> PartitionLog:
        """Opens or makes the log. ``high_watermark``: as it is known of a partition with several replicas; ``leader_epoch``:
        the last one in which the partition was led. ``clean``: it was closed in order; ``closed``: its files at that time;
        otherwise the last segment is read whole and a torn tail is cut off. What does not fit is mended and goes to ``report``.
        ``sync_failed`` gets the error of a sync: nobody knows then what the disk holds. Raises OSError, or UnreadableFile."""
        log = cls(fs, directory, config, report, sync_failed)
        existed = fs.exists(directory)
        fs.make_directory(directory)
        has_gaps = high_watermark is not None
        contiguous = not (config.cleanup_compact or has_gaps)
        loader = SegmentLoader(
            fs, directory, report, config.index_interval_bytes, clean, closed, contiguous, has_gaps, leader_epoch
        )
        log.segments = loader.load()
        if not log.segments:
            if existed:
                report(Finding(directory, None, "there is no segment", f"the log begins anew at offset {start_offset}"))
            log.start_segment(start_offset)
        if start_offset > log.end_offset:
            problem = f"the recorded log start offset {start_offset} is beyond its end {log.end_offset}"
            report(Finding(directory, None, problem, "it begins with its first segment"))
            start_offset = 0
        log.log_start_offset = max(start_offset, log.segments[0].base_offset)
        if high_watermark is not None:
            log.replicas_high_watermark = max(min(high_watermark, log.end_offset), log.log_start_offset)
        log.leader_epoch = leader_epoch
        log.load_state(loader.trusted, closed)
        if existed and not clean and config.flush_messages < NO_LIMIT:
            log.sync()  # what the process before wrote may not be on the disk, and a repeated batch is acknowledged at once
        return log

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
                if comparison is not None:
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
        """The file only helps: one that cannot be written is written anew when the log is closed."""
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

    @property
    def size(self) -> int:
        return sum(segment.size for segment in self.segments)

    def append(self, data: bytes, now_ms: int, header: BatchHeader | None = None, *, anew: bool = False) -> Appended:
        """Appends a client's batch; ``header`` is its own where it was read before; ``anew`` as in
        `Producers.check`. Raises Refusal with Kafka's code, `RecordsRefused` where it is for single records, or OSError."""
        header = checked_header(data, self.config, header)
        batch, header = prepared(data, header, self.config, now_ms)
        if header.size > self.config.segment_bytes:
            raise Refusal(ErrorCode.RECORD_LIST_TOO_LARGE)
        if header.producer_id >= 0:
            seen = self.producers.check(header, anew=anew)
            if seen is not None:
                return Appended(seen.base_offset, seen.last_offset, seen.timestamp, duplicate=True)
        base = self.end_offset
        batches_module.stamp(batch, 0, base, self.leader_epoch)
        header = header.at(base)
        if self.epoch_due:
            self._note_epoch(base)
        self.write(batch, header, now_ms)
        if header.producer_id >= 0:
            self.remember(header, b"")
        return Appended(base, header.last_offset, now_ms if self.config.append_time else -1)

    def append_own(self, data: bytes, now_ms: int, *, bumps_epoch: bool = False) -> Appended:
        """Appends one batch that the broker itself made: what it knows to be right is not checked again, and it may
        be a control batch; ``bumps_epoch``: the marker of a transaction of version 2. Raises Refusal for one that is too
        large or of a fenced producer, or OSError."""
        header = read_header(data)
        if header.size > self.config.max_message_bytes:
            raise Refusal(ErrorCode.MESSAGE_TOO_LARGE, f"a batch of {header.size} bytes")
        if header.size > self.config.segment_bytes:
            raise Refusal(ErrorCode.RECORD_LIST_TOO_LARGE)
        if header.producer_id >= 0:
            self.producers.check_epoch(header)
            if header.is_control:
                is_late = bumps_epoch and header.producer_id in self.transactions.open
                self.producers.check_marker(header, coordinator_epoch_of(data, 0, header), exceeds_epoch=is_late)
        stamped = bytearray(data)
        base = self.end_offset
        batches_module.stamp(stamped, 0, base, self.leader_epoch)
        header = header.at(base)
        if self.epoch_due:
            self._note_epoch(base)
        self.write(stamped, header, now_ms)
        if header.producer_id >= 0:
            self.remember(header, data if header.is_control else b"")
        return Appended(base, base + header.last_offset_delta, -1)

    def _note_epoch(self, base_offset: int) -> None:
        """Before the first batch of an epoch its entry is in the file."""
        self.epochs.assign(self.leader_epoch, base_offset)
        self.epochs.write()
        self.epoch_due = False

    def write(self, batch: bytes | bytearray, header: BatchHeader, now_ms: int) -> None:
        """Writes a batch that has its offset and epoch, with no further check. Raises OSError."""
        if self._unwanted is not None:
            self._drop_unwanted()
        self._roll_if_due(header, now_ms)
        segment = self.segments[-1]
        if segment.first_append_ms < 0:
            segment.first_append_ms = now_ms
        base_offset = segment.next_offset
        segment.append(batch, header, self.config.index_interval_bytes, now_ms)
        self.flushing.appended(base_offset, segment.next_offset, self.config.flush_messages, now_ms)
        self.appended_bytes += len(batch)

    def _roll_if_due(self, incoming: BatchHeader, now_ms: int) -> None:
        active = self.segments[-1]
        if active.size == 0:
            return
        full = active.size + incoming.size > self.config.segment_bytes
        wide = incoming.last_offset - active.base_offset > 2**31 - 1_000_000
        if full or wide or active.age_ms(incoming.max_timestamp, now_ms) > self.config.roll_ms:
            self._sync(active)
            self.start_segment(active.next_offset)

    def start_segment(self, base_offset: int) -> None:
        """A new active segment; the one before is closed to appends."""
        if self._unwanted is not None:
            self._drop_unwanted()
        segment = Segment(self.fs, self.directory, base_offset)
        try:
            if self.config.preallocate:
                segment.reserve(self.config.segment_bytes)
            if self.segments:
                self.segments[-1].finish()
        except OSError:
            segment.close_files()
            self._unwanted = segment.stem + ".log"
            with suppress(OSError):
                self._drop_unwanted()
            raise
        if self.segments:
            segment.index.make_file()
        self.segments.append(segment)

    def _drop_unwanted(self) -> None:
        """Before anything else is written: at the next start an empty file among the offsets of another segment would cut that
        one short. Raises OSError."""
        if self._unwanted is not None and self.fs.exists(self._unwanted):
            self.fs.remove(self._unwanted)
        self._unwanted = None

    def read(self, offset: int, max_bytes: int, *, at_least_one: bool = True) -> bytes:
        """Batches from the one that holds ``offset``, up to ``max_bytes``; a larger first batch comes whole if
        ``at_least_one``. The last batch may be cut short, as in Kafka. Raises Refusal OFFSET_OUT_OF_RANGE, or OSError."""
        end_offset = self.end_offset
        if not self.log_start_offset <= offset <= end_offset:
            raise Refusal(ErrorCode.OFFSET_OUT_OF_RANGE)
        if offset == end_offset or (max_bytes <= 0 and not at_least_one):
            return b""
        slot = self._segment_of(offset)
        while slot < len(self.segments):
            segment = self.segments[slot]
            if segment.unverified and not segment.verify(segment.start_of_stretch(offset), 1):
                segment = self.recover_segment(slot, None)
            located = segment.locate(offset)
            if located is None:
                slot += 1
            elif segment.unverified and not segment.verify(located[0], max_bytes):
                self.recover_segment(slot, None)
            else:
                return self._read_at(segment, *located, max_bytes, at_least_one)
        return b""

    def recover_segment(self, slot: int, problem: str | None) -> Segment:
        """A segment that turns out damaged while the log is in use: what is no batch goes out of it."""
        segment = self.replace_segment(slot, problem)
        self.replay()
        return segment

    def replace_segment(self, slot: int, problem: str | None) -> Segment:
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
        if is_last:
            segment.next_offset = max(segment.next_offset, old.next_offset)
        old.close_files()
        self.segments[slot] = segment
        return segment

    def verify(self) -> bool:
        """Reads all that was on the disk when the log was opened; False where something was damaged, and is mended now."""
        damaged = [
            slot for slot, segment in enumerate(self.segments) if segment.unverified and not segment.verify_all()
        ]
        for slot in damaged:
            self.recover_segment(slot, None)
        return not damaged

    def _read_at(self, segment: Segment, position: int, ahead: bytes, max_bytes: int, at_least_one: bool) -> bytes:
        """As `read`, from a batch's position on; ``ahead``: what was read from there already."""
        size = min(max(max_bytes, HEADER_BYTES), segment.size - position)
        data = ahead[:size] if len(ahead) >= size else segment.file.read(position, size)
        first = batch_span(data, 0)[1]
        if first > len(data) or first > max_bytes:
            return segment.file.read(position, first) if at_least_one else b""
        return data

    def _segment_of(self, offset: int) -> int:
        if offset >= self.segments[-1].base_offset:
            return len(self.segments) - 1
        return max(bisect_right(self.segments, offset, key=lambda segment: segment.base_offset) - 1, 0)

    def sync(self) -> None:
        """Returns once all that was appended is on the disk."""
        self.flushing.begin()
        self._sync(self.segments[-1])
        self.flushing.synced(self.end_offset)

    def _sync(self, segment: Segment) -> None:
        try:
            segment.sync()
        except OSError as error:
            self._sync_failed(error)
            raise

    def close(self) -> ClosedLog:
        """Syncs, writes the producers' snapshot and closes the files; returns what a later `open` should find. Raises
        OSError; then the files are closed too, but the log was not closed in order."""
        fs, directory = self.fs, self.directory
        try:
            self.sync()
            write_snapshot(fs, directory, self.end_offset, self.producers, self.transactions)
            if self._stale_aborted:
                drop_aborted(fs, directory)
                write_aborted(
                    fs, ((self.segments[self._segment_of(a.last_offset)].stem, a) for a in self.transactions.aborted)
                )
                self._stale_aborted = False
            self.epochs.write()
            for segment in self.segments:
                segment.finish()
            segments = {segment.base_offset: (segment.size, segment.index.checksum) for segment in self.segments}
            aborted = checksum_of_aborted(fs, directory, fs.names(directory))
            epochs = self.epochs.as_closed()
            return ClosedLog(self.end_offset, segments, aborted, bool(self.producers.by_id), epochs)
        finally:
            self.close_files()

    def close_files(self) -> None:
        """Closes the files as they are."""
        for segment in self.segments:
            segment.close_files()
