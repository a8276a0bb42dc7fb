"""The data source, the sink and the jobs on a real Spark, against a real broker process. What Spark does not offer to a
source in Python, by the interfaces that Spark's own classes name; `docs/limits.md` says what coterie lacks therefore. A
test that fails here says that a newer Spark has it."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pyspark
import pytest

import coterie.pipeline.session
from coterie.client import Admin, Producer
from coterie.pipeline import jobs
from tests.broker_process import BrokerProcess
from tests.test_readme import block

V2 = "org/apache/spark/sql/execution/datasources/v2/python"
CONNECTOR = "org/apache/spark/sql/connector"
STREAMS = [
    f"{V2}/PythonMicroBatchStream{kind}" for kind in ("", "Base", "WithAdmissionControl", "WithTriggerAvailableNow")
]


def produce(address: str, topic: str, values: list[bytes], codec: str = "none") -> None:
    async def send() -> None:
        async with Producer({"bootstrap.servers": address, "compression.type": codec}) as producer:
            for n, value in enumerate(values):
                await producer.send(
                    topic, value, b"k%d" % n if n % 5 else None, headers=[("n", b"%d" % n)] if n % 3 else []
                )

    asyncio.run(send())


def group_lag(address: str, group: str) -> int:
    async def ask() -> int:
        async with Admin({"bootstrap.servers": address}) as admin:
            lag = await admin.lag(group)
            assert lag, f"group {group} has committed nothing"
            return sum(end - at for at, end in lag.values())

    return asyncio.run(ask())


def load(spark: Any, address: str, **options: str) -> Any:
    given = {"kafka.bootstrap.servers": address, **options}
    return spark.read.format("coterie").options(**given).load()


def test_a_batch_read_has_every_record_and_column(spark: Any, broker: BrokerProcess) -> None:
    for codec in ("none", "zstd", "lz4"):
        produce(broker.address, "t", [b"%s-%d" % (codec.encode(), n) for n in range(500)], codec)
    frame = load(spark, broker.address, subscribe="t", includeHeaders="true")
    assert frame.columns == ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers"]
    rows = frame.collect()
    assert {bytes(r.value) for r in rows} == {f"{c}-{n}".encode() for c in ("none", "zstd", "lz4") for n in range(500)}
    by_value = {bytes(r.value): r for r in rows}
    assert by_value[b"none-5"].key is None
    assert bytes(by_value[b"none-7"].key) == b"k7"
    assert [(h.key, bytes(h.value)) for h in by_value[b"none-7"].headers] == [("n", b"7")]
    assert by_value[b"none-7"].timestamp.year >= 2024
    assert len({(r.partition, r.offset) for r in rows}) == 1500


@pytest.mark.slow
def test_a_batch_read_between_offsets(spark: Any, broker: BrokerProcess) -> None:
    produce(broker.address, "t", [b"%d" % n for n in range(300)])
    options = {
        "assign": json.dumps({"t": [1, 2]}),
        "startingOffsets": json.dumps({"t": {"1": 5, "2": -2}}),
        "endingOffsets": json.dumps({"t": {"1": 15, "2": 20}}),
    }
    rows = load(spark, broker.address, **options).select("partition", "offset").collect()
    assert sorted((r.partition, r.offset) for r in rows) == [(1, n) for n in range(5, 15)] + [(2, n) for n in range(20)]


@pytest.mark.slow
def test_mistakes_are_said_in_a_sentence(spark: Any, broker: BrokerProcess) -> None:
    with pytest.raises(Exception, match="exactly one of the options subscribe"):
        load(spark, broker.address).collect()
    with pytest.raises(Exception, match="must be earliest, latest, committed or JSON"):
        load(spark, broker.address, subscribe="t", startingOffsets="yesterday").collect()
    with pytest.raises(Exception, match="UNKNOWN_TOPIC_OR_PARTITION: topic nowhere"):
        load(spark, broker.address, subscribe="nowhere").collect()
    with pytest.raises(Exception, match="needs a column named value"):
        spark.range(3).write.format("coterie").mode("append").options(
            **{"kafka.bootstrap.servers": broker.address, "topic": "t"}
        ).save()


def test_the_stream_resumes_and_the_group_hears_of_it(spark: Any, broker: BrokerProcess, tmp_path: Path) -> None:
    produce(broker.address, "t", [b"%d" % n for n in range(1000)])
    assert jobs.run_table(spark, jobs.JobSource(broker.address, "t", "archive"), tmp_path) == 1000
    assert group_lag(broker.address, "archive") == 0
    produce(broker.address, "t", [b"%d" % n for n in range(1000, 1500)])
    assert group_lag(broker.address, "archive") == 500
    assert jobs.run_table(spark, jobs.JobSource(broker.address, "t", "archive"), tmp_path) == 1500
    rows = spark.read.parquet(str(tmp_path / "table")).select("value").collect()
    assert sorted(int(bytes(r.value)) for r in rows) == list(range(1500))
    assert group_lag(broker.address, "archive") == 0


@pytest.mark.slow
def test_admission_limits_make_several_batches(spark: Any, broker: BrokerProcess, tmp_path: Path) -> None:
    flight = {"carrier": "UA", "flight": 1, "tailnum": "N1", "origin": "EWR", "dest": "IAH"}
    lines = [
        json.dumps(
            flight | {"time_hour": f"2013-01-01T{n % 24:02}:00:00Z", "dep_delay": n if n % 10 else None}
        ).encode()
        for n in range(1000)
    ]
    produce(broker.address, "f", lines)
    jobs.run_aggregation(spark, jobs.DELAYS, jobs.JobSource(broker.address, "f", "delays", limit=300), tmp_path)
    table = spark.read.parquet(str(tmp_path / "table"))
    assert table.groupBy().sum("flights").first()[0] == 1000
    assert len(list((tmp_path / "batches").iterdir())) >= 4
    row = table.groupBy().sum("departed", "dep_delay_sum").first()
    assert (row[0], row[1]) == (900, sum(n for n in range(1000) if n % 10))
    assert group_lag(broker.address, "delays") == 0


def test_the_sink_writes_what_the_source_reads(spark: Any, broker: BrokerProcess) -> None:
    rows = [(f"k{n}", f"v{n}", n % 2) for n in range(200)]
    frame = spark.createDataFrame(rows, "key string, value string, partition int")
    options = {"kafka.bootstrap.servers": broker.address, "topic": "out"}
    frame.write.format("coterie").mode("append").options(**options).save()
    back = load(spark, broker.address, subscribe="out").collect()
    assert {(bytes(r.key).decode(), bytes(r.value).decode(), r.partition) for r in back} == set(rows)


@pytest.mark.slow
def test_a_copy_keeps_the_order_of_a_partition(spark: Any, broker: BrokerProcess) -> None:
    """However many cores the driver has: a partition is one task."""

    async def send() -> None:
        async with Admin({"bootstrap.servers": broker.address}) as admin:
            await admin.create_topic("keyed", 1)
            await admin.create_topic("copy", 1)
        async with Producer({"bootstrap.servers": broker.address}) as producer:
            for n in range(20_000):
                await producer.send("keyed", b"%d" % n, b"k%d" % (n % 100))

    asyncio.run(send())
    options = {"kafka.bootstrap.servers": broker.address, "topic": "copy"}
    copied = load(spark, broker.address, subscribe="keyed").select("key", "value")
    copied.write.format("coterie").mode("append").options(**options).save()
    rows = load(spark, broker.address, subscribe="copy").orderBy("offset").select("key", "value").collect()
    newest: dict[bytes, int] = {}
    behind = 0
    for row in rows:
        key, number = bytes(row.key), int(bytes(row.value))
        behind += number < newest.get(key, -1)
        newest[key] = max(number, newest.get(key, -1))
    assert (len(rows), behind) == (20_000, 0), "records that lie behind a later one of their key"


def test_a_stream_into_the_sink(spark: Any, broker: BrokerProcess, tmp_path: Path) -> None:
    produce(broker.address, "t", [b"%d" % n for n in range(300)])
    query = (
        jobs.JobSource(broker.address, "t", "copier")
        .load(spark)
        .select("key", "value")
        .writeStream.format("coterie")
        .options(**{"kafka.bootstrap.servers": broker.address, "topic": "copy"})
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(60)
    copied = load(spark, broker.address, subscribe="copy").collect()
    assert sorted(int(bytes(r.value)) for r in copied) == list(range(300))


@pytest.mark.slow
def test_records_that_are_gone(spark: Any, broker: BrokerProcess) -> None:
    produce(broker.address, "t", [b"%d" % n for n in range(100)])

    async def forget() -> None:
        async with Admin({"bootstrap.servers": broker.address}) as admin:
            await admin.delete_records({("t", p): -1 for p in range(6)})

    options = {"subscribe": "t", "startingOffsets": json.dumps({"t": {str(p): 0 for p in range(6)}})}
    asyncio.run(forget())
    with pytest.raises(Exception, match="failOnDataLoss=false"):
        load(spark, broker.address, **options).collect()
    assert load(spark, broker.address, **options, failOnDataLoss="false").collect() == []


def test_the_stream_of_the_readme(
    spark: Any, broker: BrokerProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Read to its present end by a sink in memory, in the session of these tests: examples/spark_group.py makes its own."""
    monkeypatch.setattr(coterie.pipeline.session, "make_session", lambda: spark)
    produce(broker.address, "flights", [b"1", b"2"])
    names: dict[str, Any] = {}
    exec(block("make_session").replace("127.0.0.1:9092", broker.address), names)
    sink = names["flights"].writeStream.format("memory").queryName("seen")
    sink.option("checkpointLocation", str(tmp_path / "at")).trigger(availableNow=True).start().awaitTermination()
    assert sorted(bytes(row.value) for row in spark.table("seen").collect()) == [b"1", b"2"]


@pytest.mark.slow
def test_spark_finds_the_source_by_itself(broker: BrokerProcess, tmp_path: Path) -> None:
    """An installed module named pyspark_* is looked into: no registration. Spark 4.3 does not look where the path of
    its Python has a space in it, hence the wrapper; `make_session` registers the source and needs no luck."""
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    environment = {**os.environ, "PYSPARK_PYTHON": str(python), "PYSPARK_DRIVER_PYTHON": str(python)}
    produce(broker.address, "t", [b"%d" % n for n in range(50)])
    code = (
        "from pyspark.sql import SparkSession\n"
        "spark = SparkSession.builder.master('local[1]').config('spark.ui.enabled', 'false').getOrCreate()\n"
        f"options = {{'kafka.bootstrap.servers': '{broker.address}', 'subscribe': 't'}}\n"
        "print('rows', spark.read.format('coterie').options(**options).load().count())\n"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=environment)
    assert "rows 50" in done.stdout, done.stderr


@pytest.fixture(scope="module")
def classes() -> dict[str, bytes]:
    """The files of Spark's classes for sources in Python."""
    [jar] = (Path(pyspark.__file__).parent / "jars").glob("spark-sql_*.jar")
    with zipfile.ZipFile(jar) as files:
        names = [*STREAMS, f"{V2}/PythonDataSourceV2", f"{V2}/PythonTable"]
        return {name: files.read(f"{name}.class") for name in names}


def test_no_stream_reports_metrics(classes: dict[str, bytes]) -> None:
    admission = f"{CONNECTOR}/read/streaming/SupportsAdmissionControl".encode()
    assert admission in classes[f"{V2}/PythonMicroBatchStreamWithAdmissionControl"], "a class names its interfaces"
    metrics = f"{CONNECTOR}/read/streaming/ReportsSourceMetrics".encode()
    assert [name for name in STREAMS if metrics in classes[name]] == []


def test_a_write_without_a_mode_is_refused(classes: dict[str, bytes]) -> None:
    """Spark creates through a provider with SupportsCatalogOptions or as a source of version 1, which Kafka's connector is."""
    of_table = classes[f"{V2}/PythonDataSourceV2"]
    assert f"{CONNECTOR}/catalog/TableProvider".encode() in of_table
    for creating in (
        f"{CONNECTOR}/catalog/SupportsCatalogOptions",
        "org/apache/spark/sql/sources/CreatableRelationProvider",
    ):
        assert creating.encode() not in of_table
