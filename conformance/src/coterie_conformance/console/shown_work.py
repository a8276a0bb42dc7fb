"""What happens on a cluster while somebody looks: members of a group come and go, records are written."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from coterie.client import Admin, Consumer, KafkaError, Producer

TOPIC, GROUP, PARTITIONS = "flights", "crew", 6
MEMBER = {"auto.offset.reset": "earliest", "session.timeout.ms": "8000", "heartbeat.interval.ms": "1000"}
MEMBER |= {"auto.commit.interval.ms": "500"}
PATIENCE_S = 60.0


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
