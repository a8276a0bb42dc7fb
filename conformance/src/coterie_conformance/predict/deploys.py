"""Groups of several clients on one Apache Kafka, each deployed by a rolling restart: what is predicted, and what is measured.

All groups are deployed at the same time, while records come; then, one by one, those whose members are killed. The members of
a client live in one process, so that a restart closes a consumer and makes a new one; the pause of the deploy is that of its
command. Members that are killed have a process each; the next is started before it is needed.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from coterie.client import Admin, Producer
from coterie.client.blocking import BlockingAdmin
from coterie.coordinator import events as e
from coterie.laboratory.prediction import Deploy, PredictedCost, predict
from coterie.machines.ownership import OwnershipMeter
from coterie.observer.deploys import predictable
from coterie.observer.group_facts import known_group
from coterie.observer.internal_topics import group_past
from coterie_conformance.predict.processes import JAVA_NEW, JAVA_OLD, LIBRDKAFKA, OURS, ClientProcess, members_command
from coterie_conformance.servers.kafka import CannotRun

SESSION_MS = 9_000
PAUSE_MS, GAP_MS = 3_000, 12_000
HEARTBEAT_MS, CONSUMER_HEARTBEAT_MS = 3_000, 5_000  # the defaults, of which PAUSE_MS + GAP_MS is a multiple
SETTLED_S, PATIENCE_S, SEEDS = 20.0, 90.0, 20
MOST_PROCESSES = 64  # at once
WITHIN = 0.2
SLOW_MS = 2_000
FED_EVERY_S, FED_AT_ONCE = 0.5, 5  # records of each partition
NEAR_S = 0.1  # of no matter, where a partition is unowned for tenths of a second


@dataclass(frozen=True, slots=True)
class SetUp:
    """A group: its client, protocol (eager, cooperative or consumer), and size. ``removal``: leave or kill; ``poll_ms``: what
    its code takes for the records of a poll."""

    client: str
    protocol: str
    static: bool = False
    members: int = 3
    partitions: int = 6
    removal: str = "leave"
    poll_ms: int = 0

    @property
    def name(self) -> str:
        """For a reader."""
        parts = [self.client, *(["static"] if self.static else []), self.protocol, f"{self.members} members"]
        parts += ["killed"] if self.removal == "kill" else []
        return ", ".join([*parts, *([f"{self.poll_ms} ms of code"] if self.poll_ms else [])])

    @property
    def gap_ms(self) -> int:
        """How long a rebalance takes hangs on the time since the last heartbeat, and members heartbeat in step after it. So
        that not all of a deploy's stops come at one point of the interval, they are spread evenly over it."""
        return GAP_MS + self.heartbeat_ms // self.members

    @property
    def heartbeat_ms(self) -> int:
        """Between two of a member's."""
        return CONSUMER_HEARTBEAT_MS if self.protocol == "consumer" else HEARTBEAT_MS

    @property
    def group(self) -> str:
        """Its id, and the name of its topic."""
        return self.name.replace(", ", "-").replace(" ", "-").lower()


SET_UPS = (
    SetUp(JAVA_OLD, "eager"),
    SetUp(JAVA_OLD, "cooperative"),
    SetUp(JAVA_OLD, "eager", static=True),
    SetUp(JAVA_NEW, "eager", members=4, partitions=8),
    SetUp(JAVA_NEW, "cooperative", members=2),
    SetUp(JAVA_NEW, "consumer"),
    SetUp(JAVA_NEW, "consumer", static=True),
    SetUp(LIBRDKAFKA, "eager"),
    SetUp(LIBRDKAFKA, "cooperative"),
    SetUp(LIBRDKAFKA, "consumer"),
    SetUp(OURS, "eager"),
    SetUp(OURS, "cooperative"),
    SetUp(OURS, "consumer"),
    SetUp(JAVA_NEW, "eager", removal="kill"),
    SetUp(LIBRDKAFKA, "cooperative", removal="kill"),
    SetUp(LIBRDKAFKA, "eager", static=True, removal="kill"),
    SetUp(OURS, "eager", removal="kill"),
    SetUp(JAVA_OLD, "eager", poll_ms=SLOW_MS),
    SetUp(JAVA_NEW, "cooperative", poll_ms=SLOW_MS),
    SetUp(OURS, "cooperative", poll_ms=SLOW_MS),
)


@dataclass(slots=True)
class MeasuredDeploy:
    """A set-up with its prediction, and what each of its deploys took: unowned in s per partition, rebalances, and records that
    were delivered again."""

    set_up: SetUp
    predicted: PredictedCost
    unowned_s: list[float] = field(default_factory=list)
    rebalances: list[int] = field(default_factory=list)
    duplicates: list[int] = field(default_factory=list)

    @property
    def mean_s(self) -> float:
        return sum(self.unowned_s) / len(self.unowned_s)

    @property
    def is_near(self) -> bool:
        """Whether the prediction is within a fifth of the measured mean."""
        off_s = abs(self.predicted.unowned_s.mean - self.mean_s)
        return off_s <= max(WITHIN * self.mean_s, NEAR_S)


class DeployedSetUp:
    """One set-up on a broker; ``process`` starts one."""

    def __init__(self, set_up: SetUp, process: Callable[[str], ClientProcess]) -> None:
        self.set_up = set_up
        self.meter = OwnershipMeter()
        self.duplicates = 0
        self.names = [f"{set_up.group}:{number}" for number in range(set_up.members)]
        self._owned: dict[str, set[tuple[str, int]]] = {name: set() for name in self.names}
        self._next: dict[int, int] = {}  # by partition: the offset behind the last one that was delivered
        self._process = process
        self._own: dict[str, ClientProcess] = {}  # of members that are killed
        self._spare: dict[str, ClientProcess] = {}  # for their next lives
        # members of the consumer protocol keep the moments of their heartbeats
        self._random = random.Random(set_up.group)

    def owns(self, name: str, time_ms: int, partitions: set[int]) -> None:
        """A member has these partitions now."""
        owned = {(self.set_up.group, partition) for partition in partitions}
        self.meter.changed(name, self._owned[name], owned, time_ms)
        self._owned[name] = owned

    def reads(self, partition: int, first: int, last: int) -> None:
        """These records were delivered, some of them again."""
        behind = self._next.get(partition, first)
        self.duplicates += max(min(last + 1, behind) - first, 0)
        self._next[partition] = max(last + 1, behind)

    def start(self, name: str) -> None:
        """A life of a member begins."""
        s = self.set_up
        process = self._spare.pop(name, None) or self._process(s.client)
        instance = name.replace(":", "-") if s.static else "-"
        process.order("open", name, s.group, s.group, s.protocol, instance, str(SESSION_MS), str(s.poll_ms))
        if s.removal == "kill":
            self._own[name] = process
            self._spare[name] = spare = self._process(s.client)  # how long that takes is no part of the next pause
            spare.order("warm", s.group)

    async def stop(self, name: str) -> None:
        """A life of a member ends."""
        if self.set_up.removal == "leave":
            self._process(self.set_up.client).order("close", name)
            return
        ended_ms = int(time.time() * 1000)
        await self._own.pop(name).killed()
        self.owns(name, ended_ms, set())

    async def form(self) -> None:
        """All members start, one after the other."""
        for name in self.names:
            self.start(name)
            await asyncio.sleep(self._random.uniform(0, self.set_up.heartbeat_ms / 1000))

    async def settle(self) -> None:
        """Until every partition has one owner, and nothing has changed for a while. Raises CannotRun."""
        deadline_s = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline_s:
            is_quiet = time.time() * 1000 - self.meter.last_change_ms > GAP_MS / 2
            if is_quiet and all(self._owned.values()) and self.meter.is_whole(self.set_up.partitions):
                return
            await asyncio.sleep(0.1)
        raise CannotRun(f"{self.set_up.name} did not come to rest: { ({n: len(o) for n, o in self._owned.items()}) }")

    async def deploy(self) -> float:
        """A rolling restart; the time in s that each partition was unowned."""
        self.meter.begin(int(time.time() * 1000))
        self.duplicates = 0
        for name in self.names:
            began_s = time.monotonic()
            await self.stop(name)
            await asyncio.sleep(began_s + PAUSE_MS / 1000 - time.monotonic())
            self.start(name)
            await asyncio.sleep(self.set_up.gap_ms / 1000)
        await self.settle()
        self.meter.end(int(time.time() * 1000), set(self.names))
        return sum(self.meter.unowned_ms.values()) / 1000 / self.set_up.partitions


async def generation(client: dict[str, str], set_up: SetUp) -> int:
    """The group's, or its epoch."""
    if set_up.protocol == "consumer":
        async with Admin(client) as admin:
            return (await admin.describe_consumer_group(set_up.group)).group_epoch or 0
    sights = await group_past(client, set_up.group, 1_000_000)
    return max(sight.event.value.generation for sight in sights if isinstance(sight.event, e.GroupStored))


class Deploys:
    """All set-ups on the broker of an address, ``rounds`` times."""

    def __init__(self, address: str, folder: Path, set_ups: Sequence[SetUp]) -> None:
        self._client = {"bootstrap.servers": address}
        self._folder = folder
        self._shared: dict[str, ClientProcess] = {}
        self._every: list[ClientProcess] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._deployed: dict[str, DeployedSetUp] = {}
        for s in set_ups:
            process = self._started if s.removal == "kill" else self._shared.__getitem__
            self._deployed[s.group] = DeployedSetUp(s, process)

    async def run(self, rounds: int, progress: Callable[[str], None]) -> list[MeasuredDeploy]:
        """Predicts each, then deploys all at once, in every round. Raises CannotRun, KafkaError."""
        deployed = list(self._deployed.values())
        with BlockingAdmin(self._client) as admin:
            for one in deployed:
                admin.create_topic(one.set_up.group, one.set_up.partitions)
        with self._running():
            feeding = asyncio.create_task(self._feed())
            await asyncio.gather(*(one.form() for one in deployed))
            await asyncio.gather(*(one.settle() for one in deployed))
            await asyncio.sleep(SETTLED_S)  # for commits
            measured = [await self._predicted(one.set_up) for one in deployed]
            for number in range(rounds):
                before = [await generation(self._client, one.set_up) for one in deployed]
                took_s = await asyncio.gather(*(one.deploy() for one in deployed))
                for row, one, first, unowned_s in zip(measured, deployed, before, took_s, strict=True):
                    row.unowned_s.append(round(unowned_s, 3))
                    row.duplicates.append(one.duplicates)
                    row.rebalances.append(await generation(self._client, row.set_up) - first)
                progress(f"round {number + 1} of {rounds}")
            feeding.cancel()
            return measured

    async def _feed(self) -> None:
        """Records for every partition."""
        async with Producer(self._client) as producer:
            while True:
                for one in self._deployed.values():
                    for partition in range(one.set_up.partitions):
                        for _ in range(FED_AT_ONCE):
                            await producer.send(one.set_up.group, b"x", partition=partition)
                await asyncio.sleep(FED_EVERY_S)

    async def _predicted(self, set_up: SetUp) -> MeasuredDeploy:
        """As `coterie groups predict` does."""
        of_group = await known_group(self._client, set_up.group)
        known = predictable(of_group, set_up.poll_ms or None, set_up.client in (JAVA_OLD, JAVA_NEW))
        deploy = Deploy(PAUSE_MS, set_up.gap_ms, set_up.removal)
        prediction = await asyncio.to_thread(predict, known.deployed, deploy, (), SEEDS)
        return MeasuredDeploy(set_up, prediction.costs[0])

    def owns(self, name: str, time_ms: int, partitions: set[int]) -> None:
        """From a thread of a process."""
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._deployed[name.partition(":")[0]].owns, name, time_ms, partitions)

    def reads(self, name: str, partition: int, first: int, last: int) -> None:
        """From a thread of a process."""
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._deployed[name.partition(":")[0]].reads, partition, first, last)

    def _started(self, client: str) -> ClientProcess:
        command = [*members_command(client, self._folder), self._client["bootstrap.servers"]]
        process = ClientProcess(command, self._folder / f"{client.replace(' ', '-')}.log", self)
        self._every.append(process)
        process.listening = asyncio.get_running_loop().run_in_executor(self._threads, process.listen)
        return process

    @contextlib.contextmanager
    def _running(self) -> Iterator[None]:
        """The clients' processes, and a thread for each."""
        self._loop = asyncio.get_running_loop()
        with ThreadPoolExecutor(MOST_PROCESSES) as self._threads:
            try:
                for client in dict.fromkeys(one.set_up.client for one in self._deployed.values()):
                    self._shared[client] = self._started(client)
                yield
            finally:
                for process in self._every:
                    process.end()


def deploy_on_kafka(
    version: str,
    folder: Path,
    progress: Callable[[str], None],
    set_ups: Sequence[SetUp] = SET_UPS,
    rounds: int = 3,
) -> list[MeasuredDeploy]:
    """Beside a real broker of that version. Raises CannotRun, KafkaError."""
    from coterie_conformance.servers.kafka import running

    folder.mkdir(parents=True, exist_ok=True)
    with running(version, folder / "kafka", {"group.initial.rebalance.delay.ms": "1000"}) as (host, port):
        together = [set_up for set_up in set_ups if set_up.removal == "leave"]
        # A process that is started takes time from all others.
        turns = [*([together] if together else []), *([set_up] for set_up in set_ups if set_up.removal == "kill")]
        address = f"{host}:{port}"
        return [row for turn in turns for row in asyncio.run(Deploys(address, folder, turn).run(rounds, progress))]
