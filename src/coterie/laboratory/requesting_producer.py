"""Producers in the laboratory whose machine sends its requests to brokers' own handlers, with up to five of them in flight."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence

from coterie.laboratory.client_connections import LEADERS, LOOKUPS, ClientConnections
from coterie.laboratory.producing_actor import LOST, ProducingActor
from coterie.laboratory.world import World
from coterie.machines.cluster_metadata import ClusterMetadata
from coterie.producing.batch import ProduceFailure, ProducerBatch, TopicPartition
from coterie.producing.config import ProducingConfig
from coterie.producing.effects import SendProduce
from coterie.producing.requests import new_leaders
from coterie.wire.declaration import Message
from coterie.wire.errors import error_of
from coterie.wire.messages.logs.produce import ProduceRequest, ProduceResponse
from coterie.wire.messages.topics.metadata import MetadataResponse
from coterie.wire.messages.transactions.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

PRODUCE_VERSION, INIT_VERSION, METADATA_VERSION = 12, 5, 12
RECORD_BYTES = 40


class RequestingProducer(ProducingActor):
    """A producer's machine, its requests and what it knows of the cluster, without a life of its own."""

    def __init__(self, world: World, connections: ClientConnections, name: str, config: ProducingConfig) -> None:
        super().__init__(world, config)
        self.name, self._connections = name, connections
        self._forget_all()

    def _forget_all(self) -> None:
        """A process begins."""
        self._known = ClusterMetadata()
        self._connections.forget()

    def _produce_version(self) -> int:
        return PRODUCE_VERSION

    def _note_sent(self, request: ProduceRequest) -> None:
        """A request with records is sent."""

    def _forget_leaders(self, topic: str) -> None:
        self._known.forget_topic(topic)

    def _look_up_leaders(self, topics: frozenset[str]) -> None:
        def received(response: Message | None) -> None:
            errors = dict.fromkeys(topics, LOST)
            if isinstance(response, MetadataResponse):
                self._known.metadata_received(response, self.world.now_ms)
                errors = {}
            self.machine.leaders_looked_up(errors, self.world.now_ms, self._jitter())

        self._request(LOOKUPS, None, self._known.metadata_request(sorted(topics)), METADATA_VERSION, received)

    def _send(self, effect: SendProduce) -> None:
        self._note_sent(effect.request)

        def received(response: Message | None) -> None:
            now_ms = self.world.now_ms
            if isinstance(response, ProduceResponse):
                self._known.leaders_received(*new_leaders(response))
                self.machine.produced(effect.token, response, now_ms, self._jitter())
            else:
                self.machine.request_failed(effect.token, LOST, now_ms, self._jitter())

        self._request(LEADERS, effect.node_id, effect.request, self._produce_version(), received)

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

        self._request(LOOKUPS, None, InitProducerIdRequest(None, 60_000), INIT_VERSION, received)

    def _request(
        self,
        purpose: int,
        node_id: int | None,
        request: Message,
        version: int,
        received: Callable[[Message | None], None],
    ) -> None:
        """To that broker, or any; see `ClientConnections.request`."""
        life = self._life

        def ended(response: Message | None) -> None:
            if self._life == life:
                self._act(lambda: received(response))

        timeout_ms = self.config.request_timeout_ms
        self._connections.request(purpose, node_id, request, version, ended, timeout_ms)


class AppendingProducer(RequestingProducer):
    """Appends records at random times until `finish`. Each life has a name of its own, and numbers its records."""

    def __init__(
        self,
        world: World,
        connections: ClientConnections,
        name: str,
        partitions: Sequence[TopicPartition],
        config: ProducingConfig,
    ) -> None:
        super().__init__(world, connections, name, config)
        self.partitions = partitions
        self.alive = False
        self.failed = 0
        self._is_appending = False

    @abstractmethod
    def _next_value(self) -> bytes:
        """The value of the next record, which is appended now."""

    @abstractmethod
    def _record_ended(self, partition: TopicPartition, value: bytes, result: tuple[int, int] | ProduceFailure) -> None:
        """The record has its result."""

    def start(self) -> None:
        """Starts the process, if it is not alive, with a machine of its own; it appends at intervals."""
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
                self._append(self.world.random.choice(self.partitions))
            self._append_later()

        self._after(self.world.between(1, 600), lambda: append() if self._is_appending else None)

    def _append(self, partition: TopicPartition) -> None:
        if self.machine.accumulator.has_room(RECORD_BYTES):
            now_ms = self.world.now_ms
            self.machine.append(partition, (now_ms, None, self._next_value(), ()), RECORD_BYTES, now_ms)

    def _ended(self, batch: ProducerBatch) -> None:
        for index, item in enumerate(batch.items):
            result = batch.result_of(index)
            self.failed += isinstance(result, ProduceFailure)
            self._record_ended(batch.partition, item[2] or b"", result)
