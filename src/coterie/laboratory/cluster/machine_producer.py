"""A producer of the laboratory's cluster with the client's own machine: idempotent, acks=all, several partitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from coterie.laboratory.cluster.handling_broker import HandlingBroker
from coterie.laboratory.cluster.links import connections_to
from coterie.laboratory.cluster.process import Network
from coterie.laboratory.produce_checker import RecordLedger
from coterie.laboratory.requesting_producer import AppendingProducer
from coterie.producing.batch import ProduceFailure, TopicPartition
from coterie.producing.config import ProducingConfig


class MachineProducer(AppendingProducer):
    """A producer of one topic, whose ``partitions`` may become more. ``ledgers``: of each of its lives."""

    def __init__(
        self, network: Network, name: str, brokers: Mapping[int, HandlingBroker], config: ProducingConfig
    ) -> None:
        self.ledgers: list[RecordLedger] = []
        self._partitions: list[TopicPartition] = []
        super().__init__(network.world, connections_to(network, name, brokers), name, self._partitions, config)

    def add(self, partition: TopicPartition) -> None:
        """It is one of this producer's from now on."""
        self._partitions.append(partition)

    def start(self) -> None:
        if not self.alive:
            name = f"{self.name}l{len(self.ledgers)}"
            self.ledgers.append(RecordLedger(name, self.config.is_idempotent, self.config.delivery_timeout_ms))
        super().start()

    def crash(self) -> None:
        self.ledgers[-1].forget_open()
        super().crash()

    def acknowledged(self, partition: TopicPartition) -> dict[str, int]:
        """The values of the partition, with their offsets."""
        return {
            value.decode(): offset
            for ledger in self.ledgers
            for value, offset in ledger.acknowledged.get(partition, {}).items()
        }

    def check(self, partition: TopicPartition, records: Iterable[tuple[int, bytes]]) -> None:
        """Of the log's records, with their offsets: none of this producer's twice, none out of order. Raises
        AssertionError."""
        rows = list(records)
        for ledger in self.ledgers:
            ledger.check(partition, rows, certain=False)

    def _next_value(self) -> bytes:
        return self.ledgers[-1].next_value(self.world.now_ms)

    def _record_ended(self, partition: TopicPartition, value: bytes, result: tuple[int, int] | ProduceFailure) -> None:
        now_ms = self.world.now_ms
        self.ledgers[-1].ended(partition, value, result, now_ms, now_ms)
