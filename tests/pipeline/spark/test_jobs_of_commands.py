"""The jobs of the demo and of `coterie lab study --spark`, in the session of these tests. What makes its own is tested as a
process: the demo with its pictures, `coterie pipeline` by test_ends."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from coterie.cli import main
from coterie.client import Admin
from coterie.demo import spark_jobs
from tests.awaiting import until_in_thread
from tests.broker_process import BrokerProcess
from tests.pipeline.spark.test_spark import produce

pytestmark = pytest.mark.slow
TOPIC, RECORDS = "records", 600
KEYS = 1 + RECORDS * 4 // 5  # every fifth record has no key, and the others one each


@pytest.fixture
def stopped(spark: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """The sessions that were stopped instead of this one, which goes on."""
    sessions: list[Any] = []
    monkeypatch.setattr(type(spark), "stop", lambda session: sessions.append(session))
    before = signal.getsignal(signal.SIGTERM)
    yield sessions
    signal.signal(signal.SIGTERM, before)


def committed(address: str) -> int:
    """Records that Spark's group has committed."""

    async def ask() -> int:
        async with Admin({"bootstrap.servers": address}) as admin:
            return sum(offset for offset, _ in (await admin.lag("delays")).values())

    return asyncio.run(ask())


def test_the_history_of_the_demo_is_made_in_the_session_of_its_stream(
    spark: Any,
    stopped: list[Any],
    broker: BrokerProcess,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    produce(broker.address, TOPIC, [b"{}"] * RECORDS)
    monkeypatch.setattr(spark_jobs, "make_session", lambda *_, **__: spark)
    has_ended = threading.Event()

    def terminate() -> None:
        """SIGTERM ends the stream; it has its handler since before the first commit."""
        until_in_thread(lambda: committed(broker.address) == RECORDS or has_ended.is_set(), "all is committed", 120)
        if not has_ended.is_set():
            os.kill(os.getpid(), signal.SIGTERM)

    thread = threading.Thread(target=terminate)
    thread.start()
    try:
        spark_jobs.run_jobs(broker.address, TOPIC, "keys", tmp_path, "local[2]")
    finally:
        has_ended.set()
        thread.join()
    rows, history = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert rows == {"rows": KEYS}
    assert history["history"]["commits"]
    assert history["history"]["lag"]
    assert {"table", "checkpoint"} <= {path.name for path in (tmp_path / "tables").iterdir()}
    assert stopped == [spark]


def test_spark_gives_the_same_study(
    spark: Any,
    stopped: list[Any],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("coterie.pipeline.session.make_session", lambda *_: spark)
    words = ["lab", "study", "--seeds", "1", "--largest", "3", "--question", "5"]
    for folder, where in (("spark", ["--spark", "local[2]"]), ("cores", ["--processes", "1"])):
        main.main([*words, "--out", str(tmp_path / folder), *where], standalone_mode=False)
        assert "the page is" in capsys.readouterr().out
    assert (tmp_path / "spark" / "study.md").read_text() == (tmp_path / "cores" / "study.md").read_text()
    assert stopped == [spark]
