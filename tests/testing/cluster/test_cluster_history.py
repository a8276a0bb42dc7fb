"""What clients observe of three brokers that are killed, paused, cut off and relieved of their partitions: no anomaly."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

import pytest

from coterie.testing import LocalBroker
from coterie_conformance.histories.operation_history import ClientOperation, anomalies
from coterie_conformance.histories.workload import HistoryWorkload, WorkloadConfig
from tests.awaiting import until_in_thread

TOPIC, PARTITIONS = "judged", 3
DOWN_S = 0.6  # longer than the session with ZooKeeper


class Nemesis:
    """One fault after the other, each mended before the next one: two replicas of three stay in sync."""

    def __init__(self, cluster: LocalBroker, seed: int) -> None:
        self.cluster, self.rng = cluster, random.Random(seed)

    async def strike(self) -> None:
        victim = self.rng.randint(1, 3)
        fault = self.rng.choice((self.kill, self.stop, self.pause, self.partition, self.move))
        await fault(victim)
        await asyncio.to_thread(until_in_thread, self.is_whole, lambda: "every replica in sync again")

    def is_whole(self) -> bool:
        return all(self.cluster.in_sync(TOPIC, partition) == {1, 2, 3} for partition in range(PARTITIONS))

    async def away(self, begin: Callable[[int], None], end: Callable[[], None], victim: int) -> None:
        await asyncio.to_thread(begin, victim)
        await asyncio.sleep(DOWN_S)
        await asyncio.to_thread(end)

    async def kill(self, victim: int) -> None:
        await self.away(self.cluster.kill, lambda: self.cluster.restart(victim), victim)

    async def stop(self, victim: int) -> None:
        await asyncio.to_thread(self.cluster.stop, victim)
        await asyncio.to_thread(self.cluster.restart, victim)

    async def pause(self, victim: int) -> None:
        await self.away(self.cluster.pause, lambda: self.cluster.resume(victim), victim)

    async def partition(self, victim: int) -> None:
        await self.away(self.cluster.partition, self.cluster.heal, victim)

    async def move(self, victim: int) -> None:
        await asyncio.to_thread(self.cluster.move_leader, TOPIC, self.rng.randrange(PARTITIONS), victim)


async def history_of(
    cluster: LocalBroker, seed: int, strikes: int, transactional_writers: int
) -> list[ClientOperation]:
    config = WorkloadConfig(
        cluster.bootstrap_servers, TOPIC, PARTITIONS, transactional_writers, transaction_timeout_ms=2_000
    )
    return await HistoryWorkload(config, seed).run(Nemesis(cluster, seed).strike, strikes, 0.3)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1])
def test_a_cluster_under_faults_shows_no_anomaly(seed: int) -> None:
    with LocalBroker({"min.insync.replicas": "2"}, brokers=3) as cluster:
        cluster.create_topic(TOPIC, PARTITIONS)
        history = asyncio.run(history_of(cluster, seed, strikes=8, transactional_writers=0))
    assert not anomalies(history, read_to_end=True)
    assert len(history) > 100
