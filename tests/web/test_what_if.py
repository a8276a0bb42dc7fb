"""A prediction for a page: `groups predict`, in a process of its own."""

from __future__ import annotations

import aiohttp
import pytest

from coterie.broker.broker import Broker
from coterie.broker.settings import BrokerSettings
from coterie.client import Admin, Consumer
from coterie.web.what_if import past
from tests.web.feeds import HandFeed, line, served


@pytest.mark.slow
async def test_a_rolling_restart_of_a_live_group_is_predicted() -> None:
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
                ("crew", {"pause_ms": 4_000, "gap_ms": 10_000, "kill": True, "only_one": True}, 200),
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
                        assert len(document["timelines"]) == len(document["costs"])
                        for timeline in document["timelines"]:
                            assert timeline["group"] == "crew"
                            assert timeline["lanes"] == [["flights", 0], ["flights", 1]]
                            assert [owner[:8] for owner in timeline["owners"]] == ["coterie-"]
                        assert document["was"] is None, "no line of this group was seen"
                    else:
                        assert document["error"]
    finally:
        await broker.stop()


def test_what_was_has_the_measures_of_a_prediction_and_the_present_members_first() -> None:
    assert past("crew", [line("crew", "member_joined")], (), 2) is None
    lines = [
        line("crew", time_ms=1_000, owners={"gone": {"t": [0, 1]}}, moved_count=0),
        line("crew", time_ms=9_000, owners={"anna": {"t": [0, 1]}}, moved_count=2, unowned_ms=3_000),
        line("crew", "target_computed", time_ms=9_500, moved_count=2),  # planned, and counted where it happens
    ]
    was = past("crew", lines, ["anna"], 2)
    assert was is not None
    assert {name: was[name] for name in ("since_ms", "rebalances", "unowned_s", "moved")} == {
        "since_ms": 1_000,
        "rebalances": 2,
        "unowned_s": 1.5,
        "moved": 2,
    }
    timeline = was["timeline"]
    assert timeline["owners"] == ["anna", "gone"]
    assert timeline["owned"] == [[0, 1, 1_000, 9_000], [1, 1, 1_000, 9_000], [0, 0, 9_000, None], [1, 0, 9_000, None]]
    assert not timeline["is_live"]
