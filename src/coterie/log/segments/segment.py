"""One segment: a `.log` file with its sparse index (`segment_index`).

What was on the disk when the segment was opened is read whole once, at its first use: batch after batch, with its CRC
and its offsets (`verify`). What is appended needs no such look.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Container
from contextlib import suppress

from coterie.log.filesystem import File, FileSystem
from coterie.log.leader_epochs import LeaderEpochs
from coterie.log.segments.segment_index import SegmentIndex
from coterie.records.batch import (
    HEADER_BYTES,
    LENGTH_END,
    MAGIC,
    BatchError,
    BatchHeader,
    batch_span,
    check_crc,
    read_header,
)

WINDOW_BYTES = 65_536  # of batches that are read at once for the sake of their headers
DELETED = ".deleted"  # Kafka's mark of a file that is about to go


def segment_name(base_offset: int) -> str:
    """Kafka's file stem: the base offset in 20 digits."""
    return f"{base_offset:020d}"


class Segment:
    """A segment of a log. ``next_offset`` is one past the last offset in it; ``max_timestamp`` is -1 if empty.
    ``suffix``: of a `.log` file that has not its own name yet."""

    def __init__(self, fs: FileSystem, directory: str, base_offset: int, suffix: str = "") -> None:
        self.base_offset, self.directory = base_offset, directory
        self.stem = f"{directory}/{segment_name(base_offset)}"
        self._fs = fs
        self.file: File = fs.open(self.stem + ".log" + suffix)
        self.index = SegmentIndex(fs, self.stem, base_offset)
        self.size = self.file.size()
        self.next_offset = base_offset
        self.max_timestamp = -1
        self._max_timestamp_offset = base_offset
        self.first_append_ms = -1  # by this process
        self.gap_offset: int | None = None  # the first one that damage took, where batches of the log follow
        self._first_timestamp: int | None = None
        self._modified_ms = -1
        self._untidy = False  # the file is longer than the segment
        self._since_index = 0
        # Of the stretches between index entries that were there when the segment was opened: which are verified.
        self._verified = bytearray()
        self._epochs = LeaderEpochs()
        self._loaded_size = self._loaded_times = 0
        self.unverified = 0

    # -- loading ------------------------------------------------------------------------------------------------------

    def load(self, bound: int | None, names: Container[str], epochs: LeaderEpochs) -> str | None:
        """Trusts the index files, where they are among the directory's ``names``, as far as they fit, and reads what follows
        the last entry; returns what does not fit, or None. ``bound``: the next segment's base offset."""
        problem = self.index.load(self.size, names)
        if problem is not None:
            return problem
        positions = self.index.positions
        start = positions[-1] if positions else 0
        tail = self.headers(start)
        end = start
        for position, header in tail:
            if header.base_offset < self.next_offset or header.magic != MAGIC:
                return f"the batch at byte {position} does not follow the one before"
            self._note_end(header)
            end = position + header.size
        if end != self.size:
            return f"no whole batch at byte {end}"
        if bound is not None and self.next_offset > bound:
            return f"the last batch reaches offset {self.next_offset - 1}, but the next segment begins at {bound}"
        self._loaded_size = self.size
        self._epochs = epochs
        self._verified = bytearray(len(positions) + 1)
        self.unverified = len(self._verified)
        if self.size - start <= WINDOW_BYTES and not self._verify_slot(len(positions)):
            return "a batch is damaged"
        return self._load_times()

    def _load_times(self) -> str | None:
        times = self.index.times
        self._loaded_times = len(times)
        if times and times[-1] >= self.max_timestamp:
            if not self._is_time(len(times) - 1):
                return "the last entry of the time index names another timestamp than its batch"
            self.max_timestamp, self._max_timestamp_offset = times[-1], self.index.time_offsets[-1]
        if self.index.positions and not times and self.max_timestamp >= 0:
            return "the time index has no entry"
        return None

    def _is_time(self, slot: int) -> bool:
        """Whether a time entry's batch has that timestamp."""
        timestamp, offset = self.index.times[slot], self.index.time_offsets[slot]
        position = self.position_of(offset)
        if position is None:
            return False
        try:
            header = read_header(self.file.read(position, HEADER_BYTES))
        except BatchError:
            return False
        return header.base_offset <= offset <= header.last_offset and header.max_timestamp == timestamp

    def rebuild_index(self, headers: list[tuple[int, BatchHeader]], index_interval_bytes: int = 4096) -> None:
        """The index of a segment that holds just these batches, in memory; `write_index` puts it into the files."""
        self.index.close_files()
        self.index = SegmentIndex(self._fs, self.stem, self.base_offset)
        self.index.stale = True
        self.next_offset, self.max_timestamp, self._max_timestamp_offset = self.base_offset, -1, self.base_offset
        self._since_index = self.unverified = self._loaded_times = 0
        for position, header in headers:
            self._note(header, position, index_interval_bytes)

    def verify(self, position: int, length: int) -> bool:
        """Whether the batches from ``position`` on, ``length`` bytes and up to the next index entry, are undamaged and in
        order. Each is read once after a start."""
        slot = self._slot_at(position)
        end = position + max(length, 1)
        while slot < len(self._verified) and self._start_of(slot) < end:
            if not self._verified[slot] and not self._verify_slot(slot):
                return False
            slot += 1
        return True

    def verify_all(self) -> bool:
        """Whether all that was on the disk is undamaged and in order."""
        return self.verify(0, self._loaded_size)

    def _slot_at(self, position: int) -> int:
        low, high = 0, len(self._verified) - 1
        while low < high:
            middle = (low + high + 1) // 2
            if self._start_of(middle) <= position:
                low = middle
            else:
                high = middle - 1
        return low

    def _start_of(self, slot: int) -> int:
        return self.index.positions[slot - 1] if slot else 0

    def _verify_slot(self, slot: int) -> bool:
        """Reads a stretch: its batches, their CRCs, their order, their epochs, and the index entry that begins it."""
        start, last = self._start_of(slot), slot == len(self._verified) - 1
        end = self._loaded_size if last else self._start_of(slot + 1)
        data = self.file.read(start, end - start + LENGTH_END)
        position, next_offset = 0, self.base_offset
        entry = self.index.offsets[slot - 1] if slot else None
        entry_met = entry is None
        epochs: list[int] = []
        try:
            while position < end - start:
                header = read_header(data, position)
                size = header.size
                if header.magic != MAGIC or header.length < HEADER_BYTES - LENGTH_END or position + size > end - start:
                    return False
                if header.base_offset < next_offset or (
                    not position and entry is not None and header.base_offset > entry
                ):
                    return False
                check_crc(data, position, header)
                next_offset = header.last_offset + 1
                epochs.append(header.leader_epoch)
                entry_met = entry_met or header.last_offset == entry
                position += size
        except BatchError:
            return False
        if not last and int.from_bytes(data[position : position + 8], "big", signed=True) < next_offset:
            return False
        if not entry_met or (last and next_offset > self.next_offset) or self._epochs.corrected(epochs):
            return False
        self._verified[slot] = 1
        self.unverified -= 1
        return True

    def headers(self, position: int, end: int | None = None) -> list[tuple[int, BatchHeader]]:
        """Positions and headers of the whole batches from a batch's start on, without reading their records."""
        end = self.size if end is None else end
        whole: list[tuple[int, BatchHeader]] = []
        window, window_at = b"", position
        while position + HEADER_BYTES <= end:
            if position + HEADER_BYTES > window_at + len(window) or position < window_at:
                window, window_at = self.file.read(position, WINDOW_BYTES), position
            header = read_header(window, position - window_at)
            following = position + header.size
            if header.length < HEADER_BYTES - LENGTH_END or following > end:
                break
            whole.append((position, header))
            position = following
        return whole

    # -- appending ----------------------------------------------------------------------------------------------------

    def append(self, batch: bytes | bytearray, header: BatchHeader, index_interval_bytes: int, now_ms: int) -> None:
        """Appends a stamped batch. Raises OSError where the `.log` cannot take it; an index that cannot is no fault."""
        start = self.size
        try:
            self.file.append(batch)
        except OSError:
            # A torn batch is cut off, or lies beyond the file's end until the next append.
            self._untidy = True
            with suppress(OSError):
                self.trim()
            raise
        self.size = start + len(batch)
        self._modified_ms = now_ms
        self._note(header, start, index_interval_bytes)

    def reserve(self, size: int) -> None:
        """Makes the file as large as the segment will be (preallocate)."""
        self.file.reserve(size)
        self._untidy = True

    def trim(self) -> None:
        """Gives back what was reserved and not used, or left by a write that failed."""
        if self._untidy:
            self.file.truncate(self.size)
            self._untidy = False

    @property
    def modified_ms(self) -> int:
        """When the file last changed, in ms since 1970."""
        return self._modified_ms if self._modified_ms >= 0 else self.file.modified_ms()

    @property
    def first_timestamp(self) -> int:
        """The largest timestamp of the first batch; -1 where it has none, or the segment is empty."""
        if self._first_timestamp is None and self.size:
            self._first_timestamp = read_header(self.file.read(0, HEADER_BYTES)).max_timestamp
        return -1 if self._first_timestamp is None else self._first_timestamp

    def age_ms(self, timestamp: int, now_ms: int) -> int:
        """At a batch with that largest timestamp: since the first batch's, or where that has none, since the first append of
        this process (Kafka's LogSegment.timeWaitedForRoll)."""
        first_timestamp = self.first_timestamp
        if first_timestamp >= 0:
            return timestamp - first_timestamp
        return now_ms - self.first_append_ms if self.first_append_ms >= 0 else 0

    @property
    def newest_ms(self) -> int:
        """The largest timestamp; where no record has one, when the file last changed (Kafka's LogSegment.largestTimestamp)."""
        return self.max_timestamp if self.max_timestamp >= 0 else self.modified_ms

    def newest_batch(self) -> tuple[int, BatchHeader] | None:
        """Position and header of the first batch with the largest timestamp; None where no batch has one, or the index does
        not lead to it. Raises OSError."""
        position = self.position_of(self._max_timestamp_offset)
        if position is None:
            return None
        header = read_header(self.file.read(position, HEADER_BYTES))
        return (position, header) if header.max_timestamp == self.max_timestamp else None

    def _note(self, header: BatchHeader, position: int, index_interval_bytes: int = 4096) -> None:
        self._note_end(header)
        if self._since_index > index_interval_bytes:
            self.index.add(self.next_offset - 1, position, self.max_timestamp, self._max_timestamp_offset)
            self._since_index = 0
        self._since_index += header.size

    def _note_end(self, header: BatchHeader) -> None:
        last_offset = header.last_offset
        self.next_offset = last_offset + 1
        if header.max_timestamp > self.max_timestamp:
            self.max_timestamp, self._max_timestamp_offset = header.max_timestamp, last_offset

    # -- truncating ---------------------------------------------------------------------------------------------------

    def cut_at(self, offset: int) -> None:
        """Removes the batches that reach to ``offset`` or beyond. Raises OSError; then the segment is as it was."""
        position = self.position_of(offset)
        if position is None:
            return
        slots = min(bisect_left(self.index.positions, position), bisect_left(self.index.offsets, offset))
        start = self.index.positions[slots - 1] if slots else 0
        tail = self.headers(start, position)
        self.file.truncate(position)
        self.size, self._untidy = position, False
        self._loaded_size = min(self._loaded_size, position)
        if slots < len(self._verified):
            self._verified = self._verified[: slots + 1]
            self.unverified = len(self._verified) - sum(self._verified)
        self.next_offset, self.max_timestamp, self._max_timestamp_offset = self.base_offset, -1, self.base_offset
        for _, header in tail:
            self._note_end(header)
        self.index.cut(slots, self.next_offset)
        self._loaded_times = min(self._loaded_times, len(self.index.times))
        if self.index.times and self.index.times[-1] >= self.max_timestamp:
            self.max_timestamp, self._max_timestamp_offset = self.index.times[-1], self.index.time_offsets[-1]
        self._since_index = position - start
        if not position:
            self._first_timestamp, self.first_append_ms = None, -1

    # -- reading ------------------------------------------------------------------------------------------------------

    def start_of_stretch(self, offset: int) -> int:
        """The position from which `position_of` looks for ``offset``."""
        return self._start_of(self.index.slot_of(offset) + 1)

    def verify_for(self, offset: int) -> bool:
        """`verify`, where `position_of` looks for ``offset``."""
        start = self.start_of_stretch(offset)
        return self.verify(start, self.end_of_stretch(start) + 1 - start)

    def position_of(self, offset: int) -> int | None:
        """The position of the batch that holds ``offset`` or is the first after it; None past the end."""
        located = self.locate(offset)
        return None if located is None else located[0]

    def locate(self, offset: int) -> tuple[int, bytes] | None:
        """The position that `position_of` returns, and what was read of the file from there on."""
        # A batch that ends at or before ``offset`` has the entry before it, one that ends behind it the entry after it. The
        # batch looked for may be behind that one too: Kafka's followers append several, and index the offset of the last at
        # the position of the first.
        positions, first = self.index.positions, self.index.slot_of(offset) + 1
        for slot in range(first, min(first + 1, len(positions)) + 1):
            end = positions[slot] if slot < len(positions) else self.size
            located = self._locate_between(self._start_of(slot), end, offset)
            if located is not None:
                return located
        return None

    def _locate_between(self, position: int, end: int, offset: int) -> tuple[int, bytes] | None:
        """As `locate`, of the batches from ``position`` to ``end``."""
        window, window_at = b"", position
        while position + HEADER_BYTES <= end:
            if position + HEADER_BYTES > window_at + len(window):
                window, window_at = self.file.read(position, min(WINDOW_BYTES, end - position)), position
            last_offset, size = batch_span(window, position - window_at)
            if size <= LENGTH_END or position + size > end:
                break
            if last_offset >= offset:
                return position, window[position - window_at :]
            position += size
        return None

    def position_for_time(self, timestamp: int) -> int | None:
        """A position at or before the first batch whose largest timestamp reaches ``timestamp``; None where the time
        index does not fit the log."""
        slot = self.index.time_slot_before(timestamp)
        if slot < 0:
            return 0
        if slot < self._loaded_times and not self._is_time(slot):
            return None
        return self.start_of_stretch(self.index.time_offsets[slot])

    def end_of_stretch(self, position: int) -> int:
        """The position of the index entry after ``position``, or the segment's end."""
        positions = self.index.positions
        slot = bisect_right(positions, position)
        return positions[slot] if slot < len(positions) else self.size

    def sync(self) -> None:
        self.file.sync()

    def finish(self) -> None:
        """No more is appended: what was reserved goes, and an index that lacks entries is written again."""
        self.trim()
        self.index.write()

    def close(self) -> None:
        """Closes the files, the index whole. Raises OSError."""
        try:
            self.finish()
        finally:
            self.close_files()

    def close_files(self) -> None:
        """Closes the files as they are."""
        self.index.close_files()
        self.file.close()

    def drop_index_files(self) -> None:
        """Removes what can be rebuilt of the `.log`."""
        self.index.drop_files()
        if self._fs.exists(self.stem + ".txnindex"):
            self._fs.remove(self.stem + ".txnindex")

    def delete(self) -> None:
        """Removes the files; one that a crash leaves carries Kafka's mark of deletion, and goes at the next start. Raises
        OSError; then the segment is as it was."""
        self._fs.rename(self.stem + ".log", self.stem + ".log" + DELETED)
        self.close_files()
        with suppress(OSError):
            self.drop_index_files()
            self._fs.remove(self.stem + ".log" + DELETED)
