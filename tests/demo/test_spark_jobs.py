"""The demo's Spark application: two jobs in one session, and its failures as one sentence."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from coterie.client import Admin, Producer
from coterie.client.errors import KafkaError
from coterie.demo import spark_jobs
from coterie.pipeline.offsets import DataLossError
from coterie.pipeline.sentences import sentence_of
from coterie.pipeline.session import JavaMissing
from coterie.wire.errors import ErrorCode
from tests.awaiting import until_in_thread
from tests.broker_process import BrokerProcess

TOPIC, RECORDS, KEYS = "records", 600, 7
STARTS_WITHIN_S = 300.0


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    process = BrokerProcess(tmp_path / "data")
    yield process
    process.stop()


async def produce(address: str) -> None:
    async with Producer({"bootstrap.servers": address}) as producer:
        for number in range(RECORDS):
            await producer.send(TOPIC, b"{}", b"key %d" % (number % KEYS))


def committed(address: str) -> int:
    """Records that Spark's group has committed."""

    async def ask() -> int:
        async with Admin({"bootstrap.servers": address}) as admin:
            return sum(offset for offset, _ in (await admin.lag("delays")).values())

    return asyncio.run(ask())


@pytest.mark.slow
def test_the_history_is_made_in_the_session_of_the_stream(broker: BrokerProcess, tmp_path: Path) -> None:
    asyncio.run(produce(broker.address))
    command = [sys.executable, "-m", spark_jobs.__name__, broker.address, TOPIC, "keys", str(tmp_path)]
    with subprocess.Popen([*command, "--master", "local[2]"], stdout=subprocess.PIPE, text=True) as process:
        try:
            until_in_thread(
                lambda: committed(broker.address) == RECORDS or process.poll() is not None,
                "every record is committed",
                STARTS_WITHIN_S,
                every_s=0.3,
            )
            process.terminate()
            assert process.stdout is not None
            table, history = (json.loads(line) for line in process.stdout)
            assert process.wait(60) == 0
        finally:
            process.kill()
    assert table == {"rows": KEYS}
    assert history["history"]["commits"]
    assert history["history"]["lag"]
    assert {"table", "checkpoint"} <= {path.name for path in (tmp_path / "tables").iterdir()}


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (JavaMissing("Spark needs a Java runtime"), "Spark needs a Java runtime"),
        (KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "no topic x"), "no topic x"),
        (
            RuntimeError("in Spark\nDataLossError: offsets 3 to 5 of t-0 are gone\nat x"),
            "offsets 3 to 5 of t-0 are gone",
        ),
    ],
)
def test_a_failure_ends_it_with_its_sentence(
    error: Exception, text: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(spark_jobs, "run_jobs", fail)
    monkeypatch.setattr(sys, "argv", ["spark_jobs", "127.0.0.1:1", TOPIC, "keys", str(tmp_path), "--master", "local"])
    with pytest.raises(SystemExit) as ended:
        spark_jobs.main()
    assert text in str(ended.value.code)


def test_an_error_without_a_sentence_keeps_its_traceback() -> None:
    assert sentence_of(RuntimeError("a defect")) is None
    assert sentence_of(DataLossError("gone")) == "gone"
