"""A partition's log: append, read, find by time, truncate by retention, recover after a crash.

Batches are kept opaque: an append checks them (`validation`), gives offsets, and writes the bytes.
Single writer, no replicas: the high watermark is the end of the log.
"""

from __future__ import annotations

from dataclasses import dataclass

from coterie.log.config import LogConfig
from coterie.log.filesystem import FileSystem
from coterie.log.producers import Producers
from coterie.log.segment import Segment, segment_name
from coterie.log.transactions import Transactions, decode_index
from coterie.log.validation import checked_header, prepared
from coterie.records import batch as batches_module
from coterie.records.batch import (
    HEADER_BYTES,
    BatchError,
    BatchHeader,
    coordinator_epoch_of,
    decode_records,
    marker_of,
    read_header,
)
from coterie.records.compression import CompressionError
from coterie.wire.errors import ErrorCode, Refusal

EARLIEST_TIMESTAMP = -2
LATEST_TIMESTAMP = -1
MAX_TIMESTAMP = -3


@dataclass(frozen=True, slots=True)
class Appended:
    """What an append answers: the offsets it got, the append time (-1 for CreateTime), and whether it was a repeat (then
    the time is that of the first batch)."""

    base_offset: int
    last_offset: int
    log_append_time_ms: int
    duplicate: bool = False


class PartitionLog:
    """The log of one partition in one directory."""

    def __init__(self, fs: FileSystem, directory: str, config: LogConfig) -> None:
        self.directory = directory
        self.config = config
        self.producers = Producers()
        self.transactions = Transactions()
        self.segments: list[Segment] = []
        self.log_start_offset = 0
        self.unflushed_messages = 0
        self.unflushed_since_ms = 0  # when the oldest of them was appended
        self.appended_bytes = 0  # of batches, since the log was opened
        self.cleaned_until = 0  # compaction has seen everything before this offset
        self.fs = fs

    @classmethod
    def open(
        cls, fs: FileSystem, directory: str, config: LogConfig, *, clean: bool, start_offset: int = 0
    ) -> PartitionLog:
        """Opens or makes the log. ``clean`` says that it was closed in order, so that indexes may be trusted;
        otherwise the last segment is read whole and a torn tail is cut off."""
        log = cls(fs, directory, config)
        fs.make_directory(directory)
        for name in fs.names(directory):
            if name.endswith(".cleaned"):
                fs.remove(f"{directory}/{name}")  # a compaction that did not come to its end
        bases = sorted(int(n[:-4]) for n in fs.names(directory) if n.endswith(".log") and n[:-4].isdigit())
        for base in bases:
            segment = Segment(fs, directory, base)
            if log.segments and base < log.segments[-1].next_offset:
                segment.delete()  # compaction had made it part of the one before, and was cut off there
                continue
            last = base == bases[-1]
            if segment.load_indexes() and not (last and not clean):
                segment.finish_loading()
            else:
                segment.recover()
                clean = False  # nor is what stands beside it to be trusted
            log.segments.append(segment)
        if not log.segments:
            log._start_segment(start_offset)
        log.log_start_offset = max(start_offset, log.segments[0].base_offset)
        log._load_producers(clean)
        return log

    def _load_producers(self, clean: bool) -> None:
        name = f"{self.directory}/{segment_name(self.end_offset)}.snapshot"
        open_transactions = self.transactions.open
        if clean and self.fs.exists(name) and self.producers.load_snapshot(self.fs.read_file(name), open_transactions):
            for segment in self.segments:
                if self.fs.exists(segment.stem + ".txnindex"):
                    self.transactions.aborted += decode_index(self.fs.read_file(segment.stem + ".txnindex"))
            return
        for segment in self.segments:
            if self.fs.exists(segment.stem + ".txnindex"):
                self.fs.remove(segment.stem + ".txnindex")
            for position, header in segment.headers(0):
                if header.producer_id >= 0:
                    self._remember(header, segment.file.read(position, header.size) if header.is_control else b"")

    def _remember(self, header: BatchHeader, marker: bytes) -> None:
        """A batch of a producer is in the log; ``marker``: its bytes, if it is a control batch."""
        if not header.is_control:
            self.producers.appended(header, header.last_offset)
            self.transactions.appended(header)
            return
        self.producers.ended(header, coordinator_epoch_of(marker, 0, header))
        committed = marker_of(marker, 0, header)
        entry = None if committed is None else self.transactions.ended(header, committed)
        if entry is not None:
            index = self.fs.open(self.segments[self._segment_of(header.base_offset)].stem + ".txnindex")
            index.append(entry.encode())
            index.close()

    @property
    def last_stable_offset(self) -> int:
        """Records before it belong to no open transaction."""
        return self.transactions.last_stable_offset(self.end_offset)

    @property
    def end_offset(self) -> int:
        """The offset that the next record will get; also the high watermark."""
        return self.segments[-1].next_offset

    @property
    def size(self) -> int:
        return sum(segment.size for segment in self.segments)

    def append(self, data: bytes, now_ms: int, leader_epoch: int = 0) -> Appended:
        """Appends a client's batch. Raises Refusal with Kafka's code, `RecordsRefused` where it is for single records, or
        OSError."""
        header = checked_header(data, self.config)
        batch, header = prepared(data, header, self.config, now_ms)
        if header.size > self.config.segment_bytes:
            raise Refusal(ErrorCode.RECORD_LIST_TOO_LARGE)
        if header.producer_id >= 0:
            seen = self.producers.check(header)
            if seen is not None:
                return Appended(seen.base_offset, seen.last_offset, seen.timestamp, duplicate=True)
        base = self.end_offset
        batches_module.stamp(batch, 0, base, leader_epoch)
        header = header._replace(base_offset=base)
        self._write(batch, header, now_ms)
        if header.producer_id >= 0:
            self._remember(header, b"")
        return Appended(base, header.last_offset, now_ms if self.config.append_time else -1)

    def append_own(self, data: bytes, now_ms: int) -> Appended:
        """Appends one batch that the broker itself made: what it knows to be right is not checked again, and it may
        be a control batch. Raises Refusal for one that is too large or of a fenced producer, or OSError."""
        header = read_header(data)
        if header.size > self.config.max_message_bytes:
            raise Refusal(ErrorCode.MESSAGE_TOO_LARGE, f"a batch of {header.size} bytes")
        if header.size > self.config.segment_bytes:
            raise Refusal(ErrorCode.RECORD_LIST_TOO_LARGE)
        if header.producer_id >= 0:
            self.producers.check_epoch(header)
            if header.is_control:
                self.producers.check_coordinator(header, coordinator_epoch_of(data, 0, header))
        stamped = bytearray(data)
        base = self.end_offset
        batches_module.stamp(stamped, 0, base, 0)
        self._write(stamped, header._replace(base_offset=base), now_ms)
        if header.producer_id >= 0:
            self._remember(header._replace(base_offset=base), data if header.is_control else b"")
        return Appended(base, base + header.last_offset_delta, -1)

    def _write(self, batch: bytearray, header: BatchHeader, now_ms: int) -> None:
        self._roll_if_due(len(batch), now_ms)
        segment = self.segments[-1]
        if segment.first_append_ms < 0:
            segment.first_append_ms = now_ms
        base = self.end_offset
        segment.append(batch, header, self.config.index_interval_bytes, now_ms)
        if not self.unflushed_messages:
            self.unflushed_since_ms = now_ms
        self.unflushed_messages += self.end_offset - base
        self.appended_bytes += len(batch)

    def _roll_if_due(self, incoming: int, now_ms: int) -> None:
        active = self.segments[-1]
        if active.size == 0:
            return
        full = active.size + incoming > self.config.segment_bytes
        old = 0 <= active.first_append_ms <= now_ms - self.config.roll_ms
        wide = active.next_offset - active.base_offset > 2**31 - 1_000_000
        if full or old or wide:
            active.sync()
            self._start_segment(active.next_offset)

    def _start_segment(self, base_offset: int) -> None:
        """A new active segment; the one before is closed to appends."""
        if self.segments:
            self.segments[-1].trim()
        self.segments.append(Segment(self.fs, self.directory, base_offset))
        if self.config.preallocate:
            self.segments[-1].reserve(self.config.segment_bytes)

    def read(self, offset: int, max_bytes: int, *, at_least_one: bool = True) -> bytes:
        """Batches from the one that holds ``offset``, up to ``max_bytes``; a larger first batch comes whole if
        ``at_least_one``. The last batch may be cut short, as in Kafka. Raises Refusal OFFSET_OUT_OF_RANGE."""
        end_offset = self.end_offset
        if not self.log_start_offset <= offset <= end_offset:
            raise Refusal(ErrorCode.OFFSET_OUT_OF_RANGE)
        if offset == end_offset or (max_bytes <= 0 and not at_least_one):
            return b""
        slot = self._segment_of(offset)
        while slot < len(self.segments):
            segment = self.segments[slot]
            position = segment.position_of(offset)
            if position is not None:
                return self._read_at(segment, position, max_bytes, at_least_one)
            slot += 1
        return b""

    def offset_near_end(self, size: int) -> int:
        """An offset with at most about ``size`` bytes of batches from it to the end."""
        behind = 0
        for segment in reversed(self.segments):
            behind += segment.size
            if behind > size:
                for position, header in segment.headers(0):
                    if behind - position <= size:
                        return max(header.base_offset, self.log_start_offset)
                return segment.next_offset
        return self.log_start_offset

    def _read_at(self, segment: Segment, position: int, max_bytes: int, at_least_one: bool) -> bytes:
        data = segment.file.read(position, min(max(max_bytes, HEADER_BYTES), segment.size - position))
        first = read_header(data).size
        if first > len(data) or first > max_bytes:
            return segment.file.read(position, first) if at_least_one else b""
        return data

    def _segment_of(self, offset: int) -> int:
        low, high = 0, len(self.segments) - 1
        while low < high:
            middle = (low + high + 1) // 2
            if self.segments[middle].base_offset <= offset:
                low = middle
            else:
                high = middle - 1
        return low

    def offset_for_timestamp(self, timestamp: int) -> tuple[int, int] | None:
        """(offset, timestamp) of the first record at or after ``timestamp``, or None if there is none."""
        for segment in self.segments:
            if segment.max_timestamp < timestamp:
                continue
            for position, header in segment.headers(segment.positions_for_time(timestamp)):
                if header.max_timestamp < timestamp or header.last_offset < self.log_start_offset:
                    continue
                data = segment.file.read(position, header.size)
                for record in self._records(data, header):
                    if record.timestamp >= timestamp and record.offset >= self.log_start_offset:
                        return record.offset, record.timestamp
        return None

    @staticmethod
    def _records(data: bytes, header: BatchHeader) -> list[batches_module.Record]:
        try:
            return decode_records(data, 0, header)
        except (BatchError, CompressionError) as error:
            raise Refusal(ErrorCode.CORRUPT_MESSAGE, str(error)) from error

    def max_timestamp_offset(self) -> tuple[int, int]:
        """(offset, timestamp) of the record with the largest timestamp (KIP-734); (-1, -1) for an empty log."""
        segment = max(self.segments, key=lambda s: s.max_timestamp)
        for position, header in segment.headers(0):
            if header.max_timestamp == segment.max_timestamp >= 0:
                for record in self._records(segment.file.read(position, header.size), header):
                    if record.timestamp == segment.max_timestamp:
                        return record.offset, record.timestamp
        return -1, -1

    def delete_records(self, before_offset: int) -> int:
        """Moves the start of the log up; returns it. Raises Refusal OFFSET_OUT_OF_RANGE, or POLICY_VIOLATION where the log
        is only compacted (Kafka's Partition.deleteRecordsOnLeader)."""
        if self.config.cleanup_compact and not self.config.cleanup_delete:
            raise Refusal(ErrorCode.POLICY_VIOLATION, "a topic that is only compacted keeps its records")
        if before_offset == -1:
            before_offset = self.end_offset
        if not 0 <= before_offset <= self.end_offset:
            raise Refusal(ErrorCode.OFFSET_OUT_OF_RANGE)
        self.log_start_offset = max(self.log_start_offset, before_offset)
        self._drop_segments_below_start()
        return self.log_start_offset

    def _drop_segments_below_start(self) -> None:
        while len(self.segments) > 1 and self.segments[1].base_offset <= self.log_start_offset:
            self.segments.pop(0).delete()

    def retain(self, now_ms: int) -> int:
        """Deletes whole segments past retention.ms or beyond retention.bytes; returns how many."""
        if not self.config.cleanup_delete:
            return 0
        deleted = 0
        if self.config.retention_ms >= 0:
            horizon = now_ms - self.config.retention_ms
            if self.segments[-1].size and self.segments[-1].max_timestamp < horizon:
                self._start_segment(self.end_offset)
            while len(self.segments) > 1 and self.segments[0].max_timestamp < horizon:
                self._drop_first()
                deleted += 1
        if self.config.retention_bytes >= 0:
            excess = self.size - self.config.retention_bytes
            while len(self.segments) > 1 and excess >= self.segments[0].size:
                excess -= self.segments[0].size
                self._drop_first()
                deleted += 1
        return deleted

    def _drop_first(self) -> None:
        self.segments.pop(0).delete()
        self.log_start_offset = max(self.log_start_offset, self.segments[0].base_offset)
        self.transactions.forget_before(self.log_start_offset)

    def sync(self) -> None:
        """Returns once all that was appended is on the disk."""
        self.unflushed_messages = 0
        self.segments[-1].sync()

    def close(self) -> None:
        """Syncs, writes the producers' snapshot and closes the files."""
        self.sync()
        if self.producers.by_id:
            for name in self.fs.names(self.directory):
                if name.endswith(".snapshot"):
                    self.fs.remove(f"{self.directory}/{name}")
            name = f"{self.directory}/{segment_name(self.end_offset)}.snapshot"
            self.fs.write_file(name, self.producers.to_snapshot(self.transactions.open))
        for segment in self.segments:
            segment.close()
