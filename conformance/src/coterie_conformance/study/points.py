"""Points of each protocol with real processes, beside the laboratory's: does the model hold?

Consumers in processes of their own read partitions, with coterie's broker, a real ZooKeeper, a real RocketMQ. One joins, is
killed, or is restarted, or their topic grows; every process reports changes of its partitions with the time, and the same
meter measures them.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from coterie.client.blocking import BlockingAdmin
from coterie.console.study_page import RealPoint
from coterie.laboratory.study.compared import (
    DOWN_S,
    INTERVAL_MS,
    MEASURES,
    METADATA_MAX_AGE_MS,
    PARTITIONS,
    QUESTIONS,
    SEEDS,
    SESSION_MS,
    StudyPoint,
    simulated,
    spread,
)
from coterie.machines.ownership import OwnershipMeter
from coterie.testing.local_zookeeper import LocalZooKeeper
from coterie.text.addresses import format_address
from coterie_conformance.bench.measurement import broker
from coterie_conformance.servers.kafka import CannotRun
from coterie_conformance.study.worker import TOPIC

RUNS = 3
QUIET_S, PATIENCE_S = 3.0, 100.0
NEWCOMER = "newcomer"
Report = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Launch:
    """How a run starts its consumers: group and member -> the arguments of a worker; ``topic`` is what they read, and ``grow``
    gives it so many partitions."""

    arguments: Callable[[str, str], list[str]]
    topic: str = TOPIC
    grow: Callable[[int], None] = lambda partitions: None


Servers = Callable[["StudyPoint"], Launch]  # running ones, for a run of a point


class ProcessMembers:
    """Consumers in processes of their own, on one meter, of a topic with ``partitions``."""

    def __init__(self, launch: Launch, group: str, partitions: int) -> None:
        self._launch, self._group, self._partitions = launch, group, partitions
        self.meter = OwnershipMeter()
        self._owned: dict[str, set[tuple[str, int]]] = {}
        self._processes: dict[str, subprocess.Popen[str]] = {}
        self._lock = threading.Lock()

    def add(self, name: str) -> None:
        """Starts a member in a process of its own, and listens to what it owns."""
        command = [sys.executable, "-m", "coterie_conformance.study.worker", *self._launch.arguments(self._group, name)]
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

    def grow(self, partitions: int) -> None:
        """The topic has so many partitions from now on, the added ones without a reader."""
        with self._lock:
            added = [(self._launch.topic, p) for p in range(self._partitions, partitions)]
            self.meter.unowned_since_ms.update(dict.fromkeys(added, _now_ms()))
            self._partitions = partitions
        self._launch.grow(partitions)

    def settle(self) -> None:
        """Until every partition has one owner and nothing has changed for a while. Raises CannotRun."""
        end_s = time.monotonic() + PATIENCE_S
        while time.monotonic() < end_s:
            self._restart_ended()
            with self._lock:
                quiet = _now_ms() - self.meter.last_change_ms > QUIET_S * 1000
                all_own = all(self._owned[name] for name in self._processes)
                if quiet and all_own and self.meter.is_whole(self._partitions):
                    return
            time.sleep(0.02)
        raise CannotRun(f"the group did not come to rest: { ({n: len(o) for n, o in self._owned.items()}) }")

    def _restart_ended(self) -> None:
        """A static member is refused while the session of its killed predecessor lasts, and its process ends."""
        for name in [name for name, process in self._processes.items() if process.poll() is not None]:
            self.add(name)

    def close(self) -> None:
        for name in list(self._processes):
            self.end(name, signal.SIGKILL)


def _now_ms() -> int:
    return int(time.time() * 1000)


def _one_run(question: StudyPoint, launch: Launch, group: str) -> float:
    crew = ProcessMembers(launch, group, question.partitions)
    names = [f"m{n}" for n in range(question.members)]
    try:
        for name in names:
            crew.add(name)
        crew.settle()
        if question.event == "grow":  # at any moment of the interval in which metadata is renewed
            time.sleep(random.Random(group).uniform(0, METADATA_MAX_AGE_MS / 1000))
        crew.meter.begin(_now_ms())
        match question.event:
            case "join":
                crew.add(NEWCOMER)
            case "grow":
                crew.grow(question.grown)
            case _:
                crew.end(names[1], signal.SIGKILL)
        if question.event == "restart":
            time.sleep(DOWN_S)
            crew.add(names[1])
        crew.settle()
        now_ms = _now_ms()
        crew.meter.end(now_ms, set())
        if question.measure == "unowned_s":
            return sum(crew.meter.unowned_ms.values()) / 1000 / question.partitions
        return crew.meter.longest_ms / 1000
    finally:
        crew.close()


def measure(report: Report) -> list[RealPoint]:
    """All questions; a question whose servers are not available here is reported and skipped."""
    points: list[RealPoint] = []
    with tempfile.TemporaryDirectory(prefix="coterie-study-") as folder:
        for servers, protocols in (
            (_kafka, ("eager", "cooperative", "consumer")),
            (_zookeeper, ("zookeeper",)),
            (_rocketmq, ("rocketmq",)),
        ):
            mine = [q for q in QUESTIONS if q.setting.protocol in protocols]
            try:
                with servers(Path(folder)) as launch:
                    points += [_point(question, launch, report) for question in mine]
            except (CannotRun, RuntimeError) as reason:
                report(f"SKIPPED {protocols[0]}: {reason}")
    return points


def _point(question: StudyPoint, servers: Servers, report: Report) -> RealPoint:
    name = f"{question.setting.name}-{question.event}".replace(" ", "-").replace(",", "")
    real = [_one_run(question, servers(question), f"{name}-{n}") for n in range(RUNS)]
    modelled = simulated(question)
    report(f"{question.setting.name}, {question.what}: real {real}, laboratory {sum(modelled) / SEEDS:.2f} s")
    return RealPoint(
        question.setting.name,
        question.what,
        MEASURES[question.measure],
        "s",
        *spread(real),
        RUNS,
        *spread(modelled),
        question.note,
    )


# -- the servers -------------------------------------------------------------------------------------------------------


# As in the laboratory; the broker has them for the consumer protocol, and refuses short ones unless the least is lowered.
_CONSUMER_SETTINGS = tuple(
    f"group.consumer.{least}{name}={value}"
    for name, value in (("session.timeout.ms", SESSION_MS), ("heartbeat.interval.ms", INTERVAL_MS))
    for least in ("min.", "")
)


@contextlib.contextmanager
def _kafka(_: Path) -> Iterator[Servers]:
    with broker(settings=_CONSUMER_SETTINGS) as (address, _process):
        bootstrap = format_address(*address)
        with BlockingAdmin({"bootstrap.servers": bootstrap}) as admin:
            numbers = itertools.count(1)

            def launch(question: StudyPoint) -> Launch:
                topic, setting = f"{TOPIC}-{next(numbers)}", question.setting
                admin.create_topic(topic, question.partitions)

                def arguments(group: str, name: str) -> list[str]:
                    instance = name if setting.static else ""
                    return [
                        "kafka",
                        bootstrap,
                        topic,
                        group,
                        name,
                        instance,
                        setting.protocol,
                        str(METADATA_MAX_AGE_MS),
                    ]

                return Launch(arguments, topic, lambda partitions: admin.create_partitions(topic, partitions))

            yield launch


@contextlib.contextmanager
def _zookeeper(folder: Path) -> Iterator[Servers]:
    with (
        LocalZooKeeper(folder / "zookeeper", tick_ms=2_000) as server,
        broker(settings=(f"zookeeper.connect={server.address}",)) as (address, _process),
    ):
        with BlockingAdmin({"bootstrap.servers": format_address(*address)}) as admin:
            admin.create_topic(TOPIC, PARTITIONS)
        yield lambda question: Launch(lambda group, name: ["zookeeper", server.address, group, name, str(SESSION_MS)])


@contextlib.contextmanager
def _rocketmq(folder: Path) -> Iterator[Servers]:
    import asyncio

    from coterie_conformance.rocketmq.client import RocketMQProducer
    from coterie_conformance.rocketmq.servers import VERSIONS, running

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

        def launch(question: StudyPoint) -> Launch:
            kind = kinds[question.setting.orderly]
            return Launch(lambda group, name: ["rocketmq", cluster.name_server, group, name, kind])

        yield launch
