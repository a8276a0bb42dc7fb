"""The sparse `.index` and `.timeindex` of a segment, in Kafka's own formats, and whole in memory.

`.index`: int32 last offset of a batch relative to the base, int32 position of that batch. `.timeindex`: int64 largest
timestamp so far, int32 relative last offset of the batch that has it. An entry is written every index.interval.bytes.
(Kafka's LogSegment.append; its DumpLogSegments checks ours.)

The files only help: an entry that cannot be written stays in memory, and the files are written again when the segment is
closed. A running CRC-32C of both shows later whether the files are unchanged.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Container
from contextlib import suppress

import google_crc32c

from coterie.log.filesystem import File, FileSystem

INDEX_ENTRY = struct.Struct(">ii")  # relative offset, position
_TIME_ENTRY = struct.Struct(">qi")
_MAX_RELATIVE = 2**31 - 1
SUFFIXES = (".index", ".timeindex")


class SegmentIndex:
    """``offsets`` are last offsets of the batches at ``positions``; ``times`` the largest timestamps up to
    ``time_offsets``. ``stale``: the files lack entries."""

    def __init__(self, fs: FileSystem, stem: str, base_offset: int) -> None:
        self._fs, self._stem, self._base = fs, stem, base_offset
        self.offsets, self.positions = array("q"), array("q")
        self.times, self.time_offsets = array("q"), array("q")
        self.stale = False
        self._crcs = [0, 0]
        self._files: list[File] = []

    @property
    def checksum(self) -> int:
        """CRC-32C of both files' right content."""
        return int(google_crc32c.value(struct.pack(">II", *self._crcs)))

    def load(self, size: int, names: Container[str]) -> str | None:
        """Reads the files of a segment of ``size`` bytes; returns what is wrong with them, or None. Both may be missing
        from the directory's ``names``, where no entry was due yet."""
        name = self._stem.rpartition("/")[2]
        contents = [self._fs.read_file(self._stem + s) if name + s in names else b"" for s in SUFFIXES]
        index, times = contents
        if not index and not times:
            return None
        self._crcs = [google_crc32c.value(content) for content in contents]
        if len(index) % INDEX_ENTRY.size or len(times) % _TIME_ENTRY.size:
            return "an index file does not hold whole entries"
        last_offset, last_position = self._base - 1, -1
        for relative, position in INDEX_ENTRY.iter_unpack(index):
            offset = self._base + relative
            if offset <= last_offset or not last_position < position < size:
                return "the entries of the offset index are out of order, or beyond the segment's end"
            self.offsets.append(offset)
            self.positions.append(position)
            last_offset, last_position = offset, position
        last_time, last_offset = -1, self._base - 1
        for timestamp, relative in _TIME_ENTRY.iter_unpack(times):
            offset = self._base + relative
            if timestamp <= last_time or offset < last_offset:
                return "the entries of the time index are out of order"
            self.times.append(timestamp)
            self.time_offsets.append(offset)
            last_time, last_offset = timestamp, offset
        return None

    def add(self, last_offset: int, position: int, max_timestamp: int, max_timestamp_offset: int) -> None:
        """An entry for the batch at ``position``; where it cannot be written, the files are stale from then on."""
        entries = [b"", b""]
        if not 0 <= last_offset - self._base <= _MAX_RELATIVE:
            return
        self.offsets.append(last_offset)
        self.positions.append(position)
        entries[0] = INDEX_ENTRY.pack(last_offset - self._base, position)
        if max_timestamp > (self.times[-1] if self.times else -1):
            self.times.append(max_timestamp)
            self.time_offsets.append(max_timestamp_offset)
            entries[1] = _TIME_ENTRY.pack(max_timestamp, max_timestamp_offset - self._base)
        self._crcs = [google_crc32c.extend(crc, entry) for crc, entry in zip(self._crcs, entries, strict=True)]
        if self.stale:
            return
        try:
            if not self._files:
                self._files = self._open()
            for file, entry in zip(self._files, entries, strict=True):
                if entry:
                    file.append(entry)
        except OSError:
            self.stale = True
            self.close_files()

    def _open(self) -> list[File]:
        first = self._fs.open(self._stem + SUFFIXES[0])
        try:
            return [first, self._fs.open(self._stem + SUFFIXES[1])]
        except OSError:
            first.close()
            raise

    def cut(self, count: int, end_offset: int) -> None:
        """Keeps the first ``count`` entries, and times of offsets below ``end_offset``; the files are written again."""
        times = bisect_left(self.time_offsets, end_offset)
        if count == len(self.positions) and times == len(self.times):
            return
        del self.offsets[count:], self.positions[count:], self.times[times:], self.time_offsets[times:]
        self._crcs = [int(google_crc32c.value(content)) for content in self._contents()]
        self.stale = True
        self.write()

    def _contents(self) -> tuple[bytes, bytes]:
        base = self._base
        pairs = zip(self.offsets, self.positions, strict=True)
        times = zip(self.times, self.time_offsets, strict=True)
        index = b"".join([INDEX_ENTRY.pack(offset - base, position) for offset, position in pairs])
        return index, b"".join([_TIME_ENTRY.pack(timestamp, offset - base) for timestamp, offset in times])

    def write(self) -> None:
        """Writes both files again, where they are stale; a failure leaves them so."""
        if not self.stale:
            return
        self.close_files()
        try:
            for suffix, content in zip(SUFFIXES, self._contents(), strict=True):
                if content or suffix == SUFFIXES[0] or self._fs.exists(self._stem + suffix):
                    self._replace(self._stem + suffix, content)
        except OSError:
            return
        self.stale = False

    def _replace(self, path: str, content: bytes) -> None:
        """Not as a whole, nor synced: the checksum shows what a crash leaves of it."""
        file = self._fs.open(path)
        try:
            file.truncate(0)
            file.append(content)
        finally:
            file.close()

    def make_file(self) -> None:
        """An empty `.index`: should the `.log` get lost, it shows that there was one."""
        with suppress(OSError):
            self._fs.open(self._stem + SUFFIXES[0]).close()

    def slot_of(self, offset: int) -> int:
        """The number of the last entry whose batch ends at or before ``offset``; -1 where there is none."""
        return bisect_right(self.offsets, offset) - 1

    def time_slot_before(self, timestamp: int) -> int:
        """The number of the last time entry below ``timestamp``; -1 where there is none."""
        return bisect_left(self.times, timestamp) - 1

    def close_files(self) -> None:
        """They are opened again when they are needed."""
        for file in self._files:
            with suppress(OSError):
                file.close()
        self._files = []

    def drop_files(self) -> None:
        """Removes the files."""
        self.close_files()
        for suffix in SUFFIXES:
            if self._fs.exists(self._stem + suffix):
                self._fs.remove(self._stem + suffix)
