"""The few file operations a log needs, and an implementation in memory (for `--memory`, tests and the laboratory).

Paths are "/"-separated and relative to the file system's root. Faults of a disk are raised as OSError.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


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


class MemoryFileSystem:
    """Files in a dictionary. ``now_ms``: their clock; without one all were made in 1970."""

    def __init__(self, now_ms: Callable[[], int] | None = None) -> None:
        self._now_ms = now_ms
        self.files: dict[str, MemoryFile] = {}
        self.directories: set[str] = set()

    def open(self, path: str) -> MemoryFile:
        """Makes the file where there is none."""
        known = self.files.get(path)
        if known is None:
            known = self.files[path] = MemoryFile(0 if self._now_ms is None else self._now_ms())
        return known

    def exists(self, path: str) -> bool:
        return path in self.files or path in self.directories

    def names(self, directory: str) -> list[str]:
        prefix = directory + "/" if directory else ""
        every = [*self.files, *self.directories]
        return sorted({p[len(prefix) :].split("/")[0] for p in every if p.startswith(prefix) and p != prefix})

    def make_directory(self, path: str) -> None:
        self.directories.add(path)

    def remove(self, path: str) -> None:
        if self.files.pop(path, None) is None:
            raise FileNotFoundError(path)

    def remove_directory(self, path: str) -> None:
        self.directories.discard(path)
        for name in [p for p in self.files if p.startswith(path + "/")]:
            del self.files[name]

    def rename(self, old: str, new: str) -> None:
        """A file or a folder; what has the new name is replaced."""
        if old in self.directories:
            self.directories.remove(old)
            self.directories.add(new)
        for path in [p for p in self.files if p == old or p.startswith(old + "/")]:
            self.files[new + path[len(old) :]] = self.files.pop(path)

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
