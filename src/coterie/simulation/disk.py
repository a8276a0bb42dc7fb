"""A disk under a living broker: writes fail half-way, it is full for a while, syncs fail or are slow, the machine goes down.

As on a real disk a write that fails leaves a part of its bytes; what a failed sync should have written is never written
by a later one; and after a power cut what was not synced is there in part, with holes of zeros. Names of files are durable
at once.
"""

from __future__ import annotations

import errno
import random
from collections.abc import Callable
from os import strerror

from coterie.log.filesystem import File, MemoryFile, MemoryFileSystem, Paths

PAGE_BYTES = 512


class ProcessEnded(BaseException):
    """The broker's process ended in the middle of an operation. No handler may catch it as an error."""


class StoredFile(MemoryFile):
    """A file on the disk. ``lost``: (start, end) of what failed syncs have not written; ``changed_ms``: its last write."""

    def __init__(self) -> None:
        super().__init__()
        self.lost: list[tuple[int, int]] = []
        self.changed_ms = 0

    def sync_failed(self) -> None:
        """As on Linux: the pages count as clean although the disk does not have them."""
        self.lost.append((self.synced, len(self.data)))
        self.synced = len(self.data)

    def power_cut(self, rng: random.Random) -> None:
        """Keeps what was synced, and of the rest any part; what is kept is on the disk from now on."""
        size = len(self.data)
        kept = self.synced + rng.randint(0, size - self.synced) if rng.random() < 0.5 else self.synced
        holes = [(start, min(end, kept)) for start, end in self.lost]
        if kept - self.synced > 1 and rng.random() < 0.3:
            start = rng.randint(self.synced, kept - 1)
            holes.append((start, min(start + PAGE_BYTES, kept)))
        for start, end in holes:
            self.data[start:end] = bytes(max(end - start, 0))
        del self.data[kept:]
        self.data += bytes(max(0, self.reserved - kept))
        self.synced, self.lost = len(self.data), []


class Disk:
    """The files, which outlive the processes that `mount` them, and the faults that are due.

    ``full``: every write fails. ``failing_writes`` and ``failing_syncs``: how many of the next fail. ``fails_overlapping``: the
    next sync of a file in which another is under way fails. ``dies_in``: the process ends in that operation from now on; 0 for
    none."""

    def __init__(self, rng: random.Random, now_ms: Callable[[], int]) -> None:
        self.rng, self.now_ms = rng, now_ms
        self.files = Paths[MemoryFile]()
        self.directories = Paths[None]()
        self.full = self.fails_overlapping = False
        self.failing_writes = self.failing_syncs = self.dies_in = 0
        self.failures = 0
        self._boots = 1

    @property
    def boot_id(self) -> str:
        """Of the machine's present boot: another one after each power cut."""
        return f"boot {self._boots}"

    def mount(self) -> MountedDisk:
        return MountedDisk(self)

    def power_cut(self) -> None:
        """Each file loses what was not synced, or a part of it."""
        self._boots += 1
        for file in self.files.values():
            assert isinstance(file, StoredFile)
            file.power_cut(self.rng)

    def mend(self) -> None:
        """Ends every fault."""
        self.full = self.fails_overlapping = False
        self.failing_writes = self.failing_syncs = self.dies_in = 0

    def before(self, path: str, *, writes: bool) -> None:
        """Before each operation that changes the disk. Raises OSError, ProcessEnded."""
        if self.dies_in:
            self.dies_in -= 1
            if not self.dies_in:
                raise ProcessEnded
        if writes and (self.full or self.failing_writes):
            self.failing_writes = max(self.failing_writes - 1, 0)
            self.failures += 1
            code = errno.ENOSPC if self.full else errno.EIO
            raise OSError(code, strerror(code), path)

    def sync_fails(self, *, overlaps: bool) -> bool:
        """Whether this sync fails; ``overlaps``: another one is under way."""
        fails = self.failing_syncs > 0
        self.failing_syncs -= fails
        if overlaps and self.fails_overlapping:
            fails, self.fails_overlapping = True, False
        self.failures += fails
        return fails


class OpenFile:
    """One descriptor of a process."""

    def __init__(self, mounted: MountedDisk, path: str, file: StoredFile) -> None:
        self._mounted, self._disk, self._path, self._file = mounted, mounted.disk, path, file
        self._end = file.size()
        self._under_way = 0  # syncs

    def size(self) -> int:
        return self._end

    def read(self, position: int, length: int) -> bytes:
        if self._mounted.is_over:  # a failed sync may have ended the machine within this request
            raise ProcessEnded
        return self._file.read(position, length)

    def append(self, data: bytes | bytearray) -> None:
        """A failing write, or the end of the process in it, leaves a random part of the data."""
        was_over = self._mounted.is_over
        try:
            self._mounted.before(self._path, writes=True)
        except (OSError, ProcessEnded):
            if data and not was_over:
                kept = self._disk.rng.randrange(len(data))
                self._put(data[:kept])
            raise
        self._put(data)
        self._end += len(data)

    def _put(self, data: bytes | bytearray) -> None:
        """Over what a failed write left; what it left beyond stays."""
        self._file.data[self._end : self._end + len(data)] = data
        self._file.synced = min(self._file.synced, self._end)
        self._file.changed_ms = self._disk.now_ms()

    def truncate(self, size: int) -> None:
        """Ranges of the file that a power cut may take end with it. It writes nothing, and fails with no write."""
        self._mounted.before(self._path, writes=False)
        self._file.truncate(size)
        self._file.lost = [(start, min(end, size)) for start, end in self._file.lost if start < size]
        self._end = size

    def reserve(self, size: int) -> None:
        self._mounted.before(self._path, writes=True)
        self._file.reserve(size)

    def modified_ms(self) -> int:
        return self._file.changed_ms

    def sync(self) -> None:
        """At once, as the broker does where it closes a segment."""
        self.end_sync(self.begin_sync())

    def begin_sync(self) -> int:
        """Returns the size that `end_sync` will have on the disk."""
        self._mounted.before(self._path, writes=False)
        self._under_way += 1
        return len(self._file.data)

    def end_sync(self, size: int) -> None:
        """Raises OSError where the sync fails."""
        self._under_way -= 1
        if self._disk.sync_fails(overlaps=self._under_way > 0):
            self._file.sync_failed()
            raise OSError(errno.EIO, strerror(errno.EIO), self._path)
        self._file.synced = max(self._file.synced, min(size, len(self._file.data)))

    def close(self) -> None:
        pass


class MountedDisk(MemoryFileSystem):
    """The disk as one process has it; ``is_over`` once the process has ended: nothing that it does has an effect then."""

    def __init__(self, disk: Disk) -> None:
        super().__init__()
        self.disk, self.is_over = disk, False
        self.died: Callable[[], None] = lambda: None  # called where the process dies in an operation
        self.files, self.directories = disk.files, disk.directories

    def end(self) -> None:
        """The process has ended."""
        self.is_over = True

    def before(self, path: str, *, writes: bool) -> None:
        """To be called before each operation. Raises OSError where it fails, ProcessEnded where the process dies in it."""
        if self.is_over:
            raise ProcessEnded
        try:
            self.disk.before(path, writes=writes)
        except ProcessEnded:
            self.is_over = True
            self.died()
            raise

    def open(self, path: str) -> File:  # type: ignore[override]
        """The file, made if it is not there. Raises OSError, ProcessEnded."""
        self.before(path, writes=path not in self.files)
        file = self.files.setdefault(path, StoredFile())
        assert isinstance(file, StoredFile)
        return OpenFile(self, path, file)

    def make_directory(self, path: str) -> None:
        self.before(path, writes=path not in self.directories)
        super().make_directory(path)

    def remove(self, path: str) -> None:
        self.before(path, writes=False)
        super().remove(path)

    def remove_directory(self, path: str) -> None:
        self.before(path, writes=False)
        super().remove_directory(path)

    def rename(self, old: str, new: str) -> None:
        self.before(old, writes=False)
        super().rename(old, new)

    def write_file(self, path: str, data: bytes) -> None:
        """The whole file, synced."""
        self.before(path, writes=True)
        file = self.files[path] = StoredFile()
        file.data += data
        file.changed_ms = self.disk.now_ms()
        file.sync()
