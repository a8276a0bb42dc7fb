"""How far a log had come, by the files beside its segments: an emptied or shortened segment shows in them.

A process that is killed leaves no record of the sizes of its files, but an index entry, a producers' snapshot, an aborted
transaction and a leader epoch each name an offset that the log had reached.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

from coterie.log.epochs.epoch_checkpoint import FILE as EPOCHS_FILE
from coterie.log.epochs.epoch_checkpoint import read_epochs
from coterie.log.files.filesystem import FileSystem
from coterie.log.producers.transactions import decode_index

_INDEX_ENTRY = struct.Struct(">ii")


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
    whole = index[: len(index) - len(index) % _INDEX_ENTRY.size]
    return max((relative for relative, position in _INDEX_ENTRY.iter_unpack(whole) if relative or position), default=-1)
