"""One run: groups of clients at work on three brokers, of which one is killed every 20 s and started again 8 s later."""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import inf
from pathlib import Path

from coterie.client import Admin
from coterie.client.admin_types import GroupState
from coterie.client.errors import KafkaError
from coterie.coordinator.partitioning import partition_for
from coterie_conformance.clients.programs import PROGRAMS, environment
from coterie_conformance.cluster.command_cluster import CommandCluster
from coterie_conformance.cluster.java_load import ClientLoad, JavaClients, JavaLoad
from coterie_conformance.cluster.mixed import VERSION, MixedCluster, NotInTime, in_turn, wait_until
from coterie_conformance.cluster.strikes import OFFSETS_TOPIC, BrokerRole, committed_offsets, not_delivered
from coterie_conformance.cluster_clients.outages import GroupOutage, GroupTimes, ObservedKill, outages
from coterie_conformance.histories.operation_history import ClientOperation, PollStep, SendStep, anomalies
from coterie_conformance.servers.kafka import jars

MEMBERS = 3
_SOURCES = Path(__file__).parents[2]
BROKERS = (1, 2, 3)
PARTITIONS = 6
EVERY_S, DOWN_S = 20.0, 8.0
SETTLED_S = 5.0  # before the first kill
LOOK_EVERY_S = 0.02
ROLES = (BrokerRole.COORDINATOR, BrokerRole.CONTROLLER)


@dataclass(frozen=True, slots=True)
class GroupTopic:
    """What a client's group works on."""

    bootstrap: str
    topic: str
    partitions: int
    group: str
    log: Path
    polled: Callable[[int], None]
    committed: Callable[[], None]


@dataclass(frozen=True, slots=True)
class GroupProgram:
    """A client. ``member`` begins the names of its members in the history; ``prepare`` installs it the first time, and raises
    CannotRun."""

    name: str
    member: str
    prepare: Callable[[], object]
    start: Callable[[GroupTopic], ClientLoad]


def _java(work: GroupTopic) -> ClientLoad:
    clients = JavaClients(writers=1, readers=0, members=MEMBERS, group=work.group)
    return JavaLoad(
        work.bootstrap, work.topic, work.partitions, clients, log=work.log, polled=work.polled, committed=work.committed
    )


def _python(name: str, installed: str, module: str) -> GroupProgram:
    """``installed``: of `PROGRAMS`, each of which has an environment of its own."""
    client = next(program for program in PROGRAMS if program.name == installed)

    def start(work: GroupTopic) -> ClientLoad:
        python = environment(client)[0]
        arguments = (work.bootstrap, work.topic, str(work.partitions), str(MEMBERS), work.group)
        command = [python, "-m", f"coterie_conformance.cluster_clients.{module}", *arguments]
        variables = {**os.environ, "PYTHONPATH": str(_SOURCES)}
        return ClientLoad(command, work.topic, work.log, work.polled, work.committed, variables)

    return GroupProgram(name, f"{name}-member-", partial(environment, client), start)


GROUP_PROGRAMS = {
    "confluent-kafka": _python("confluent-kafka", "confluent-kafka", "confluent_work"),
    "aiokafka": _python("aiokafka", "aiokafka", "aiokafka_work"),
    "kafka-python": _python("kafka-python", "kafka-python 3.0", "kafka_python_work"),
    "java": GroupProgram(f"Java {VERSION}", "java-member-", partial(jars, VERSION), _java),
}


KillableCluster = MixedCluster | CommandCluster


@dataclass(slots=True)
class KillsReport:
    """``seconds``: from the first kill to the end of the last one's interval. ``wrong``: by group, empty where all is right."""

    kills: list[ObservedKill] = field(default_factory=list)
    outages: list[GroupOutage] = field(default_factory=list)
    seconds: float = 0.0
    sent: int = 0
    read: int = 0
    wrong: dict[str, list[str]] = field(default_factory=dict)


@dataclass(slots=True)
class WorkingGroup:
    """A client's group, with what its program has reported so far."""

    program: GroupProgram
    name: str
    topic: str
    times: GroupTimes = field(default_factory=GroupTimes)
    load: ClientLoad | None = None

    def start(self, bootstrap: str, folder: Path) -> None:
        """Raises CannotRun."""
        log = folder / f"{self.name}.log"
        self.load = self.program.start(
            GroupTopic(
                bootstrap,
                self.topic,
                partitions=PARTITIONS,
                group=self.name,
                log=log,
                polled=self._polled,
                committed=self._committed,
            )
        )

    def _polled(self, number: int) -> None:
        self.times.reads.setdefault(number, []).append(time.monotonic())

    def _committed(self) -> None:
        self.times.commits.append(time.monotonic())

    @property
    def history(self) -> list[ClientOperation]:
        return [] if self.load is None else self.load.operations

    def is_at_work(self) -> bool:
        """Whether each partition's records have come to a member, and a commit was accepted."""
        return bool(self.times.commits) and len(self.times.reads) == PARTITIONS


class GroupKills:
    """``progress`` gets a line about each kill."""

    def __init__(
        self, cluster: KillableCluster, programs: Sequence[GroupProgram], seed: int, progress: Callable[[str], None]
    ) -> None:
        self._cluster, self._rng, self._progress = cluster, random.Random(seed), progress
        self._groups = [WorkingGroup(p, f"crew-{n}", f"work-{n}") for n, p in enumerate(programs)]
        self.report = KillsReport()

    async def run(self, minutes: float, logs: Path) -> KillsReport:
        """Raises NotInTime, KafkaError, CannotRun."""
        try:
            await self._begin(logs)
            begun_s = time.monotonic()
            while time.monotonic() < begun_s + minutes * 60:
                await self._kill()
            self.report.seconds = time.monotonic() - begun_s
            await self._end()
        finally:
            for group in self._groups:
                if group.load is not None:
                    group.load.kill()
        await self._judge()
        return self.report

    async def _begin(self, logs: Path) -> None:
        cluster = self._cluster
        async with Admin({"bootstrap.servers": cluster.bootstrap}) as admin:
            for group in self._groups:
                await admin.create_topic(group.topic, assignments=in_turn(BROKERS, PARTITIONS))
        for group in self._groups:
            await wait_until(partial(cluster.are_in_sync, group.topic), f"{group.topic} has its replicas")
            await asyncio.to_thread(group.start, cluster.bootstrap, logs)
        await wait_until(lambda: all(group.is_at_work() for group in self._groups), self._idle)
        await asyncio.sleep(SETTLED_S)
        await wait_until(self._is_whole, "all replicas are in sync")

    def _idle(self) -> str:
        names = ", ".join(group.program.name for group in self._groups if not group.is_at_work())
        return f"members of {names} have records of each partition, and commit"

    def _is_whole(self) -> bool:
        return all(map(self._cluster.is_registered, BROKERS)) and self._cluster.is_whole()

    # -- a kill ---------------------------------------------------------------------------------------------------------

    def _coordinator(self, group: WorkingGroup) -> int | None:
        count = len(self._cluster.assignment(OFFSETS_TOPIC))
        return self._cluster.leader((OFFSETS_TOPIC, partition_for(group.name, count)))

    def _leads(self, broker_id: int, group: WorkingGroup) -> bool:
        return any(self._cluster.leader((group.topic, number)) == broker_id for number in range(PARTITIONS))

    def _target(self, role: BrokerRole) -> int:
        group = self._rng.choice(self._groups)
        broker_id = self._cluster.controller() if role is BrokerRole.CONTROLLER else self._coordinator(group)
        return self._rng.choice(BROKERS) if broker_id is None else broker_id

    async def _kill(self) -> None:
        """Returns `EVERY_S` later, or once the cluster is whole again. Raises NotInTime, CannotRun."""
        cluster, kills = self._cluster, self.report.kills
        role = ROLES[len(kills) % len(ROLES)]
        broker_id = self._target(role)
        coordinated = frozenset(group.program.name for group in self._groups if self._coordinator(group) == broker_id)
        led = frozenset(group.program.name for group in self._groups if self._leads(broker_id, group))
        at_s = time.monotonic()
        await asyncio.to_thread(cluster.kill, broker_id)
        expired_s = await self._expired(broker_id)
        kills.append(ObservedKill(broker_id, role.value, at_s, expired_s, coordinated, led))
        await asyncio.sleep(max(0.0, at_s + DOWN_S - time.monotonic()))
        await asyncio.to_thread(cluster.start, broker_id)
        await asyncio.sleep(max(0.0, at_s + EVERY_S - time.monotonic()))
        await wait_until(self._is_whole, f"all replicas are in sync after kill {len(kills)}")
        self._progress(
            f"kill {len(kills)}, the {role.value}: broker {broker_id}, coordinator of {len(coordinated)} of "
            f"{len(self._groups)}; session over after {expired_s - at_s:.1f} s, whole after {time.monotonic() - at_s:.1f} s"
        )

    async def _expired(self, broker_id: int) -> float:
        """When the session of the broker ended. Raises NotInTime."""
        ends_s = time.monotonic() + EVERY_S
        while self._cluster.is_registered(broker_id):
            if time.monotonic() > ends_s:
                raise NotInTime(f"not within {EVERY_S:g} s: the session of broker {broker_id} ends")
            await asyncio.sleep(LOOK_EVERY_S)
        return time.monotonic()

    # -- the end --------------------------------------------------------------------------------------------------------

    async def _end(self) -> None:
        """Members go on until their commits are at the ends, which no writer moves any more."""
        for group in self._groups:
            assert group.load is not None
            group.load.end_writers()
        for group in self._groups:
            await self._until_at_rest(group)
        for group in self._groups:
            assert group.load is not None
            try:
                await asyncio.to_thread(group.load.stop)
            except subprocess.TimeoutExpired:
                self._is_wrong(group, "the clients do not end")

    def _is_wrong(self, group: WorkingGroup, *texts: str) -> None:
        self.report.wrong.setdefault(group.program.name, []).extend(texts)

    async def _until_at_rest(self, group: WorkingGroup) -> None:
        last = ""

        async def is_at_rest() -> bool:
            nonlocal last
            try:
                last = await self._unrest(group)
            except KafkaError as error:
                last = str(error)
            return not last

        try:
            await wait_until(is_at_rest, lambda: f"the group rests: {last}")
        except NotInTime as error:
            self._is_wrong(group, str(error))

    async def _unrest(self, group: WorkingGroup) -> str:
        """Why the group is not at rest; "" where it is. Raises KafkaError."""
        async with Admin({"bootstrap.servers": self._cluster.bootstrap}) as admin:
            described = await admin.describe_consumer_group(group.name)
            ends = await admin.list_offsets({(group.topic, number): -1 for number in range(PARTITIONS)})
            committed = await admin.list_consumer_group_offsets(group.name)
        if described.state is not GroupState.STABLE or len(described.members) != MEMBERS:
            return f"it is {described.state} with {len(described.members)} of {MEMBERS} members"
        behind = {str(p): (committed.get(p), end) for p, end in ends.items() if committed.get(p) != end}
        return f"commits and ends: {behind}" if behind else ""

    async def _judge(self) -> None:
        report = self.report
        for group in self._groups:
            steps = [step for operation in group.history for step in operation.steps]
            report.sent += sum(isinstance(step, SendStep) for step in steps)
            report.read += sum(len(rows) for s in steps if isinstance(s, PollStep) for rows in s.records.values())
            wrong = list(map(str, anomalies(group.history, read_to_end=True)))
            committed = await committed_offsets(self._cluster.bootstrap, group.name)
            wrong += not_delivered(group.history, group.program.member, committed)
            rows = outages(report.kills, {group.program.name: group.times}, PARTITIONS)
            wrong += [f"nothing was read or committed after kill {row.kill + 1}" for row in rows if is_endless(row)]
            report.outages += rows
            if wrong:
                self._is_wrong(group, *wrong)


def is_endless(row: GroupOutage) -> bool:
    """Whether the group has not come back."""
    return inf in (row.coordinator_s, row.records_s)
