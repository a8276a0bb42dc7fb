"""Log folders on disk, coterie's or Apache Kafka's: byte ranges that begin with a batch, and whole batches out of them.

Every worker must reach the files under the same path. What was committed and what aborted is not looked at: all records.
"""

from __future__ import annotations

import mmap
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from coterie.records.batch import HEADER_BYTES, LENGTH_END, BatchError

RANGE_BYTES = 64 * 1024 * 1024
PIECE_BYTES = 4 * 1024 * 1024
_INDEX_ENTRY = struct.Struct(">ii")
_FOLDER = re.compile(r"(.+)-(\d+)$")


@dataclass(frozen=True, slots=True)
class FileRange:
    """Bytes of a segment, from the beginning of a batch on."""

    path: str
    first: int
    last: int


def partition_folders(folder: Path) -> dict[tuple[str, int], Path]:
    """The partitions in a broker's data folder, by topic and number; or that folder itself, if it is a partition's."""
    folders: dict[tuple[str, int], Path] = {}
    for path in sorted([folder, *folder.iterdir()]):
        named = _FOLDER.match(path.name)
        if named is not None and path.is_dir() and any(path.glob("*.log")):
            folders[named[1], int(named[2])] = path
    return folders


def file_ranges(folder: Path, since: int = 0) -> Iterator[FileRange]:
    """The partition's segments in ranges of about RANGE_BYTES; ranges wholly below ``since`` are left out."""
    files = sorted(folder.glob("*.log"))
    for index, file in enumerate(files):
        if index + 1 < len(files) and int(files[index + 1].stem) <= since:
            continue
        size = file.stat().st_size
        starts = _range_starts(file, size, since)
        for first, last in zip(starts, [*starts[1:], size], strict=True):
            if last > first:
                yield FileRange(str(file.resolve()), first, last)


def _range_starts(file: Path, size: int, since: int) -> list[int]:
    """The first positions of ranges, batch positions by the segment's index; a file without an index is one range."""
    try:
        index = file.with_suffix(".index").read_bytes()
    except OSError:
        index = b""
    entries = [e for e in _INDEX_ENTRY.iter_unpack(index[: len(index) // 8 * 8]) if 0 < e[1] < size]
    base = int(file.stem)
    starts = [max([0, *(position for relative, position in entries if base + relative < since)])]
    for _, position in entries:
        if position >= starts[-1] + RANGE_BYTES:
            starts.append(position)
    return starts


def pieces(r: FileRange) -> Iterator[bytes]:
    """Whole batches, some megabytes at a time. What is cut short at the end of a file, as a crash leaves it, is left out.
    Raises BatchError for bytes that are not a batch."""
    with open(r.path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as whole:
        last = min(r.last, len(whole))
        at = r.first
        while at < last:
            end = at
            while end < last and end - at < PIECE_BYTES:
                size = _batch_bytes(r.path, whole, end, last)
                if not size:
                    last = end
                    break
                end += size
            if end > at:
                yield whole[at:end]
            at = end


def _batch_bytes(path: str, whole: mmap.mmap, at: int, last: int) -> int:
    """The size of the batch there; 0 where the file ends in it, or goes on with room that was set aside. Raises BatchError for
    something else."""
    start = whole[at : min(at + LENGTH_END, last)]
    if len(start) < LENGTH_END or not any(start):
        return 0
    size = int.from_bytes(start[8:], "big", signed=True) + LENGTH_END
    if at + size > last:
        return 0
    if size < HEADER_BYTES:
        raise BatchError(
            f"{path} has no record batch at byte {at}: messages of formats 0 and 1, and damaged files, are read through a "
            "broker"
        )
    return size
