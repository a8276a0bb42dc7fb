"""The way out: a group is at work on coterie's brokers; Apache Kafka's brokers join, the partitions move to them, and coterie's
brokers leave, each by a controlled shutdown."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from coterie.client import Admin, Consumer, Producer
from coterie.client.errors import KafkaError
from coterie.conformance.cluster.java_load import JavaClients, JavaLoad
from coterie.conformance.cluster.mixed import BrokerKind, MixedCluster, mixed_cluster, wait_until
from coterie.conformance.cluster.replication_checks import until_equal
from coterie.conformance.cluster.strikes import OFFSETS_TOPIC, committed_offsets, not_delivered
from coterie.laboratory.operation_history import ClientOperation, PollStep, SendStep, anomalies

TOPIC, PARTITIONS, GROUP = "moved", 4, "movers"
OLD, NEW = (1, 2, 3), (4, 5, 6)
SESSION_TIMEOUT_MS = 10_000
REBALANCE_S = 15.0  # at most: it waits for the session of a member, and the members join again
SETTLE_S = 5.0
AT_REST = "all rest"


@dataclass(slots=True)
class WayOutReport:
    """``longest_s``: of each phase, for which any partition was without a record for the group. ``wrong`` is empty where all is
    right."""

    sent: int = 0
    read: int = 0
    longest_s: dict[str, float] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)

    def check_pauses(self) -> None:
        """A phase may add the pause of a rebalance to what the machine causes at rest."""
        for phase, longest_s in self.longest_s.items():
            if longest_s > REBALANCE_S + self.longest_s[AT_REST]:
                self.wrong.append(f"while {phase}, a partition was without a record for {longest_s:.1f} s")


class PartitionGaps:
    """How long each partition was without a record for the group, while writers wrote all the time. ``longest_s``: of each
    phase in which a gap ended."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._last_s: dict[int, float] = {}
        self._phase = ""
        self.longest_s: dict[str, float] = {}

    def read(self, partition: int) -> None:
        """The group has had records of it. Thread-safe."""
        now_s = self._now_s()
        gap_s = now_s - self._last_s.get(partition, now_s)
        self.longest_s[self._phase] = max(self.longest_s.get(self._phase, 0.0), gap_s)
        self._last_s[partition] = now_s

    def begin(self, phase: str) -> None:
        """Gaps that end from now on are of this phase."""
        self._phase = phase

    def end(self) -> None:
        """The writers are about to end: each partition should have had records just now."""
        for partition in list(self._last_s):
            self.read(partition)


class WayOut:
    """One run."""

    def __init__(self, cluster: MixedCluster) -> None:
        self._cluster = cluster
        self._stopped = False
        self._gaps = PartitionGaps()
        self._operations: list[ClientOperation] = []

    async def run(self) -> WayOutReport:
        """Raises NotInTime, KafkaError, CannotRun."""
        cluster, report = self._cluster, WayOutReport()
        rows = {n: [OLD[n % 3], OLD[(n + 1) % 3], OLD[(n + 2) % 3]] for n in range(PARTITIONS)}
        async with Admin({"bootstrap.servers": cluster.bootstrap}) as admin:
            await admin.create_topic(TOPIC, assignments=rows)
        await wait_until(lambda: cluster.are_in_sync(TOPIC), f"{TOPIC} has its replicas")
        clients = JavaClients(writers=2, readers=0, members=2, group=GROUP)
        load = JavaLoad(cluster.bootstrap, TOPIC, PARTITIONS, clients, cluster.folder / "java.log", self._gaps.read)
        try:
            async with asyncio.TaskGroup() as tasks:
                for work in (self._write(), self._join()):
                    tasks.create_task(work)
                try:
                    await self._move()
                    self._gaps.end()
                    await asyncio.to_thread(load.stop)
                finally:
                    self._stopped = True
        finally:
            load.kill()
        history = [*self._operations, *load.operations]
        await self._judge(history, report)
        return report

    async def _move(self) -> None:
        cluster, gaps = self._cluster, self._gaps
        gaps.begin("the group forms")
        await wait_until(lambda: cluster.assignment(OFFSETS_TOPIC), "the group has committed")
        await wait_until(cluster.is_whole, f"{OFFSETS_TOPIC} has its replicas")
        await asyncio.sleep(SETTLE_S)
        gaps.begin(AT_REST)
        await asyncio.sleep(2 * SETTLE_S)
        for broker_id in NEW:
            gaps.begin(f"broker {broker_id} joins")
            await asyncio.to_thread(cluster.add, broker_id, BrokerKind.KAFKA)
        for topic in (TOPIC, OFFSETS_TOPIC):
            gaps.begin(f"{topic} moves")
            await self._reassign(topic)
            await asyncio.sleep(SETTLE_S)
        for broker_id in OLD:
            gaps.begin(f"broker {broker_id} leaves")
            await asyncio.to_thread(cluster.stop, broker_id)
            await asyncio.sleep(SETTLE_S)
        await wait_until(lambda: cluster.controller() in NEW, "a controller of Apache Kafka's")

    async def _reassign(self, topic: str) -> None:
        cluster = self._cluster
        targets: dict[Any, Any] = {
            (topic, n): [NEW[n % 3], NEW[(n + 1) % 3], NEW[(n + 2) % 3]] for n in cluster.assignment(topic)
        }
        async with Admin({"bootstrap.servers": cluster.bootstrap}) as admin:
            await admin.alter_partition_reassignments(targets)
        await wait_until(
            lambda: all(set(r) == set(NEW) for r in cluster.assignment(topic).values()) and cluster.are_in_sync(topic),
            lambda: (
                f"{topic} is on the new brokers: {json.dumps({n: list(r) for n, r in cluster.assignment(topic).items()})}"
            ),
            120.0,
        )

    async def _write(self) -> None:
        count = 0
        async with Producer({"bootstrap.servers": self._cluster.bootstrap, "acks": "all"}) as producer:
            while not self._stopped:
                partition, value = count % PARTITIONS, f"writer-{count}"
                sent = await producer.send_and_wait(TOPIC, value.encode(), partition=partition)
                step = SendStep((TOPIC, partition), value, sent.offset)
                self._operations.append(ClientOperation("writer", (step,)))
                count += 1
                await asyncio.sleep(0.02)

    async def _join(self) -> None:
        settings = {
            "bootstrap.servers": self._cluster.bootstrap,
            "group.id": GROUP,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": "false",
            "session.timeout.ms": str(SESSION_TIMEOUT_MS),
            "heartbeat.interval.ms": "1000",
        }
        async with Consumer(settings) as consumer:
            consumer.subscribe([TOPIC])
            owned: Any = None
            while not self._stopped:
                polled = await consumer.poll(200)
                for partition in polled:
                    self._gaps.read(partition[1])
                records = {
                    (p[0], p[1]): tuple((r.offset, (r.value or b"").decode()) for r in batch)
                    for p, batch in polled.items()
                }
                moved, owned = owned != consumer.assignment(), consumer.assignment()
                if records:
                    step = PollStep(records)
                    self._operations.append(ClientOperation("member-ours", (step,), reassigned=moved))
                    await self._commit(consumer)

    async def _commit(self, consumer: Consumer[Any, Any]) -> None:
        try:
            await consumer.commit()
        except KafkaError:
            return  # a rebalance: the records are delivered again

    async def _judge(self, history: list[ClientOperation], report: WayOutReport) -> None:
        steps = [step for operation in history for step in operation.steps]
        report.sent = sum(isinstance(step, SendStep) for step in steps)
        report.read = sum(len(rows) for s in steps if isinstance(s, PollStep) for rows in s.records.values())
        report.longest_s = {phase: round(gap_s, 1) for phase, gap_s in self._gaps.longest_s.items()}
        report.check_pauses()
        for topic in (TOPIC, OFFSETS_TOPIC):
            await until_equal(self._cluster, topic)
        report.wrong += map(str, anomalies(history))
        committed = await committed_offsets(self._cluster.bootstrap, GROUP)
        report.wrong += not_delivered(history, "", committed)


async def way_out(folder: Path) -> WayOutReport:
    """Raises NotInTime, KafkaError, CannotRun."""
    with mixed_cluster(folder, dict.fromkeys(OLD, BrokerKind.COTERIE)) as cluster:
        return await WayOut(cluster).run()
