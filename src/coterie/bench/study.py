"""One point of each protocol with real processes, beside the laboratory's: does the model hold?

Four consumers in processes of their own read eight partitions, with coterie's broker, a real ZooKeeper, a real RocketMQ.
One joins, is killed, or is restarted; every process reports changes of its partitions with the
time, and the same meter measures them.
"""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from coterie.addresses import format_address
from coterie.bench.measurement import broker
from coterie.bench.study_worker import TOPIC
from coterie.client.blocking import BlockingAdmin
from coterie.conformance.kafka import CannotRun
from coterie.console.study_page import RealPoint
from coterie.laboratory.study import workload as w
from coterie.laboratory.study.group import StudySetting
from coterie.laboratory.study.meter import Meter
from coterie.laboratory.study.questions import COOPERATIVE, EAGER, ORDERLY, ROCKETMQ, STATIC, ZOOKEEPER
from coterie.laboratory.study.run import run
from coterie.laboratory.study.workload import Event, Plan
from coterie.testing.local_zookeeper import LocalZooKeeper

MEMBERS, PARTITIONS = 4, 8
SESSION_MS = 6_000
RUNS, SEEDS = 3, 20
DOWN_S = 2.0
QUIET_S, PATIENCE_S = 3.0, 100.0
NEWCOMER = "newcomer"
Report = Callable[[str], None]
Start = Callable[[str, str], list[str]]  # group and member -> a worker's words


def _alike(setting: StudySetting) -> StudySetting:
    """As it is measured: no initial delay, a short session, a network of loopback, the clock of one machine."""
    return replace(
        setting,
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=2_000,
        initial_delay_ms=0,
        network_ms=(0, 1),
        clock_drift=0.0,
    )


@dataclass(frozen=True, slots=True)
class StudyPoint:
    """``event``: join, kill or restart; ``measure``: which of the meter's figures is compared."""

    setting: StudySetting
    event: str
    measure: str
    note: str = ""


QUESTIONS = (
    StudyPoint(EAGER, "join", "unowned_s", "heartbeats in step, since all came at once; in question 1 they are not"),
    StudyPoint(EAGER, "kill", "longest_unowned_s", "killed right after a heartbeat each time, which takes longest"),
    StudyPoint(COOPERATIVE, "join", "unowned_s", "two of eight partitions, for half a heartbeat interval"),
    StudyPoint(STATIC, "restart", "longest_unowned_s", "the consumer is away for 2 s; no rebalance follows"),
    StudyPoint(ZOOKEEPER, "join", "unowned_s"),
    StudyPoint(ZOOKEEPER, "kill", "longest_unowned_s"),
    StudyPoint(ROCKETMQ, "join", "unowned_s"),
    StudyPoint(ROCKETMQ, "kill", "longest_unowned_s"),
    StudyPoint(
        ORDERLY, "kill", "longest_unowned_s", "until the dead one's locks, some seconds old when it died, are 60 s old"
    ),
)
_SAID = {"join": "one joins", "kill": "one is killed", "restart": "one is restarted"}
_MEASURES = {"unowned_s": "unowned per partition", "longest_unowned_s": "longest unowned"}


class ProcessMembers:
    """Consumers in processes of their own, on one meter."""

    def __init__(self, start: Start, group: str) -> None:
        self._start, self._group = start, group
        self.meter = Meter()
        self._owned: dict[str, set[tuple[str, int]]] = {}
        self._processes: dict[str, subprocess.Popen[str]] = {}
        self._lock = threading.Lock()

    def add(self, name: str) -> None:
        command = [sys.executable, "-m", "coterie.bench.study_worker", *self._start(self._group, name)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self._owned[name], self._processes[name] = set(), process
        threading.Thread(target=self._listen, args=(name, process), daemon=True).start()

    def _listen(self, name: str, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            line_fields = json.loads(line)
            # RocketMQ's queues are (topic, broker, number)
            owned = {("@".join(where[:-1]), where[-1]) for where in line_fields["owned"]}
            with self._lock:
                if self._processes.get(name) is process:
                    self._changed(name, owned, line_fields["ms"])

    def _changed(self, name: str, owned: set[tuple[str, int]], now_ms: int) -> None:
        self.meter.changed(name, self._owned[name], owned, now_ms)
        self._owned[name] = owned

    def end(self, name: str, number: int) -> None:
        """SIGKILL or SIGTERM: from now on it reads nothing."""
        with self._lock:
            process = self._processes.pop(name)
            process.send_signal(number)
            self._changed(name, set(), _now_ms())
        process.wait()

    def settle(self) -> None:
        """Until every partition has one owner and nothing has changed for a while. Raises CannotRun."""
        end_s = time.monotonic() + PATIENCE_S
        while time.monotonic() < end_s:
            with self._lock:
                quiet = _now_ms() - self.meter.last_change_ms > QUIET_S * 1000
                all_own = all(self._owned[name] for name in self._processes)
                if quiet and all_own and self.meter.is_whole(PARTITIONS):
                    return
            time.sleep(0.02)
        raise CannotRun(f"the group did not come to rest: { ({n: len(o) for n, o in self._owned.items()}) }")

    def close(self) -> None:
        for name in list(self._processes):
            self.end(name, signal.SIGKILL)


def _now_ms() -> int:
    return int(time.time() * 1000)


def _one_run(question: StudyPoint, start: Start, group: str) -> float:
    crew = ProcessMembers(start, group)
    names = [f"m{n}" for n in range(MEMBERS)]
    try:
        for name in names:
            crew.add(name)
        crew.settle()
        crew.meter.begin(_now_ms())
        if question.event == "join":
            crew.add(NEWCOMER)
        else:
            crew.end(names[1], signal.SIGKILL)
            if question.event == "restart":
                time.sleep(DOWN_S)
                crew.add(names[1])
        crew.settle()
        now_ms = _now_ms()
        crew.meter.end(now_ms, set())
        if question.measure == "unowned_s":
            return sum(crew.meter.unowned_ms.values()) / 1000 / PARTITIONS
        return crew.meter.longest_ms / 1000
    finally:
        crew.close()


def _simulated(question: StudyPoint) -> list[float]:
    plan = Plan(MEMBERS, PARTITIONS)
    match question.event:
        case "join":
            plan = w.one_joins(MEMBERS, PARTITIONS)
        case "kill":
            plan = w.one_departs(MEMBERS, PARTITIONS, "kill")
        case "restart":
            name = plan.names[1]
            plan = replace(plan, events=(Event(0, "kill", name), Event(int(DOWN_S * 1000), "join", name)))
    return [getattr(run(_alike(question.setting), plan, seed), question.measure) for seed in range(SEEDS)]


def measure(report: Report) -> list[RealPoint]:
    """All questions; a question whose servers are not available here is reported and skipped."""
    points: list[RealPoint] = []
    with tempfile.TemporaryDirectory(prefix="coterie-study-") as folder:
        for servers, protocols in (
            (_kafka, ("eager", "cooperative")),
            (_zookeeper, ("zookeeper",)),
            (_rocketmq, ("rocketmq",)),
        ):
            mine = [q for q in QUESTIONS if q.setting.protocol in protocols]
            try:
                with servers(Path(folder)) as start:
                    points += [_point(question, start, report) for question in mine]
            except (CannotRun, RuntimeError) as reason:
                report(f"SKIPPED {protocols[0]}: {reason}")
    return points


def _point(question: StudyPoint, start: Callable[[StudyPoint], Start], report: Report) -> RealPoint:
    name = f"{question.setting.name}-{question.event}".replace(" ", "-").replace(",", "")
    real = [_one_run(question, start(question), f"{name}-{n}") for n in range(RUNS)]
    simulated = _simulated(question)
    report(f"{question.setting.name}, {_SAID[question.event]}: real {real}, laboratory {sum(simulated) / SEEDS:.2f} s")
    return RealPoint(
        question.setting.name,
        _SAID[question.event],
        _MEASURES[question.measure],
        "s",
        *_spread(real),
        RUNS,
        *_spread(simulated),
        question.note,
    )


def _spread(values: Sequence[float]) -> tuple[float, float, float]:
    return round(sum(values) / len(values), 3), round(min(values), 3), round(max(values), 3)


# -- the servers -------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _kafka(_: Path) -> Iterator[Callable[[StudyPoint], Start]]:
    with broker() as (address, _process):
        where = format_address(*address)
        with BlockingAdmin({"bootstrap.servers": where}) as admin:
            admin.create_topic(TOPIC, PARTITIONS)

        def start(question: StudyPoint) -> Start:
            assignor = {"eager": "range", "cooperative": "cooperative-sticky"}[question.setting.protocol]

            def words(group: str, name: str) -> list[str]:
                instance = name if question.setting.static else ""
                return ["classic", where, group, name, assignor, instance, str(SESSION_MS)]

            return words

        yield start


@contextlib.contextmanager
def _zookeeper(folder: Path) -> Iterator[Callable[[StudyPoint], Start]]:
    with (
        LocalZooKeeper(folder / "zookeeper", tick_ms=2_000) as server,
        broker(settings=(f"zookeeper.connect={server.address}",)) as (address, _process),
    ):
        with BlockingAdmin({"bootstrap.servers": format_address(*address)}) as admin:
            admin.create_topic(TOPIC, PARTITIONS)
        yield lambda question: lambda group, name: ["zookeeper", server.address, group, name, str(SESSION_MS)]


@contextlib.contextmanager
def _rocketmq(folder: Path) -> Iterator[Callable[[StudyPoint], Start]]:
    import asyncio

    from coterie.client.rocketmq import RocketMQProducer
    from coterie.conformance.rocketmq import VERSIONS, running

    async def create(name_server: str, brokers: Sequence[str]) -> None:
        async with RocketMQProducer(name_server) as producer:
            for address in brokers:
                await producer.create_topic(address, TOPIC, PARTITIONS // len(brokers))
            end_s = time.monotonic() + PATIENCE_S
            while time.monotonic() < end_s:
                with contextlib.suppress(Exception):
                    if len(await producer.queues(TOPIC)) == PARTITIONS:
                        return
                await asyncio.sleep(0.2)

    with running(VERSIONS[-1], folder / "rocketmq") as cluster:
        asyncio.run(create(cluster.name_server, list(cluster.brokers.values())))
        kinds = {True: "orderly", False: "concurrently"}
        yield (
            lambda question: (
                lambda group, name: ["rocketmq", cluster.name_server, group, name, kinds[question.setting.orderly]]
            )
        )
