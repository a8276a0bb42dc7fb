"""The file system of a real disk, and the lock that keeps two brokers out of one data folder."""

from __future__ import annotations

import errno
import fcntl
import os
import resource
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

from coterie.broker.process.descriptors import is_kept_back
from coterie.log.segments.segment import DELETED

OPEN_FILES = 65_536
FREED_ASIDE_BYTES = 1 << 24  # to free the blocks of a segment of 1 GiB takes the disk up to 1.4 s
_PUBLIC, _PRIVATE, _OF_OTHERS = 0o666, 0o600, 0o077  # modes of files, without the umask


def raise_open_file_limit() -> None:
    """Each connection and each segment of a log is an open file; the usual soft limit of 1,024 is soon reached."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, OPEN_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


class DataFolderInUse(RuntimeError):
    """Another broker holds the data folder."""


def folder_trouble(root: Path, error: OSError) -> str:
    """The sentence for a data folder that cannot be opened: which, why, and what to do."""
    over = next((path for path in (root, *root.parents) if path.exists()), root)
    if not over.is_dir():
        why = f"{over} is a file"
    elif error.errno == errno.EROFS:
        why = "its file system is read-only"
    elif error.errno in (errno.EACCES, errno.EPERM):
        why = f"user {os.getuid()} may not write there"
    elif error.errno in (errno.ENOSPC, errno.EDQUOT):
        why = "its disk is full"
    elif error.errno in (errno.EMFILE, errno.ENFILE):
        why = "its logs need more open files than ulimit -n allows"
    else:
        named = "" if error.filename in (None, str(root)) else f"{error.filename}: "
        why = f"{named}{error.strerror or error}"
    return f"cannot use the data folder {root}: {why}; mend that, or choose another --data"


def sync_folder(path: str) -> None:
    """Returns once the names in the folder are on the disk. Raises OSError."""
    fd = os.open(path or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


@cache
def _freeing() -> ThreadPoolExecutor:
    """The thread that closes large files without a name: the last descriptor of one frees its blocks."""
    return ThreadPoolExecutor(1, "coterie-freed-files")


def _close(fd: int) -> None:
    status = os.fstat(fd)
    if status.st_nlink or status.st_size < FREED_ASIDE_BYTES:
        os.close(fd)
    else:
        _freeing().submit(os.close, fd)


class DiskFile:
    """A file that grows at its end, through its descriptor. The first sync of a new one covers its name too (Kafka's
    LocalLog.flush)."""

    def __init__(self, path: str | Path) -> None:
        self._path = path
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        if is_kept_back(self._fd):
            os.close(self._fd)
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), str(path))
        self._end = os.fstat(self._fd).st_size  # of what was appended; `reserve` may have made the file longer
        self._has_new_name = not self._end

    def size(self) -> int:
        return self._end

    def read(self, position: int, length: int) -> bytes:
        return os.pread(self._fd, length, position)

    def append(self, data: bytes | bytearray) -> None:
        """Writes on after a write that took only a part. Raises OSError."""
        written = os.pwrite(self._fd, data, self._end)
        while written < len(data):
            written += os.pwrite(self._fd, memoryview(data)[written:], self._end + written)
        self._end += written

    def truncate(self, size: int) -> None:
        os.ftruncate(self._fd, size)
        self._end = size

    def reserve(self, size: int) -> None:
        if size > self._end:
            os.ftruncate(self._fd, size)

    def modified_ms(self) -> int:
        return os.fstat(self._fd).st_mtime_ns // 1_000_000

    def sync(self) -> None:
        """From any thread; a file that was closed meanwhile needs no sync. Raises OSError."""
        fd = self._fd
        try:
            if fd >= 0:
                os.fdatasync(fd) if hasattr(os, "fdatasync") else os.fsync(fd)
                if self._has_new_name:
                    folder = os.path.dirname(self._path)
                    sync_folder(folder)
                    sync_folder(os.path.dirname(folder))  # which has the name of a new log
                    self._has_new_name = False
        except OSError:
            # Closed meanwhile, from the loop's thread: its topic or segment was deleted, so nothing is left to keep.
            if self._fd >= 0:
                raise

    def close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            _close(fd)


class DiskFileSystem:
    """A folder on disk. Paths are joined as text: with a thousand logs `Path` is what opening them takes longest over.
    ``private``: files for the broker's user alone, also where an earlier version left them readable by all. Raises OSError."""

    def __init__(self, root: Path, private: Collection[str] = ()) -> None:
        self.root = root
        self._prefix, self._private = f"{root}/", private
        root.mkdir(parents=True, exist_ok=True)
        for name in private:
            if self.exists(name) and os.stat(self._prefix + name).st_mode & _OF_OTHERS:
                os.chmod(self._prefix + name, _PRIVATE)

    def open(self, path: str) -> DiskFile:
        return DiskFile(self._prefix + path)

    def exists(self, path: str) -> bool:
        return os.path.exists(self._prefix + path)

    def names(self, directory: str) -> list[str]:
        """As `FileSystem.names`. Raises OSError for a directory that cannot be read."""
        try:
            return sorted(os.listdir(self._prefix + directory))
        except (FileNotFoundError, NotADirectoryError):
            return []

    def make_directory(self, path: str) -> None:
        os.makedirs(self._prefix + path, exist_ok=True)

    def remove(self, path: str) -> None:
        """The blocks of a large file are freed in a thread."""
        name = self._prefix + path
        if os.stat(name).st_size < FREED_ASIDE_BYTES:
            os.unlink(name)
            return
        fd = os.open(name, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.unlink(name)
        finally:
            _close(fd)

    def remove_directory(self, path: str) -> None:
        """Its large files as `remove`."""
        import shutil  # with archives and their codecs: 2 ms of a start

        for entry in os.scandir(self._prefix + path):
            if entry.is_file(follow_symlinks=False):
                self.remove(f"{path}/{entry.name}")
        shutil.rmtree(self._prefix + path)

    def rename(self, old: str, new: str) -> None:
        """The new name is on the disk when it returns, but for that of a file to delete, which needs none."""
        os.rename(self._prefix + old, self._prefix + new)
        if not new.endswith(DELETED):
            sync_folder(os.path.dirname(self._prefix + new))

    def read_file(self, path: str) -> bytes:
        with open(self._prefix + path, "rb", buffering=0) as file:
            return file.read()

    def write_file(self, path: str, data: bytes) -> None:
        """Written beside, synced, then renamed over the old one. The new name is synced in the data folder itself; what a log
        has beside its segments is made from these where it is missing."""
        beside = self.root / (path + ".tmp")
        try:
            mode = _PRIVATE if path in self._private else _PUBLIC
            with open(beside, "wb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            beside.rename(self.root / path)
            if "/" not in path:
                sync_folder(str(self.root))
        except OSError:
            beside.unlink(missing_ok=True)
            raise


class FolderLock:
    """Kafka's `.lock` file in the data folder, held for as long as the process lives."""

    def __init__(self, root: Path) -> None:
        root.mkdir(parents=True, exist_ok=True)
        self._file = open(root / ".lock", "w")  # noqa: SIM115 - held open on purpose
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._file.close()
            raise DataFolderInUse(
                f"another broker uses the data folder {root}; stop it, or give this one another --data"
            ) from error

    def release(self) -> None:
        self._file.close()
