"""A prediction for a page: `groups predict`, in a process of its own."""

from __future__ import annotations

import asyncio

import aiohttp
import pytest

from coterie.broker.broker import Broker
from coterie.broker.settings import BrokerSettings
from coterie.client import Admin, Consumer
from tests.web.feeds import HandFeed, served


@pytest.mark.slow
def test_a_rolling_restart_of_a_live_group_is_predicted() -> None:
    async def go() -> None:
        broker = Broker(BrokerSettings({"group.initial.rebalance.delay.ms": "0"}))
        host, port = await broker.start("127.0.0.1", 0)
        feed = HandFeed()
        feed.client = {"bootstrap.servers": f"{host}:{port}"}
        try:
            async with Admin(feed.client) as admin:
                await admin.create_topic("flights", 2)
            async with (
                served(feed) as url,
                aiohttp.ClientSession() as session,
                Consumer(feed.client | {"group.id": "crew"}) as consumer,
            ):
                consumer.subscribe(["flights"])
                while not consumer.assignment():
                    await consumer.poll(100)
                for group, wanted, status in (
                    ("crew", {"pause_ms": 4_000, "gap_ms": 10_000, "kill": True}, 200),
                    ("crew", {"pause_ms": -1}, 400),
                    ("crew", {"pause_ms": "x"}, 400),
                    ("none", {}, 409),
                ):
                    async with session.post(f"{url}/api/groups/{group}/predict", json=wanted) as response:
                        document = await response.json()
                        assert response.status == status, document
                        if status == 200:
                            assert (document["group"], document["members"], document["removal"]) == ("crew", 1, "kill")
                            assert document["costs"][0]["change"] == ""
                            assert len(document["costs"]) > 1
                            assert document["recommendation"]
                        else:
                            assert document["error"]
        finally:
            await broker.stop()

    asyncio.run(go())
