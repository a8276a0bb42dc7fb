"""The same work as a queue and by ownership: a share group beside a cooperative and a consumer group, by our programs in
virtual time. Of each record it is measured how long it waits for its end, and how often it is processed."""

from __future__ import annotations

import asyncio
import random
import statistics
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

from coterie.client import Admin, Consumer, KafkaError, Producer, ShareConsumer
from coterie.testing.simulated import SimulatedWorld, simulate
from coterie_conformance.stories.story import without_log_lines

TOPIC, GROUP, PARTITIONS, MEMBERS = "jobs", "workers", 2, 4
EVERY_S, WORK_S, SLOW_S = 0.15, 0.02, 20.0  # between two records of a partition; of one record; of a slow one
WARM_S, LENGTH_S, REST_S = 20.0, 75.0, 400.0
DOWN_S, BETWEEN_S, LATE_S = 2.0, 15.0, 1.0
PROTOCOLS: dict[str, dict[str, object]] = {
    "cooperative": {"partition.assignment.strategy": "cooperative-sticky"},
    "consumer": {"group.protocol": "consumer"},
    "share": {},
}


def _now_s() -> float:
    return asyncio.get_running_loop().time()


@dataclass(slots=True)
class Shift:
    """The work of one run: by record its time, and when it was done, as often as it was; ``last``: who did the last one."""

    servers: str
    settings: dict[str, object]
    sent_s: dict[bytes, float] = field(default_factory=dict)
    done_s: dict[bytes, list[float]] = field(default_factory=dict)
    slow: set[bytes] = field(default_factory=set)
    last: int = 0

    async def process(self, value: bytes, number: int) -> None:
        """One record."""
        await asyncio.sleep(SLOW_S if value in self.slow else WORK_S)
        self.done_s.setdefault(value, []).append(_now_s())
        self.last = number


@dataclass(frozen=True, slots=True)
class QueueFigures:
    """Of the records sent after the change: seconds from the send to the first end, how many waited for more than `LATE_S`, and
    how often records were done again."""

    change: str
    protocol: str
    median_s: float
    longest_s: float
    late: int
    again: int


async def work_by_ownership(shift: Shift, number: int) -> None:
    """A consumer that commits what it has done."""
    settings = {**shift.settings, "auto.offset.reset": "earliest", "enable.auto.commit": False, "max.poll.records": 10}
    async with Consumer(settings) as consumer:
        consumer.subscribe([TOPIC])
        while True:
            for records in (await consumer.poll(500)).values():
                for record in records:
                    await shift.process(record.value or b"", number)
            with suppress(KafkaError):
                await consumer.commit()


async def work_as_a_queue(shift: Shift, number: int) -> None:
    """A share consumer that accepts each record once it is done."""
    settings = {**shift.settings, "max.poll.records": 10, "share.acquire.mode": "record_limit"}
    async with ShareConsumer({**settings, "share.acknowledgement.mode": "explicit"}) as consumer:
        consumer.subscribe([TOPIC])
        while True:
            for records in (await consumer.poll(500)).values():
                for record in records:
                    await shift.process(record.value or b"", number)
                    consumer.acknowledge(record)
            await consumer.commit()


async def feed(shift: Shift, partition: int, until_s: float) -> None:
    """A record every `EVERY_S`."""
    number = 0
    async with Producer({"bootstrap.servers": shift.servers, "linger.ms": 0}) as producer:
        while _now_s() < until_s:
            value = b"%d-%d" % (partition, number)
            number += 1
            shift.sent_s[value] = _now_s()
            await producer.send(TOPIC, value, partition=partition)
            await asyncio.sleep(EVERY_S)
        await producer.flush()


class Crew:
    """The members of a run, which a change starts, kills and restarts."""

    def __init__(self, world: SimulatedWorld, protocol: str, seed: int) -> None:
        self.world, self.rng = world, random.Random(seed)
        self.broker = world.broker({"auto.create.topics.enable": "false"})
        self.broker.create_topic(TOPIC, PARTITIONS)
        servers = self.broker.bootstrap_servers
        self.shift = Shift(servers, {"bootstrap.servers": servers, "group.id": GROUP, **PROTOCOLS[protocol]})
        self._work: Callable[[Shift, int], Awaitable[None]] = (
            work_as_a_queue if protocol == "share" else work_by_ownership
        )
        self.until_s = 0.0

    def member(self, number: int) -> None:
        self.world.spawn(f"member-{number}", partial(self._work, self.shift, number))

    def feed(self, partition: int) -> None:
        self.world.spawn(f"feed-{partition}", partial(feed, self.shift, partition, self.until_s))

    def kill(self, number: int) -> None:
        self.world.processes[f"member-{number}"].kill()


def one_joins(crew: Crew) -> None:
    crew.member(MEMBERS)


def one_is_killed(crew: Crew) -> None:
    """The one that did the last record."""
    crew.kill(crew.shift.last)


def killed_in_turn(crew: Crew) -> None:
    """Each is killed, and started again after `DOWN_S`."""
    for number in range(MEMBERS):
        crew.kill(number)
        crew.world.advance(DOWN_S)
        crew.member(number)
        crew.world.advance(BETWEEN_S)


def the_topic_grows(crew: Crew) -> None:
    """To twice its partitions, which have records at once."""

    async def grow() -> None:
        async with Admin({"bootstrap.servers": crew.shift.servers}) as admin:
            await admin.create_partitions(TOPIC, 2 * PARTITIONS)

    crew.world.run(grow())
    for partition in range(PARTITIONS, 2 * PARTITIONS):
        crew.feed(partition)


def one_record_is_slow(crew: Crew) -> None:
    """The records of its partition, or none, wait behind it."""
    last = max((value for value in crew.shift.sent_s if value.startswith(b"0-")), key=crew.shift.sent_s.__getitem__)
    crew.shift.slow.add(b"0-%d" % (int(last.split(b"-")[1]) + 5))


CHANGES: dict[str, Callable[[Crew], None]] = {
    "one joins": one_joins,
    "one is killed": one_is_killed,
    "each is killed in turn": killed_in_turn,
    "the topic grows": the_topic_grows,
    "one record is slow": one_record_is_slow,
}


def run_once(change: str, protocol: str, seed: int = 0) -> QueueFigures:
    """One run of a change. Raises AssertionError where a record is never done."""
    with without_log_lines(), simulate(seed) as world:
        crew = Crew(world, protocol, seed)
        world.advance(crew.rng.uniform(0, 1))
        for number in range(MEMBERS):
            crew.member(number)
        world.advance(15)
        crew.until_s = world.now_s + WARM_S + LENGTH_S
        for partition in range(PARTITIONS):
            crew.feed(partition)
        world.advance(WARM_S)
        changed_s = world.now_s
        CHANGES[change](crew)
        world.advance(max(crew.until_s - world.now_s, 0) + 1)
        shift, ends_s = crew.shift, world.now_s + REST_S
        while (missing := [v for v in shift.sent_s if v not in shift.done_s]) and world.now_s < ends_s:
            world.advance(1)
        assert not missing, f"{change}, {protocol}: {len(missing)} records were never done, first {missing[0]!r}"
        after = {v: shift.done_s[v] for v, at in shift.sent_s.items() if at >= changed_s and v not in shift.slow}
        waits = sorted(done[0] - shift.sent_s[value] for value, done in after.items())
        again = sum(len(done) - 1 for done in shift.done_s.values())
        late = sum(wait > LATE_S for wait in waits)
        return QueueFigures(change, protocol, statistics.median(waits), waits[-1], late, again)


def compared() -> Iterator[QueueFigures]:
    """Each change with each protocol."""
    for change in CHANGES:
        for protocol in PROTOCOLS:
            yield run_once(change, protocol)
