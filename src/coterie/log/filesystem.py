"""The few file operations a log needs, and an implementation in memory (for `--memory`, tests and the laboratory).

Paths are "/"-separated and relative to the file system's root. Faults of a disk are raised as OSError.

`rewrite_end` writes the end of a log once more after a sync that failed. Linux takes the pages of a failed fsync for written: a
reader of the file finds them in its cache, a later fsync succeeds and writes nothing of them, and a power cut leaves a hole in
front of what that fsync acknowledged (Rebello and others, Can Applications Recover from fsync Failures?, 2020). A copy is new
pages, which its own sync writes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import closing
from typing import Protocol, TypeVar

T = TypeVar("T")
_WRITTEN_AGAIN = ".cleaned"  # as compaction's, which is removed where the copy did not come to its end
SEGMENTS = 2  # the last one, and the one whose sync at its end failed
PIECE_BYTES = 1 << 20


class File(Protocol):
    """An open file that grows at its end."""

    def size(self) -> int: ...

    def read(self, position: int, length: int) -> bytes:
        """Up to ``length`` bytes; fewer only at the end of the file."""

    def append(self, data: bytes | bytearray) -> None:
        """All of the data, or OSError; after an error the file may hold a part of it."""

    def truncate(self, size: int) -> None: ...

    def reserve(self, size: int) -> None:
        """Has the file take ``size`` bytes on the disk, zeros after what was appended; `truncate` ends it. After a crash
        the zeros are part of the file."""

    def modified_ms(self) -> int:
        """When the file last changed, in ms since 1970; 0 if that is not known."""

    def sync(self) -> None:
        """Returns once the file's data is on the disk. May be called from another thread."""

    def close(self) -> None: ...


class FileSystem(Protocol):
    """A folder."""

    def open(self, path: str) -> File:
        """The file, made if it is not there."""

    def exists(self, path: str) -> bool: ...

    def names(self, directory: str) -> list[str]:
        """The names in a directory, sorted; empty when there is no such directory."""

    def make_directory(self, path: str) -> None: ...

    def remove(self, path: str) -> None: ...

    def remove_directory(self, path: str) -> None:
        """The directory with all that is in it."""

    def rename(self, old: str, new: str) -> None: ...

    def read_file(self, path: str) -> bytes: ...

    def write_file(self, path: str, data: bytes) -> None:
        """Replaces the file as a whole: a reader, also after a crash, sees the old content or the new."""


class MemoryFile:
    """A file that lives in a bytearray; ``synced`` bytes survive `MemoryFileSystem.crash`."""

    def __init__(self, made_ms: int = 0) -> None:
        self.data = bytearray()
        self._made_ms = made_ms
        self.synced = 0
        self.reserved = 0

    def size(self) -> int:
        return len(self.data)

    def read(self, position: int, length: int) -> bytes:
        return bytes(self.data[position : position + length])

    def append(self, data: bytes | bytearray) -> None:
        self.data += data

    def truncate(self, size: int) -> None:
        del self.data[size:]
        self.synced = min(self.synced, size)
        self.reserved = 0

    def reserve(self, size: int) -> None:
        self.reserved = size

    def modified_ms(self) -> int:
        """When it was made: a segment knows of its own appends."""
        return self._made_ms

    def sync(self) -> None:
        self.synced = len(self.data)

    def close(self) -> None:
        pass


class Paths(dict[str, T]):
    """Values by path, with the names in each folder: a walk over all paths for each folder is quadratic for many topics."""

    def __init__(self) -> None:
        super().__init__()
        self._names: dict[str, Counter[str]] = {}

    def names(self, folder: str) -> Iterable[str]:
        """What is in the folder, "" for the outermost, by files or folders within it."""
        return self._names.get(folder, ())

    def __setitem__(self, path: str, value: T) -> None:
        if path not in self:
            for folder, name in _ways(path):
                self._names.setdefault(folder, Counter())[name] += 1
        super().__setitem__(path, value)

    def __delitem__(self, path: str) -> None:
        super().__delitem__(path)
        for folder, name in _ways(path):
            names = self._names[folder]
            names[name] -= 1
            if not names[name]:
                del names[name]
                if not names:
                    del self._names[folder]

    def setdefault(self, path: str, value: T) -> T:
        """As a dictionary's, which would not call `__setitem__`."""
        if path not in self:
            self[path] = value
        return self[path]

    def within(self, folder: str) -> list[str]:
        """Every path in the folder, at whatever depth."""
        inner = [f"{folder}/{name}" for name in self.names(folder)]
        return [path for path in inner if path in self] + [path for each in inner for path in self.within(each)]


def _ways(path: str) -> Iterable[tuple[str, str]]:
    """Each folder that the path leads through, with the next name."""
    parts = path.split("/")
    return [("/".join(parts[:depth]), name) for depth, name in enumerate(parts)]


class MemoryFileSystem:
    """Files in a dictionary. ``now_ms``: their clock; without one all were made in 1970."""

    def __init__(self, now_ms: Callable[[], int] | None = None) -> None:
        self._now_ms = now_ms
        self.files = Paths[MemoryFile]()
        self.directories = Paths[None]()

    def open(self, path: str) -> MemoryFile:
        """Makes the file where there is none."""
        known = self.files.get(path)
        if known is None:
            known = self.files[path] = MemoryFile(0 if self._now_ms is None else self._now_ms())
        return known

    def exists(self, path: str) -> bool:
        return path in self.files or path in self.directories

    def names(self, directory: str) -> list[str]:
        return sorted({*self.files.names(directory), *self.directories.names(directory)})

    def make_directory(self, path: str) -> None:
        self.directories[path] = None

    def remove(self, path: str) -> None:
        if path not in self.files:
            raise FileNotFoundError(path)
        del self.files[path]

    def remove_directory(self, path: str) -> None:
        """With every file in it, at whatever depth."""
        if path in self.directories:
            del self.directories[path]
        for name in self.files.within(path):
            del self.files[name]

    def rename(self, old: str, new: str) -> None:
        """A file or a folder; what has the new name is replaced."""
        if old in self.directories:
            del self.directories[old]
            self.directories[new] = None
        for path in [old] * (old in self.files) + self.files.within(old):
            file = self.files[path]
            del self.files[path]
            self.files[new + path[len(old) :]] = file

    def read_file(self, path: str) -> bytes:
        if path not in self.files:
            raise FileNotFoundError(path)
        return bytes(self.files[path].data)

    def write_file(self, path: str, data: bytes) -> None:
        file = self.files[path] = MemoryFile()
        file.data += data
        file.sync()

    def crash(self, keep: int = 0) -> None:
        """A power cut: every file is cut to its synced length plus up to ``keep`` bytes of the rest.
        What is left lies on the disk, and outlives the next power cut."""
        for file in self.files.values():
            reserved = file.reserved
            file.truncate(min(len(file.data), file.synced + keep))
            file.synced = len(file.data)
            file.data += bytes(max(0, reserved - len(file.data)))


def rewrite_end(fs: FileSystem, directory: str) -> None:
    """Copies the last segments' records, and puts the copies in their place. Raises OSError; then the log is as it was."""
    for name in [name for name in fs.names(directory) if name.endswith(".log")][-SEGMENTS:]:
        path = f"{directory}/{name}"
        with closing(fs.open(path)) as old, closing(fs.open(path + _WRITTEN_AGAIN)) as copy:
            copy.truncate(0)
            while data := old.read(copy.size(), PIECE_BYTES):
                copy.append(data)
            copy.sync()
        fs.rename(path + _WRITTEN_AGAIN, path)
