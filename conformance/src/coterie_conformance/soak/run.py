"""The soak: producers, two Spark applications and two plain consumers in one group, each kind killed (and the broker too) in
turn, for minutes. Nothing may be lost, and every record that was delivered twice must be explained by a kill.

Delivered is what a consumer logged before it committed, and what is in a Spark application's table.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from coterie_conformance.soak.workers import MEMBER

TOPIC, GROUP, PARTITIONS = "soak", "crew", 12
DRAIN_S = 120.0
RESTART_S = 10.0  # between two starts of a process that ends by itself
APPS, CONSUMERS, PRODUCERS = 2, 2, 2
COMMIT_LATE_MS = 15_000  # a kill explains what its victim had delivered and, in this time, not committed
PartitionOffset = tuple[int, int]


@dataclass(frozen=True, slots=True)
class DeliveredRange:
    """Offsets of one partition, delivered by one consumer at a time (ms)."""

    who: str
    time_ms: int
    partition: int
    first: int
    last: int


@dataclass(slots=True)
class SoakResult:
    """The result of a soak, as `count` computes it."""

    records: int = 0
    missing: list[PartitionOffset] = field(default_factory=list)
    acknowledged_lost: int = 0
    delivered_twice: int = 0
    unexplained: list[str] = field(default_factory=list)
    kills: dict[str, int] = field(default_factory=dict)
    by_app: dict[str, int] = field(default_factory=dict)

    @property
    def right(self) -> bool:
        return not self.missing and not self.acknowledged_lost and not self.unexplained


class Soak:
    """All processes by name; each can be killed and started again."""

    def __init__(self, folder: Path, address: str, report: Callable[[str], None]) -> None:
        self.folder, self.address, self._report = folder, address, report
        self.kills: list[tuple[str, int]] = []
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._started_s: dict[str, float] = {}
        self._ended: set[str] = set()  # by itself, and not started again yet
        folder.mkdir(parents=True, exist_ok=True)

    def _command(self, name: str) -> list[str]:
        log = str(self.folder / f"{name}.txt")
        workers = [sys.executable, "-m", "coterie_conformance.soak.workers"]
        if name == "broker":
            settings = {"group.initial.rebalance.delay.ms": "0", "num.partitions": str(PARTITIONS)}
            given = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
            data = str(self.folder / "data")
            return [sys.executable, "-m", "coterie", "broker", "--listen", self.address, "--data", data, *given]
        if name.startswith("producer"):
            return [*workers, "producer", self.address, TOPIC, log]
        if name.startswith("consumer"):
            return [*workers, "consumer", self.address, TOPIC, log, GROUP]
        member = [part for key, value in MEMBER.items() for part in ("--kafka", f"{key}={value}")]
        table = ["pipeline", "table", TOPIC, "--group", GROUP, "--member", "--follow", "--master", "local[2]"]
        return [sys.executable, "-m", "coterie", *table, *member, "--out", str(self.folder / name), "-b", self.address]

    def start(self, name: str) -> None:
        """Starts the named process, whose output goes to a log of its own."""
        self._started_s[name] = time.monotonic()
        self._ended.discard(name)
        with (self.folder / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(
                self._command(name), stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True
            )

    def kill(self, name: str) -> None:
        """SIGKILL to the process and all it started, then start it again."""
        process = self._processes[name]
        self.kills.append((name, int(time.time() * 1000)))
        with suppress(ProcessLookupError):  # it has ended by itself
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        self._report(f"killed {name}")
        self.start(name)

    def stop(self, name: str, patience_s: float = 60.0) -> None:
        """Ends the named process by SIGTERM, after ``patience_s`` by SIGKILL; reports one that had ended by itself."""
        process = self._processes.pop(name, None)
        if process is None:
            return
        if process.poll() is not None:
            self._report(f"{name} had ended by itself with {process.returncode}; see {self.folder / name}.log")
            return
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(patience_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def stop_all(self) -> None:
        for name in sorted(self._processes, key=lambda n: n == "broker"):
            self.stop(name, 10.0)

    def restart_ended(self) -> None:
        """Starts what has ended by itself, no process more often than every `RESTART_S`: one that ends at once would take the
        processor from the others."""
        for name in [name for name, process in self._processes.items() if process.poll() is not None]:
            if name not in self._ended:
                self._ended.add(name)
                self.kills.append((name, int(time.time() * 1000)))
                self._report(f"{name} ended by itself; it is started again")
            if time.monotonic() - self._started_s[name] >= RESTART_S:
                self.start(name)


def run_soak(folder: Path, address: str, minutes: float, report: Callable[[str], None], seed: int = 0) -> SoakResult:
    """Runs it. Raises RuntimeError where it could not even begin."""
    soak, rng = Soak(folder, address, report), random.Random(seed)
    names = {
        "producer": [f"producer-{n}" for n in range(PRODUCERS)],
        "consumer": [f"consumer-{n}" for n in range(CONSUMERS)],
        "spark": [f"spark-{n}" for n in range(APPS)],
        "broker": ["broker"],
    }
    try:
        soak.start("broker")
        _wait_for(lambda: _lag(address) is not None, 30, "the broker does not answer")
        for kind in ("producer", "consumer", "spark"):
            for name in names[kind]:
                soak.start(name)
        _faults(soak, names, minutes, rng)
        for name in names["producer"]:
            soak.stop(name)
        _wait_for(lambda: _lag(address) == 0, DRAIN_S, "the group does not get to the end of the topic")
        for name in [*names["spark"], *names["consumer"]]:
            soak.stop(name)
        ends = _ends(address)
    finally:
        soak.stop_all()
    return judge(folder, ends, soak.kills, [*names["spark"]], [*names["consumer"]], [*names["producer"]])


def _faults(soak: Soak, names: dict[str, list[str]], minutes: float, rng: random.Random) -> None:
    """In each minute one of each kind is killed, at times of its own."""
    begin_s = time.monotonic()
    due = sorted(
        (60 * minute + rng.uniform(10 if minute else 35, 58), rng.choice(victims))
        for minute in range(max(int(minutes), 1))
        for victims in names.values()
    )
    while time.monotonic() - begin_s < minutes * 60:
        now_s = time.monotonic() - begin_s
        while due and due[0][0] <= now_s:
            soak.kill(due.pop(0)[1])
        soak.restart_ended()
        time.sleep(0.2)


def _wait_for(done: Callable[[], bool], patience_s: float, what: str) -> None:
    end_s = time.monotonic() + patience_s
    while not done():
        if time.monotonic() > end_s:
            raise RuntimeError(what)
        time.sleep(1.0)


def _ask(address: str, question: Callable[[Any], Any]) -> Any:
    import asyncio

    from coterie.client import Admin
    from coterie.client.errors import KafkaError

    async def go() -> Any:
        async with Admin({"bootstrap.servers": address, "request.timeout.ms": 5_000}) as admin:
            return await question(admin)

    try:
        return asyncio.run(go())
    except KafkaError:
        return None


def _lag(address: str) -> int | None:
    """None without a response; a partition without a commit counts whole."""

    async def question(admin: Any) -> int:
        there = await admin.describe_topics()
        if TOPIC not in there:
            return 1
        ends = await admin.list_offsets({(TOPIC, p.partition): -1 for p in there[TOPIC].partitions})
        committed = await admin.list_consumer_group_offsets(GROUP)
        return sum(end - committed.get(tp, 0) for tp, end in ends.items())

    lag: int | None = _ask(address, question)
    return lag


def _ends(address: str) -> dict[int, int]:
    async def question(admin: Any) -> dict[int, int]:
        ends = await admin.list_offsets({(TOPIC, p): -1 for p in range(PARTITIONS)})
        return {p: end for (_, p), end in ends.items()}

    ends: dict[int, int] | None = _ask(address, question)
    assert ends is not None
    return ends


# -- judging ------------------------------------------------------------------------------------------------------------------


def judge(
    folder: Path,
    ends: dict[int, int],
    kills: list[tuple[str, int]],
    apps: list[str],
    consumers: list[str],
    producers: list[str],
) -> SoakResult:
    """Counts deliveries per (partition, offset)."""
    deliveries = [d for name in consumers for d in consumer_deliveries(folder / f"{name}.txt", name)]
    deliveries += _app_deliveries(folder, apps)
    verdict = count(deliveries, ends, kills)
    for name in producers:
        for line in (folder / f"{name}.txt").read_text().splitlines():
            partition, offset = map(int, line.split()) if line.count(" ") == 1 else (0, -1)
            verdict.acknowledged_lost += offset >= ends[partition]
    return verdict


def consumer_deliveries(log: Path, name: str) -> list[DeliveredRange]:
    """A line cut short by the kill is ignored: its offsets were not committed either."""
    rows = [line.split() for line in log.read_text().splitlines()]
    return [DeliveredRange(name, *map(int, row)) for row in rows if len(row) == 4]


def _app_deliveries(folder: Path, apps: list[str]) -> list[DeliveredRange]:
    """A table's rows, with the time at which their file was written."""
    from coterie.pipeline.session import make_session

    spark = make_session("local[2]", "coterie-soak", folder / "verify", short=True)
    try:
        deliveries: list[DeliveredRange] = []
        for name in apps:
            if not (folder / name / "table" / "_spark_metadata").exists():
                continue
            table = spark.read.parquet(str(folder / name / "table"))
            written = "unix_millis(_metadata.file_modification_time) as written_ms"
            for row in table.selectExpr("partition", "offset", written).toArrow().to_pylist():
                deliveries.append(
                    DeliveredRange(name, row["written_ms"], row["partition"], row["offset"], row["offset"])
                )
        return deliveries
    finally:
        spark.stop()


def count(deliveries: list[DeliveredRange], ends: dict[int, int], kills: list[tuple[str, int]]) -> SoakResult:
    """Every (partition, offset) must have been delivered; one delivered twice is explained by a kill of the one who had it
    first, or of the broker, between shortly before that delivery and the second one."""
    by_offset: dict[PartitionOffset, list[tuple[int, str]]] = defaultdict(list)
    for d in deliveries:
        for offset in range(d.first, d.last + 1):
            by_offset[d.partition, offset].append((d.time_ms, d.who))
    verdict = SoakResult(records=sum(ends.values()))
    verdict.missing = [
        (p, offset) for p, end in sorted(ends.items()) for offset in range(end) if (p, offset) not in by_offset
    ]
    for name, _ in kills:
        kind = name.split("-")[0]
        verdict.kills[kind] = verdict.kills.get(kind, 0) + 1
    for position, times in by_offset.items():
        for _, who in times:
            verdict.by_app[who] = verdict.by_app.get(who, 0) + 1
        if len(times) > 1:
            verdict.delivered_twice += 1
            _explain(position, sorted(times), kills, verdict)
    return verdict


def _explain(
    position: PartitionOffset, times: list[tuple[int, str]], kills: list[tuple[str, int]], verdict: SoakResult
) -> None:
    for (first_ms, who), (second_ms, by) in pairwise(times):
        explained = any(
            name in (who, by, "broker") and first_ms - COMMIT_LATE_MS <= killed_ms <= second_ms
            for name, killed_ms in kills
        )
        if not explained:
            verdict.unexplained.append(f"{position[0]}@{position[1]}: {who} at {first_ms}, {by} at {second_ms}")
