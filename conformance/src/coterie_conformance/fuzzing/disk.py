"""A disk in memory that fails and rots: the n-th operation fails with an errno, a bit flips, a file is torn, a name is lost.

As on a real disk a write that fails may leave a part of its bytes, and the next write through the same descriptor goes
over them.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from os import strerror

from coterie.log.filesystem import File, MemoryFile, MemoryFileSystem

ERRORS = (errno.ENOSPC, errno.EIO, errno.EMFILE)


class FaultyFile:
    """One descriptor of a file of a `FaultyFileSystem`."""

    def __init__(self, fs: FaultyFileSystem, path: str, file: MemoryFile) -> None:
        self._fs, self._path, self._file = fs, path, file
        self._end = file.size()

    def size(self) -> int:
        return self._end

    def read(self, position: int, length: int) -> bytes:
        return self._file.read(position, length)

    def append(self, data: bytes | bytearray) -> None:
        """A failing write leaves half of the data in the file."""
        try:
            self._fs.operation("write", self._path)
        except OSError:
            self._file.truncate(self._end)
            self._file.append(data[: len(data) // 2])
            raise
        self._file.truncate(self._end)
        self._file.append(data)
        self._end += len(data)

    def truncate(self, size: int) -> None:
        self._fs.operation("truncate", self._path)
        self._file.truncate(size)
        self._end = size

    def reserve(self, size: int) -> None:
        self._fs.operation("reserve", self._path)
        self._file.reserve(size)

    def modified_ms(self) -> int:
        return 0

    def sync(self) -> None:
        self._fs.operation("sync", self._path)
        self._file.sync()

    def close(self) -> None:
        pass


class FaultyFileSystem(MemoryFileSystem):
    """``operations`` counts what could fail so far; `failing` chooses the ones that do. Reads never fail."""

    def __init__(self) -> None:
        super().__init__()
        self.operations = 0
        self.failed: list[str] = []  # what failed, as "write t-0/00000000000000000000.log"
        self._failing = range(0)
        self._error = errno.ENOSPC

    @contextmanager
    def failing(self, first: int, count: int = 1, error: int = errno.ENOSPC) -> Iterator[None]:
        """Of the operations from now on, ``count`` from number ``first`` on fail with ``error``."""
        self._failing = range(self.operations + first, self.operations + first + count)
        self._error = error
        try:
            yield
        finally:
            self._failing = range(0)

    def operation(self, name: str, path: str) -> None:
        """Counts one. Raises OSError where it is to fail."""
        number, self.operations = self.operations, self.operations + 1
        if number in self._failing:
            self.failed.append(f"{name} {path}")
            raise OSError(self._error, strerror(self._error), path)

    def open(self, path: str) -> File:  # type: ignore[override]
        self.operation("open", path)
        return FaultyFile(self, path, super().open(path))

    def make_directory(self, path: str) -> None:
        self.operation("make", path)
        super().make_directory(path)

    def remove(self, path: str) -> None:
        self.operation("remove", path)
        super().remove(path)

    def rename(self, old: str, new: str) -> None:
        self.operation("rename", old)
        super().rename(old, new)

    def write_file(self, path: str, data: bytes) -> None:
        self.operation("write", path)
        super().write_file(path, data)

    # -- rot ----------------------------------------------------------------------------------------------------------

    def copy(self) -> FaultyFileSystem:
        """Another disk with the same files, and no faults."""
        other = FaultyFileSystem()
        for path in self.directories:
            other.directories[path] = None
        for path, file in self.files.items():
            other.files[path] = MemoryFile()
            other.files[path].append(file.data)
        return other

    def flip(self, path: str, position: int, bit: int) -> None:
        """Changes one bit of a file."""
        self.files[path].data[position] ^= 1 << bit

    def tear(self, path: str, size: int) -> None:
        """Cuts a file behind its first ``size`` bytes."""
        self.files[path].truncate(size)

    def lose(self, path: str) -> None:
        """The file is gone."""
        del self.files[path]
