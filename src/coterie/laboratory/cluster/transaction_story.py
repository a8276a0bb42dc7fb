"""A story of the cluster with transactions beside its other clients, and what must hold of them: whole or not at all."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from typing import ClassVar

from coterie.laboratory.cluster.coordinating_broker import (
    GROUP,
    LEDGER,
    OFFSETS,
    STATE_PARTITIONS,
    STATES,
)
from coterie.laboratory.cluster.ledger_broker import LedgerBroker, visible_values
from coterie.laboratory.cluster.ledger_clients import LedgerMachineReader, LedgerWriter
from coterie.laboratory.cluster.report import ClusterReport
from coterie.laboratory.cluster.story import SESSION_TIMEOUT_MS, ClusterStory
from coterie.laboratory.cluster.transactional_clients import LedgerProducer, LedgerReader, SentToLedger
from coterie.laboratory.fuzz import naming_seed
from coterie.log.chunks import chunks
from coterie.log.partition_log import PartitionLog
from coterie.replication.states import ReplicationConfig, TopicPartition

LEDGER_PARTITIONS = 3
IDS = ("x", "x", "y")  # of the producers: two of them fence each other


class TransactionClusterStory(ClusterStory):
    """``transaction_version``: of the cluster and its producers, None where the seed chooses."""

    brokers: dict[int, LedgerBroker]  # type: ignore[assignment]
    own_topics: ClassVar[Mapping[str, int]] = {LEDGER: LEDGER_PARTITIONS, OFFSETS: 1, STATES: STATE_PARTITIONS}

    def __init__(self, seed: int, transaction_version: int | None = None) -> None:
        super().__init__(seed)
        random = self.world.random
        version = random.choice((0, 2, 2)) if transaction_version is None else transaction_version
        ids = count(1_000)
        for broker in self.brokers.values():
            if isinstance(broker, LedgerBroker):
                broker.transaction_version = version
                broker.new_producer_id = broker.take_producer_id if self.reserves_ids else ids.__next__
        self.version = version
        self.administrator.of_fixed_size = self.own_topics.keys()
        self.ledger_producers = [self._new_producer(number, name) for number, name in enumerate(IDS)]
        self.readers = [self._new_reader(number) for number in range(LEDGER_PARTITIONS)]

    def _new_producer(self, number: int, transactional_id: str) -> LedgerProducer | LedgerWriter:
        return LedgerProducer(self.network, f"t{number}", self.brokers, LEDGER_PARTITIONS, transactional_id, number)

    def _new_reader(self, number: int) -> LedgerReader | LedgerMachineReader:
        return LedgerReader(self.network, f"r{number}", self.brokers, (LEDGER, number))

    def _new_broker(self, number: int, config: ReplicationConfig) -> LedgerBroker:
        return LedgerBroker(self.network, number, self.server, config, SESSION_TIMEOUT_MS)

    def _made(self, partition: TopicPartition) -> None:
        if partition[0] not in self.own_topics:
            super()._made(partition)

    def _create_topic(self) -> None:
        super()._create_topic()
        for topic, partitions in self.own_topics.items():
            self.administrator.create(topic, {p: self.administrator.some(3) for p in range(partitions)})
        for client in (*self.ledger_producers, *self.readers):
            client.start()

    def _mend(self) -> None:
        super()._mend()
        for producer in self.ledger_producers:
            producer.stopped = True

    # -- what must hold -------------------------------------------------------------------------------------------------

    def _check(self) -> None:
        visible: dict[TopicPartition, list[str]] = {}
        for number in range(LEDGER_PARTITIONS):
            log = self._log_of((LEDGER, number))
            if log is not None:
                visible[LEDGER, number] = self._visible((LEDGER, number), log)
        self._check_coordinators()
        self._check_offsets()
        if len(visible) == LEDGER_PARTITIONS:
            for producer in self.ledger_producers:
                for sent in producer.sent:
                    self._check_whole(producer, sent, visible)
            for reader in self.readers:
                if reader.read != visible[reader.partition]:
                    self.failures.append(f"{reader.partition}: a reader of committed records has read something else")
        super()._check()

    def _log_of(self, partition: TopicPartition) -> PartitionLog | None:
        """That of the leader, at rest."""
        leaders = [broker for broker in self.brokers.values() if broker.leader_of(partition) is not None]
        if len(leaders) != 1:
            self.failures.append(f"{partition} has {len(leaders)} leaders at rest")
            return None
        return leaders[0].record_log(partition)

    def _visible(self, partition: TopicPartition, log: PartitionLog) -> list[str]:
        if log.transactions.open or log.last_stable_offset != log.end_offset:
            self.failures.append(
                f"{partition} has transactions of {sorted(log.transactions.open)} open at rest, and is stable up to"
                f" {log.last_stable_offset} of {log.end_offset}"
            )
        values: list[str] = []
        for data, headers in chunks(log):
            values += visible_values(data, headers, log.transactions.aborted)
        if len(set(values)) != len(values):
            self.failures.append(f"{partition} has records twice")
        return values

    def _check_coordinators(self) -> None:
        led = [shard for broker in self.brokers.values() for shard in broker.led_states()]
        if sorted(one.index for one in led) != list(range(STATE_PARTITIONS)):
            self.failures.append(f"the partitions {sorted(one.index for one in led)} of {STATES} are coordinated")
        for one in led:
            still = [t.transactional_id for t in one.shard.by_id.values() if t.partitions]
            if still or not one.is_replicated:
                self.failures.append(f"{STATES}-{one.index} has open transactions at rest: {still}")

    def _check_whole(
        self, producer: LedgerProducer | LedgerWriter, sent: SentToLedger, visible: dict[TopicPartition, list[str]]
    ) -> None:
        report = self.report
        there = [value in visible[p] for p, values in sent.values.items() for value in values]
        if any(there):
            report.commits += 1
        elif sent.wanted is not None:
            report.aborts += 1
        text = ""
        if any(there) and not all(there):
            text = f"is torn: {there}"
        elif sent.answered and not all(there):
            text = "was committed, and is not there"
        elif not sent.wanted and any(there):
            text = "was not committed, and is there"
        if text and self.version < 2:
            report.torn += 1
        elif text:
            self.failures.append(f"a transaction of {producer.name} {text}: {sent}")

    def _check_offsets(self) -> None:
        led = [shard for broker in self.brokers.values() for shard in broker.led_groups()]
        if len(led) != 1:
            self.failures.append(f"{len(led)} brokers coordinate the group at rest")
            return
        shard = led[0]
        if shard.pending_producers():
            self.failures.append(f"offsets of {shard.pending_producers()} are pending at rest")
        group = shard.group(GROUP)
        for producer in self.ledger_producers:
            held = None if group is None else group.offsets.get(("in", producer.source))
            acknowledged = [s.offset for s in producer.sent if s.offset is not None and s.answered]
            possible = {s.offset for s in producer.sent if s.offset is not None and s.wanted} - {
                s.offset for s in producer.sent if s.answered is False
            }
            offset = None if held is None else held.offset
            least = max(acknowledged, default=None)
            is_right = (offset is None and least is None) or (
                offset is not None and offset in possible and offset >= (least or 0)
            )
            if not is_right and self.version < 2:
                self.report.torn += 1
            elif not is_right:
                self.failures.append(f"{producer.name} committed offset {least} last, and the group has {offset}")


def run_transaction_cluster_seed(
    seed: int, minutes: float = 5.0, *, transaction_version: int | None = None
) -> ClusterReport:
    """The same seed gives the same story. Raises FuzzFailure."""
    with naming_seed(seed):
        return TransactionClusterStory(seed, transaction_version).run(int(minutes * 60_000))
