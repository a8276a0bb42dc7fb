"""Producers in the laboratory: the machine of `coterie.producing` against the broker's own handlers, with up to five requests
in flight.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from coterie.cluster_metadata import ClusterMetadata
from coterie.laboratory.node.broker import LaboratoryBroker
from coterie.laboratory.node.connection import LaboratoryConnection
from coterie.laboratory.node.record_checker import RecordChecker, TopicPartition
from coterie.laboratory.producing_actor import LOST, ProducingActor
from coterie.laboratory.world import World
from coterie.producing.batch import ProduceFailure, ProducerBatch
from coterie.producing.config import ProducingConfig
from coterie.producing.effects import SendProduce
from coterie.records.batch import batches
from coterie.records.decoding import decode_records
from coterie.wire.declaration import Message
from coterie.wire.errors import error_of
from coterie.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from coterie.wire.messages.metadata import MetadataResponse
from coterie.wire.messages.produce import ProduceRequest, ProduceResponse

PRODUCE_VERSION, INIT_VERSION, METADATA_VERSION = 12, 5, 12
RECORD_BYTES = 40


class NodeProducer(ProducingActor):
    """A producer's machine, its requests and what is known of its records, without a life of its own."""

    def __init__(
        self, world: World, broker: LaboratoryBroker, name: str, checker: RecordChecker, config: ProducingConfig
    ) -> None:
        super().__init__(world, config)
        self.broker, self.name, self._checker = broker, name, checker
        self._forget_all()

    def _forget_all(self) -> None:
        """A process begins."""
        self._known = ClusterMetadata()
        self._connections: dict[int, LaboratoryConnection] = {}

    def _produce_version(self) -> int:
        return PRODUCE_VERSION

    def _forget_leaders(self, topic: str) -> None:
        self._known.forget_topic(topic)

    def _look_up_leaders(self, topics: frozenset[str]) -> None:
        def received(response: Message | None) -> None:
            errors = dict.fromkeys(topics, LOST)
            if isinstance(response, MetadataResponse):
                self._known.metadata_received(response, self.world.now_ms)
                errors = {}
            self.machine.leaders_looked_up(errors, self.world.now_ms, self._jitter())

        self._request(1, self._known.metadata_request(sorted(topics)), METADATA_VERSION, received)

    def _send(self, effect: SendProduce) -> None:
        self._note_sent(effect.request)

        def received(response: Message | None) -> None:
            now_ms = self.world.now_ms
            if isinstance(response, ProduceResponse):
                self.machine.produced(effect.token, response, now_ms, self._jitter())
            else:
                self.machine.request_failed(effect.token, LOST, now_ms, self._jitter())

        self._request(0, effect.request, self._produce_version(), received)

    def _note_sent(self, request: ProduceRequest) -> None:
        """Of each batch, whether it is sent for the first time or again."""
        for topic in request.topic_data:
            for data in topic.partition_data:
                records = data.records or b""
                for position, header in batches(records):
                    values = tuple(record.value or b"" for record in decode_records(records, position, header))
                    self._checker.send_again((topic.name, data.index), values)

    def _request(self, number: int, request: Message, version: int, received: Callable[[Message | None], None]) -> None:
        """On the connection of that number; None is received where it breaks, or the broker is down."""
        life = self._life

        def ended(response: Message | None) -> None:
            if self._life == life:
                self._act(lambda: received(response))

        if not self.broker.up:
            self.world.after(self.world.faults.notice_ms, lambda: ended(None))
            return
        connection = self._connections.get(number)
        if connection is None or connection.broken:
            connection = self._connections[number] = LaboratoryConnection(self.world, self.broker, self.name)
        connection.send(request, version, ended, self.config.request_timeout_ms)


class ProducingClient(NodeProducer):
    """Appends records at random times until `finish`. Each life has a name of its own, and numbers its records."""

    def __init__(
        self,
        world: World,
        broker: LaboratoryBroker,
        name: str,
        partitions: Sequence[TopicPartition],
        checker: RecordChecker,
        config: ProducingConfig,
    ) -> None:
        super().__init__(world, broker, name, checker, config)
        self._partitions = partitions
        self.alive = False
        self.failed = 0
        self._is_appending = False
        self._appended = 0

    def start(self) -> None:
        if self.alive:
            return
        self.alive = self._is_appending = True
        self._forget_all()
        self._begin(self._known.leader, self._known.leader_epoch)
        self._append_later()

    def crash(self) -> None:
        """What is in memory is gone; what is under way may still arrive."""
        self.alive = self._is_appending = False
        self._life += 1

    def finish(self) -> None:
        """Appends no more; what was appended ends."""
        self._is_appending = False
        if self.alive:
            self.machine.flush()
            self._act(lambda: None)

    def unfinished(self) -> int:
        """The number of partitions with a batch that has no end."""
        return len(self.machine.accumulator.busy) if self.alive else 0

    def _append_later(self) -> None:
        def append() -> None:
            for _ in range(self.world.between(1, 5)):
                self._append(self.world.random.choice(self._partitions))
            self._append_later()

        self._after(self.world.between(1, 600), lambda: append() if self._is_appending else None)

    def _append(self, partition: TopicPartition) -> None:
        if self.machine.accumulator.has_room(RECORD_BYTES):
            value = f"{self.name}l{self._life}.{self._appended}".encode()
            self._appended += 1
            self.machine.append(partition, (self.world.now_ms, None, value, ()), RECORD_BYTES, self.world.now_ms)

    # -- the machine ----------------------------------------------------------------------------------------------------

    def _ended(self, batch: ProducerBatch) -> None:
        for index, item in enumerate(batch.items):
            result = batch.result_of(index)
            if isinstance(result, ProduceFailure):
                self.failed += 1
            else:
                self._checker.acknowledge_record(batch.partition, result[0], item[2] or b"")

    def _get_producer_id(self) -> None:
        def received(response: Message | None) -> None:
            now_ms = self.world.now_ms
            if not isinstance(response, InitProducerIdResponse):
                self.machine.not_identified(LOST, now_ms, self._jitter())
            elif response.error_code:
                failure = ProduceFailure.of_code(error_of(response.error_code))
                self.machine.not_identified(failure, now_ms, self._jitter())
            else:
                self.machine.identified((response.producer_id, response.producer_epoch), now_ms)

        self._request(1, InitProducerIdRequest(None, 60_000), INIT_VERSION, received)
