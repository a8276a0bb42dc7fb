"""A real disk's files: a sync that comes too late for a deleted file is no fault of the disk. The names of files are as
durable as what is in them: a power cut after a sync leaves no file without its name."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from coterie.broker.storage import disk
from coterie.broker.storage.disk import DiskFileSystem


def test_syncing_a_file_that_was_deleted_meanwhile_is_nothing(tmp_path: Path) -> None:
    """Deleting a topic while its sync waited for the worker thread was taken for a broken disk: the broker stopped."""
    fs = DiskFileSystem(tmp_path)
    file = fs.open("a.log")
    file.append(b"data")
    file.sync()
    file.close()
    fs.remove("a.log")
    file.sync()


def test_a_sync_that_fails_on_an_open_file_is_a_fault(tmp_path: Path) -> None:
    file = DiskFileSystem(tmp_path).open("a.log")
    os.close(file._fd)  # what the file takes for open can no longer be synced
    with pytest.raises(OSError, match="Bad file descriptor"):
        file.sync()
    file._fd = -1


def test_a_reserved_file_grows_within_what_it_has(tmp_path: Path) -> None:
    """preallocate: the file has its full length at once, appends go where the data ends, and what is left goes."""
    file = DiskFileSystem(tmp_path).open("a.log")
    file.append(b"abc")
    file.reserve(100)
    file.append(b"def")
    assert (file.size(), (tmp_path / "a.log").stat().st_size, file.read(0, 10)) == (6, 100, b"abcdef\0\0\0\0")
    file.truncate(6)
    assert (tmp_path / "a.log").read_bytes() == b"abcdef"
    assert abs(file.modified_ms() - (tmp_path / "a.log").stat().st_mtime * 1000) < 5
    file.close()


def _remove_while_open(fs: DiskFileSystem) -> None:
    file = fs.open("d/a.log")
    fs.remove("d/a.log")
    file.close()


def _replace_while_open(fs: DiskFileSystem) -> None:
    """As the exchange of a compacted segment."""
    file = fs.open("d/a.log")
    fs.open("d/a.log.swap").close()
    fs.rename("d/a.log.swap", "d/a.log")
    file.close()


@pytest.mark.parametrize(
    "delete",
    [
        lambda fs: fs.remove("d/a.log"),
        lambda fs: fs.remove_directory("d"),
        _remove_while_open,
        _replace_while_open,
    ],
    ids=["closed", "with its folder", "open", "replaced"],
)
def test_the_blocks_of_a_large_file_are_freed_in_a_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, delete: Callable[[DiskFileSystem], None]
) -> None:
    """The last descriptor of a file without a name frees its blocks: 1.4 s for a segment of 1 GiB on a busy machine, in the
    loop."""
    monkeypatch.setattr(disk, "FREED_ASIDE_BYTES", 10)
    freed, close = list[threading.Thread](), os.close

    def noted(fd: int) -> None:
        status = os.fstat(fd)
        if not status.st_nlink and status.st_size >= 10:
            freed.append(threading.current_thread())
        close(fd)

    fs = DiskFileSystem(tmp_path)
    fs.make_directory("d")
    file = fs.open("d/a.log")
    file.append(b"x" * 10)
    file.close()
    monkeypatch.setattr(os, "close", noted)
    delete(fs)
    disk._freeing().submit(int).result()  # once the thread is done
    assert freed
    assert threading.main_thread() not in freed


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths of what is synced."""
    paths: list[str] = []
    for name in ("fsync", "fdatasync"):
        if hasattr(os, name):
            monkeypatch.setattr(os, name, lambda fd: paths.append(os.readlink(f"/proc/self/fd/{fd}")))
    return paths


def test_the_first_sync_of_a_new_file_covers_its_name(tmp_path: Path, synced: list[str]) -> None:
    """As Kafka's LocalLog.flush, where a segment is flushed for the first time."""
    fs = DiskFileSystem(tmp_path)
    fs.make_directory("t-0")
    file = fs.open("t-0/0.log")
    file.append(b"abc")
    file.sync()
    assert synced == [f"{tmp_path}/t-0/0.log", f"{tmp_path}/t-0", str(tmp_path)]
    file.sync()
    assert synced[3:] == [f"{tmp_path}/t-0/0.log"], "only once"
    file.close()
    known = fs.open("t-0/0.log")
    known.sync()
    assert synced[4:] == [f"{tmp_path}/t-0/0.log"], "a file that was there before has its name"
    known.close()


def test_a_new_name_is_synced(tmp_path: Path, synced: list[str]) -> None:
    """As Kafka's Utils.atomicMoveWithFallback and LocalLog.replaceSegments."""
    fs = DiskFileSystem(tmp_path)
    fs.make_directory("t-0")
    fs.write_file("meta.properties", b"version=1")
    assert synced == [f"{tmp_path}/meta.properties.tmp", str(tmp_path)]
    fs.write_file("t-0/3.snapshot", b"")
    assert synced[2:] == [f"{tmp_path}/t-0/3.snapshot.tmp"], "made from the log where it is missing"
    fs.rename("t-0/3.snapshot", "t-0/other")
    assert synced[3:] == [f"{tmp_path}/t-0"]
    fs.rename("t-0/other", "t-0/other.deleted")
    assert len(synced) == 4, "nothing is lost with the name of a file to delete"
