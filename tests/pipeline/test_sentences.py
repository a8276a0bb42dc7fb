"""What a user reads of a mistake: one sentence, without the traceback of Spark's Python process. What the extra `spark`
installs."""

from __future__ import annotations

import importlib.metadata
import os
import re
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from coterie.client.errors import KafkaError
from coterie.pipeline import queries, sentences
from coterie.pipeline.options.types import OptionError
from coterie.testing import LocalBroker
from coterie.wire.errors import ErrorCode

MISTAKES: dict[str, tuple[dict[str, str], str, str]] = {
    "a topic that is missing": ({"subscribe": "none"}, "", "topic none: it does not exist; create it first"),
    "nothing to read": ({}, "", "say what to read with exactly one of the options"),
    "a column that is missing": (
        {"subscribe": "t"},
        "key binary, wert binary",
        "has no column wert: it has key, value",
    ),
    "a column of another type": (
        {"subscribe": "t"},
        "value int",
        "the column value is binary, not int: correct the schema",
    ),
    "an option that is misspelt": ({"subscribe": "t", "startingOfsets": "latest"}, "", "did you mean startingOffsets?"),
    "a folder that is missing": (
        {"subscribe": "t", "logFolder": "/none"},
        "",
        "option logFolder: there is no folder /none",
    ),
}
NAME = re.compile(r"[A-Za-z0-9-]+")


@pytest.fixture
def hidden(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, Exception], bool]]:
    """Whether an error in a process with that main module is reported without its traceback."""
    monkeypatch.delenv(sentences.HIDE_TRACEBACK, raising=False)

    def is_hidden(main: str, error: Exception) -> bool:
        monkeypatch.setitem(sys.modules, "__main__", SimpleNamespace(__spec__=SimpleNamespace(name=main)))
        with pytest.raises(type(error)), sentences.alone():
            raise error
        return bool(os.environ.pop(sentences.HIDE_TRACEBACK, ""))

    yield is_hidden
    monkeypatch.undo()


@pytest.mark.parametrize(
    "main", ["pyspark.daemon", "coterie.pipeline.workers.worker_daemon", "pyspark.sql.streaming.runner"]
)
def test_a_process_of_spark_reports_a_sentence(main: str, hidden: Callable[[str, Exception], bool]) -> None:
    assert hidden(main, OptionError("say what to read"))
    assert hidden(main, KafkaError(ErrorCode.NETWORK_EXCEPTION, "no broker answers"))
    assert not hidden(main, AssertionError("a bug"))


def test_a_process_of_the_users_keeps_its_tracebacks(
    hidden: Callable[[str, Exception], bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not hidden("my.application", OptionError("say what to read"))
    monkeypatch.setenv(sentences.HIDE_TRACEBACK, "")
    assert not hidden("pyspark.daemon", OptionError("say what to read"))


@pytest.mark.slow
@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_in_a_batch_read(mistake: str, spark: Any, coterie_broker: LocalBroker) -> None:
    coterie_broker.create_topic("t", 1)
    options, schema, sentence = MISTAKES[mistake]
    reader = spark.read.format("coterie").option("kafka.bootstrap.servers", coterie_broker.bootstrap_servers)
    with pytest.raises(Exception, match=r"\[PYTHON_DATA_SOURCE_ERROR\]") as raised:
        (reader.schema(schema) if schema else reader).options(**options).load().count()
    first = str(raised.value).splitlines()[0]
    assert sentence in first
    assert "Traceback" not in str(raised.value)


@pytest.mark.slow
def test_a_mistake_in_a_query(spark: Any, coterie_broker: LocalBroker, tmp_path: Any) -> None:
    reader = spark.readStream.format("coterie").option("kafka.bootstrap.servers", coterie_broker.bootstrap_servers)
    frame = reader.option("subscribe", "none").load()
    query = (
        frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
    )
    with pytest.raises(Exception, match=r"\[STREAM_FAILED\]") as raised:
        query.awaitTermination(60)
    assert "topic none: it does not exist; create it first" in str(raised.value).splitlines()[0]
    assert "Traceback" not in str(raised.value)


def test_a_python_of_spark_without_coterie_is_named() -> None:
    error = RuntimeError(
        "[DATA_SOURCE_NOT_FOUND] Failed to find the data source: coterie. Make sure the provider name\n  at"
    )
    sentence = sentences.sentence_of(error)
    assert sentence is not None
    assert "set PYSPARK_PYTHON and PYSPARK_DRIVER_PYTHON" in sentence
    assert sentences.sentence_of(RuntimeError("[DATA_SOURCE_NOT_FOUND] Failed to find the data source: delta.")) is None


def test_the_connectors_metrics_of_a_source() -> None:
    """As org.apache.spark.sql.kafka010.KafkaMicroBatchStream.metrics writes them."""
    source = {"latestOffset": {"t": {"0": 10, "1": 20}}, "endOffset": {"t": {"0": 10, "1": 15}}}
    metrics = {"minOffsetsBehindLatest": "0", "avgOffsetsBehindLatest": "2.5", "maxOffsetsBehindLatest": "5"}
    assert queries.metrics(source) == metrics
    assert queries.metrics({"latestOffset": None, "endOffset": None}) == {}


def names(requirements: list[str]) -> set[str]:
    return {match[0].lower() for match in map(NAME.match, requirements) if match is not None}


def test_the_extra_brings_what_spark_connect_needs() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    ours = names(project["optional-dependencies"]["spark"])
    needed = names([r for r in importlib.metadata.requires("pyspark") or () if 'extra == "connect"' in r])
    assert {"grpcio", "grpcio-status", "googleapis-common-protos", "zstandard"} <= needed
    assert needed <= ours
