"""A real disk's files: a sync that comes too late for a deleted file is no fault of the disk."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

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
