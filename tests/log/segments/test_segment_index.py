"""The index of a segment: what is looked up is what a search of all entries finds, also after failed writes and a reload."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.log.filesystem import MemoryFile, MemoryFileSystem
from coterie.log.segments.segment_index import SUFFIXES, SegmentIndex

BASE, STEM = 1_000, "t-0/00000000000000001000"
NAMES = [STEM.rpartition("/")[2] + suffix for suffix in SUFFIXES]


@dataclass(frozen=True)
class Entry:
    last_offset: int
    position: int
    timestamp: int
    timestamp_offset: int


class FailingFile(MemoryFile):
    """Fails the appends whose numbers are in ``failures``, half of each written."""

    failures: frozenset[int] = frozenset()
    appends = 0

    def append(self, data: bytes | bytearray) -> None:
        FailingFile.appends += 1
        if FailingFile.appends in FailingFile.failures:
            super().append(data[: len(data) // 2])
            raise OSError("no space left")
        super().append(data)


class FailingFileSystem(MemoryFileSystem):
    def open(self, path: str) -> MemoryFile:
        return self.files.setdefault(path, FailingFile())


@st.composite
def entries(draw: st.DrawFn) -> list[Entry]:
    """Batches in the order of their offsets, with timestamps in any order."""
    made, offset, position = [], BASE - 1, -1
    for _ in range(draw(st.integers(0, 12))):
        first = offset + 1
        offset += draw(st.integers(1, 50))
        position += draw(st.integers(1, 5_000))
        made.append(Entry(offset, position, draw(st.integers(-1, 30)), draw(st.integers(first, offset))))
    return made


def indexed(fs: MemoryFileSystem, batches: list[Entry]) -> SegmentIndex:
    fs.make_directory("t-0")
    index = SegmentIndex(fs, STEM, BASE)
    for entry in batches:
        index.add(entry.last_offset, entry.position, entry.timestamp, entry.timestamp_offset)
    return index


def contents(index: SegmentIndex) -> tuple[list[int], ...]:
    return tuple(list(column) for column in (index.offsets, index.positions, index.times, index.time_offsets))


def times_of(batches: list[Entry]) -> list[Entry]:
    """The batches whose timestamp is larger than every one before it, and no less than 0."""
    return [e for n, e in enumerate(batches) if e.timestamp > max((b.timestamp for b in batches[:n]), default=-1)]


@given(entries(), st.integers(BASE - 60, BASE + 700), st.integers(-2, 32))
def test_a_slot_is_that_of_a_search_through_every_entry(batches: list[Entry], offset: int, timestamp: int) -> None:
    index = indexed(MemoryFileSystem(), batches)
    assert index.slot_of(offset) == sum(e.last_offset <= offset for e in batches) - 1
    times = times_of(batches)
    assert index.time_slot_before(timestamp) == sum(e.timestamp < timestamp for e in times) - 1
    assert list(index.time_offsets) == [e.timestamp_offset for e in times]


@given(entries(), st.frozensets(st.integers(1, 24), max_size=3))
def test_what_a_disk_refused_is_in_the_files_once_they_are_written_anew(
    batches: list[Entry], failures: frozenset[int]
) -> None:
    FailingFile.failures, FailingFile.appends = failures, 0
    fs = FailingFileSystem()
    index = indexed(fs, batches)
    in_memory = [(e.last_offset, e.position) for e in batches]
    assert list(zip(index.offsets, index.positions, strict=True)) == in_memory, "a refused entry stays in memory"
    assert index.stale == bool(failures & set(range(1, FailingFile.appends + 1)))
    FailingFile.failures = frozenset()
    index.write()
    assert not index.stale
    loaded = SegmentIndex(fs, STEM, BASE)
    assert loaded.load(1_000_000, fs.names("t-0")) is None
    assert contents(loaded) == contents(index)
    if batches:
        assert loaded.checksum == index.checksum


@given(entries().filter(bool), st.data())
def test_a_changed_byte_is_reported_or_changes_the_checksum(batches: list[Entry], data: st.DataObject) -> None:
    fs = MemoryFileSystem()
    index = indexed(fs, batches)
    path = STEM + data.draw(st.sampled_from([s for s in SUFFIXES if fs.exists(STEM + s) and fs.read_file(STEM + s)]))
    content = bytearray(fs.read_file(path))
    content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    fs.write_file(path, bytes(content))
    loaded = SegmentIndex(fs, STEM, BASE)
    assert loaded.load(1_000_000, NAMES) is not None or loaded.checksum != index.checksum


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_half_an_entry_is_reported(suffix: str) -> None:
    fs = MemoryFileSystem()
    indexed(fs, [Entry(BASE + 9, 0, 5, BASE + 3)])
    fs.write_file(STEM + suffix, fs.read_file(STEM + suffix)[:-1])
    assert SegmentIndex(fs, STEM, BASE).load(100, NAMES) == "an index file does not hold whole entries"


def test_a_position_beyond_the_segment_is_reported() -> None:
    fs = MemoryFileSystem()
    indexed(fs, [Entry(BASE + 9, 70, 5, BASE + 3)])
    assert SegmentIndex(fs, STEM, BASE).load(71, NAMES) is None
    assert "beyond the segment's end" in str(SegmentIndex(fs, STEM, BASE).load(70, NAMES))


@pytest.mark.parametrize(("relative", "kept"), [(2**31 - 1, 1), (2**31, 0), (-1, 0)])
def test_an_offset_that_the_format_cannot_hold_is_left_out(relative: int, kept: int) -> None:
    index = indexed(MemoryFileSystem(), [Entry(BASE + relative, 0, 5, BASE)])
    assert len(index.offsets) == len(index.times) == kept
