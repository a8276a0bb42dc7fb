"""One seed, one story of a share group: members acquire records, are slow, acknowledge this way or that and crash; brokers die;
then all is mended, and each record must have ended once."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable
from dataclasses import dataclass, field

from coterie.broker.broker import Broker
from coterie.client.connection.connection import Connection
from coterie.client.errors import KafkaError
from coterie.coordinator.share_state.state import SharePartitionKey
from coterie.laboratory.checking.share_checker import AckOutcome, ShareDeliveries
from coterie.testing.simulated import SimulatedWorld, WorldBroker, simulate
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.groups.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from coterie.wire.messages.topics.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from coterie_conformance.share_stories.raw_member import (
    ACCEPT,
    REJECT,
    RELEASE,
    RENEW,
    RawShareMember,
    acknowledged,
    initialize_states,
    parts,
)
from coterie_conformance.stories.story import StoryReport, naming_seed, without_log_lines

TOPIC, GROUP = "orders", "billing"
KINDS = {ACCEPT: "accepted", RELEASE: "released", REJECT: "rejected", RENEW: "renewed"}
REQUEST_S = 20.0
PAUSE_S = 0.2
REST_S = 400.0
LOOK_S = 0.1
ADMIN_PAUSE_S = 1.0


@dataclass(frozen=True, slots=True)
class SharePlan:
    """What a seed draws."""

    seed: int
    brokers: int
    partitions: int
    members: int
    records: int
    lock_ms: int
    delivery_limit: int

    def settings(self) -> dict[str, object]:
        """The broker's."""
        replicas = str(self.brokers)
        return {
            "group.share.record.lock.duration.ms": str(self.lock_ms),
            "group.share.min.record.lock.duration.ms": str(self.lock_ms),
            "group.share.delivery.count.limit": str(self.delivery_limit),
            "group.share.partition.max.record.locks": "100",
            "default.replication.factor": replicas,
            "min.insync.replicas": "1",
            "share.coordinator.state.topic.num.partitions": "2",
            "share.coordinator.state.topic.replication.factor": replicas,
        }


def draw_share_plan(seed: int, brokers: int = 1) -> SharePlan:
    """The plan of a seed."""
    rng = random.Random(f"share {seed}")
    return SharePlan(
        seed,
        brokers,
        rng.randint(1, 3),
        rng.randint(2, 4),
        rng.randint(20, 150),
        rng.choice((1_000, 2_000, 5_000)),
        rng.choice((2, 3, 5)),
    )


Sent = tuple["_StoryMember", dict[int, list[tuple[int, int, int]]]]


@dataclass(slots=True)
class _Work:
    """What the members of a story share. ``calm``: they accept all that they get from now on."""

    plan: SharePlan
    servers: list[tuple[str, int]]
    history: ShareDeliveries
    topic_id: bytes = b""
    calm: bool = False
    restarts: dict[str, int] = field(default_factory=dict)
    sending: dict[str, Sent] = field(default_factory=dict)  # by the process that has no response yet


Held = list[tuple[int, int, int]]  # partition, first and last offset


class _StoryMember:
    """One life of a member: a session at each leader."""

    def __init__(self, work: _Work, name: str) -> None:
        self._work, self._rng = work, random.Random(f"{work.plan.seed} {name}")
        self.member_id = name
        self._sessions: dict[tuple[str, int], RawShareMember] = {}
        self._wanted: dict[tuple[str, int], set[int]] = {}

    async def live(self) -> None:
        """Fetches and acknowledges for ever; a session that fails is opened again."""
        while True:
            leaders = await self._leaders()
            for address, partitions in leaders.items():
                try:
                    await self._turn(address, partitions)
                except (KafkaError, OSError, TimeoutError):
                    self._forget(address)
                    await asyncio.sleep(PAUSE_S)
            if not leaders:
                await asyncio.sleep(PAUSE_S)

    async def _leaders(self) -> dict[tuple[str, int], list[int]]:
        for host, port in self._work.servers:
            try:
                connection = await Connection.connect(host, port, self.member_id, REQUEST_S)
                request = MetadataRequest([MetadataRequestTopic(name=TOPIC)], False)
                response = await connection.request(request, MetadataResponse, REQUEST_S)
                connection.close()
            except (KafkaError, OSError, TimeoutError):
                continue
            addresses = {broker.node_id: (broker.host, broker.port) for broker in response.brokers}
            leaders: dict[tuple[str, int], list[int]] = {}
            for topic in response.topics:
                for partition in topic.partitions:
                    if partition.leader_id in addresses:
                        leaders.setdefault(addresses[partition.leader_id], []).append(partition.partition_index)
            return leaders
        return {}

    def _forget(self, address: tuple[str, int]) -> None:
        session = self._sessions.pop(address, None)
        if session is not None:
            session.connection.abort()

    async def _turn(self, address: tuple[str, int], partitions: list[int]) -> None:
        """One fetch, and the acknowledgement of what it had."""
        session = self._sessions.get(address)
        if session is not None and self._wanted[address] != set(partitions):
            self._forget(address)
            session = None
        named = partitions if session is None else []
        if session is None:
            connection = await Connection.connect(*address, self.member_id, REQUEST_S)
            session = RawShareMember(connection, self._work.topic_id, self.member_id, GROUP, timeout_s=REQUEST_S)
            self._sessions[address], self._wanted[address] = session, set(partitions)
        rng = self._rng
        response = await session.fetch(
            named,
            max_records=rng.randint(1, 30),
            batch_size=rng.choice((1, 5, 500)),
            share_acquire_mode=rng.randint(0, 1),
            max_wait_ms=300,
        )
        if response.error_code:
            self._forget(address)
            return
        held: Held = []
        for index, data in parts(response).items():
            if data.error_code:
                self._forget(address)
            acquired = [(a.first_offset, a.last_offset, a.delivery_count) for a in data.acquired_records]
            self._work.history.acquired(self.member_id, (TOPIC, index), acquired)
            held += [(index, first, last) for first, last, _ in acquired]
        if held and address in self._sessions:
            await self._process(address, session, held)

    async def _process(self, address: tuple[str, int], session: RawShareMember, held: Held) -> None:
        rng, lock_s = self._rng, self._work.plan.lock_ms / 1000
        if not self._work.calm:
            await asyncio.sleep(rng.uniform(0, lock_s * 1.2) if rng.random() < 0.3 else rng.uniform(0, 0.1))
        acks: dict[int, list[tuple[int, int, int]]] = {}
        for index, first, last in held:
            acks.setdefault(index, []).extend(self._kinds(first, last))
        acks = {index: batches for index, batches in acks.items() if batches}
        if not acks:
            return
        renews = any(kind == RENEW for batches in acks.values() for _, _, kind in batches)
        outcome: dict[int, AckOutcome] = dict.fromkeys(acks, AckOutcome.UNKNOWN)
        process = self.member_id.rpartition("-")[0]
        self._work.sending[process] = self, acks
        try:
            response = await session.acknowledge(acks, is_renew_ack=renews)
            if response.error_code:
                self._forget(address)
                outcome = dict.fromkeys(acks, AckOutcome.REFUSED)
            for index, data in acknowledged(response).items():
                outcome[index] = _outcome(data.error_code)
        finally:
            del self._work.sending[process]
            for index, batches in acks.items():
                self.note(index, batches, outcome[index])

    def note(self, index: int, batches: Iterable[tuple[int, int, int]], outcome: AckOutcome) -> None:
        """What was sent, in the history."""
        for first, last, kind in batches:
            for offset in range(first, last + 1):
                if kind != RENEW:
                    self._work.history.acknowledged(self.member_id, (TOPIC, index), offset, KINDS[kind], outcome)

    def _kinds(self, first: int, last: int) -> list[tuple[int, int, int]]:
        if self._work.calm:
            return [(first, last, ACCEPT)]
        batches, start = [], first
        while start <= last:
            end = min(last, start + self._rng.randint(0, 5))
            kind = self._rng.choices((ACCEPT, RELEASE, REJECT, RENEW, None), (75, 10, 4, 4, 7))[0]
            if kind is not None:
                batches.append((start, end, kind))
            start = end + 1
        return batches


def _outcome(code: int) -> AckOutcome:
    """Of a write whose replication was not awaited to its end nobody knows the result."""
    if not code:
        return AckOutcome.WRITTEN
    sure = (ErrorCode.INVALID_RECORD_STATE, ErrorCode.INVALID_REQUEST, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return AckOutcome.REFUSED if code in sure else AckOutcome.UNKNOWN


class ShareStory:
    """The story of one plan in a world."""

    def __init__(self, world: SimulatedWorld, plan: SharePlan) -> None:
        self.world, self.plan = world, plan
        self.rng = random.Random(f"share faults {plan.seed}")
        self.broker: WorldBroker = world.broker(plan.settings(), brokers=plan.brokers)
        servers = [
            (host, int(port)) for host, _, port in (s.rpartition(":") for s in self.broker.bootstrap_servers.split(","))
        ]
        self.history = ShareDeliveries(plan.delivery_limit)
        self.work = _Work(plan, servers, self.history)
        self.produced = dict.fromkeys(range(plan.partitions), 0)
        self.crashes = self.broker_crashes = 0
        self._down: dict[int, float] = {}

    def run(self, length_s: float) -> StoryReport:
        """Faults strike for so long; raises AssertionError where a rule is broken."""
        self._begin()
        ends_s = self.world.now_s + length_s
        while self.world.now_s < ends_s:
            self.world.advance(LOOK_S)
            self._fault()
            self._look()
        self._mend()
        self._produce(everything=True)
        self.work.calm = True
        self.world.until(self._is_done, "every record is accepted", REST_S)
        self.history.check_none_lost({(TOPIC, index): count for index, count in self.produced.items()})
        deliveries = sum(len(record.deliveries) for record in self.history.records.values())
        accepted = sum(record.ended == ["accepted"] for record in self.history.records.values())
        return StoryReport(
            self.plan.seed,
            self.plan.brokers,
            round(self.world.now_s, 3),
            self.world.loop.turns,
            accepted,
            deliveries,
            transactions=0,
            faults=self.crashes + self.broker_crashes,
            broker_crashes=self.broker_crashes,
            trace=self.world.trace,
        )

    def _begin(self) -> None:
        self.broker.create_topic(TOPIC, self.plan.partitions)
        host, port = self.work.servers[0]

        async def begin() -> bytes:
            connection = await Connection.connect(host, port, "story", REQUEST_S)
            request = MetadataRequest([MetadataRequestTopic(name=TOPIC)], False)
            topic_id = (await connection.request(request, MetadataResponse, REQUEST_S)).topics[0].topic_id
            connection.close()
            for _ in range(30):  # until `__share_group_state` has its leaders
                await self._find_coordinator(topic_id)
                for address in self.work.servers:
                    connection = await Connection.connect(*address, "story", REQUEST_S)
                    codes = await initialize_states(connection, GROUP, topic_id, self.plan.partitions)
                    connection.close()
                    done.update(index for index, code in enumerate(codes) if not code)
                    if len(done) == self.plan.partitions:
                        return topic_id
                await asyncio.sleep(ADMIN_PAUSE_S)
            raise AssertionError("the states are not initialized")

        done = set[int]()
        self.work.topic_id = self.world.run(begin())
        for number in range(self.plan.members):
            self._start(f"member-{number}")

    async def _find_coordinator(self, topic_id: bytes) -> None:
        """Which creates `__share_group_state`."""
        connection = await Connection.connect(*self.work.servers[0], "story", REQUEST_S)
        request = FindCoordinatorRequest(key_type=2, coordinator_keys=[SharePartitionKey(GROUP, topic_id, 0).text()])
        await connection.request(request, FindCoordinatorResponse, REQUEST_S)
        connection.close()

    def _start(self, name: str) -> None:
        life = self.work.restarts.setdefault(name, 0)
        self.world.spawn(name, _StoryMember(self.work, f"{name}-{life}").live)

    # -- faults -------------------------------------------------------------------------------------------------------

    def _fault(self) -> None:
        if self.rng.random() < 0.3:
            self._produce()
        if self.rng.random() < 0.02:
            name = f"member-{self.rng.randrange(self.plan.members)}"
            self.world.processes[name].kill()
            self._note_sent(name)
            self.work.restarts[name] += 1
            self.crashes += 1
            self._start(name)
        for broker_id, until_s in list(self._down.items()):
            if self.world.now_s >= until_s:
                del self._down[broker_id]
                self.broker.restart(broker_id)
        if self.rng.random() < 0.01 and not self._down:
            broker_id = self.rng.randint(1, self.plan.brokers)
            self.broker.kill(broker_id)
            self.broker_crashes += 1
            self._down[broker_id] = self.world.now_s + self.rng.uniform(0.5, 5)

    def _note_sent(self, name: str) -> None:
        """What a killed member has sent may be carried out: no `finally` of it has run (seed 7300003 of three brokers)."""
        if name in self.work.sending:
            member, acks = self.work.sending.pop(name)
            for index, batches in acks.items():
                member.note(index, batches, AckOutcome.UNKNOWN)

    def _mend(self) -> None:
        for broker_id in self._down:
            self.broker.restart(broker_id)
        self._down.clear()

    def _produce(self, *, everything: bool = False) -> None:
        left = self.plan.records - sum(self.produced.values())
        if self._down or not left:
            return
        count = left if everything else min(left, self.rng.randint(1, 8))
        index = self.rng.randrange(self.plan.partitions)
        self.broker.produce(TOPIC, *[b"x" * 10] * count, partition=index)
        self.produced[index] += count

    # -- checks -------------------------------------------------------------------------------------------------------

    def _look(self) -> None:
        """The start offsets that the leaders have; a broker that leads no longer may not know it yet."""
        for broker_id, broker in self._live():
            for index, offset in broker.share.start_offsets(GROUP).items():
                if self._leader(index) == broker_id:
                    self.history.start_offset((TOPIC, index), offset)

    def _live(self) -> list[tuple[int, Broker]]:
        if self.plan.brokers > 1:
            return [(live.broker_id, live.broker) for live in self.broker.cluster.live()]
        return [] if self._down else [(1, self.broker.broker)]

    def _leader(self, index: int) -> int:
        if self.plan.brokers == 1:
            return 1
        state = self.broker.cluster.state(TOPIC, index)
        return -1 if state is None else state.leader

    def _is_done(self) -> bool:
        for index, count in self.produced.items():
            for offset in range(count):
                record = self.history.records.get(((TOPIC, index), offset))
                if record is None:
                    return False
                spent = max(count for count, _ in record.deliveries) >= self.plan.delivery_limit
                if not (record.ended or record.may_be_ended or spent):
                    return False
        return True


def run_share_seed(seed: int, minutes: float = 0.5, *, brokers: int | None = None) -> StoryReport:
    """Runs one seed for so many virtual minutes of faults. Raises FuzzFailure with the seed where a rule is broken."""
    plan = draw_share_plan(seed, brokers or random.Random(f"brokers {seed}").choice((1, 3)))
    with naming_seed(seed), without_log_lines(), simulate(seed) as world:
        return ShareStory(world, plan).run(minutes * 60)
