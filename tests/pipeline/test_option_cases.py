"""What each option does, by the table that conformance's part `spark` asks of Spark's own connector as well: reads call by call
as Spark makes them, writes on a real Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.types import StructType

from coterie.client.settings.foreign import JAVA_SETTINGS
from coterie.client.settings.settings import CLIENT_SETTINGS
from coterie.pipeline.options import table as option_table
from coterie.pipeline.options.options import sink_options, source_options
from coterie.pipeline.options.types import OptionError
from coterie.pipeline.reading.batch_reader import CoterieReader
from coterie.pipeline.reading.fetching import read_range
from coterie.pipeline.reading.tasks import Task
from coterie.pipeline.streaming import stream_reader
from coterie.pipeline.streaming.stream_reader import CoterieStreamReader
from coterie.testing import LocalBroker
from coterie_conformance.spark.case_runner import run_case
from coterie_conformance.spark.cases import CASES, TOPICS, SparkCase
from coterie_conformance.spark.options import OURS, as_dict, expected_rows, make_topics, output_topic
from tests.configuration.java import recorded

ROOT = Path(__file__).parents[2]
OF_OLDER_KAFKA = {"auto.include.jmx.reporter", "internal.auto.downgrade.txn.commit", "internal.leave.group.on.close"}


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with LocalBroker() as running:
        make_topics(running.bootstrap_servers, [OURS])
        yield running.bootstrap_servers


def test_retention_leaves_the_cases_their_records() -> None:
    """The cases take longer than log.retention.check.interval.ms on a machine with other work."""
    with LocalBroker({"log.retention.check.interval.ms": 20}) as running:
        make_topics(running.bootstrap_servers, [])
        partitions = running.broker.topics.by_name["cases-a"].partitions
        running._call(running.broker._retain)
        assert [p.log.end_offset - p.log.log_start_offset for p in partitions] == list(TOPICS["cases-a"])


def named(use: str) -> list[Any]:
    return [pytest.param(case, id=case.name) for case in CASES if case.use == use]


def rows(tasks: list[Task], options: dict[str, str], *, streaming: bool) -> list[str]:
    parsed = source_options(options, streaming=streaming)
    return [
        f"{task.offsets.topic}-{task.offsets.partition} {offset}"
        for task in tasks
        for columns in read_range(
            task.offsets, parsed.settings(), with_headers=False, fail_on_data_loss=parsed.fail_on_data_loss
        )
        for offset in columns.offsets.tolist()
    ]


def read_batch(options: dict[str, str]) -> tuple[list[str], list[int]]:
    tasks = CoterieReader(source_options(options, streaming=False), StructType()).partitions()
    return rows(tasks, options, streaming=False), []


def read_stream(options: dict[str, str]) -> tuple[list[str], list[int]]:
    reader = CoterieStreamReader(options, StructType())
    try:
        reader.prepareForTriggerAvailableNow()
        limit, at = reader.getDefaultReadLimit(), reader.initialOffset()
        batches: list[list[str]] = []
        while (end := reader.latestOffset(at, limit)) != at:
            batches.append(rows(reader.partitions(at, end), options, streaming=True))
            at = end
        return [row for batch in batches for row in batch], [len(batch) for batch in batches if batch]
    finally:
        reader.stop()


@pytest.mark.parametrize(("use", "case"), [(u, *c.values) for u in ("batch", "stream") for c in named(u)], ids=str)
def test_a_read(use: str, case: SparkCase, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # The tests' own process is not stopped by Spark.
    monkeypatch.setattr(stream_reader, "_stop_at_sigterm", lambda reader: None)
    options = {"kafka.bootstrap.servers": address, **case.options}
    read = read_batch if use == "batch" else read_stream
    if case.refused:
        with pytest.raises(Exception, match=case.refused):
            read(options)
        return
    read_rows, batches = read(options)
    assert sorted(read_rows) == expected_rows(case)
    assert not case.batches or tuple(batches) == case.batches


@pytest.mark.slow
@pytest.mark.parametrize("case", named("write"))
def test_a_write(spark: Any, case: SparkCase, address: str, tmp_path: Path) -> None:
    result = run_case(spark, OURS, address, as_dict(case), output_topic(OURS, CASES.index(case)), tmp_path)
    if case.refused:
        assert case.refused in result.get("refused", "not refused")
    else:
        assert result == {"rows": expected_rows(case), "batches": []}


@pytest.mark.slow
def test_a_streams_mistake_ends_in_its_sentence(spark: Any, address: str, tmp_path: Path) -> None:
    """Not in the UnboundLocalError of PySpark's own runner."""
    case = next(c for c in CASES if c.use == "stream" and c.name == "from offsets of one partition")
    result = run_case(spark, OURS, address, as_dict(case), "mistake", tmp_path)
    assert case.refused in result["refused"]
    assert "UnboundLocalError" not in result["refused"]


@pytest.mark.slow
def test_a_stream_on_spark_has_the_same_batches(spark: Any, address: str, tmp_path: Path) -> None:
    case = next(c for c in CASES if c.use == "stream" and c.name == "a minimum")
    result = run_case(spark, OURS, address, as_dict(case), "minimum", tmp_path)
    assert result == {"rows": expected_rows(case), "batches": list(case.batches)}


def test_what_has_no_effect_is_warned_of_once_each() -> None:
    given = {
        "kafka.bootstrap.servers": "h:1",
        "subscribe": "t",
        "kafka.receive.buffer.bytes": "1",
        "groupIdPrefix": "p",
        "maxOffsetsPerTrigger": "5",
        "spark.kafka.consumer.cache.capacity": "1",
    }
    warnings = source_options(given, streaming=False).warnings
    assert len(warnings) == 4
    for part in (
        "receive.buffer.bytes",
        "groupIdPrefix",
        "maxOffsetsPerTrigger",
        "consumer.cache",
    ):
        assert sum(part in text for text in warnings) == 1, part


@pytest.mark.parametrize("name", ["session.timeout", "no.such.setting"])
def test_a_setting_that_no_client_has_is_refused(name: str) -> None:
    given = {"kafka.bootstrap.servers": "h:1", f"kafka.{name}": "1"}
    sentence = f"option kafka.{name}: there is no client setting {name}"
    for streaming in (False, True):
        with pytest.raises(OptionError, match=sentence):
            source_options(given | {"subscribe": "t"}, streaming=streaming)
    with pytest.raises(OptionError, match=sentence):
        sink_options(given | {"topic": "t"})


def test_the_settings_of_java_alone_are_those_of_kafka() -> None:
    names = {name for _, _, response in recorded("names") for name in response or ()}
    assert names - CLIENT_SETTINGS.keys() <= JAVA_SETTINGS
    assert JAVA_SETTINGS - names == OF_OLDER_KAFKA
    assert not JAVA_SETTINGS & CLIENT_SETTINGS.keys()


def test_the_documented_table_is_the_one_in_force() -> None:
    """To write it again: python -m coterie.pipeline.options.table > docs/spark-options.md"""
    assert (ROOT / "docs" / "spark-options.md").read_text() == option_table.markdown()
