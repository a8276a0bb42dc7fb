"""The names of files are as durable as what is in them: a power cut after a sync leaves no file without its name."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from coterie.broker.storage.disk import DiskFileSystem


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
