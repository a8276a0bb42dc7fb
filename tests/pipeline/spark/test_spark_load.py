"""The load of `./run bench --part spark-connector`, small, on our source and sink."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from coterie.testing import LocalBroker
from coterie_conformance.bench.loads import spark_load

pytestmark = pytest.mark.slow


def test_each_figure_is_measured(
    spark: Any, coterie_broker: LocalBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark_load, "ROWS", 40)
    monkeypatch.setattr(spark_load, "ROUNDS", 3)
    monkeypatch.setattr(spark_load, "WARM_BATCHES", 1)
    topics = [topic for _, topic in spark_load.SINKS.values()]
    for topic in (*topics, spark_load.MEASURED, spark_load.TINY, spark_load.TINY_COPY):
        coterie_broker.create_topic(topic, 1)
    coterie_broker.produce(spark_load.MEASURED, b"v")
    coterie_broker.produce(spark_load.TINY, *(b"v" for _ in range(6)))
    figures = spark_load.measured(spark, "coterie", coterie_broker.bootstrap_servers, tmp_path)
    assert all(value > 0 for value in figures.values())

    def rows(topic: str) -> list[Any]:
        options = {"kafka.bootstrap.servers": coterie_broker.bootstrap_servers, "subscribe": topic}
        collected: list[Any] = spark.read.format("coterie").options(includeHeaders="true", **options).load().collect()
        return collected

    assert [len(rows(topic)) for topic in (*topics, spark_load.TINY_COPY)] == [120, 120, 120, 6]
    with_headers = rows(topics[1])[0]
    assert [(h.key, bytes(h.value)) for h in with_headers.headers] == [("name", b"v")]
    assert with_headers.key is not None
    assert len(with_headers.value) == 100
