"""One seed, one story of all four kinds of groups on one topic: their members read and crash, brokers die; then all is mended,
and each group must have had every record."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from coterie.client import AcknowledgeType, Admin, Consumer, KafkaError, ShareConsumer, TopicPartition
from coterie.client.connection.connection import Connection
from coterie.coordinator.streams.state import StreamsGroup
from coterie.testing.simulated import SimulatedWorld, WorldBroker, simulate
from coterie.wire.messages.settings.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from coterie_conformance.share_stories.share_checker import AckOutcome, ShareDeliveries
from coterie_conformance.share_stories.streams_program import StreamsProgram
from coterie_conformance.stories.story import StoryReport, naming_seed, without_log_lines

TOPIC, PARTITIONS, LIMIT = "orders", 3, 5
GROUP_RESOURCE, SET = 32, 0
LOOK_S, RETRY_S = 0.25, 0.5
REST_S = 400.0
PAUSES_S = (0.0, 0.01, 0.1, 0.5)
SETTINGS = {
    "group.initial.rebalance.delay.ms": "100",
    "group.consumer.heartbeat.interval.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "500",
    "group.consumer.session.timeout.ms": "10000",
    "group.consumer.min.session.timeout.ms": "3000",
    "group.share.heartbeat.interval.ms": "1000",
    "group.share.min.heartbeat.interval.ms": "500",
    "group.share.session.timeout.ms": "10000",
    "group.share.min.session.timeout.ms": "3000",
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.record.lock.duration.ms": "3000",
    "group.streams.heartbeat.interval.ms": "1000",
    "group.streams.min.heartbeat.interval.ms": "500",
    "group.streams.session.timeout.ms": "10000",
    "group.streams.min.session.timeout.ms": "3000",
    "group.streams.initial.rebalance.delay.ms": "100",
    "share.coordinator.state.topic.num.partitions": "2",
    "auto.create.topics.enable": "false",
    "min.insync.replicas": "1",
}
WORDS = {
    AcknowledgeType.ACCEPT: "accepted",
    AcknowledgeType.RELEASE: "released",
    AcknowledgeType.REJECT: "rejected",
}
Kinds = dict[tuple[int, int], AcknowledgeType]  # by partition and offset
Acknowledged = tuple[str, Kinds]  # a member with what it commits
Results = dict[TopicPartition, KafkaError | None]


@dataclass(slots=True)
class KindsWork:
    """What the members of a story share. ``delivered``: what each group had, by partition and offset; ``shared``: the history
    of the share group. ``calm``: members take no pauses and accept all from now on."""

    servers: str
    seed: int
    shared: ShareDeliveries
    delivered: dict[str, set[tuple[int, int]]] = field(default_factory=dict)
    lives: dict[str, int] = field(default_factory=dict)
    sending: dict[str, Acknowledged] = field(default_factory=dict)  # by the process whose commit has no result yet
    calm: bool = False

    def begin(self, name: str) -> random.Random:
        """A new life of a member; its randomness."""
        self.lives[name] = self.lives.get(name, 0) + 1
        return random.Random(f"{self.seed} {name} {self.lives[name]}")

    def killed(self, name: str) -> None:
        """What the process was committing is ended or not; nothing of it runs any more that could note this."""
        if name in self.sending:
            _note(self, *self.sending.pop(name), None)

    def note(self, group: str, partition: int, offset: int) -> None:
        """A member of the group has the record."""
        self.delivered.setdefault(group, set()).add((partition, offset))


Program = Callable[[KindsWork, str, Mapping[str, object]], Awaitable[None]]


async def read(work: KindsWork, name: str, settings: Mapping[str, object]) -> None:
    """A consumer of the classic or the consumer protocol that commits what it has."""
    rng, group = work.begin(name), str(settings["group.id"])
    async with Consumer({**settings, "auto.offset.reset": "earliest", "enable.auto.commit": False}) as consumer:
        consumer.subscribe([TOPIC])
        while True:
            polled = await consumer.poll(500)
            for where, records in polled.items():
                for record in records:
                    work.note(group, where.partition, record.offset)
            if not work.calm:
                await asyncio.sleep(rng.choice(PAUSES_S))
            if polled:
                await consumer.commit()


async def share(work: KindsWork, name: str, settings: Mapping[str, object]) -> None:
    """A share consumer that accepts most, and releases or rejects others."""
    rng, group = work.begin(name), str(settings["group.id"])
    member = f"{name}-{work.lives[name]}"
    async with ShareConsumer({**settings, "share.acknowledgement.mode": "explicit"}) as consumer:
        consumer.subscribe([TOPIC])
        while True:
            kinds: Kinds = {}
            for where, records in (await consumer.poll(500)).items():
                for record in records:
                    part = (record.offset, record.offset, record.delivery_count)
                    work.shared.acquired(member, (TOPIC, where.partition), [part])
                    work.note(group, where.partition, record.offset)
                    kind = AcknowledgeType.ACCEPT
                    if not work.calm:
                        kind = rng.choices([kind, AcknowledgeType.RELEASE, AcknowledgeType.REJECT], (85, 10, 5))[0]
                    kinds[where.partition, record.offset] = kind
                    consumer.acknowledge(record, kind)
            if not work.calm:
                await asyncio.sleep(rng.choice(PAUSES_S))
            if kinds:
                work.sending[name] = member, kinds
                results: Results | None = None
                try:
                    results = await consumer.commit()
                finally:
                    if work.sending.get(name) == (member, kinds):
                        _note(work, *work.sending.pop(name), results)


def _note(work: KindsWork, member: str, kinds: Kinds, results: Results | None) -> None:
    """The result of a commit, in the history; None: unknown."""
    for (partition, offset), kind in kinds.items():
        outcome = AckOutcome.UNKNOWN
        if results is not None and results.get(TopicPartition(TOPIC, partition), results) is None:
            outcome = AckOutcome.WRITTEN
        work.shared.acknowledged(member, (TOPIC, partition), offset, WORDS[kind], outcome)


async def stream(work: KindsWork, name: str, settings: Mapping[str, object]) -> None:
    """A thread of a streams application with one subtopology."""
    rng, group = work.begin(name), str(settings["group.id"])
    program = StreamsProgram(work.servers, group, f"{name}-{work.lives[name]}", TOPIC)

    def has(partition: int, offset: int) -> None:
        work.note(group, partition, offset)

    await program.run(has, lambda: 0.0 if work.calm else rng.choice(PAUSES_S))


@dataclass(frozen=True, slots=True)
class GroupOfKind:
    """A group of the story: what each of its members runs, with these settings."""

    name: str
    program: Program
    members: int
    settings: Mapping[str, object] = field(default_factory=dict)


CLASSIC = {"session.timeout.ms": 10_000, "partition.assignment.strategy": "cooperative-sticky"}
GROUPS = (
    GroupOfKind("classic", read, 2, CLASSIC),
    GroupOfKind("consumer", read, 2, {"group.protocol": "consumer"}),
    GroupOfKind("share", share, 3),
    GroupOfKind("streams", stream, 2),
)


class KindsStory:
    """The story of one seed in a world."""

    def __init__(self, world: SimulatedWorld, seed: int, brokers: int) -> None:
        self.world, self.seed, self.brokers = world, seed, brokers
        self.rng = random.Random(f"kinds {seed}")
        replicas = str(brokers)
        settings: dict[str, object] = {**SETTINGS, "default.replication.factor": replicas}
        settings["share.coordinator.state.topic.replication.factor"] = replicas
        self.broker: WorldBroker = world.broker(settings, brokers=brokers)
        self.shared = ShareDeliveries(LIMIT)
        self.work = KindsWork(self.broker.bootstrap_servers, seed, self.shared)
        self.members = {f"{group.name}-{n}": group for group in GROUPS for n in range(group.members)}
        self.produced = dict.fromkeys(range(PARTITIONS), 0)
        self.faults = self.broker_crashes = 0
        self._down: dict[int, float] = {}

    def run(self, length_s: float) -> StoryReport:
        """Faults strike for so long; raises AssertionError where a rule is broken."""
        self.broker.create_topic(TOPIC, PARTITIONS)
        self.world.run(self._begin())
        for name in self.members:
            self._start(name)
        ends_s = self.world.now_s + length_s
        while self.world.now_s < ends_s:
            self.world.advance(LOOK_S)
            self._fault()
            self._look()
        for broker_id in self._down:
            self.broker.restart(broker_id)
        self._down.clear()
        self._produce()
        self.work.calm = True
        deadline_s = self.world.now_s + REST_S
        while missing := self._missing():
            assert self.world.now_s < deadline_s, f"{REST_S:g} s after the last fault {missing}"
            self.world.advance(LOOK_S)
            self._look()
        if any(group.program is share for group in GROUPS):
            ends: dict[tuple[str, int], int] = {(TOPIC, index): count for index, count in self.produced.items()}
            self.shared.check_none_lost(ends)
        deliveries = sum(len(record.deliveries) for record in self.shared.records.values())
        return StoryReport(
            self.seed,
            self.brokers,
            round(self.world.now_s, 3),
            self.world.loop.turns,
            sum(self.produced.values()),
            deliveries + sum(len(of) for group, of in self.work.delivered.items() if group != "share"),
            transactions=0,
            faults=self.faults,
            broker_crashes=self.broker_crashes,
            trace=self.world.trace,
        )

    async def _begin(self) -> None:
        """The share group begins at the first records."""
        changes = [AlterableConfig("share.auto.offset.reset", SET, "earliest")]
        request = IncrementalAlterConfigsRequest([AlterConfigsResource(GROUP_RESOURCE, "share", changes)], False)
        async with Admin({"bootstrap.servers": self.work.servers}) as admin:
            controller = (await admin.describe_cluster()).controller
        assert controller is not None
        connection = await Connection.connect(controller.host, controller.port, "story", 20.0)
        response = await connection.request(request, IncrementalAlterConfigsResponse, 20.0)
        connection.close()
        assert not response.responses[0].error_code, response

    def _start(self, name: str) -> None:
        group = self.members[name]
        settings = {"bootstrap.servers": self.work.servers, "group.id": group.name, **group.settings}
        self.world.spawn(name, partial(_lives, group.program, self.work, name, settings))

    # -- faults -------------------------------------------------------------------------------------------------------

    def _fault(self) -> None:
        if self.rng.random() < 0.3:
            self._produce()
        if self.rng.random() < 0.04:
            name = self.rng.choice(list(self.members))
            self.world.processes[name].kill()
            self.work.killed(name)
            self.faults += 1
            self._start(name)
        for broker_id, until_s in list(self._down.items()):
            if self.world.now_s >= until_s:
                del self._down[broker_id]
                self.broker.restart(broker_id)
        if self.rng.random() < 0.02 and not self._down:
            broker_id = self.rng.randint(1, self.brokers)
            self.broker.kill(broker_id)
            self.faults += 1
            self.broker_crashes += 1
            self._down[broker_id] = self.world.now_s + self.rng.uniform(0.5, 5)

    def _produce(self) -> None:
        if self._down:
            return
        index, count = self.rng.randrange(PARTITIONS), self.rng.randint(1, 6)
        self.broker.produce(TOPIC, *[b"x" * 10] * count, partition=index)
        self.produced[index] += count

    # -- checks -------------------------------------------------------------------------------------------------------

    def _look(self) -> None:
        """No active task has two owners."""
        state = self.broker.group_now("streams")
        if isinstance(state, StreamsGroup):
            check_streams_group(state)

    def _missing(self) -> str:
        """What is not at rest yet."""
        for group in GROUPS:
            had = self.work.delivered.get(group.name, set())
            missed = [(p, o) for p, count in self.produced.items() for o in range(count) if (p, o) not in had]
            if missed:
                return f"group {group.name} has not had {len(missed)} records, first {missed[0]}"
            if group.program is share:
                open_records = [at for at, record in self.shared.records.items() if not self._has_ended(at)]
                if open_records:
                    return f"record {open_records[0]} of the share group has not ended"
                continue
            offsets = self.broker.committed_now(group.name)
            behind = {p: offsets.get((TOPIC, p), 0) for p, n in self.produced.items() if offsets.get((TOPIC, p), 0) < n}
            if behind:
                return f"group {group.name} has committed {behind} of {self.produced}"
        return ""

    def _has_ended(self, at: Any) -> bool:
        record = self.shared.records[at]
        spent = any(count >= LIMIT for count, _ in record.deliveries)
        return bool(record.ended or record.may_be_ended or spent)


def check_streams_group(group: StreamsGroup) -> None:
    """Raises AssertionError where a task is active at two members."""
    owners: dict[Any, str] = {}
    for member in group.members.values():
        current = member.current
        for task in {**current.assigned.active, **current.pending_revocation.active}:
            assert task not in owners, f"task {task} is active at {owners[task]} and {member.member_id}"
            owners[task] = member.member_id


async def _lives(program: Program, work: KindsWork, name: str, settings: Mapping[str, object]) -> None:
    """A program whose client fails begins again with another, as a supervised process would."""
    while True:
        try:
            await program(work, name, settings)
        except (KafkaError, OSError):
            await asyncio.sleep(RETRY_S)


def run_kinds_seed(seed: int, minutes: float = 0.5, *, brokers: int | None = None) -> StoryReport:
    """Runs one seed for so many virtual minutes of faults. Raises FuzzFailure with the seed where a rule is broken."""
    count = brokers or random.Random(f"brokers {seed}").choice((1, 3))
    with naming_seed(seed), without_log_lines(), simulate(seed) as world:
        return KindsStory(world, seed, count).run(minutes * 60)
