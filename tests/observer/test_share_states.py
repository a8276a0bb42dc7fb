"""Start offsets and deliveries of share groups, by `__share_group_state`."""

from __future__ import annotations

import asyncio

from coterie.client import ShareConsumer
from coterie.coordinator.share_state.state import DeliveryBatch, ShareState
from coterie.observer.internal_topics import redelivered
from coterie.observer.lags import GroupLag, GroupLags
from coterie.observer.machine import sights
from coterie.observer.metrics import ObservedMetrics
from coterie.observer.observation import ClusterObservation
from coterie.share.states import RecordState
from coterie.testing import ErrorCode, simulate
from coterie.testing.simulated import SimulatedWorld
from tests.observer.modern_stories import ModernCrew
from tests.observer.stories import GROUP, Crew


def observed(world: SimulatedWorld, crew: Crew, notices: list[str]) -> tuple[list[GroupLag], str]:
    """What an observer that begins now knows after half a minute, and its metrics."""

    async def watch() -> tuple[list[GroupLag], str]:
        client = {"bootstrap.servers": crew.broker.bootstrap_servers}
        observation = ClusterObservation(client, lambda _: None, notices.append)
        lags = GroupLags(client, observation.rate)
        observation.listeners.append(lags.see)
        stop = asyncio.Event()
        running = asyncio.create_task(observation.run(stop))
        await asyncio.sleep(25)
        await lags.refresh()
        stop.set()
        await running
        text = ObservedMetrics(observation.machine, lags).text().decode()
        lags.close()
        return sorted(lags.of(GROUP)), text

    return world.run(watch(), 120)


def test_a_share_group_has_a_lag_and_no_record_waits_again() -> None:
    with simulate(seed=1) as world:
        crew = ModernCrew(world)
        crew.of_shares("anna")
        world.advance(30)
        rows, text = observed(world, crew, [])
    assert [(row.topic, row.partition) for row in rows] == [("orders", number) for number in range(len(rows))]
    assert rows
    assert all(
        0 <= row.lag <= 40 and row.redelivered == 0 for row in rows
    )  # a record a second, since the last acknowledgement
    assert 'coterie_group_redelivered{group="crew",partition="0",topic="orders"} 0.0' in text


async def hold(servers: str) -> None:
    """Acquires records, and acknowledges none."""
    async with ShareConsumer({"bootstrap.servers": servers, "group.id": GROUP}) as consumer:
        consumer.subscribe(["orders"])
        while not await consumer.poll(200):
            pass
        await asyncio.sleep(3600)


def test_records_of_a_killed_member_wait_for_another_delivery() -> None:
    with simulate(seed=1) as world:
        crew = ModernCrew(world)
        anna = world.spawn("anna", hold, crew.broker.bootstrap_servers)
        world.advance(30)
        anna.kill()
        world.advance(60)  # the locks of what it had acquired end after 30 s
        rows, _ = observed(world, crew, [])
    assert sum(row.redelivered or 0 for row in rows) > 0
    assert all(row.lag >= 60 for row in rows)


def test_without_read_on_the_topic_it_says_what_is_lacking() -> None:
    notices: list[str] = []
    with simulate(seed=1) as world:
        crew = ModernCrew(world)
        crew.of_shares("anna")
        crew.broker.fail("Fetch", ErrorCode.TOPIC_AUTHORIZATION_FAILED, times=10**9)
        rows, _ = observed(world, crew, notices)
    assert rows == []
    assert [notice for notice in notices if "lags of share groups are not known" in notice]


def test_only_available_records_that_were_delivered_wait_again() -> None:
    again, first, accepted = RecordState.AVAILABLE, RecordState.AVAILABLE, RecordState.ACKNOWLEDGED
    batches = (DeliveryBatch(0, 4, 2, again), DeliveryBatch(5, 5, 0, first), DeliveryBatch(6, 9, 1, accepted))
    assert redelivered(ShareState(batches=batches)) == 5


def test_a_partition_without_a_state_any_more_has_no_lag() -> None:
    lags = GroupLags({"bootstrap.servers": "127.0.0.1:1"}, ClusterObservation({}, lambda _: None, lambda _: None).rate)
    lags.see(sights.TopicsSeen(1, {"orders": 1}, {"orders": b"i" * 16}))
    lags.see(sights.ShareStateRead(1, GROUP, b"i" * 16, 0, 10, done=2))
    lags._ends = {("orders", 0): 20}  # type: ignore[dict-item]
    assert [(row.committed, row.lag) for row in lags.of(GROUP)] == [(10, 8)]
    lags.see(sights.ShareStateRead(2, GROUP, b"i" * 16, 0, None))
    assert list(lags.of(GROUP)) == []
