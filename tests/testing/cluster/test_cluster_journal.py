"""The groups' journal of a cluster is one topic on all brokers: it outlives each of them and says where a coordinator
moved. What clients observe of three brokers that are killed, paused, cut off and relieved of their partitions: no
anomaly."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable, Iterator

import pytest
from click.testing import CliRunner

from coterie.cli import main
from coterie.cli.groups.journal_reading import read_journal
from coterie.cli.parts.json_groups import GroupEvent
from coterie.client.blocking import BlockingConsumer
from coterie.coordinator.journal.line import TOPIC as JOURNAL_TOPIC
from coterie.testing import LocalBroker
from coterie_conformance.histories.operation_history import ClientOperation, anomalies
from coterie_conformance.histories.workload import HistoryWorkload, WorkloadConfig
from tests.awaiting import until_in_thread

TOPIC, GROUP = "orders", "billing"
JUDGED, PARTITIONS = "judged", 3
DOWN_S = 0.6  # longer than the session with ZooKeeper


@pytest.fixture
def cluster() -> Iterator[LocalBroker]:
    with LocalBroker(brokers=3) as brokers:
        brokers.create_topic(TOPIC, 2)
        yield brokers


def _events(cluster: LocalBroker, name: str) -> list[GroupEvent]:
    lines: list[GroupEvent] = asyncio.run(read_journal(GROUP, {"bootstrap.servers": cluster.bootstrap_servers}))[0]
    return [line for line in lines if line["event"] == name]


def _until_event(cluster: LocalBroker, name: str, count: int = 1) -> GroupEvent:
    until_in_thread(lambda: len(_events(cluster, name)) >= count, lambda: f"{count} {name}", every_s=0.1)
    return _events(cluster, name)[-1]


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_the_journal_says_where_a_coordinator_moved(cluster: LocalBroker, end: str) -> None:
    settings = {"bootstrap.servers": cluster.bootstrap_servers, "group.id": GROUP, "heartbeat.interval.ms": "100"}
    with BlockingConsumer(settings) as consumer:
        consumer.subscribe([TOPIC])
        until_in_thread(lambda: consumer.poll(50) or consumer.assignment(), "an assignment")
        stable = _until_event(cluster, "stable")
        coordinator = cluster.coordinator_of(GROUP)
        if end == "stop":
            cluster.stop(coordinator)
        else:
            cluster.kill(coordinator)
        until_in_thread(lambda: consumer.poll(50) or cluster.coordinator_of(GROUP) != coordinator, "another")
        moved = _until_event(cluster, "coordinator_moved")
        assert moved["coordinator"] == cluster.coordinator_of(GROUP)
        assert (moved["coordinator_from"], moved["loaded_groups"], moved["members"]) == (coordinator, 1, 1)
        assert moved["coordinator_epoch"] > 0
        assert moved["load_ms"] >= 0
        assert _events(cluster, "stable")[0] == stable  # of the coordinator that is gone
        text = f"the coordinator moved from broker {coordinator} to broker {moved['coordinator']}"
        history = CliRunner().invoke(main, ["groups", "history", GROUP, "-b", cluster.bootstrap_servers])
        assert text in history.output
        assert text in "\n".join(cluster.story())
        why = CliRunner().invoke(main, ["groups", "why", GROUP, "--json", "-b", cluster.bootstrap_servers])
        assert json.loads(why.output)["state"] == "Stable"


def test_the_journal_is_replicated_and_written_by_each_coordinator() -> None:
    with LocalBroker({"offsets.topic.num.partitions": "6"}, brokers=3) as cluster:
        cluster.create_topic(TOPIC, 2)
        _each_coordinator_writes(cluster)


def _each_coordinator_writes(cluster: LocalBroker) -> None:
    groups = [f"group-{number}" for number in range(6)]
    for group in groups:
        with BlockingConsumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": group}) as consumer:
            consumer.subscribe([TOPIC])
            until_in_thread(lambda c=consumer: c.poll(20) or c.assignment(), "an assignment")  # type: ignore[misc]
    assert len({cluster.coordinator_of(group) for group in groups}) > 1
    assert cluster.in_sync(JOURNAL_TOPIC) == {1, 2, 3}

    def empty() -> set[str]:
        lines: list[GroupEvent] = asyncio.run(read_journal(None, {"bootstrap.servers": cluster.bootstrap_servers}))[0]
        return {line["group"] for line in lines if line["event"] == "empty"}

    until_in_thread(lambda: empty() == set(groups), empty, every_s=0.1)


def test_lines_wait_for_the_journals_leader(cluster: LocalBroker) -> None:
    settings = {"bootstrap.servers": cluster.bootstrap_servers, "group.id": GROUP}
    with BlockingConsumer(settings) as consumer:
        consumer.subscribe([TOPIC])
        until_in_thread(lambda: consumer.poll(50) or consumer.assignment(), "an assignment")
        _until_event(cluster, "stable")
        coordinator, leader = cluster.coordinator_of(GROUP), cluster.leader_of(JOURNAL_TOPIC)
        if coordinator == leader:
            other = next(broker for broker in (1, 2, 3) if broker != leader)
            cluster.move_leader(JOURNAL_TOPIC, 0, other)
            leader = other
        cluster.kill(leader)
    _until_event(cluster, "empty")


def test_nobody_else_writes_the_journal(cluster: LocalBroker) -> None:
    from coterie.client import KafkaError

    with BlockingConsumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": GROUP}) as consumer:
        consumer.subscribe([TOPIC])
        until_in_thread(lambda: consumer.poll(50) or consumer.assignment(), "an assignment")
        _until_event(cluster, "stable")
    with pytest.raises(KafkaError, match="INVALID_TOPIC_EXCEPTION"):
        cluster.produce(JOURNAL_TOPIC, b"{}")


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
        return all(self.cluster.in_sync(JUDGED, partition) == {1, 2, 3} for partition in range(PARTITIONS))

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
        await asyncio.to_thread(self.cluster.move_leader, JUDGED, self.rng.randrange(PARTITIONS), victim)


async def history_of(
    cluster: LocalBroker, seed: int, strikes: int, transactional_writers: int
) -> list[ClientOperation]:
    config = WorkloadConfig(
        cluster.bootstrap_servers, JUDGED, PARTITIONS, transactional_writers, transaction_timeout_ms=2_000
    )
    return await HistoryWorkload(config, seed).run(Nemesis(cluster, seed).strike, strikes, 0.3)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1])
def test_a_cluster_under_faults_shows_no_anomaly(seed: int) -> None:
    with LocalBroker({"min.insync.replicas": "2"}, brokers=3) as cluster:
        cluster.create_topic(JUDGED, PARTITIONS)
        history = asyncio.run(history_of(cluster, seed, strikes=8, transactional_writers=0))
    assert not anomalies(history, read_to_end=True)
    assert len(history) > 100
