"""A leader assigns from the metadata that it has, as ConsumerCoordinator.onLeaderElected does: its Metadata request would queue
behind its own Fetch, which the broker holds for fetch.max.wait.ms."""

from __future__ import annotations

from typing import Any

import pytest

from coterie.client import Consumer
from coterie.testing import simulate

FETCH_S = 20


async def read(settings: dict[str, Any]) -> None:
    async with Consumer(settings) as consumer:
        consumer.subscribe(["t"])
        while True:
            await consumer.poll(100)


@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky"])
def test_a_rebalance_does_not_wait_for_the_leaders_fetch(assignor: str) -> None:
    with simulate() as world:
        broker = world.broker()
        broker.create_topic("t", 4)
        settings = {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "crew",
            "fetch.max.wait.ms": FETCH_S * 1000,
        }
        settings |= {"partition.assignment.strategy": assignor}
        for n in range(3):
            world.spawn(f"reader-{n}", read, settings)
            broker.until_stable("crew", members=n + 1)
            world.advance(FETCH_S)
        stable = [line for line in broker.journal if line.group == "crew" and line.event == "stable"]
        assert len(stable) >= 3
        assert max(line.sync_ms or 0 for line in stable) < 1_000, [(line.generation, line.sync_ms) for line in stable]


def test_a_topic_that_the_leader_does_not_know_is_looked_up() -> None:
    """Of a member that subscribes to more than the leader itself."""
    with simulate() as world:
        broker = world.broker()
        broker.create_topic("t", 1)
        settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "crew"}
        world.spawn("leader", read, settings)
        broker.until_stable("crew", members=1)
        broker.create_topic("u", 1)

        owned: set[tuple[str, int]] = set()

        async def read_both() -> None:
            async with Consumer(settings) as consumer:
                consumer.subscribe(["t", "u"])
                while True:
                    await consumer.poll(100)
                    owned.update(consumer.assignment())

        world.spawn("further", read_both)
        world.until(lambda: ("u", 0) in owned, "both topics")
