"""A transactional producer in the laboratory, against the handlers of one broker."""

from __future__ import annotations

from coterie.laboratory.node.broker import LaboratoryBroker
from coterie.laboratory.node.producer import connections_to, note_sent
from coterie.laboratory.node.record_checker import RecordChecker, TopicPartition
from coterie.laboratory.transacting_producer import TransactingProducer, TransactionConfig
from coterie.laboratory.world import World
from coterie.producing.config import ProducingConfig
from coterie.wire.messages.logs.produce import ProduceRequest


class TransactionalProducer(TransactingProducer):
    """``checker`` gets what it knows of its records."""

    def __init__(
        self,
        world: World,
        broker: LaboratoryBroker,
        name: str,
        checker: RecordChecker,
        config: ProducingConfig,
        transaction: TransactionConfig,
    ) -> None:
        super().__init__(world, connections_to(world, broker, name), name, config, transaction)
        self.broker, self._checker = broker, checker

    def _note_sent(self, request: ProduceRequest) -> None:
        note_sent(self._checker, request)

    def _record_acknowledged(self, partition: TopicPartition, offset: int, value: bytes) -> None:
        self._checker.acknowledge_record(partition, offset, value)
