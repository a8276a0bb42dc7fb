"""Consumers against a broker in the test's hands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from coterie.client import Consumer
from coterie.testing import LocalBroker
from tests.awaiting import until

QUICK: dict[str, Any] = {
    "heartbeat.interval.ms": 50,
    "retry.backoff.ms": 10,
    "retry.backoff.max.ms": 50,
    "fetch.max.wait.ms": 50,
    "auto.offset.reset": "earliest",
    "metadata.max.age.ms": 100,
}


def member(broker: LocalBroker, name: str = "one", **more: Any) -> Consumer:
    given = {key.replace("_", "."): value for key, value in more.items()}
    settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "g", "client.id": name}
    return Consumer(settings | QUICK | given)


async def polled(consumer: Consumer, done: Callable[[], object], what: str = "") -> None:
    """Polls until it is so."""

    async def once() -> bool:
        await consumer.poll(10)
        return bool(done())

    await until(once, what)


async def settled(consumer: Consumer, partitions: int, topic: str = "t") -> Consumer:
    """Subscribed, and owner of so many partitions."""
    consumer.subscribe([topic])
    await polled(consumer, lambda: len(consumer.assignment()) == partitions, f"{partitions} partitions are assigned")
    return consumer


async def read(consumer: Consumer, count: int = 1) -> list[bytes | None]:
    """The values of the next records, at least so many."""
    collected: list[bytes | None] = []

    async def once() -> bool:
        collected.extend(r.value for records in (await consumer.poll(20)).values() for r in records)
        return len(collected) >= count

    await until(once, f"{count} records")
    return collected
