"""The soak's processes, without starting them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from coterie.pipeline.options.options import source_options
from coterie_conformance.soak import run as soak
from coterie_conformance.soak.workers import MEMBER
from tests.awaiting import until_in_thread


def test_a_spark_application_accepts_the_members_settings() -> None:
    """It ended at once, again and again, when the source began to refuse auto.offset.reset."""
    settings = {f"kafka.{name}": str(value) for name, value in MEMBER.items()}
    source = {"kafka.bootstrap.servers": "127.0.0.1:9", "subscribe": "t", "kafka.group.id": "g", "mode": "group"}
    assert source_options(source | settings, streaming=True)


def test_a_process_that_ends_at_once_is_started_after_a_pause(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its end is reported and counted once, with the time at which it was noticed."""
    commands: list[str] = []

    def command(self: soak.Soak, name: str) -> list[str]:
        commands.append(name)
        return [sys.executable, "-c", ""]

    monkeypatch.setattr(soak.Soak, "_command", command)
    reports: list[str] = []
    processes = soak.Soak(tmp_path, "127.0.0.1:9", reports.append)
    processes.start("spark-0")

    def has_ended(times: int) -> bool:
        processes.restart_ended()
        return len(reports) == times

    until_in_thread(lambda: has_ended(1), "the first end")
    for _ in range(5):
        processes.restart_ended()
    assert (len(reports), len(processes.kills), len(commands)) == (1, 1, 1)
    monkeypatch.setattr(soak, "RESTART_S", 0.0)
    processes.restart_ended()
    until_in_thread(lambda: has_ended(2), "the second end")
    processes.kill("spark-0")  # also one that has ended by itself
    processes.stop_all()
    assert "spark-0" in {name for name, _ in processes.kills}
