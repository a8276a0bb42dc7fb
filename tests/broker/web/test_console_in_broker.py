"""The console within a broker's process: what the broker hands it."""

from __future__ import annotations

import asyncio
import json
from unittest.mock import patch

import aiohttp

from coterie.broker.broker import Broker
from coterie.broker.web.handed_groups import HandedGroups
from coterie.client import Admin, Consumer, Producer
from coterie.coordinator.consumer.state import ConsumerGroup
from coterie.coordinator.replay import AnyGroup
from coterie.coordinator.share.state import ShareGroup
from coterie.coordinator.state import Group
from coterie.coordinator.streams.state import StreamsGroup
from coterie.web.feeds.handed_feed import UPDATE_S, HandedFeed
from coterie.web.feeds.observed_feed import ObservedFeed
from tests.broker.web.pages import with_pages
from tests.web.feeds import events


@with_pages(has_console=True)
async def test_the_pages_show_what_the_broker_hands(broker: Broker, server: str, url: str) -> None:
    await broker_with_topic(broker, server)
    settings = {"bootstrap.servers": server, "group.id": "crew", "auto.offset.reset": "earliest"}
    async with aiohttp.ClientSession() as session:
        streaming = asyncio.create_task(events(session, f"{url}/api/events", 2))
        async with Consumer(settings) as consumer:
            consumer.subscribe(["t"])
            while not consumer.assignment():
                await consumer.poll(100)
            await consumer.commit({("t", 0): 0})
            rows = {row["group"]: row for _, change in await streaming for row in change["rows"]}
            assert rows["crew"]["kind"] == "classic"
            assert rows["crew"]["members"] == 1
            of_one = dict(await events(session, f"{url}/api/groups/crew/events", 3))
            history = of_one["history"]
            assert of_one["explanation"]["state"] == "Stable"
            async with session.get(f"{url}/groups/crew/history") as response:
                lines = await response.json()
            assert [{k: v for k, v in line.items() if k != "why"} for line in history] == lines
            assert history[-1]["event"] == "stable"
        async with session.get(url, headers={"Accept": "text/html"}) as response:
            assert response.url.path == "/console"
        async with session.get(f"{url}/groups", headers={"Origin": "http://elsewhere.example"}) as response:
            assert response.status == 403


@with_pages(has_console=True)
async def test_a_share_group_has_its_start_offsets_and_lag_in_either_feed(
    broker: Broker, server: str, url: str
) -> None:
    await broker_with_topic(broker, server)
    client = {"bootstrap.servers": server}
    async with Producer(client) as producer:
        for _ in range(3):
            await producer.send_and_wait("t", b"v", partition=0)
    async with Admin(client) as admin:
        await admin.alter_share_group_offsets("jobs", {("t", 0): 1})
    async with aiohttp.ClientSession() as session:
        of_one = dict(await events(session, f"{url}/api/groups/jobs/events", 3))
    feed, stop = ObservedFeed(client, lambda _: None), asyncio.Event()
    observed = await feed.explain("jobs")
    stop.set()
    await feed.run(stop)
    for explanation in (of_one["explanation"], observed):
        assert explanation is not None
        shown = [(p["topic"], p["partition"], p["committed"], p["lag"]) for p in explanation["partitions"]]
        assert shown == [("t", 0, 1, 2)]
        assert explanation["lag"] == 2


@with_pages(has_console=True)
async def test_the_lines_before_the_console_are_read_once(broker: Broker, server: str, url: str) -> None:
    await broker_with_topic(broker, server)
    for _ in range(2):
        async with Consumer({"bootstrap.servers": server, "group.id": "crew"}) as consumer:
            consumer.subscribe(["t"])
            while not consumer.assignment():
                await consumer.poll(100)
    groups, later = HandedGroups(broker), []
    past = [line async for lines in groups.listen(later.append) for line in lines]
    stable = [line.generation for line in past if line.event == "stable"]
    assert stable == [1, 3]
    assert not later


async def broker_with_topic(broker: Broker, server: str) -> None:
    async with Admin({"bootstrap.servers": server}) as admin:
        await admin.create_topic("t", 2)


class ManyGroups:
    """As a broker with very many groups hands them."""

    def __init__(self, count: int) -> None:
        self.count, self.shown = count, list[str]()

    def now_ms(self) -> int:
        return 0

    def names(self) -> list[str]:
        return [f"group-{n:05}" for n in range(self.count)]

    def group(self, name: str) -> object:
        self.shown.append(name)
        return ("consumer", "Stable", 10, 1, 0), ()

    def figures(self) -> dict[str, object]:
        return {}

    def explain(self, name: str) -> None:
        return None


def test_an_update_takes_its_time_alone_and_every_group_has_its_turn() -> None:
    groups = ManyGroups(1_000)
    feed = HandedFeed(groups, {})  # type: ignore[arg-type]
    ticks = iter(range(10**9))
    per_update = 100

    def clock() -> float:
        return next(ticks) * UPDATE_S / per_update

    for updates in range(1, 12):
        feed.update(clock)
        assert len(groups.shown) <= updates * (per_update + 2)
    assert set(groups.shown) == set(groups.names())
    assert len(json.loads(feed.memory.rows.changes(0) or "")["rows"]) == 1_000


KINDS: list[tuple[AnyGroup, str | None]] = [
    (Group("g", protocol_type="consumer"), "consumer"),
    (Group("g"), ""),
    (ConsumerGroup("g"), None),
    (ShareGroup("g"), "share"),
    (StreamsGroup("g"), "streams"),
]


@with_pages(has_console=True)
async def test_each_kind_of_group_is_handed_as_such(broker: Broker, server: str, url: str) -> None:
    """A share group and a streams group were handed as groups of the consumer protocol."""
    for group, protocol_type in KINDS:
        with patch.object(broker.groups, "group", lambda name, group=group: group):
            handed = HandedGroups(broker).group("g")
        assert handed is not None
        assert handed[0][0] == protocol_type
