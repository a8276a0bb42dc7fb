"""The clusters that the console looks at, one broker or three, of coterie or of Apache Kafka, of which one dies and comes
back; and what happens there meanwhile: members of a group come and go, records are written."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coterie.client import Admin, Consumer, KafkaError, Producer
from coterie.text.addresses import format_address
from coterie_conformance.cluster.command_cluster import command_cluster
from coterie_conformance.servers.coterie_process import CoterieBroker
from coterie_conformance.servers.kafka import KafkaBroker

SETTINGS = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "8"}
SEVERAL = SETTINGS | {
    "offsets.topic.replication.factor": "3",
    "default.replication.factor": "3",
    "min.insync.replicas": "1",
}
OURS_TIMES = {"zookeeper.session.timeout.ms": "6000"}
HEAP = "512m"
TOPIC, GROUP, PARTITIONS = "flights", "crew", 6
MEMBER = {"auto.offset.reset": "earliest", "session.timeout.ms": "8000", "heartbeat.interval.ms": "1000"}
PATIENCE_S = 60.0


@dataclass(frozen=True, slots=True)
class ShownCluster:
    """``kill`` and ``start_again`` are given a broker's id; ``killable``: which ones may die while the others go on."""

    bootstrap: str
    killable: tuple[int, ...]
    brokers: int
    kill: Callable[[int], None]
    start_again: Callable[[int], None]


@contextlib.contextmanager
def kafka(version: str, folder: Path, brokers: int) -> Iterator[ShownCluster]:
    """Of Apache Kafka; the first of several is their controller, and stays. Raises CannotRun."""
    settings = SETTINGS if brokers == 1 else SEVERAL
    first = KafkaBroker(version, folder / "kafka", settings, heap=HEAP)
    every = {1: first} | {node: first.another(node, settings) for node in range(2, brokers + 1)}
    with contextlib.ExitStack() as stack:
        for broker in every.values():
            stack.callback(broker.stop)
            broker.start()
        addresses = ",".join(format_address(*broker.address) for broker in every.values())
        killable = tuple(every)[1:] or (1,)
        yield ShownCluster(addresses, killable, brokers, lambda n: every[n].kill(), lambda n: every[n].start())


@contextlib.contextmanager
def ours(folder: Path, brokers: int) -> Iterator[ShownCluster]:
    """Of coterie: `coterie broker`, or `coterie cluster start`. Raises CannotRun."""
    if brokers == 1:
        broker = CoterieBroker(folder / "coterie", SETTINGS)
        broker.start()
        try:
            yield ShownCluster(
                format_address(*broker.address), (1,), 1, lambda _: broker.kill(), lambda _: broker.start()
            )
        finally:
            broker.stop()
        return
    with command_cluster(folder / "cluster", brokers, SEVERAL | OURS_TIMES) as cluster:
        yield ShownCluster(cluster.bootstrap, tuple(cluster.ids()), brokers, cluster.kill, cluster.start)


MEMBER |= {"auto.commit.interval.ms": "500"}


class ShownWork:
    """Use `at_work`. Members are consumers of this process, each with a task that polls."""

    def __init__(self, client: dict[str, Any]) -> None:
        self.client, self.admin = client, Admin(client)
        self._members: dict[str, tuple[Consumer[Any, Any], asyncio.Task[None]]] = {}

    async def join(self, name: str) -> None:
        """Returns once the member has partitions."""
        consumer = Consumer(self.client | MEMBER | {"group.id": GROUP, "client.id": name})
        consumer.subscribe([TOPIC])
        self._members[name] = consumer, asyncio.create_task(_poll(consumer))
        async with asyncio.timeout(PATIENCE_S):
            while not consumer.assignment():
                await asyncio.sleep(0.01)

    async def leave(self, name: str) -> None:
        """Returns once it has left."""
        consumer, task = self._members.pop(name)
        task.cancel()
        await asyncio.wait([task])
        await consumer.close()

    def owners(self) -> dict[str, int]:
        """How many partitions each member has."""
        return {name: len(consumer.assignment()) for name, (consumer, _) in self._members.items()}

    async def until_whole(self) -> None:
        """Every partition has an owner."""
        async with asyncio.timeout(PATIENCE_S):
            while sum(self.owners().values()) != PARTITIONS:
                await asyncio.sleep(0.05)

    async def write(self, value: str, partition: int) -> int:
        """The offset of the new record."""
        async with Producer(self.client) as producer:
            sent = await producer.send_and_wait(TOPIC, value.encode(), b"key", partition=partition)
        return sent.offset

    async def coordinator(self) -> int:
        """The id of the broker that coordinates the group."""
        return (await self.admin.describe_consumer_group(GROUP)).coordinator.id

    async def end(self) -> None:
        """Its members leave, as far as a broker is there."""
        for name in list(self._members):
            with contextlib.suppress(KafkaError):
                await self.leave(name)
        self.admin.close()


async def _poll(consumer: Consumer[Any, Any]) -> None:
    while True:
        with contextlib.suppress(KafkaError):
            await consumer.poll(200)


@contextlib.asynccontextmanager
async def at_work(bootstrap: str, brokers: int) -> AsyncIterator[ShownWork]:
    """A topic with records, and two members of the group. Raises KafkaError."""
    work = ShownWork({"bootstrap.servers": bootstrap})
    try:
        await work.admin.create_topic(TOPIC, PARTITIONS, replication_factor=brokers)
        for number in range(PARTITIONS):
            await work.write(f'{{"flight": {number}}}', number)
        for name in ("anna", "ben"):
            await work.join(name)
        await work.until_whole()
        yield work
    finally:
        await work.end()
