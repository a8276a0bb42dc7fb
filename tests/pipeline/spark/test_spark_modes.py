"""On a real Spark: group mode beside other members, filters that are pushed down, a sink that writes exactly once, limits in
bytes, two worker processes instead of threads."""

from __future__ import annotations

import asyncio
import datetime
import json
import subprocess
import sys
import time
import zlib
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from coterie.client import Admin, Consumer, Producer
from coterie.pipeline import jobs
from coterie.pipeline.history.tables import TABLES
from coterie.pipeline.options.options import source_options
from coterie.pipeline.queries import lag, progress_line, stop_gracefully
from tests.awaiting import until_in_thread
from tests.broker_process import BrokerProcess
from tests.pipeline.spark import every_job
from tests.pipeline.spark.test_spark import group_lag, load, produce

pytestmark = pytest.mark.slow


def group_options(broker: BrokerProcess, **more: str) -> dict[str, str]:
    return {
        "kafka.bootstrap.servers": broker.address,
        "kafka.group.id": "crew",
        "kafka.heartbeat.interval.ms": "100",
        "subscribe": "t",
        "mode": "group",
        "startingOffsets": "earliest",
        **more,
    }


def stream(spark: Any, options: dict[str, str], out: Path) -> Any:
    writer = spark.readStream.format("coterie").options(**options).load().writeStream.format("parquet")
    writer = writer.option("path", str(out / "table")).option("checkpointLocation", str(out / "checkpoint"))
    return writer.start()


def rows(spark: Any, *outs: Path) -> list[tuple[int, int]]:
    return [
        (r.partition, r.offset)
        for out in outs
        for r in spark.read.parquet(str(out / "table")).select("partition", "offset").collect()
    ]


wait = partial(until_in_thread, patience_s=120, every_s=0.1)


def test_two_queries_share_a_group_and_stop_in_order(spark: Any, broker: BrokerProcess, tmp_path: Path) -> None:
    produce(broker.address, "t", [b"%d" % n for n in range(2000)])
    options = group_options(broker, maxOffsetsPerTrigger="400")
    one, two = tmp_path / "one", tmp_path / "two"
    queries = [stream(spark, options, one)]
    wait(lambda: queries[0].lastProgress is not None, "the first query reads")
    line = progress_line(queries[0].lastProgress)
    assert line.startswith("batch ")
    assert "lag " in line
    assert sum(lag(json.loads(queries[0].lastProgress.json)["sources"][0]).values()) <= 2000
    queries.append(stream(spark, options, two))
    wait(lambda: group_lag(broker.address, "crew") == 0, "both get to the end")
    for query in queries:
        stop_gracefully(query, source_options(options, streaming=True))
    read_values = rows(spark, one, two)
    assert len(read_values) == len(set(read_values)) == 2000, "nothing lost, nothing twice"
    assert group_lag(broker.address, "crew") == 0

    async def members() -> int:
        async with Admin({"bootstrap.servers": broker.address}) as admin:
            return len((await admin.describe_consumer_group("crew")).members)

    # Each reader's process leaves by itself, long before its session of 45 s is over.
    wait(lambda: asyncio.run(members()) == 0, "both have left", patience_s=20)


def test_available_now_in_a_group(spark: Any, broker: BrokerProcess, tmp_path: Path) -> None:
    produce(broker.address, "t", [b"%d" % n for n in range(500)])
    source = jobs.JobSource(broker.address, "t", "crew", member=True, limit=120)
    assert jobs.run_table(spark, source, tmp_path) == 500
    produce(broker.address, "t", [b"%d" % n for n in range(200)])
    assert jobs.run_table(spark, source, tmp_path) == 700
    assert group_lag(broker.address, "crew") == 0


def test_a_checkpoint_of_the_other_mode_is_refused_in_a_sentence(
    spark: Any, broker: BrokerProcess, tmp_path: Path
) -> None:
    produce(broker.address, "t", [b"%d" % n for n in range(50)])
    for first, second, message in ((True, False, "written with mode=group"), (False, True, "written with mode=assign")):
        out = tmp_path / f"{first}"
        jobs.run_table(spark, jobs.JobSource(broker.address, "t", f"g{first}", member=first), out)
        produce(broker.address, "t", [b"more"])
        with pytest.raises(Exception, match=message):
            jobs.run_table(spark, jobs.JobSource(broker.address, "t", f"g{first}", member=second), out)


def test_filters_make_the_ranges_smaller(spark: Any, broker: BrokerProcess) -> None:
    async def send() -> None:
        async with Producer({"bootstrap.servers": broker.address}) as producer:
            for n in range(600):
                await producer.send("t", b"%d" % n, partition=n % 6, timestamp_ms=1_700_000_000_000 + n * 1000)

    asyncio.run(send())
    frame = load(spark, broker.address, subscribe="t", pushDownPredicate="true")
    since = datetime.datetime.fromtimestamp(1_700_000_000 + 300, datetime.UTC)
    for wanted, expected in (
        (frame.where("partition = 2"), {n for n in range(600) if n % 6 == 2}),
        (frame.where("partition in (1, 5) and offset >= 90"), {n for n in range(600) if n % 6 in (1, 5) and n >= 540}),
        (frame.where(frame.timestamp >= since), set(range(300, 600))),
        (frame.where(frame.timestamp > since).where("offset < 60"), set(range(301, 360))),
        (frame.where("topic = 'other'"), set()),
    ):
        assert {int(bytes(r.value)) for r in wanted.collect()} == expected
    plan = frame.where("partition = 2")._jdf.queryExecution().executedPlan().toString()
    assert "FilterExec" not in plan


def test_what_is_filtered_is_not_fetched() -> None:
    from pyspark.sql.datasource import EqualTo, GreaterThanOrEqual, In, LessThan

    from coterie.pipeline.reading.batch_reader import bounds

    pushed = bounds(
        [
            In(("partition",), (1, 2)),
            EqualTo(("topic",), "t"),
            GreaterThanOrEqual(("offset",), 5),
            LessThan(("offset",), 9),
            GreaterThanOrEqual(("timestamp",), datetime.datetime(2023, 1, 1, tzinfo=datetime.UTC)),
            LessThan(("timestamp",), datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)),
        ]
    )
    assert pushed.admits(("t", 1))
    assert not pushed.admits(("t", 3))
    assert not pushed.admits(("u", 1))
    assert (pushed.first_offset, pushed.end_offset, pushed.since_ms) == (5, 9, 1_672_531_200_000)


def test_log_folders_hold_the_same_as_the_broker(spark: Any, broker: BrokerProcess) -> None:
    for codec in ("none", "zstd"):
        produce(broker.address, "t", [b"%s-%d" % (codec.encode(), n) for n in range(500)], codec)

    def folder(**more: str) -> Any:
        return spark.read.format("coterie").options(logFolder=str(broker.data), includeHeaders="true", **more).load()

    requested = load(spark, broker.address, subscribe="t", includeHeaders="true")
    files = folder(subscribe="t")
    assert files.count() == requested.count() == 1000
    assert files.exceptAll(requested).count() == 0
    between = {"startingOffsets": '{"t":{"0":5}}', "endingOffsets": '{"t":{"0":9}}', "assign": '{"t":[0]}'}
    assert sorted(r.offset for r in folder(**between).collect()) == [5, 6, 7, 8]
    with pytest.raises(Exception, match="no records of these topics in"):
        folder(subscribe="nope").collect()


def test_times_as_starts_and_ends(spark: Any, broker: BrokerProcess) -> None:
    async def send() -> None:
        async with Producer({"bootstrap.servers": broker.address}) as producer:
            for n in range(120):
                await producer.send("t", b"%d" % n, partition=n % 6, timestamp_ms=1_000_000 + n * 1000)

    asyncio.run(send())
    between = load(
        spark, broker.address, subscribe="t", startingTimestamp="1030000", endingTimestamp="1060000"
    ).collect()
    assert {int(bytes(r.value)) for r in between} == set(range(30, 60))
    each = json.dumps({"t": {"0": 1_060_000, "1": 1_000_000}})
    rest = load(spark, broker.address, assign=json.dumps({"t": [0, 1]}), startingOffsetsByTimestamp=each).collect()
    assert {int(bytes(r.value)) for r in rest} == {n for n in range(120) if n % 6 == 1 or (n % 6 == 0 and n >= 60)}
    with pytest.raises(Exception, match="startingOffsetsByTimestampStrategy=latest"):
        load(spark, broker.address, subscribe="t", startingTimestamp="9000000").collect()
    late = {"startingTimestamp": "9000000", "startingOffsetsByTimestampStrategy": "latest"}
    assert load(spark, broker.address, subscribe="t", **late).collect() == []


def test_a_limit_in_bytes(spark: Any, broker: BrokerProcess, tmp_path: Path) -> None:
    produce(broker.address, "t", [b"x" * 1000] * 600)
    options = group_options(broker, maxBytesPerTrigger="100000", mode="assign")
    batches: list[int] = []
    query = (
        spark.readStream.format("coterie")
        .options(**options)
        .load()
        .writeStream.foreachBatch(lambda frame, _: batches.append(frame.count()))
        .option("checkpointLocation", str(tmp_path))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(60)
    assert sum(batches) == 600
    assert len(batches) >= 6
    assert max(batches) <= 110


# -- the sink -----------------------------------------------------------------------------------------------------------------


def committed_values(broker: BrokerProcess, topic: str) -> list[bytes]:
    async def read() -> list[bytes]:
        settings = {"bootstrap.servers": broker.address, "isolation.level": "read_committed"}
        async with Consumer(settings | {"auto.offset.reset": "earliest"}) as consumer:
            async with Admin({"bootstrap.servers": broker.address}) as admin:
                partitions = await admin.partitions([topic])
                ends = await admin.list_offsets(dict.fromkeys(partitions, -1))
            await consumer.assign(partitions)
            read_values: list[bytes] = []
            deadline_s = time.monotonic() + 30
            while any(consumer.position(tp) < end for tp, end in ends.items()):
                assert time.monotonic() < deadline_s, "a transaction was left open"
                read_values += [r.value or b"" for rs in (await consumer.poll(200)).values() for r in rs]
            return read_values

    return asyncio.run(read())


def test_a_batch_write_is_all_or_nothing(spark: Any, broker: BrokerProcess) -> None:
    options = {"kafka.bootstrap.servers": broker.address, "topic": "out", "exactlyOnce": "true"}
    good = spark.range(0, 400, numPartitions=4).selectExpr("cast(cast(id as string) as binary) as value")
    good.write.format("coterie").mode("append").options(**options).save()
    broken = good.selectExpr("if(cast(string(value) as int) = 399, raise_error('broken'), value) as value")
    with pytest.raises(Exception, match="broken"):
        broken.write.format("coterie").mode("append").options(**options).save()
    assert sorted(int(v) for v in committed_values(broker, "out")) == list(range(400))


def test_a_batch_that_is_run_again_is_written_once(spark: Any, broker: BrokerProcess, tmp_path: Path) -> None:
    """The crash between the sink's commit and Spark's own: the commit log loses its last entry."""
    produce(broker.address, "t", [b"%d" % n for n in range(300)])

    def run() -> None:
        query = (
            jobs.JobSource(broker.address, "t", "copier", limit=100)
            .load(spark)
            .select("key", "value")
            .writeStream.format("coterie")
            .options(**{"kafka.bootstrap.servers": broker.address, "topic": "copy", "exactlyOnce": "true"})
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(60)

    run()
    newest = max(
        (p for p in (tmp_path / "checkpoint" / "commits").iterdir() if p.name.isdigit()), key=lambda p: int(p.name)
    )
    for path in (newest, newest.with_name(f".{newest.name}.crc")):
        path.unlink(missing_ok=True)
    run()
    assert sorted(int(v) for v in committed_values(broker, "copy")) == list(range(300))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"topc": "out"}, "no option topc; did you mean topic"),
        ({}, "give the option topic, or a column topic"),
        ({"topic": "out", "exactlyOnce": "yes"}, "exactlyOnce must be true or false"),
        ({"topic": "out", "kafka.acks": "some"}, "acks must be one of"),
    ],
)
def test_a_sinks_mistakes_are_said_in_a_sentence(
    spark: Any, broker: BrokerProcess, options: dict[str, str], message: str
) -> None:
    frame = spark.range(3).selectExpr("cast(id as string) as value")
    with pytest.raises(Exception, match=message):
        frame.write.format("coterie").mode("append").options(
            **{"kafka.bootstrap.servers": broker.address}, **options
        ).save()


# -- more than one worker process ---------------------------------------------------------------------------------------------


ROOT = Path(__file__).parents[3]


def test_two_executors_give_what_the_topic_holds(broker: BrokerProcess, tmp_path: Path) -> None:
    """`local-cluster[2,1,1024]` in a process of its own: executors are other processes, which get everything by pickle. What
    a session of threads gives is asked by the tests above and those of the history; here it is worked out beside Spark."""
    values = [b"%d" % n for n in range(3000)]
    produce(broker.address, every_job.TOPIC, values, "zstd")
    arguments = [broker.address, "local-cluster[2,1,1024]", str(tmp_path)]
    command = [sys.executable, "-m", every_job.__name__, *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=480, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    rows, table, keys, counts = json.loads(done.stdout.splitlines()[-1])
    assert (rows, table) == (3000, {"checksum": sum(map(zlib.crc32, values)), "offsets": 3000})
    assert keys == 1 + 2400, "every fifth record has no key, and the others one each"
    assert set(counts) == set(TABLES)
    assert (counts["members"], counts["assignments"], counts["ownership"]) == (1, 6, 6), "one member, of six partitions"
