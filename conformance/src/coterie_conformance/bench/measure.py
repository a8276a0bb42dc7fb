"""The rows of the benchmark: each starts a fresh broker in a process of its own and measures one thing."""

from __future__ import annotations

import os
import platform
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from coterie.broker.storage.disk import raise_open_file_limit
from coterie.client.connection.blocking_socket import BrokerSocket
from coterie.text.addresses import format_address
from coterie_conformance.bench.loads import load
from coterie_conformance.bench.measurement import SECONDS, Measurement, broker, idle_mb
from coterie_conformance.bench.rebalance import rebalance_ms


def start_and_memory(_: Path) -> Iterable[Measurement]:
    """Seconds from the start of a process to its first response (the median of three), and its resident memory when idle."""
    times = []
    for _attempt in range(3):
        started = time.perf_counter()
        with broker() as (address, process):
            BrokerSocket(*address).close()
            times.append(time.perf_counter() - started)
    with broker() as (_address, process):
        memory = idle_mb(process.pid)
    return [
        Measurement("start to first answered request", sorted(times)[1], "s", 0.3, lower_is_better=True),
        Measurement("idle memory", memory, "MB", 60, lower_is_better=True),
    ]


def produce_and_fetch(folder: Path) -> Iterable[Measurement]:
    """MB/s of one connection, with records of 100 and of 1,024 bytes, in batches."""
    rows = []
    for size in (100, 1024):
        os.sync()  # what the run before left to be written must not slow this one
        with broker(folder / f"data-{size}") as (address, _):
            load.create_topic(address)
            batch, _count = load.batch_of(size)
            taken = load.produce(address, batch, SECONDS)
            given = load.fetch(address, SECONDS)
        rows.append(Measurement(f"produce, {size}-byte records", taken, "MB/s", 300))
        rows.append(Measurement(f"fetch, {size}-byte records", given, "MB/s", 1000))
    return rows


def group_load(folder: Path) -> Iterable[Measurement]:
    """Heartbeats and commits per second, over 1, 100 and 1,000 connections with a group of one member each."""
    rows = []
    for connections in (1, 100, 1000):
        with broker(folder / f"groups-{connections}") as (address, _):
            load.create_topic(address)
            members = load.groups_of_one(address, connections)
            beats = load.heartbeats(address, members, SECONDS)
            committed = load.commits(address, members, SECONDS)
        rows.append(
            Measurement(f"heartbeats, {connections} connections", beats, "1/s", 60_000 if connections == 100 else None)
        )
        rows.append(Measurement(f"commits, {connections} connections", committed, "1/s"))
    return rows


def rebalances(_: Path) -> Iterable[Measurement]:
    """Milliseconds in which a first generation of 10 and of 200 members forms, group.initial.rebalance.delay.ms of 3 s
    included."""
    rows = []
    for members in (10, 200):
        with broker(initial_delay_ms=3000) as (address, _process):
            took = rebalance_ms(address, members)
        rows.append(Measurement(f"rebalance, {members} members", took, "ms"))
    return rows


def spark_rows(folder: Path) -> Iterable[Measurement]:
    """Rows/s of a warm batch read to a noop sink on local[2]."""
    from coterie.pipeline.session import make_session

    with broker(folder / "spark-data") as (address, _):
        load.create_topic(address, 8)
        total = _fill(address, 8)
        spark = make_session("local[2]", "coterie-bench", folder / "spark")
        try:
            options = {"kafka.bootstrap.servers": format_address(*address), "subscribe": load.TOPIC}
            seconds = []
            for _attempt in range(4):
                frame = spark.read.format("coterie").options(**options).load()
                started = time.perf_counter()
                frame.write.format("noop").mode("overwrite").save()
                seconds.append(time.perf_counter() - started)
        finally:
            spark.stop()
    return [
        Measurement("Spark, 100-byte values to noop, local[2]", total / sorted(seconds[1:])[1], "rows/s", 2_000_000)
    ]


def columnar(_: Path) -> Iterable[Measurement]:
    """Record batches of 100-byte values into Arrow columns, on one core, out of a buffer as it was fetched: all alike, and of
    varied sizes and times; by the compiled decoder where there is one, and by numpy."""
    import random

    from coterie.records import columnar
    from coterie.records.compression import CODEC_BY_NAME
    from coterie.records.encoding import encode_batch

    rng = random.Random(1)
    alike = [(5, b"12345678", b"v" * 100, ())] * 4000
    varied = [(rng.randrange(100_000), b"12345678", rng.randbytes(rng.randrange(90, 110)), ()) for _ in range(4000)]
    is_built = columnar.COMPILED
    for what, items in (("alike", alike), ("varied", varied)):
        for codec in ("none", "lz4", "zstd"):
            data = encode_batch(items, codec=CODEC_BY_NAME[codec]) * 40
            for is_compiled in {is_built, False}:
                columnar.COMPILED = is_compiled
                try:
                    rate = 160_000 / min(_decoding_s(data, 160_000) for _attempt in range(5))
                finally:
                    columnar.COMPILED = is_built
                how = "compiled" if is_compiled else "numpy"
                yield Measurement(f"columns, {what}, {codec} ({how})", rate, "rec/s", 5_000_000)


def _decoding_s(data: bytes, records: int) -> float:
    from coterie.records.columnar import decode_columns

    started_s = time.perf_counter()
    assert len(decode_columns(data) or ()) == records
    return time.perf_counter() - started_s


def _fill(address: tuple[str, int], partitions: int, rounds: int = 60) -> int:
    from coterie.wire.messages.logs.produce import PartitionProduceData, ProduceRequest, TopicProduceData

    batch, count = load.batch_of(100)
    connection = BrokerSocket(*address)
    for _ in range(rounds):
        data: list[Any] = [PartitionProduceData(p, batch) for p in range(partitions)]
        connection.request(
            ProduceRequest(None, -1, 30_000, [TopicProduceData(load.TOPIC, partition_data=data)]), highest=9
        )
    connection.close()
    return rounds * partitions * count


PARTS: dict[str, Callable[[Path], Iterable[Measurement]]] = {
    "start": start_and_memory,
    "records": produce_and_fetch,
    "groups": group_load,
    "rebalance": rebalances,
    "columnar": columnar,
    "spark": spark_rows,
    "assignors": lambda folder: _assignors(folder),
    "clients": lambda folder: _clients(folder),
    "memory": lambda folder: _beside("memory", folder),
    "load": lambda folder: _load(folder),
    "observer": lambda folder: _observer(folder),
    "proxy": lambda folder: _proxy(folder),
    "history": lambda folder: _history(folder),
    "churn": lambda folder: _churn(folder),
    "command-line": lambda folder: _command_line(folder),
    "kafka": lambda folder: _beside("kafka", folder),
    "consumer-groups": lambda folder: _beside("consumer-groups", folder),
    "share-groups": lambda folder: _beside("share-groups", folder),
    "streams-groups": lambda folder: _beside("streams-groups", folder),
    "spark-connector": lambda folder: _spark_connector(folder),
    "secured": lambda folder: _secured(folder),
    "cluster": lambda folder: _cluster(folder),
}


def _assignors(folder: Path) -> Iterable[Measurement]:
    from coterie_conformance.bench.assignment import assignment_rows

    return assignment_rows(folder)


def _clients(folder: Path) -> Iterable[Measurement]:
    from coterie_conformance.bench.clients import clients

    return clients(folder)


def _load(folder: Path) -> Iterable[Measurement]:
    from coterie_conformance.bench.loading import loading

    return loading(folder)


def _observer(folder: Path) -> Iterable[Measurement]:
    from coterie_conformance.bench.observer import observer

    return observer(folder)


def _proxy(folder: Path) -> Iterable[Measurement]:
    from coterie_conformance.proxy.overhead import proxy_rows

    return proxy_rows(folder)


def _history(folder: Path) -> Iterable[Measurement]:
    from coterie_conformance.bench.history import history

    return history(folder)


def _churn(folder: Path) -> Iterable[Measurement]:
    from coterie_conformance.bench.churn import churn_rows

    return churn_rows(folder)


def _command_line(folder: Path) -> Iterable[Measurement]:
    from coterie_conformance.bench.command_line import command_line

    return command_line(folder)


def _cluster(folder: Path) -> Iterable[Measurement]:
    from coterie_conformance.bench.cluster import cluster

    return cluster(folder)


def _secured(folder: Path) -> Iterable[Measurement]:
    from coterie_conformance.security.heartbeats import beside_secured

    return beside_secured(folder)


def _spark_connector(folder: Path) -> Iterable[Measurement]:
    from coterie_conformance.bench.spark_connector import spark_connector

    return spark_connector(folder)


def _beside(part: str, folder: Path) -> Iterable[Measurement]:
    from coterie_conformance.bench import beside

    return beside.PARTS[part](folder)


def machine() -> dict[str, Any]:
    """Cores, system and Python."""
    return {
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
    }


def results_of(rows: Sequence[Measurement], command: str) -> dict[str, Any]:
    """The rows as `docs/results` keeps them, with what they depend on: command, date (UTC), cores, system and Python."""
    return {
        "command": command,
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "machine": machine(),
        "rows": [
            {
                "name": r.name,
                "value": round(r.value, 3),
                "unit": r.unit,
                "aim": r.aim,
                "ratio": r.ratio and round(r.ratio, 2),
                "peer": r.peer or None,
            }
            for r in rows
        ],
    }


def run_parts(names: list[str], done: Callable[[Measurement], None]) -> list[Measurement]:
    """Runs these parts; ``done`` is called with each row."""
    rows: list[Measurement] = []
    raise_open_file_limit()
    with tempfile.TemporaryDirectory(prefix="coterie-bench-") as folder:
        for name in names:
            for row in PARTS[name](Path(folder) / name):
                rows.append(row)
                done(row)
    return rows
