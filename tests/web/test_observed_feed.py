"""The console that looks from outside: a broker that dies and comes back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from coterie.broker.broker import Broker
from coterie.broker.settings import BrokerSettings
from coterie.client import Admin, Consumer
from coterie.web.feeds.observed_feed import ObservedFeed

SETTINGS = {"group.initial.rebalance.delay.ms": "0"}


async def until(holds: Callable[[], object]) -> None:
    async with asyncio.timeout(60):
        while not holds():
            await asyncio.sleep(0.05)


@pytest.mark.slow
@pytest.mark.parametrize("journal", ["true", "false"])
async def test_a_broker_dies_and_comes_back(tmp_path: Path, journal: str) -> None:
    """With the broker's own journal, and by the observer's lines alone."""
    settings = BrokerSettings(SETTINGS | {"coterie.journal.enable": journal})
    broker = Broker(settings, tmp_path)
    host, port = await broker.start("127.0.0.1", 0)
    client = {"bootstrap.servers": f"{host}:{port}"}
    async with Admin(client) as admin:
        await admin.create_topic("t", 2)
    feed, stop = ObservedFeed(client, lambda _: None), asyncio.Event()
    running = asyncio.create_task(feed.run(stop))
    try:
        async with Consumer(client | {"group.id": "crew"}) as consumer:
            consumer.subscribe(["t"])
            while not consumer.assignment():
                await consumer.poll(100)
            await consumer.commit({("t", 0): 0})
            await until(lambda: (row := feed.memory.rows.get("crew")) and row["members"] == 1)
        # The observer begins at the end of the log, and may have seen no more of the join than its result.
        await until(lambda: any(line.event == "empty" for line in feed.memory.journal.of("crew")))
        before = len(feed.memory.journal.of("crew"))
        await broker.stop()
        await until(lambda: feed.trouble)
        broker = Broker(settings, tmp_path)
        await broker.start(host, port)
        await until(lambda: not feed.trouble)
        async with Consumer(client | {"group.id": "later"}) as consumer:
            consumer.subscribe(["t"])
            while not consumer.assignment():
                await consumer.poll(100)
            await until(lambda: (row := feed.memory.rows.get("later")) and row["state"] == "Stable")
            explanation = await feed.explain("later")
            assert explanation is not None
            assert len(explanation["members"]) == 1
        assert await feed.explain("none") is None
        assert len(feed.memory.journal.of("crew")) >= before
    finally:
        stop.set()
        await running
        await broker.stop()
