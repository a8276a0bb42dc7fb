"""The administrator of a cluster's story: topics made, grown and deleted, partitions moved, settings altered, records deleted,
and a producer that writes to all of these topics. Beside it, many producers that begin at all brokers at once, so that these
reserve blocks of producer ids at once."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from coterie.client import Admin, KafkaError, Producer
from coterie.client.connection.connection import Connection
from coterie.client.connection.handshake import response_type
from coterie.controller.producer_id_blocks import ProducerIdBlocks
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.transactions.init_producer_id import InitProducerIdRequest
from coterie_conformance.stories.history import TopicPartition
from coterie_conformance.stories.plan import INPUT
from coterie_conformance.stories.programs import RETRY_S, StoryWork

NAMES = ("x-1", "x-2", "x-3")  # used again after a deletion
MAX_PARTITIONS = 4
ACT_EVERY_S = 0.8
WRITE_EVERY_S = 0.05
CLIENT_SETTINGS = {"request.timeout.ms": 1_500, "default.api.timeout.ms": 4_000}
MIN_ISR, RETENTION_BYTES = "min.insync.replicas", "retention.bytes"
UNCLEAN = "unclean.leader.election.enable"
BLOCK = 16  # producer ids: brokers reserve as often as with Kafka's 1,000 and 50 times as many that begin
AT_ONCE = 2  # begin at one broker
PAUSE_S = 0.2
TIMEOUT_S = 2.0


@dataclass(slots=True)
class AdministeredTopic:
    """One incarnation of a name. ``partitions`` are known to the administrator; ``is_written``: not since its deletion was
    requested; ``is_deleted``: the request had a response; ``may_lose``: an unclean election was allowed; ``deleted_before``:
    the highest offsets of DeleteRecords; ``acknowledged``: values by partition and offset."""

    name: str
    number: int
    partitions: int
    is_written: bool = True
    is_deleted: bool = False
    may_lose: bool = False
    has_retention: bool = False
    deleted_before: dict[int, int] = field(default_factory=dict)
    acknowledged: dict[tuple[int, int], bytes] = field(default_factory=dict)


@dataclass(slots=True)
class Administration:
    """``topics``: the latest incarnation of each name; ``former``: what deleted ones had acknowledged; ``count``: what was done
    by kind."""

    work: StoryWork
    brokers: int
    topics: dict[str, AdministeredTopic] = field(default_factory=dict)
    former: dict[str, set[bytes]] = field(default_factory=dict)
    count: dict[str, int] = field(default_factory=dict)

    async def administrate(self, name: str) -> None:
        """One act after the other. What an act that fails has brought about is not known."""
        rng = self.work.begin(name)
        settings = {"bootstrap.servers": self.work.servers, **CLIENT_SETTINGS}
        while not self.work.finishing:
            try:
                async with Admin(settings) as admin:
                    while not self.work.finishing:
                        await self._act(admin, rng)
                        await asyncio.sleep(rng.expovariate(1 / ACT_EVERY_S))
            except KafkaError as error:
                self.work.history.errors.append((name, error.code.name))
                await asyncio.sleep(RETRY_S)

    async def _act(self, admin: Admin, rng: random.Random) -> None:
        kind = rng.choices(list(ACTS), [weight for weight, _ in ACTS.values()])[0]
        try:
            if await ACTS[kind][1](self, admin, rng):
                self.count[kind] = self.count.get(kind, 0) + 1
        except KafkaError as error:
            self.work.history.errors.append((kind, error.code.name))

    def some(self, rng: random.Random) -> list[int]:
        """Three brokers."""
        return rng.sample(range(1, self.brokers + 1), 3)

    def written(self) -> list[AdministeredTopic]:
        """The topics that are there."""
        return [topic for topic in self.topics.values() if topic.is_written]

    def _partition(self, rng: random.Random) -> TopicPartition:
        every = [(topic.name, number) for topic in self.written() for number in range(topic.partitions)]
        return rng.choice([*every, *((INPUT, number) for number in range(3))])

    # -- acts -------------------------------------------------------------------------------------------------------------

    async def _create_or_delete(self, admin: Admin, rng: random.Random) -> bool:
        name = rng.choice(NAMES)
        topic = self.topics.get(name)
        if topic is not None and not topic.is_deleted:
            topic.is_written = False
            await admin.delete_topic(name)
            topic.is_deleted = True
            self.former.setdefault(name, set()).update(topic.acknowledged.values())
            return True
        partitions = rng.randint(1, 2)
        await admin.create_topic(name, assignments={number: self.some(rng) for number in range(partitions)})
        number = 1 if topic is None else topic.number + 1
        self.topics[name] = AdministeredTopic(name, number, partitions)
        return True

    async def _grow(self, admin: Admin, rng: random.Random) -> bool:
        topics = [topic for topic in self.written() if topic.partitions < MAX_PARTITIONS]
        if not topics:
            return False
        topic = rng.choice(topics)
        await admin.create_partitions(topic.name, topic.partitions + 1)
        topic.partitions += 1
        return True

    async def _reassign(self, admin: Admin, rng: random.Random) -> bool:
        await admin.alter_partition_reassignments({self._partition(rng): self.some(rng)})
        return True

    async def _cancel(self, admin: Admin, rng: random.Random) -> bool:
        under_way = sorted(await admin.list_partition_reassignments())
        if not under_way:
            return False
        await admin.alter_partition_reassignments({rng.choice(under_way): None})
        return True

    async def _elect(self, admin: Admin, rng: random.Random) -> bool:
        await admin.elect_leaders()
        return True

    async def _alter(self, admin: Admin, rng: random.Random) -> bool:
        topics = self.written()
        if not topics:
            return False
        topic = rng.choice(topics)
        altered = {MIN_ISR: str(rng.randint(2, 3)), RETENTION_BYTES: str(rng.randint(20, 60) * 100)}
        key = rng.choice(list(altered))
        topic.has_retention |= key == RETENTION_BYTES
        await admin.incremental_alter_configs(topic.name, {key: altered[key]})
        return True

    async def _delete_records(self, admin: Admin, rng: random.Random) -> bool:
        topics = self.written()
        if not topics:
            return False
        topic = rng.choice(topics)
        partition = topic.name, rng.randrange(topic.partitions)
        end = (await admin.list_offsets({partition: -1}))[partition]  # type: ignore[index]
        if end <= 0:
            return False
        before = rng.randint(1, end)
        topic.deleted_before[partition[1]] = max(before, topic.deleted_before.get(partition[1], 0))
        await admin.delete_records({partition: before})
        return True

    # -- the producer of these topics -------------------------------------------------------------------------------------

    async def write(self, name: str) -> None:
        """Records to any of these topics, with acks=all."""
        rng = self.work.begin(name)
        settings = {
            "bootstrap.servers": self.work.servers,
            "enable.idempotence": False,
            "acks": "all",
            "delivery.timeout.ms": 3_000,
            "request.timeout.ms": 1_000,
        }
        while not self.work.finishing:
            try:
                async with Producer(settings) as producer:
                    while not self.work.finishing:
                        await self._write_one(producer, name, rng)
                        await asyncio.sleep(rng.expovariate(1 / WRITE_EVERY_S))
            except KafkaError as error:
                self.work.history.errors.append((name, error.code.name))
                await asyncio.sleep(RETRY_S)

    async def _write_one(self, producer: Producer[Any, Any], name: str, rng: random.Random) -> None:
        topics = self.written()
        if not topics:
            return
        topic = rng.choice(topics)
        partition = rng.randrange(topic.partitions)
        number = self.work.numbers[name] = self.work.numbers.get(name, 0) + 1
        value = b"%s %d" % (name.encode(), number)

        def delivered(metadata: Any, error: KafkaError | None) -> None:
            if error is None and topic.is_written:
                topic.acknowledged[partition, metadata.offset] = value

        await producer.send(topic.name, value, partition=partition, on_delivery=delivered)


Act = Callable[[Administration, Admin, random.Random], Awaitable[bool]]
ACTS: dict[str, tuple[int, Act]] = {
    "topic_created_or_deleted": (3, Administration._create_or_delete),
    "topic_grown": (1, Administration._grow),
    "reassigned": (3, Administration._reassign),
    "reassignment_cancelled": (1, Administration._cancel),
    "preferred_leaders_elected": (1, Administration._elect),
    "settings_altered": (1, Administration._alter),
    "records_deleted": (1, Administration._delete_records),
}


@contextmanager
def small_blocks() -> Iterator[None]:
    """Of producer ids, in clusters."""
    size, ProducerIdBlocks.size = ProducerIdBlocks.size, BLOCK
    try:
        yield
    finally:
        ProducerIdBlocks.size = size


@dataclass(slots=True)
class GivenProducerIds:
    """``given`` by id the broker that gave it; ``twice``: a sentence for each id that was given again."""

    work: StoryWork
    given: dict[int, str] = field(default_factory=dict)
    twice: list[str] = field(default_factory=list)

    async def begin(self, name: str, server: str) -> None:
        """Producers without a transactional id begin at that broker."""
        self.work.begin(name)
        host, _, port = server.partition(":")
        while not self.work.finishing:
            try:
                await self._begin_at(server, await Connection.connect(host, int(port), name, TIMEOUT_S))
            except (KafkaError, OSError) as error:
                self.work.history.errors.append((name, type(error).__name__))
                await asyncio.sleep(RETRY_S)

    async def _begin_at(self, server: str, connection: Connection) -> None:
        request = InitProducerIdRequest(None, 10_000)
        try:
            while not self.work.finishing:
                calls = [connection.request(request, response_type(request), TIMEOUT_S) for _ in range(AT_ONCE)]
                for response in await asyncio.gather(*calls):
                    if response.error_code == ErrorCode.NONE:
                        self._note(response.producer_id, server)
                await asyncio.sleep(PAUSE_S)
        finally:
            connection.close()

    def _note(self, producer_id: int, server: str) -> None:
        other = self.given.setdefault(producer_id, "")
        if other:
            self.twice.append(f"{other} and {server} have given the producer id {producer_id}")
        self.given[producer_id] = server
