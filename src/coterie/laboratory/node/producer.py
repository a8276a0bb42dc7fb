"""Producers in the laboratory: the machine of `coterie.producing` against the handlers of one broker."""

from __future__ import annotations

from collections.abc import Sequence

from coterie.laboratory.client_connections import ClientConnections
from coterie.laboratory.node.broker import LaboratoryBroker
from coterie.laboratory.node.record_checker import RecordChecker, TopicPartition
from coterie.laboratory.requesting_producer import AppendingProducer
from coterie.laboratory.world import World
from coterie.producing.batch import ProduceFailure
from coterie.producing.config import ProducingConfig
from coterie.records.batch import batches
from coterie.records.decoding import decode_records
from coterie.wire.messages.logs.produce import ProduceRequest


def connections_to(world: World, broker: LaboratoryBroker, name: str) -> ClientConnections:
    """Those of a client of that name."""
    return ClientConnections(world, name, lambda node_id: (0, broker))


def note_sent(checker: RecordChecker, request: ProduceRequest) -> None:
    """Of each batch, whether it is sent for the first time or again."""
    for topic in request.topic_data:
        for data in topic.partition_data:
            records = data.records or b""
            for position, header in batches(records):
                values = tuple(record.value or b"" for record in decode_records(records, position, header))
                checker.send_again((topic.name, data.index), values)


class ProducingClient(AppendingProducer):
    """``checker`` gets what it knows of its records."""

    def __init__(
        self,
        world: World,
        broker: LaboratoryBroker,
        name: str,
        partitions: Sequence[TopicPartition],
        checker: RecordChecker,
        config: ProducingConfig,
    ) -> None:
        super().__init__(world, connections_to(world, broker, name), name, partitions, config)
        self.broker, self._checker = broker, checker
        self._appended = 0

    def _note_sent(self, request: ProduceRequest) -> None:
        note_sent(self._checker, request)

    def _next_value(self) -> bytes:
        value = f"{self.name}l{self._life}.{self._appended}".encode()
        self._appended += 1
        return value

    def _record_ended(self, partition: TopicPartition, value: bytes, result: tuple[int, int] | ProduceFailure) -> None:
        if not isinstance(result, ProduceFailure):
            self._checker.acknowledge_record(partition, result[0], value)
