"""The observer's metrics: counted by its lines, with a lag for each committed partition."""

from __future__ import annotations

import asyncio

import aiohttp

from coterie.coordinator.events import OffsetStored
from coterie.coordinator.journal.line import JournalLine
from coterie.coordinator.state import CommittedOffset
from coterie.observer.lags import GroupLag, GroupLags
from coterie.observer.machine import sights
from coterie.observer.machine.observer import GroupObserver
from coterie.observer.metrics import MetricsServer, ObservedMetrics
from coterie.testing import simulate
from coterie_conformance.scenarios.sighted_group import SightedGroup
from tests.observer import stories
from tests.observer.stories import GROUP, Crew

NOBODY = {"bootstrap.servers": "127.0.0.1:1"}


def test_every_committed_partition_has_a_lag_that_is_never_negative() -> None:
    """Also one that was committed before the observer began, and one whose commit is newer than the end that was asked for."""
    with simulate(seed=1) as world:
        crew = Crew(world, watched=False)
        crew.join("anna")
        crew.settle(1)
        crew.controls["anna"].leaves = True
        world.advance(10)
        committed = crew.broker.committed_now(GROUP)
        assert len(committed) == 6

        async def lags() -> tuple[list[GroupLag], list[GroupLag]]:
            seen = GroupLags({"bootstrap.servers": crew.broker.bootstrap_servers})
            seen.see(sights.NoCoordinatorSeen(0, GROUP))
            assert not seen.is_complete
            await seen.refresh()
            assert seen.is_complete
            first = list(seen)
            for partition in range(6):
                seen.see(_commit(partition, 10**6))
            return first, list(seen)

        first, second = world.run(lags())
        assert {(lag.topic, lag.partition) for lag in first} == committed.keys()
        assert all(0 <= lag.lag < 60 for lag in first)
        assert any(lag.lag for lag in first)
        assert {lag.lag for lag in second} == {0}


def _commit(partition: int, offset: int) -> sights.RecordRead:
    return sights.RecordRead(1, GROUP, OffsetStored("orders", partition, CommittedOffset(offset, -1, "", 1)))


def texts(metrics: ObservedMetrics) -> list[str]:
    return [line for line in metrics.text().decode().splitlines() if not line.startswith("#")]


def test_rebalances_by_cause_and_evidence() -> None:
    machine = GroupObserver()
    metrics = ObservedMetrics(machine, GroupLags(NOBODY))
    with simulate(seed=1) as world:
        for line in stories.kill(world).lines:
            metrics.count(line)
    shown = texts(metrics)
    start = 'coterie_group_rebalances_total{cause="session_timeout",evidence="inferred",group="crew"}'
    assert f"{start} 1.0" in shown
    assert any(line.startswith('coterie_group_unowned_seconds_total{group="crew"}') for line in shown)
    metrics.count(JournalLine(1, "crew", 2, "pattern_seen", "Stable", "Stable", [{"kind": "deploy"}]))
    assert 'coterie_group_patterns_total{group="crew",pattern="deploy"} 1.0' in texts(metrics)


def test_the_state_of_a_group() -> None:
    group = SightedGroup()
    group.stored(0, 7, "anna-1")
    group.described(1, "PreparingRebalance", "anna-1", "ben-1")
    shown = texts(ObservedMetrics(group.observer, GroupLags(NOBODY)))
    assert 'coterie_group_state{group="crew",state="PreparingRebalance"} 1.0' in shown
    assert 'coterie_group_members{group="crew"} 2.0' in shown
    assert 'coterie_group_generation{group="crew"} 7.0' in shown


def test_the_server_serves_its_own_names_alone() -> None:
    async def asked() -> list[tuple[int, str]]:
        lags = GroupLags(NOBODY)
        async with MetricsServer(ObservedMetrics(GroupObserver(), lags), lags) as server:
            host, port = await server.start("127.0.0.1", 0)
            url = f"http://{host}:{port}/metrics"
            async with aiohttp.ClientSession() as session:
                results = []
                for headers in ({}, {"Host": "elsewhere.example"}):
                    async with session.get(url, headers=headers) as response:
                        results.append((response.status, await response.text()))
                return results

    (own, text), (other, _) = asyncio.run(asked())
    assert (own, other) == (200, 403)
    assert "coterie_group_lag" in text
