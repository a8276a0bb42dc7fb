"""Our allocation strategies beside RocketMQ's own Java classes, on seeded random inputs: the same queues in the same order."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from coterie.rocketmq.allocation import MessageQueue, Strategy, averagely
from coterie_conformance.rocketmq.servers import jars
from coterie_conformance.rocketmq.strategies import (
    STRATEGIES,
    by_config,
    by_machine_room,
    consistent_hash,
    machine_room_nearby,
)

ROOMS = ("r1", "r2", "r3")
NAMES = ("AVG", "AVG_BY_CIRCLE", "CONSISTENT_HASH", "MACHINE_ROOM", "NEARBY", "CONFIG")


@dataclass(frozen=True, slots=True)
class AllocationCase:
    """One question to one client."""

    strategy: str  # with its setting, as Allocate.java reads it
    client_id: str
    queues: tuple[MessageQueue, ...]
    clients: tuple[str, ...]

    def line(self) -> str:
        queues = ",".join(f"{q.broker_name}:{q.queue_id}" for q in self.queues)
        return f"{self.strategy}|{self.client_id}|{queues}|{','.join(self.clients)}"

    def ours(self) -> str:
        queues, clients = sorted(self.queues), sorted(self.clients)
        mine = self._strategy(queues)(self.client_id, queues, clients)
        return ",".join(f"{q.broker_name}:{q.queue_id}" for q in mine)

    def _strategy(self, queues: Sequence[MessageQueue]) -> Strategy:
        name, _, setting = self.strategy.partition(":")
        if name == "CONSISTENT_HASH":
            return consistent_hash(int(setting))
        if name == "MACHINE_ROOM":
            return by_machine_room(setting.split("+"))
        if name == "CONFIG":
            return by_config(queues[: int(setting)])
        if name == "NEARBY":
            return machine_room_nearby(
                averagely, lambda q: q.broker_name.partition("@")[0], lambda c: c.partition("-")[0]
            )
        return STRATEGIES[name]


@dataclass(slots=True)
class AllocationComparison:
    """How many random inputs were compared, and a sentence for each that RocketMQ's class divides otherwise."""

    cases: int = 0
    failures: list[str] = field(default_factory=list)


def random_case(rng: random.Random, name: str) -> AllocationCase:
    """Queues of a few brokers in a few rooms, clients in a few rooms; now and then one whom the others do not know yet."""
    brokers = [f"{rng.choice(ROOMS)}@b{n}" for n in range(rng.randint(1, 5))]
    if name not in ("NEARBY", "MACHINE_ROOM") or (name == "MACHINE_ROOM" and rng.random() < 0.3):
        brokers += [f"plain{n}" for n in range(rng.randint(0, 3))]
    queues = tuple(MessageQueue("t", b, n) for b in brokers for n in range(rng.randint(1, 8)))
    clients = [f"{rng.choice(ROOMS)}-{rng.getrandbits(32):08x}" for _ in range(rng.randint(1, 12))]
    me = rng.choice(clients) if rng.random() < 0.95 else "r1-unknown"
    settings = {
        "CONSISTENT_HASH": f":{rng.choice((1, 10, 40))}",
        "MACHINE_ROOM": ":" + "+".join(rng.sample(ROOMS, rng.randint(1, 3))),
        "CONFIG": f":{rng.randint(0, len(queues))}",
    }
    return AllocationCase(name + settings.get(name, ""), me, queues, tuple(clients))


def compare(version: str, name: str, cases: int, seed: int) -> AllocationComparison:
    """Raises CannotRun. Needs a JDK, since it starts a source file."""
    source = Path(__file__).with_name("Allocate.java")
    command = ["java", "-cp", f"{jars(version)}/*", str(source)]
    rng, comparison = random.Random(f"{name} {seed}"), AllocationComparison()
    wanted = [random_case(rng, name) for _ in range(cases)]
    requested = "".join(case.line() + "\n" for case in wanted)
    done = subprocess.run(command, input=requested, capture_output=True, text=True, timeout=300, check=False)
    responses = [line[2:] for line in done.stdout.splitlines() if line.startswith("= ")]
    if len(responses) != len(wanted):
        comparison.failures.append(
            f"RocketMQ's classes gave {len(responses)} answers to {len(wanted)}: {done.stderr[:300]}"
        )
    for case, theirs in zip(wanted, responses, strict=False):
        comparison.cases += 1
        ours = case.ours()
        if ours != theirs:
            comparison.failures.append(f"{case.line()}: ours {ours or 'nothing'}, theirs {theirs or 'nothing'}")
    return comparison
