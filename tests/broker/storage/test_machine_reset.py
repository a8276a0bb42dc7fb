"""Whether the logs of a folder may have lost their end: by the folder's boot, the machine's, and how the last process ended."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path

import pytest

from coterie.broker import ensemble
from coterie.broker.broker import Broker
from coterie.broker.requests.turns import finish
from coterie.broker.settings import BrokerSettings
from coterie.broker.storage.last_run import BOOT_FILE, SYNC_FAILED, UNKNOWN, BootFile, present_boot_id
from coterie.log.filesystem import MemoryFileSystem
from coterie.records.encoding import encode_batch

DAMAGED = 4


def start(fs: MemoryFileSystem, boot_id: str = "first", *, was_clean: bool = False, registers: bool = True) -> bool:
    boot_file = BootFile(fs, boot_id)
    lost = boot_file.may_have_lost_records(was_clean=was_clean)
    if registers:
        boot_file.write()
    return lost


def test_a_killed_process_has_lost_nothing() -> None:
    fs = MemoryFileSystem()
    assert start(fs)  # a new folder: it has nothing of what it may have had
    assert not start(fs)


def test_a_machine_that_went_down_may_have() -> None:
    fs = MemoryFileSystem()
    start(fs)
    assert start(fs, "second")
    assert not start(fs, "second")


def test_not_after_an_orderly_end() -> None:
    fs = MemoryFileSystem()
    start(fs)
    assert not start(fs, "second", was_clean=True)


def test_an_orderly_end_before_the_registration_brings_nothing_back() -> None:
    fs = MemoryFileSystem()
    start(fs)
    assert start(fs, "second", registers=False)
    assert start(fs, "second", was_clean=True)


def test_a_system_that_shows_no_boot() -> None:
    fs = MemoryFileSystem()
    assert start(fs, UNKNOWN)
    assert start(fs, UNKNOWN)
    assert not start(fs, UNKNOWN, was_clean=True)


def test_after_an_fsync_that_failed() -> None:
    fs = MemoryFileSystem()
    start(fs)
    BootFile(fs, "first").forget()
    assert start(fs)


async def produced(data: Path, *, stops: bool) -> None:
    """Ten batches into the one partition of t."""
    broker = Broker(data=data)
    await broker.start("127.0.0.1", 0)
    finish(broker.topics.creating("t", 1, {}))
    log = broker.topics.partition("t", 0).log
    for number in range(10):
        log.append(encode_batch([(number, b"k", b"%d" % number, ())]), number)
    if stops:
        await broker.stop()
        return
    broker.failure = OSError("its process was killed")
    await broker.stop()
    log.close_files()


async def end_offset_of_the_next(data: Path) -> int:
    broker = Broker(data=data)
    await broker.start("127.0.0.1", 0)
    log = broker.topics.partition("t", 0).log
    offsets = [header.base_offset for _, header in log.segments[0].headers(0)]
    await broker.stop()
    assert offsets == [offset for offset in range(10) if offset != DAMAGED][: len(offsets)]
    return len(offsets)


@pytest.mark.parametrize(
    ("boot_id", "stops", "batches"),
    [(None, False, 9), ("another", False, DAMAGED), ("", False, DAMAGED), ("another", True, 9)],
    ids=["a process was killed", "the machine went down", "no boot is named", "an orderly end"],
)
def test_what_a_start_keeps_behind_damage(tmp_path: Path, boot_id: str | None, stops: bool, batches: int) -> None:
    """Of a broker alone. None: the folder names this boot; "": it names none."""
    asyncio.run(produced(tmp_path, stops=stops))
    if boot_id is not None:
        (tmp_path / BOOT_FILE).write_text(boot_id) if boot_id else (tmp_path / BOOT_FILE).unlink()
    path = tmp_path / "t-0" / "00000000000000000000.log"
    data = bytearray(path.read_bytes())
    size = len(data) // 10
    data[size * DAMAGED + 30 : size * (DAMAGED + 1)] = bytes(size - 30)
    path.write_bytes(data)
    assert asyncio.run(end_offset_of_the_next(tmp_path)) == batches
    assert (tmp_path / BOOT_FILE).read_text() == present_boot_id()


@pytest.mark.parametrize("fails", [False, True])
def test_a_folder_whose_fsync_failed_while_its_broker_registered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    async def story() -> None:
        broker = Broker(BrokerSettings({"zookeeper.connect": "127.0.0.1:1", "broker.id": "1"}), data=tmp_path)

        async def register(*_: object, **__: object) -> None:
            if fails:
                broker._disk_failed(OSError(errno.EIO, "I/O error"))

        monkeypatch.setattr(ensemble, "read_cluster_id", cluster_id)
        monkeypatch.setattr(ensemble, "join_ensemble", register)
        await broker.start("127.0.0.1", 0)
        await broker.stop()

    async def cluster_id(*_: object) -> str:
        return "c" * 22

    asyncio.run(story())
    assert ((tmp_path / BOOT_FILE).read_bytes() == SYNC_FAILED) is fails


async def test_a_folder_whose_fsync_failed_names_no_boot(tmp_path: Path) -> None:
    broker = Broker(data=tmp_path)
    await broker.start("127.0.0.1", 0)
    assert (tmp_path / BOOT_FILE).exists()
    broker._disk_failed(OSError(errno.EIO, "I/O error"))
    await broker.stop()
    assert (tmp_path / BOOT_FILE).read_bytes() == SYNC_FAILED


def test_after_a_failed_sync_the_logs_are_not_trusted_until_they_are_written_again() -> None:
    fs = MemoryFileSystem()
    start(fs)
    BootFile(fs, "first").note_failed_sync()
    assert start(fs, registers=False)
    assert BootFile(fs, "first").sync_has_failed
    assert start(fs, was_clean=True)
    assert not BootFile(fs, "first").sync_has_failed
    assert not start(fs)
