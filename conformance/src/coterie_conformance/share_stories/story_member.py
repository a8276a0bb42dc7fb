"""A member in the story of a share group, which acquires records, is slow, and acknowledges this way or that; and the plan of a
seed."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from coterie.client.connection.connection import Connection
from coterie.client.errors import KafkaError
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.topics.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from coterie_conformance.share_stories.raw_member import (
    ACCEPT,
    REJECT,
    RELEASE,
    RENEW,
    RawShareMember,
    acknowledged,
    parts,
)
from coterie_conformance.share_stories.share_checker import AckOutcome, ShareDeliveries

TOPIC, GROUP = "orders", "billing"
LETTERS, LETTER_PARTITIONS = "dlq.orders", 2
KINDS = {ACCEPT: "accepted", RELEASE: "released", REJECT: "rejected", RENEW: "renewed"}
REQUEST_S = 20.0
PAUSE_S = 0.2


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
    dead_letters: bool

    def settings(self) -> dict[str, object]:
        """The broker's."""
        replicas = str(self.brokers)
        return {
            "group.share.record.lock.duration.ms": str(self.lock_ms),
            "group.share.min.record.lock.duration.ms": str(self.lock_ms),
            "group.share.delivery.count.limit": str(self.delivery_limit),
            "group.share.partition.max.record.locks": "100",
            "default.replication.factor": replicas,
            "num.partitions": str(LETTER_PARTITIONS),
            "errors.deadletterqueue.auto.create.topics.enable": "true",
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
        random.Random(f"dead letters {seed}").random() < 0.7,
    )


Sent = tuple["ShareStoryMember", dict[int, list[tuple[int, int, int]]]]


@dataclass(slots=True)
class ShareWork:
    """What the members of a story share. ``calm``: they accept all that they get from now on."""

    plan: SharePlan
    servers: list[tuple[str, int]]
    history: ShareDeliveries
    topic_id: bytes = b""
    calm: bool = False
    restarts: dict[str, int] = field(default_factory=dict)
    sending: dict[str, Sent] = field(default_factory=dict)  # by the process that has no response yet
    letters: Callable[[], set[tuple[tuple[str, int], int]]] = set  # the records that have a dead letter now


Held = list[tuple[int, int, int]]  # partition, first and last offset


class ShareStoryMember:
    """One life of a member: a session at each leader."""

    def __init__(self, work: ShareWork, name: str) -> None:
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
        letters = self._work.letters() if outcome is AckOutcome.WRITTEN else set()
        for first, last, kind in batches:
            for offset in range(first, last + 1):
                if kind != RENEW:
                    late = ((TOPIC, index), offset) in letters
                    outcome_here = AckOutcome.TOO_LATE if late else outcome
                    self._work.history.acknowledged(self.member_id, (TOPIC, index), offset, KINDS[kind], outcome_here)

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
