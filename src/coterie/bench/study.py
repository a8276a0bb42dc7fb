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
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from coterie.bench.measurement import broker
from coterie.bench.study_worker import INTERVAL_MS, SESSION_MS, TOPIC
from coterie.client.blocking import BlockingAdmin
from coterie.conformance.kafka import CannotRun
from coterie.console.study_page import RealPoint
from coterie.laboratory.study import workload as w
from coterie.laboratory.study.group import StudySetting
from coterie.laboratory.study.questions import (
    COMPARED_MEMBERS,
    COMPARED_PARTITIONS,
    CONSUMER,
    COOPERATIVE,
    EAGER,
    GROWN_PARTITIONS,
    ORDERLY,
    ROCKETMQ,
    STATIC,
    STATIC_CONSUMER,
    ZOOKEEPER,
)
from coterie.laboratory.study.run import run
from coterie.laboratory.study.workload import Event, Plan
from coterie.machines.ownership import OwnershipMeter
from coterie.testing.local_zookeeper import LocalZooKeeper
from coterie.text.addresses import format_address

MEMBERS, PARTITIONS = 4, 8
METADATA_MAX_AGE_MS = 60_000  # a fifth of the default, where the topic grows
RUNS, SEEDS = 3, 20
DOWN_S = 2.0
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


def _alike(setting: StudySetting) -> StudySetting:
    """As it is measured: no initial delay, a short session, a network of loopback, the clock of one machine."""
    return replace(
        setting,
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=INTERVAL_MS,
        metadata_max_age_ms=METADATA_MAX_AGE_MS,
        initial_delay_ms=0,
        network_ms=(0, 1),
        clock_drift=0.0,
    )


@dataclass(frozen=True, slots=True)
class StudyPoint:
    """``event``: join, kill, restart or grow, which gives the topic ``grown`` partitions; ``measure``: which of the meter's
    figures is compared."""

    setting: StudySetting
    event: str
    measure: str
    note: str = ""
    members: int = MEMBERS
    partitions: int = PARTITIONS
    grown: int = 0

    @property
    def what(self) -> str:
        """For a reader."""
        if self.event != "grow":
            return _EVENTS[self.event]
        return f"{self.members} consumers, {self.grown - self.partitions} partitions are added"


def _grows(setting: StudySetting, note: str) -> StudyPoint:
    """At the size of the published comparison of KIP-848."""
    first = GROWN_PARTITIONS - COMPARED_PARTITIONS
    return StudyPoint(
        setting,
        "grow",
        measure="longest_unowned_s",
        note=note,
        members=COMPARED_MEMBERS,
        partitions=first,
        grown=GROWN_PARTITIONS,
    )


_EVENTS = {"join": "one joins", "kill": "one is killed", "restart": "one is killed, and is back after 2 s"}
_MEASURES = {"unowned_s": "unowned per partition", "longest_unowned_s": "longest unowned"}
_OF_THE_LEADER = f"metadata.max.age.ms = {METADATA_MAX_AGE_MS}: until the leader renews its metadata"
QUESTIONS = (
    StudyPoint(EAGER, "join", "unowned_s", "heartbeats in step, since all came at once; in question 1 they are not"),
    StudyPoint(EAGER, "kill", "longest_unowned_s", "killed right after a heartbeat each time, which takes longest"),
    StudyPoint(COOPERATIVE, "join", "unowned_s", "two of eight partitions, for half a heartbeat interval"),
    StudyPoint(STATIC, "restart", "longest_unowned_s", "the consumer is away for 2 s; no rebalance follows"),
    StudyPoint(CONSUMER, "join", "unowned_s", "two of eight partitions, until the newcomer's next heartbeat"),
    StudyPoint(CONSUMER, "kill", "longest_unowned_s"),
    StudyPoint(
        STATIC_CONSUMER, "restart", "longest_unowned_s", "its name is refused until the killed one's session ends"
    ),
    _grows(EAGER, _OF_THE_LEADER),
    _grows(COOPERATIVE, _OF_THE_LEADER),
    _grows(CONSUMER, "the coordinator knows; until the next heartbeats"),
    StudyPoint(ZOOKEEPER, "join", "unowned_s"),
    StudyPoint(ZOOKEEPER, "kill", "longest_unowned_s"),
    StudyPoint(ROCKETMQ, "join", "unowned_s"),
    StudyPoint(ROCKETMQ, "kill", "longest_unowned_s"),
    StudyPoint(
        ORDERLY, "kill", "longest_unowned_s", "until the dead one's locks, some seconds old when it died, are 60 s old"
    ),
)


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
        command = [sys.executable, "-m", "coterie.bench.study_worker", *self._launch.arguments(self._group, name)]
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


def _simulated(question: StudyPoint) -> list[float]:
    members, partitions = question.members, question.partitions
    plan = Plan(members, partitions)
    match question.event:
        case "join":
            plan = w.one_joins(members, partitions)
        case "kill":
            plan = w.one_departs(members, partitions, "kill")
        case "grow":
            plan = w.topic_grows(members, partitions, question.grown)
        case "restart":
            name = plan.names[1]
            plan = replace(plan, events=(Event(0, "kill", name), Event(int(DOWN_S * 1000), "join", name)))
    return [getattr(run(_alike(question.setting), plan, seed, checks=False), question.measure) for seed in range(SEEDS)]


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


def simulated_anew(points: Iterable[RealPoint]) -> list[RealPoint]:
    """The same points with the laboratory's figures of this code; one that `QUESTIONS` does not have keeps its own."""
    by_name = {(q.setting.name, q.what): q for q in QUESTIONS}
    return [_beside(point, by_name.get((point.protocol, point.what))) for point in points]


def _beside(point: RealPoint, question: StudyPoint | None) -> RealPoint:
    if question is None:
        return point
    mean, low, high = _spread(_simulated(question))
    return replace(point, simulated=mean, simulated_low=low, simulated_high=high)


def _point(question: StudyPoint, servers: Servers, report: Report) -> RealPoint:
    name = f"{question.setting.name}-{question.event}".replace(" ", "-").replace(",", "")
    real = [_one_run(question, servers(question), f"{name}-{n}") for n in range(RUNS)]
    simulated = _simulated(question)
    report(f"{question.setting.name}, {question.what}: real {real}, laboratory {sum(simulated) / SEEDS:.2f} s")
    return RealPoint(
        question.setting.name,
        question.what,
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

        def launch(question: StudyPoint) -> Launch:
            kind = kinds[question.setting.orderly]
            return Launch(lambda group, name: ["rocketmq", cluster.name_server, group, name, kind])

        yield launch
