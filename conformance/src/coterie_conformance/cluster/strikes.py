"""kill -9 and SIGSTOP of brokers in every role, under the load of Apache Kafka's clients and of ours, whose observations are
judged."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum

from coterie.client import Admin
from coterie.client.errors import KafkaError
from coterie.coordinator.partitioning import partition_for
from coterie_conformance.cluster.java_load import JavaClients, JavaLoad
from coterie_conformance.cluster.mixed import MixedCluster, in_turn, wait_until
from coterie_conformance.cluster.replication_checks import until_equal
from coterie_conformance.histories.operation_history import (
    ClientOperation,
    OperationOutcome,
    PollStep,
    SendStep,
    TopicPartition,
    anomalies,
)
from coterie_conformance.histories.workload import HistoryWorkload, WorkloadConfig

TOPIC, PARTITIONS, GROUP = "struck", 4, "crew"
OFFSETS_TOPIC = "__consumer_offsets"
WORK_S = 3.0  # between a cluster that is whole and the next strike
DOWN_S = 1.0
PAUSE_S = 15.0  # longer than zookeeper.session.timeout.ms: the broker comes back to another leader
PAUSED_EVERY = 4


class BrokerRole(Enum):
    """Which broker a strike hits."""

    LEADER = "leader"
    FOLLOWER = "follower"
    CONTROLLER = "controller"
    COORDINATOR = "coordinator"


@dataclass(slots=True)
class StrikeReport:
    """``strikes``: by role and kind of broker, "paused" with it; ``wrong``: what the history and the files show."""

    strikes: dict[str, int] = field(default_factory=dict)
    operations: int = 0
    sent: int = 0
    read: int = 0
    wrong: list[str] = field(default_factory=list)


class Strikes:
    """``count`` strikes on a whole cluster, each role in turn; every fourth is a pause."""

    def __init__(self, cluster: MixedCluster, count: int, seed: int) -> None:
        self._cluster, self._count, self._rng = cluster, count, random.Random(seed)
        self._struck = 0
        self.report = StrikeReport()

    def _broker(self, role: BrokerRole) -> int | None:
        cluster, leader = self._cluster, self._cluster.leader((TOPIC, self._rng.randrange(PARTITIONS)))
        match role:
            case BrokerRole.LEADER:
                return leader
            case BrokerRole.FOLLOWER:
                return next((b for b in cluster.running() if b != leader), None)
            case BrokerRole.CONTROLLER:
                return cluster.controller()
            case BrokerRole.COORDINATOR:
                count = len(cluster.assignment(OFFSETS_TOPIC))
                return cluster.leader((OFFSETS_TOPIC, partition_for(GROUP, count))) if count else None

    async def strike(self) -> None:
        """One of them; returns when the cluster is whole again. Raises NotInTime, CannotRun."""
        cluster = self._cluster
        await wait_until(lambda: cluster.assignment(OFFSETS_TOPIC) and cluster.is_whole(), "the group has its topic")
        role = list(BrokerRole)[self._struck % len(BrokerRole)]
        broker_id = self._broker(role)
        if broker_id is None:
            broker_id = self._rng.choice(cluster.running())
        self._struck += 1
        pauses = self._struck % PAUSED_EVERY == 0
        name = f"{role.value}, {cluster.brokers[broker_id].kind.value}{', paused' if pauses else ''}"
        self.report.strikes[name] = self.report.strikes.get(name, 0) + 1
        if pauses:
            cluster.brokers[broker_id].process.pause()
            await asyncio.sleep(PAUSE_S)
            cluster.brokers[broker_id].process.resume()
        else:
            await asyncio.to_thread(cluster.kill, broker_id)
            await asyncio.sleep(DOWN_S)
            await asyncio.to_thread(cluster.start, broker_id)
        await wait_until(cluster.is_whole, f"the cluster is whole after strike {self._struck} ({name})")

    async def run(self) -> StrikeReport:
        """Raises NotInTime, KafkaError, CannotRun."""
        cluster = self._cluster
        rows = in_turn(cluster.running(), PARTITIONS)
        async with Admin({"bootstrap.servers": cluster.bootstrap}) as admin:
            await admin.create_topic(TOPIC, assignments=rows)
        await wait_until(lambda: cluster.are_in_sync(TOPIC), f"{TOPIC} has its replicas")
        config = WorkloadConfig(cluster.bootstrap, TOPIC, PARTITIONS, transactional_writers=1, readers=1)
        workload = HistoryWorkload(config, self._rng.randrange(2**31))
        clients = JavaClients(writers=3, readers=1, members=2, group=GROUP)
        load = JavaLoad(cluster.bootstrap, TOPIC, PARTITIONS, clients, cluster.folder / "java.log")

        async def next_step() -> None:
            if self._struck < self._count:
                await self.strike()
            else:
                await asyncio.to_thread(load.stop)

        try:
            ours = await workload.run(next_step, self._count + 1, WORK_S)
        finally:
            load.kill()
        await self._judge([*ours, *load.operations])
        return self.report

    async def _judge(self, history: list[ClientOperation]) -> None:
        report = self.report
        steps = [step for operation in history for step in operation.steps]
        report.operations, report.sent = len(history), sum(isinstance(step, SendStep) for step in steps)
        report.read = sum(len(rows) for s in steps if isinstance(s, PollStep) for rows in s.records.values())
        report.wrong += map(str, anomalies(history, read_to_end=True))
        for topic in (TOPIC, OFFSETS_TOPIC):
            await until_equal(self._cluster, topic)
        committed = await committed_offsets(self._cluster.bootstrap, GROUP)
        report.wrong += not_delivered(history, "java-member-", committed)
        if not committed:
            report.wrong.append(f"the group {GROUP} has committed nothing")


async def committed_offsets(bootstrap: str, group: str) -> dict[TopicPartition, int]:
    """Raises NotInTime."""
    committed: dict[TopicPartition, int] = {}

    async def are_known() -> bool:
        try:
            async with Admin({"bootstrap.servers": bootstrap}) as admin:
                offsets = await admin.list_consumer_group_offsets(group)
        except KafkaError:
            return False
        committed.update({(p.topic, p.partition): offset for p, offset in offsets.items()})
        return True

    await wait_until(are_known, f"the coordinator of {group} answers")
    return committed


def not_delivered(history: Iterable[ClientOperation], members: str, committed: dict[TopicPartition, int]) -> list[str]:
    """Acknowledged records below a committed offset that no member of the group has had: the group has lost them. ``members``
    begins the names of its processes."""
    sent: dict[TopicPartition, dict[int, str]] = {}
    delivered: dict[TopicPartition, set[int]] = {}
    for operation in history:
        for step in operation.steps:
            if isinstance(step, SendStep):
                if operation.outcome is OperationOutcome.COMMITTED:
                    sent.setdefault(step.partition, {})[step.offset] = step.value
            elif operation.process.startswith(members):
                for partition, rows in step.records.items():
                    delivered.setdefault(partition, set()).update(offset for offset, _ in rows)
    lost = []
    for partition, end in committed.items():
        for offset, value in sorted(sent.get(partition, {}).items()):
            if 0 <= offset < end and offset not in delivered.get(partition, set()):
                lost.append(f"the group left out {value} at offset {offset} of {partition[0]}-{partition[1]}")
    return lost
