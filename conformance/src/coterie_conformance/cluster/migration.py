"""From Apache Kafka's brokers to coterie's and back to Apache Kafka's, while a group and transactions are at work: the next
brokers join, all partitions move to them, and the former ones leave, each by a controlled shutdown. On the way in the
controller is Kafka's, on the way out ours."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from coterie.broker.storage.topic import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from coterie.client import Admin, Consumer, Producer
from coterie.client.errors import KafkaError, TransactionAbortableError
from coterie_conformance.cluster.java_load import JavaClients, JavaLoad
from coterie_conformance.cluster.mixed import BrokerKind, MixedCluster, in_turn, mixed_cluster, wait_until
from coterie_conformance.cluster.replication_checks import until_equal
from coterie_conformance.cluster.strikes import committed_offsets, not_delivered
from coterie_conformance.histories.operation_history import ClientOperation, PollStep, SendStep, anomalies

TOPIC, PARTITIONS, GROUP, TRANSACTIONAL_ID = "moved", 4, "movers", "mover"
RECORDS_OF_A_TRANSACTION = 3
ROUTE = ((BrokerKind.KAFKA, (1, 2, 3)), (BrokerKind.COTERIE, (4, 5, 6)), (BrokerKind.KAFKA, (7, 8, 9)))
MOVED = (TOPIC, OFFSETS_TOPIC, TRANSACTIONS_TOPIC)
SESSION_TIMEOUT_MS = 10_000
REBALANCE_S = 15.0  # at most: it waits for the session of a member, and the members join again
SETTLE_S = 5.0
AT_REST = "all rest"


@dataclass(slots=True)
class MigrationReport:
    """``longest_s``: of each phase, for which any partition was without a record for the group. ``wrong`` is empty where all is
    right."""

    sent: int = 0
    transactions: int = 0
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


class Migration:
    """One run."""

    def __init__(self, cluster: MixedCluster) -> None:
        self._cluster = cluster
        self._stopped, self._transactions = False, 0
        self._gaps = PartitionGaps()
        self._operations: list[ClientOperation] = []

    async def run(self) -> MigrationReport:
        """Raises NotInTime, KafkaError, CannotRun."""
        cluster, report = self._cluster, MigrationReport()
        rows = in_turn(ROUTE[0][1], PARTITIONS)
        async with Admin({"bootstrap.servers": cluster.bootstrap}) as admin:
            await admin.create_topic(TOPIC, assignments=rows)
        await wait_until(lambda: cluster.are_in_sync(TOPIC), f"{TOPIC} has its replicas")
        clients = JavaClients(writers=2, readers=0, members=2, group=GROUP)
        load = JavaLoad(cluster.bootstrap, TOPIC, PARTITIONS, clients, cluster.folder / "java.log", self._gaps.read)
        try:
            async with asyncio.TaskGroup() as tasks:
                for work in (self._write(), self._transact(), self._join()):
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
        for topic in MOVED:
            await wait_until(lambda topic=topic: cluster.assignment(topic), f"{topic} is there")
        await wait_until(cluster.is_whole, f"{', '.join(MOVED)} have their replicas")
        await asyncio.sleep(SETTLE_S)
        gaps.begin(AT_REST)
        await asyncio.sleep(2 * SETTLE_S)
        for (_, old), (kind, new) in pairwise(ROUTE):
            await self._move_on(old, new, kind)
            await wait_until(lambda new=new: cluster.controller() in new, f"a controller of {kind.value}'s")

    async def _move_on(self, old: Sequence[int], new: Sequence[int], kind: BrokerKind) -> None:
        cluster, gaps = self._cluster, self._gaps
        for broker_id in new:
            gaps.begin(f"broker {broker_id} joins")
            await asyncio.to_thread(cluster.add, broker_id, kind)
        for topic in MOVED:
            gaps.begin(f"{topic} moves to {kind.value}")
            await self._reassign(topic, new)
            await asyncio.sleep(SETTLE_S)
        for broker_id in old:
            gaps.begin(f"broker {broker_id} leaves")
            await asyncio.to_thread(cluster.stop, broker_id)
            await asyncio.sleep(SETTLE_S)

    async def _reassign(self, topic: str, new: Sequence[int]) -> None:
        cluster = self._cluster
        rows = in_turn(new, len(cluster.assignment(topic)))
        async with Admin({"bootstrap.servers": cluster.bootstrap}) as admin:
            await admin.alter_partition_reassignments({(topic, number): row for number, row in rows.items()})
        await wait_until(
            lambda: all(set(r) == set(new) for r in cluster.assignment(topic).values()) and cluster.are_in_sync(topic),
            lambda: (
                f"{topic} is on the new brokers: {json.dumps({n: list(r) for n, r in cluster.assignment(topic).items()})}"
            ),
            120.0,
        )

    async def _transact(self) -> None:
        """Records of committed transactions are in the history; one that was aborted is tried again."""
        settings = {"bootstrap.servers": self._cluster.bootstrap, "transactional.id": TRANSACTIONAL_ID}
        count = 0
        async with Producer(settings) as producer:
            await producer.init_transactions()
            while not self._stopped:
                partition = count % PARTITIONS
                values = [f"transaction-{count}-{n}" for n in range(RECORDS_OF_A_TRANSACTION)]
                try:
                    producer.begin_transaction()
                    futures = [await producer.send(TOPIC, value.encode(), partition=partition) for value in values]
                    await producer.commit_transaction()
                except TransactionAbortableError:
                    await producer.abort_transaction()
                    continue
                finally:
                    count += 1
                offsets = [(await future).offset for future in futures]
                steps = tuple(SendStep((TOPIC, partition), *sent) for sent in zip(values, offsets, strict=True))
                self._operations.append(ClientOperation("transactional-writer", steps))
                self._transactions += 1
                await asyncio.sleep(0.1)

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

    async def _judge(self, history: list[ClientOperation], report: MigrationReport) -> None:
        steps = [step for operation in history for step in operation.steps]
        report.sent = sum(isinstance(step, SendStep) for step in steps)
        report.read = sum(len(rows) for s in steps if isinstance(s, PollStep) for rows in s.records.values())
        report.longest_s = {phase: round(gap_s, 1) for phase, gap_s in self._gaps.longest_s.items()}
        report.check_pauses()
        report.transactions = self._transactions
        report.wrong += self._cluster.tracebacks()
        for topic in MOVED:
            await until_equal(self._cluster, topic)
        report.wrong += map(str, anomalies(history))
        committed = await committed_offsets(self._cluster.bootstrap, GROUP)
        report.wrong += not_delivered(history, "", committed)


async def migration(folder: Path) -> MigrationReport:
    """Raises NotInTime, KafkaError, CannotRun."""
    kind, brokers = ROUTE[0]
    with mixed_cluster(folder, dict.fromkeys(brokers, kind)) as cluster:
        return await Migration(cluster).run()
