"""A folder that is read but never written: changes go into another one, and are seen only through here."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from coterie.broker.storage.disk import DiskFile, DiskFileSystem
from coterie.log.filesystem import File


class OverlayFile:
    """A file of the lower folder; the first append copies it into the upper one."""

    def __init__(self, lower: Path, upper: Path) -> None:
        self._upper = upper
        self._fd = os.open(lower, os.O_RDONLY | os.O_CLOEXEC)
        self._end = os.fstat(self._fd).st_size
        self._copy: DiskFile | None = None

    def size(self) -> int:
        return self._end if self._copy is None else self._copy.size()

    def read(self, position: int, length: int) -> bytes:
        """The file, of the copy once there is one. Raises OSError."""
        if self._copy is not None:
            return self._copy.read(position, length)
        return os.pread(self._fd, max(min(length, self._end - position), 0), position)

    def append(self, data: bytes | bytearray) -> None:
        self._written().append(data)

    def truncate(self, size: int) -> None:
        if self._copy is not None:
            self._copy.truncate(size)
        self._end = size

    def reserve(self, size: int) -> None:
        pass

    def _written(self) -> DiskFile:
        if self._copy is None:
            self._upper.parent.mkdir(parents=True, exist_ok=True)
            with os.fdopen(os.dup(self._fd), "rb") as source, open(self._upper, "wb") as target:
                shutil.copyfileobj(source, target)
            self._copy = DiskFile(self._upper)
            self._copy.truncate(self._end)
        return self._copy

    def modified_ms(self) -> int:
        return os.fstat(self._fd).st_mtime_ns // 1_000_000

    def sync(self) -> None:
        pass

    def close(self) -> None:
        """Both files; a second time does nothing."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)
        if self._copy is not None:
            self._copy.close()


class OverlayFileSystem:
    """The folder ``lower`` with the changes made here, which lie in ``upper``."""

    def __init__(self, lower: Path, upper: Path) -> None:
        self._lower, self._upper = lower, DiskFileSystem(upper)
        self._removed: set[str] = set()

    def open(self, path: str) -> File:
        """A file of the lower folder stays as it is until something is appended to it."""
        below = self._below(path)
        if below is not None:
            return OverlayFile(below, self._upper.root / path)
        (self._upper.root / path).parent.mkdir(parents=True, exist_ok=True)
        return self._upper.open(path)

    def _below(self, path: str) -> Path | None:
        """The file or directory of the lower folder that is seen at ``path``, if it is that one."""
        hidden = path in self._removed or (self._upper.root / path).is_file()
        return self._lower / path if not hidden and (self._lower / path).exists() else None

    def exists(self, path: str) -> bool:
        return self._below(path) is not None or self._upper.exists(path)

    def names(self, directory: str) -> list[str]:
        """The names of both folders, without the removed ones."""
        prefix = f"{directory}/" if directory else ""
        path = self._lower / directory
        below = [name for name in os.listdir(path) if prefix + name not in self._removed] if path.is_dir() else []
        return sorted({*below, *self._upper.names(directory)})

    def make_directory(self, path: str) -> None:
        if self._below(path) is None:
            self._upper.make_directory(path)

    def remove(self, path: str) -> None:
        """Hides a file of the lower folder. Raises FileNotFoundError."""
        if not self.exists(path):
            raise FileNotFoundError(path)
        if (self._upper.root / path).exists():
            self._upper.remove(path)
        self._removed.add(path)

    def remove_directory(self, path: str) -> None:
        for name in self.names(path):
            self.remove(f"{path}/{name}")
        self._removed.add(path)

    def rename(self, old: str, new: str) -> None:
        """A file of the lower folder is copied, and hidden under its old name."""
        below = self._below(old)
        if below is not None:
            (self._upper.root / new).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(below, self._upper.root / new)
        else:
            self._upper.rename(old, new)
        self._removed.add(old)

    def read_file(self, path: str) -> bytes:
        below = self._below(path)
        return self._upper.read_file(path) if below is None else below.read_bytes()

    def write_file(self, path: str, data: bytes) -> None:
        (self._upper.root / path).parent.mkdir(parents=True, exist_ok=True)
        self._upper.write_file(path, data)
