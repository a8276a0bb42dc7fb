"""A partition's log: append, read, recover after a crash. `reading` and `retention` are functions over it.

Theory: a log is a sequence of batches whose offsets only rise, in segments that are named by their first offset; only
the last one is written to. Batches are kept opaque: an append checks them (`validation`), gives offsets, and writes the
bytes. All else that is known of them, such as producers, open transactions, epochs and indexes, is derived
(`log_state`), and can be derived again from the bytes: snapshots and indexes only save time at a start.

Rule: what is acknowledged is in the file before the response; it is on the disk only after a sync (`Flushing`), as in
Kafka. A start therefore trusts what was synced at a clean end or when a segment was full, reads the rest, and cuts a
torn tail. Where the machine itself went down, everything after the first damage goes: the disk may have written later
pages and not earlier ones.

A replica's log is also cut, and takes the leader's batches as they are (`follower_log`).

What is ugly: a read can change the log. A segment that is trusted at the start is verified when it is first read, and
damage in it is set aside there and then (`recover_segment`), since a start would else take time in proportion to the
log. An append that failed may leave an empty file that must be gone before the next one (`_unwanted`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

from coterie.log.aside import Aside, at_once
from coterie.log.checked_files import Finding, Report, unreported
from coterie.log.config import NO_LIMIT, LogConfig
from coterie.log.filesystem import FileSystem
from coterie.log.log_state import Appended, LogState
from coterie.log.producer_files import drop_aborted, write_aborted, write_snapshot
from coterie.log.segments.segment import Segment
from coterie.log.segments.segment_loader import ClosedLog, SegmentLoader, checksum_of_aborted
from coterie.log.validation import checked_header, prepared
from coterie.records import batch as batches_module
from coterie.records.batch import HEADER_BYTES, NO_TIMESTAMP, BatchHeader, batch_span, first_timestamp, read_header
from coterie.records.encoding import NewRecord, encode_batch
from coterie.records.markers import coordinator_epoch_of
from coterie.wire.errors import ErrorCode, Refusal

SyncFailed = Callable[[OSError], None]


class PartitionLog(LogState):
    """The log of one partition in one directory."""

    def __init__(
        self, fs: FileSystem, directory: str, config: LogConfig, report: Report, sync_failed: SyncFailed
    ) -> None:
        super().__init__(fs, directory, config, report)
        self._sync_failed = sync_failed
        self._unwanted: str | None = None  # the `.log` of a segment that could not be begun, nor removed

    @classmethod
    def open(
        cls,
        fs: FileSystem,
        directory: str,
        config: LogConfig,
        *,
        clean: bool,
        lost_power: bool = False,
        start_offset: int = 0,
        high_watermark: int | None = None,
        leader_epoch: int = 0,
        closed: ClosedLog | None = None,
        cleaned_until: int = 0,
        report: Report = unreported,
        sync_failed: SyncFailed = lambda error: None,
    ) -> PartitionLog:
        """Opens or makes the log. ``high_watermark``: as it is known of a partition with several replicas; ``leader_epoch``:
        the last one in which the partition was led. ``clean``: it was closed in order; ``closed``: its files at that time;
        otherwise the last segment is read whole and a torn tail is cut off, or, where ``lost_power`` (the machine may have gone
        down), all from the first damage on. ``cleaned_until``: compaction may have left gaps
        before. What does not fit is mended and goes to ``report``.
        ``sync_failed`` gets the error of a sync: what is on disk is then unknown. Raises OSError, or UnreadableFile."""
        log = cls(fs, directory, config, report, sync_failed)
        existed = fs.exists(directory)
        fs.make_directory(directory)
        has_gaps = high_watermark is not None
        contiguous = not (config.cleanup_compact or cleaned_until or has_gaps)
        loader = SegmentLoader(
            fs,
            directory,
            report,
            config.index_interval_bytes,
            clean=clean,
            closed=closed,
            contiguous=contiguous,
            has_gaps=has_gaps,
            leader_epoch=leader_epoch,
            lost_power=lost_power,
        )
        log.segments = loader.load()
        if not log.segments:
            if existed:
                report(
                    Finding(directory, None, "there is no segment", f"the log begins again at offset {start_offset}")
                )
            log.start_segment(start_offset)
        if start_offset > log.end_offset:
            problem = f"the recorded log start offset {start_offset} is beyond its end {log.end_offset}"
            report(Finding(directory, None, problem, "it begins with its first segment"))
            start_offset = 0
        log.log_start_offset = max(start_offset, log.segments[0].base_offset)
        if high_watermark is not None:
            log.replicas_high_watermark = max(min(high_watermark, log.end_offset), log.log_start_offset)
        log.leader_epoch, log.cleaned_until = leader_epoch, min(cleaned_until, log.end_offset)
        log.load_state(loader.trusted, closed)
        assert log.log_start_offset <= log.end_offset
        if existed and not clean and config.flush_messages < NO_LIMIT:
            log.sync()  # what the process before wrote may not be on the disk, and a repeated batch is acknowledged at once
        return log

    def append(
        self,
        data: bytes,
        now_ms: int,
        header: BatchHeader | None = None,
        *,
        must_begin: bool = False,
        aside: Aside = at_once,
    ) -> Appended:
        """Appends a client's batch; ``header`` is its own where it was read before; ``must_begin`` as in `Producers.check`.
        Long checks are made ``aside``, before anything changes. Raises Refusal with Kafka's code, `RecordsRefused` where it
        is for single records, or OSError."""
        header = checked_header(data, self.config, header)
        batch, header = prepared(data, header, self.config, now_ms, aside)
        if len(batch) > self.config.segment_bytes:
            raise Refusal(ErrorCode.RECORD_LIST_TOO_LARGE)
        if header.producer_id >= 0:
            seen = self.producers.check(header, must_begin=must_begin)
            if seen is not None:
                return Appended(seen.base_offset, seen.last_offset, seen.timestamp, duplicate=True)
        base = self.end_offset
        batches_module.stamp(batch, 0, base, self.leader_epoch)
        header = header.at(base)
        self._write_next(batch, header, now_ms)
        if header.producer_id >= 0:
            self.remember(header, b"")
        return Appended(base, header.last_offset, now_ms if self.config.append_time else -1)

    def append_own(self, data: bytes, now_ms: int, *, bumps_epoch: bool = False) -> Appended:
        """Appends one batch that the broker itself made: what it knows to be right is not checked again, and it may
        be a control batch; ``bumps_epoch``: the marker of a transaction of version 2. Raises Refusal for one that is too
        large or of a fenced producer, or OSError."""
        header = read_header(data)
        self._check_size(header.size)
        if header.producer_id >= 0:
            self.producers.check_epoch(header.producer_id, header.producer_epoch)
            if header.is_control:
                is_late = bumps_epoch and header.producer_id in self.transactions.open
                self.producers.check_marker(header, coordinator_epoch_of(data, 0, header), exceeds_epoch=is_late)
        stamped = bytearray(data)
        base = self.end_offset
        batches_module.stamp(stamped, 0, base, self.leader_epoch)
        header = header.at(base)
        self._write_next(stamped, header, now_ms)
        if header.producer_id >= 0:
            self.remember(header, data if header.is_control else b"")
        return Appended(base, base + header.last_offset_delta, -1)

    def append_records(self, items: Sequence[NewRecord], now_ms: int) -> Appended:
        """As `append_own`, of records of no producer: the batch is made for its offset."""
        base = self.end_offset
        batch = encode_batch(items, base_offset=base, leader_epoch=self.leader_epoch)
        self._check_size(len(batch))
        self._write_next(batch, read_header(batch), now_ms)
        return Appended(base, base + len(items) - 1, -1)

    def _check_size(self, size: int) -> None:
        """Raises Refusal for a batch that is too large."""
        config = self.config
        if size > config.max_message_bytes:
            raise Refusal(
                ErrorCode.MESSAGE_TOO_LARGE,
                f"the batch has {size} bytes; max.message.bytes is {config.max_message_bytes}",
            )
        if size > config.segment_bytes:
            raise Refusal(ErrorCode.RECORD_LIST_TOO_LARGE)

    def _write_next(self, batch: bytes | bytearray, header: BatchHeader, now_ms: int) -> None:
        """As `write`, of a batch of this leader. Raises OSError."""
        assert header.base_offset == self.end_offset, "a leader's batches leave no gap"
        if self.epoch_due:
            self._note_epoch(header.base_offset)
        self.write(batch, header, now_ms)

    def write(self, batch: bytes | bytearray, header: BatchHeader, now_ms: int) -> None:
        """Writes a batch that has its offset and epoch, with no further check. Raises OSError."""
        if self._unwanted is not None:
            self._drop_unwanted()
        segment, config = self.segments[-1], self.config
        if segment.size and self._is_roll_due(segment, header, now_ms):
            self._sync(segment)
            self.start_segment(segment.next_offset)
            segment = self.segments[-1]
        if segment.first_append_ms < 0:
            segment.first_append_ms = now_ms
        base_offset = segment.next_offset
        assert base_offset <= header.base_offset <= header.last_offset, "offsets only rise"
        segment.append(batch, header, config.index_interval_bytes, now_ms)
        self.flushing.appended(base_offset, segment.next_offset, config.flush_messages, now_ms)
        self.appended_bytes += len(batch)

    def _is_roll_due(self, active: Segment, incoming: BatchHeader, now_ms: int) -> bool:
        config = self.config
        return (
            active.size + incoming.size > config.segment_bytes
            or incoming.last_offset - active.base_offset > 2**31 - 1_000_000
            or active.age_ms(incoming.max_timestamp, now_ms) > config.roll_ms
        )

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
        located = self._locate(offset, max_bytes)
        return b"" if located is None else self._read_at(*located, max_bytes, at_least_one)

    def timestamp_at(self, offset: int) -> int:
        """The timestamp of the first record of the batch that holds ``offset``, or of the next one; NO_TIMESTAMP where
        there is none. Reads a header alone. Raises OSError."""
        located = self._locate(max(offset, self.log_start_offset), HEADER_BYTES) if offset < self.end_offset else None
        if located is None:
            return NO_TIMESTAMP
        segment, position, ahead = located
        return first_timestamp(ahead if len(ahead) >= HEADER_BYTES else segment.file.read(position, HEADER_BYTES))

    def _locate(self, offset: int, max_bytes: int) -> tuple[Segment, int, bytes] | None:
        """The segment, position and first bytes of the batch that holds ``offset``, or of the next one, of which so many
        bytes are undamaged. Raises OSError."""
        slot = self._segment_of(offset)
        while slot < len(self.segments):
            segment = self.segments[slot]
            if segment.unverified and not segment.verify_for(offset):
                segment = self.recover_segment(slot, None)
            located = segment.locate(offset)
            if located is None:
                slot += 1
            elif segment.unverified and not segment.verify(located[0], max_bytes):
                self.recover_segment(slot, None)
            else:
                return segment, *located
        return None

    def recover_segment(self, slot: int, problem: str | None) -> Segment:
        """A segment that turns out damaged while the log is in use: bytes that are not a batch are removed."""
        segment = self.replace_segment(slot, problem)
        self.replay()
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
        self.is_closed = True
        for segment in self.segments:
            segment.close_files()
