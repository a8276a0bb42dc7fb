"""Whether the logs of a folder may have lost their end: by the folder's boot, the machine's, and how the last process ended."""

from __future__ import annotations

import pytest

from coterie.broker.cluster import machine_reset
from coterie.log.filesystem import MemoryFileSystem


@pytest.fixture
def boots(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The last one is the machine's."""
    boots = ["first"]
    monkeypatch.setattr(machine_reset, "boot_id", lambda: boots[-1])
    return boots


def start(fs: MemoryFileSystem, *, was_clean: bool, registers: bool = True) -> bool:
    lost = machine_reset.may_have_lost_records(fs, was_clean=was_clean)
    if registers:
        machine_reset.write_boot(fs)
    return lost


def test_a_killed_process_has_lost_nothing(boots: list[str]) -> None:
    fs = MemoryFileSystem()
    assert start(fs, was_clean=False)  # a new folder: it has nothing of what it may have had
    assert not start(fs, was_clean=False)


def test_a_machine_that_went_down_may_have(boots: list[str]) -> None:
    fs = MemoryFileSystem()
    start(fs, was_clean=False)
    boots.append("second")
    assert start(fs, was_clean=False)
    assert not start(fs, was_clean=False)


def test_not_after_an_orderly_end(boots: list[str]) -> None:
    fs = MemoryFileSystem()
    start(fs, was_clean=False)
    boots.append("second")
    assert not start(fs, was_clean=True)


def test_an_orderly_end_before_the_registration_brings_nothing_back(boots: list[str]) -> None:
    fs = MemoryFileSystem()
    start(fs, was_clean=False)
    boots.append("second")
    assert start(fs, was_clean=False, registers=False)
    assert start(fs, was_clean=True)


def test_a_system_that_shows_no_boot(boots: list[str]) -> None:
    fs = MemoryFileSystem()
    boots.append("unknown")
    assert start(fs, was_clean=False)
    assert start(fs, was_clean=False)
    assert not start(fs, was_clean=True)


def test_after_an_fsync_that_failed(boots: list[str]) -> None:
    fs = MemoryFileSystem()
    start(fs, was_clean=False)
    machine_reset.forget_boot(fs)
    assert start(fs, was_clean=False)
