"""Groups of several clients on one Apache Kafka, each deployed by a rolling restart: what is predicted, and what is measured.

All groups are deployed at the same time. A client's members live in one process, so that a restart closes a consumer and makes
a new one, and the pause of the deploy is that of its command.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from coterie.client import Admin
from coterie.client.blocking import BlockingAdmin
from coterie.coordinator import events as e
from coterie.laboratory.prediction import Deploy, PredictedCost, predict
from coterie.machines.ownership import OwnershipMeter
from coterie.observer.deploys import predictable
from coterie.observer.group_facts import known_group
from coterie.observer.offsets_tail import group_past
from coterie_conformance.clients.programs import PROGRAMS, environment
from coterie_conformance.servers.java_process import java_program
from coterie_conformance.servers.kafka import CannotRun, jars

HERE = Path(__file__).parent
SESSION_MS = 9_000
PAUSE_MS, GAP_MS = 3_000, 12_000
HEARTBEAT_MS, CONSUMER_HEARTBEAT_MS = 3_000, 5_000  # the defaults, of which PAUSE_MS + GAP_MS is a multiple
SETTLED_S, PATIENCE_S, SEEDS = 20.0, 90.0, 20
WITHIN = 0.2
NEAR_S = 0.1  # of no matter, where a partition is unowned for tenths of a second


@dataclass(frozen=True, slots=True)
class SetUp:
    """A group: its client, protocol (eager, cooperative or consumer), and size."""

    client: str
    protocol: str
    static: bool = False
    members: int = 3
    partitions: int = 6

    @property
    def name(self) -> str:
        """For a reader."""
        return f"{self.client}, {'static, ' if self.static else ''}{self.protocol}, {self.members} members"

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


JAVA_OLD, JAVA_NEW, LIBRDKAFKA, OURS = "Java 3.9.1", "Java 4.3.0", "librdkafka", "coterie"
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
)


@dataclass(slots=True)
class MeasuredDeploy:
    """A set-up with its prediction, and what each of its deploys took: unowned in s per partition, and rebalances."""

    set_up: SetUp
    predicted: PredictedCost
    unowned_s: list[float] = field(default_factory=list)
    rebalances: list[int] = field(default_factory=list)

    @property
    def mean_s(self) -> float:
        return sum(self.unowned_s) / len(self.unowned_s)

    @property
    def is_near(self) -> bool:
        """Whether the prediction is within a fifth of the measured mean."""
        off_s = abs(self.predicted.unowned_s.mean - self.mean_s)
        return off_s <= max(WITHIN * self.mean_s, NEAR_S)


def members_command(client: str, folder: Path) -> list[str]:
    """The program of a client's members, without its argument. Raises CannotRun."""
    if client == OURS:
        return [sys.executable, "-m", "coterie_conformance.predict.our_members"]
    if client == LIBRDKAFKA:
        program = next(p for p in PROGRAMS if p.name == "confluent-kafka")
        return [environment(program)[0], str(HERE / "confluent_members.py")]
    lib, classes = jars(client.removeprefix("Java ")), folder / client.replace(" ", "-")
    return java_program(HERE / "Members.java", lib, classes, log_level="error")


class ClientProcess:
    """The members of one client, whose lines ``listen`` takes: member, time in ms, owned partitions."""

    def __init__(self, command: Sequence[str], log: Path, listen: Callable[[str, int, set[int]], None]) -> None:
        with log.open("a") as errors:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, bufsize=1
            )
        self._listen = listen

    def order(self, *words: str) -> None:
        """Sends a command."""
        assert self._process.stdin is not None
        self._process.stdin.write(" ".join(words) + "\n")
        self._process.stdin.flush()

    def listen(self) -> None:
        """Until the process ends; in a thread."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{"):
                fields = json.loads(line)
                self._listen(fields["name"], fields["ms"], set(fields["owned"]))

    def end(self) -> None:
        """Its members leave no group."""
        self._process.kill()
        self._process.wait()


class DeployedSetUp:
    """One set-up on a broker."""

    def __init__(self, set_up: SetUp, process: Callable[[str], ClientProcess]) -> None:
        self.set_up = set_up
        self.meter = OwnershipMeter()
        self.names = [f"{set_up.group}:{number}" for number in range(set_up.members)]
        self._owned: dict[str, set[tuple[str, int]]] = {name: set() for name in self.names}
        self._process = process
        self._random = random.Random(
            set_up.group
        )  # members of the consumer protocol keep the moments of their heartbeats

    def changed(self, name: str, time_ms: int, partitions: set[int]) -> None:
        """A member owns these now."""
        owned = {(self.set_up.group, partition) for partition in partitions}
        self.meter.changed(name, self._owned[name], owned, time_ms)
        self._owned[name] = owned

    def start(self, name: str) -> None:
        """A life of a member begins."""
        s = self.set_up
        instance = name.replace(":", "-") if s.static else "-"
        self._process(s.client).order("open", name, s.group, s.group, s.protocol, instance, str(SESSION_MS))

    def stop(self, name: str) -> None:
        """A life of a member ends."""
        self._process(self.set_up.client).order("close", name)

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
        for name in self.names:
            self.stop(name)
            await asyncio.sleep(PAUSE_MS / 1000)
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
        self._processes: dict[str, ClientProcess] = {}
        self._deployed = {s.group: DeployedSetUp(s, self._processes.__getitem__) for s in set_ups}

    async def run(self, rounds: int, progress: Callable[[str], None]) -> list[MeasuredDeploy]:
        """Predicts each, then deploys all at once, in every round. Raises CannotRun, KafkaError."""
        deployed = list(self._deployed.values())
        with BlockingAdmin(self._client) as admin:
            for one in deployed:
                admin.create_topic(one.set_up.group, one.set_up.partitions)
        with self._running():
            await asyncio.gather(*(one.form() for one in deployed))
            await asyncio.gather(*(one.settle() for one in deployed))
            await asyncio.sleep(SETTLED_S)  # for commits
            measured = [await self._predicted(one.set_up) for one in deployed]
            for number in range(rounds):
                before = [await generation(self._client, one.set_up) for one in deployed]
                took_s = await asyncio.gather(*(one.deploy() for one in deployed))
                for row, first, unowned_s in zip(measured, before, took_s, strict=True):
                    row.unowned_s.append(round(unowned_s, 3))
                    row.rebalances.append(await generation(self._client, row.set_up) - first)
                progress(f"round {number + 1} of {rounds}")
            return measured

    async def _predicted(self, set_up: SetUp) -> MeasuredDeploy:
        """As `coterie groups predict` does."""
        known = predictable(await known_group(self._client, set_up.group))
        prediction = await asyncio.to_thread(predict, known.deployed, Deploy(PAUSE_MS, set_up.gap_ms), (), SEEDS)
        return MeasuredDeploy(set_up, prediction.costs[0])

    def _changed(self, name: str, time_ms: int, partitions: set[int]) -> None:
        self._deployed[name.partition(":")[0]].changed(name, time_ms, partitions)

    @contextlib.contextmanager
    def _running(self) -> Iterator[None]:
        """The clients' processes, and a thread for each."""
        loop = asyncio.get_running_loop()

        def changed(name: str, time_ms: int, partitions: set[int]) -> None:
            loop.call_soon_threadsafe(self._changed, name, time_ms, partitions)

        try:
            for client in dict.fromkeys(one.set_up.client for one in self._deployed.values()):
                command = [*members_command(client, self._folder), self._client["bootstrap.servers"]]
                log = self._folder / f"{client.replace(' ', '-')}.log"
                process = self._processes[client] = ClientProcess(command, log, changed)
                loop.run_in_executor(None, process.listen)
            yield
        finally:
            for process in self._processes.values():
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
        return asyncio.run(Deploys(f"{host}:{port}", folder, set_ups).run(rounds, progress))
