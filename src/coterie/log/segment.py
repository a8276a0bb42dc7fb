"""One segment: a `.log` file with its sparse `.index` and `.timeindex`, in Kafka's own formats.

`.index`: int32 last offset of a batch relative to the base, int32 position of that batch. `.timeindex`: int64 largest
timestamp so far, int32 relative last offset of the batch that has it. An entry is written every index.interval.bytes;
both are small enough to be held in memory whole. (Kafka's LogSegment.append; its DumpLogSegments checks ours.)
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left, bisect_right

from coterie.log.filesystem import File, FileSystem
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

_INDEX_ENTRY = struct.Struct(">ii")
_TIME_ENTRY = struct.Struct(">qi")
_SCAN_BYTES = 1024 * 1024
WINDOW_BYTES = 65_536  # of batches that are read at once for the sake of their headers


def segment_name(base_offset: int) -> str:
    """Kafka's file stem: the base offset in 20 digits."""
    return f"{base_offset:020d}"


class Segment:
    """A segment of a log. ``next_offset`` is one past the last offset in it; ``max_timestamp`` is -1 if empty."""

    def __init__(self, fs: FileSystem, directory: str, base_offset: int) -> None:
        self.base_offset = base_offset
        self.stem = f"{directory}/{segment_name(base_offset)}"
        self._fs = fs
        self.file: File = fs.open(self.stem + ".log")
        self._index_file: File | None = None
        self._time_file: File | None = None
        self.size = self.file.size()
        self.next_offset = base_offset
        self.max_timestamp = -1
        self._max_timestamp_offset = base_offset
        self.first_append_ms = -1
        self._modified_ms = -1
        self._reserved = False
        self._offsets, self._positions = array("q"), array("q")
        self._times, self._time_offsets = array("q"), array("q")
        self._since_index = 0

    def load_indexes(self) -> bool:
        """Reads the index files of a cleanly closed segment; False if they cannot be trusted."""
        try:
            index = self._fs.read_file(self.stem + ".index")
            times = self._fs.read_file(self.stem + ".timeindex")
        except FileNotFoundError:
            return self.size == 0
        if len(index) % _INDEX_ENTRY.size or len(times) % _TIME_ENTRY.size:
            return False
        for relative, position in _INDEX_ENTRY.iter_unpack(index):
            if position >= self.size or (self._positions and position <= self._positions[-1]):
                return False
            self._offsets.append(self.base_offset + relative)
            self._positions.append(position)
        for timestamp, relative in _TIME_ENTRY.iter_unpack(times):
            self._times.append(timestamp)
            self._time_offsets.append(self.base_offset + relative)
        return True

    def headers(self, position: int, end: int | None = None) -> list[tuple[int, BatchHeader]]:
        """Positions and headers of the whole batches from a batch border on, without reading their records."""
        end = self.size if end is None else end
        whole: list[tuple[int, BatchHeader]] = []
        window, window_at = b"", position
        while position + HEADER_BYTES <= end:
            if position + HEADER_BYTES > window_at + len(window) or position < window_at:
                window, window_at = self.file.read(position, WINDOW_BYTES), position
            header = read_header(window, position - window_at)
            if header.length <= 0 or position + header.size > end:
                break
            whole.append((position, header))
            position += header.size
        return whole

    def recover(self) -> list[BatchHeader]:
        """Reads every batch, cuts the file after the last undamaged one, builds the indexes anew."""
        self._offsets, self._positions = array("q"), array("q")
        self._times, self._time_offsets = array("q"), array("q")
        self._since_index, self.max_timestamp, self.next_offset = 0, -1, self.base_offset
        self.drop_index_files()
        good: list[BatchHeader] = []
        position = 0
        while position + HEADER_BYTES <= self.size:
            try:
                header = read_header(self.file.read(position, HEADER_BYTES))
                if header.magic != MAGIC or header.length < HEADER_BYTES - 12 or header.base_offset < self.next_offset:
                    break
                data = self.file.read(position, header.size)
                if len(data) < header.size:
                    break
                check_crc(data, 0, header)
            except BatchError:
                break
            self._note(header, position)
            good.append(header)
            position += header.size
        if position < self.size:
            self.file.truncate(position)
            self.size = position
        return good

    def finish_loading(self) -> None:
        """After `load_indexes`: the end of the segment, from the batches after the last index entry."""
        start = self._positions[-1] if self._positions else 0
        for _, header in self.headers(start):
            self.next_offset = header.last_offset + 1
            if header.max_timestamp > self.max_timestamp:
                self.max_timestamp, self._max_timestamp_offset = header.max_timestamp, header.last_offset
        if self._times and self._times[-1] > self.max_timestamp:
            self.max_timestamp, self._max_timestamp_offset = self._times[-1], self._time_offsets[-1]

    def append(self, batch: bytes | bytearray, header: BatchHeader, index_interval_bytes: int, now_ms: int) -> None:
        """Appends a stamped batch."""
        start = self.size
        try:
            self.file.append(batch)
        except OSError:
            # What was torn is cut off, so that the next append starts at a batch border.
            self.file.truncate(start)
            raise
        self.size = start + len(batch)
        self._modified_ms = now_ms
        self._note(header, start, index_interval_bytes)

    def reserve(self, size: int) -> None:
        """Makes the file as large as the segment will be (preallocate)."""
        self.file.reserve(size)
        self._reserved = True

    def trim(self) -> None:
        """Gives back what was reserved and not used."""
        if self._reserved:
            self.file.truncate(self.size)
            self._reserved = False

    @property
    def modified_ms(self) -> int:
        """When the file last changed, in ms since 1970."""
        return self._modified_ms if self._modified_ms >= 0 else self.file.modified_ms()

    def _note(self, header: BatchHeader, position: int, index_interval_bytes: int = 4096) -> None:
        self.next_offset = header.last_offset + 1
        if header.max_timestamp > self.max_timestamp:
            self.max_timestamp, self._max_timestamp_offset = header.max_timestamp, header.last_offset
        if self._since_index > index_interval_bytes:
            self._add_index_entry(header.last_offset, position)
            self._since_index = 0
        self._since_index += header.size

    def _add_index_entry(self, last_offset: int, position: int) -> None:
        self._offsets.append(last_offset)
        self._positions.append(position)
        if self._index_file is None or self._time_file is None:
            self._index_file = self._fs.open(self.stem + ".index")
            self._time_file = self._fs.open(self.stem + ".timeindex")
        self._index_file.append(_INDEX_ENTRY.pack(last_offset - self.base_offset, position))
        if self.max_timestamp > (self._times[-1] if self._times else -1):
            self._times.append(self.max_timestamp)
            self._time_offsets.append(self._max_timestamp_offset)
            self._time_file.append(_TIME_ENTRY.pack(self.max_timestamp, self._max_timestamp_offset - self.base_offset))

    def position_of(self, offset: int) -> int | None:
        """The position of the batch that holds ``offset`` or is the first after it; None past the end."""
        # An entry's batch ends at or before ``offset``, so the batch looked for begins there or later; the entry after
        # it may be that batch itself.
        slot = bisect_right(self._offsets, offset) - 1
        position = self._positions[slot] if slot >= 0 else 0
        end = self._positions[slot + 1] if slot + 1 < len(self._positions) else self.size
        window, window_at = b"", position
        while position + HEADER_BYTES <= end:
            if position + HEADER_BYTES > window_at + len(window):
                window, window_at = self.file.read(position, min(WINDOW_BYTES, end - position)), position
            last_offset, size = batch_span(window, position - window_at)
            if size <= LENGTH_END or position + size > end:
                break
            if last_offset >= offset:
                return position
            position += size
        return end if end < self.size else None

    def positions_for_time(self, timestamp: int) -> int:
        """A position at or before the first batch whose largest timestamp reaches ``timestamp``."""
        slot = bisect_left(self._times, timestamp) - 1
        if slot < 0:
            return 0
        at = bisect_right(self._offsets, self._time_offsets[slot]) - 1
        return self._positions[at] if at >= 0 else 0

    def sync(self) -> None:
        self.file.sync()

    def close(self) -> None:
        self.trim()
        for file in (self.file, self._index_file, self._time_file):
            if file is not None:
                file.close()
        self._index_file = self._time_file = None

    def drop_index_files(self) -> None:
        for file in (self._index_file, self._time_file):
            if file is not None:
                file.close()
        self._index_file = self._time_file = None
        for suffix in (".index", ".timeindex", ".txnindex"):
            if self._fs.exists(self.stem + suffix):
                self._fs.remove(self.stem + suffix)

    def delete(self) -> None:
        self.close()
        self._fs.remove(self.stem + ".log")
        self.drop_index_files()
