"""A broker of the laboratory's cluster whose clients' requests go to the broker's own handlers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, cast

from coterie.broker.handlers.services import Handler, Services
from coterie.broker.requests.calls import Call
from coterie.broker.requests.connection import ClientConnection
from coterie.broker.requests.pending import Pending
from coterie.broker.storage.replica_effects import AppendToken, ReplicaEffects
from coterie.broker.storage.topic import Partition
from coterie.laboratory.cluster.records_broker import RecordsBroker
from coterie.replication.states import ReplicaError, TopicPartition
from coterie.wire.declaration import Message

Answered = Callable[[Message | None], None]


class HandlingBroker(RecordsBroker):
    """``handlers`` by API, and ``services``: what they use of this life of the broker."""

    handlers: ClassVar[Mapping[int, Handler]]
    services: Any

    def _effects(self) -> ReplicaEffects:
        effects = ReplicaEffects()
        effects.act = lambda decided: self._act(list(decided))
        effects.notify = self._has_appended
        return effects

    def _has_appended(self, partition: TopicPartition) -> None:
        epoch = self._epoch_of(partition)
        if epoch is not None:
            self.appended(partition, epoch, self.number)

    def _decided(self, token: object, error: ReplicaError | None) -> None:
        if isinstance(token, AppendToken):
            token.decide(error)
        else:
            super()._decided(token, error)

    def _follow_role(self, partition: Partition) -> None:
        """The partition of the handlers gets the replica and its log."""
        key = partition.topic, partition.index
        replica = self.replicas.partitions.get(key)
        partition.replica = None if replica is None or replica.role is None else replica
        if partition.replica is not None and partition.log is not self.record_log(key):
            partition.use_log(self.record_log(key), is_stored=False)

    def handle(self, request: Message, version: int, client_id: str, answered: Answered) -> None:
        """In the bytes of its version; see `ConnectedBroker`. A broker that is paused does so when it goes on."""
        arrived = type(request).decode(request.encode(version), version)
        run = self.guarded(lambda: self._handle(arrived, version, client_id, answered))
        run()

    def _handle(self, request: Message, version: int, client_id: str, answered: Answered) -> None:
        def answer(response: Message | None) -> None:
            answered(None if response is None else type(response).decode(response.encode(version), version))

        call = Call(version, client_id, ClientConnection("/laboratory", local_address=(self.name, 9092)))
        pending = Pending()
        pending.notify = lambda: answer(pending.ended())
        pending.answer_with(self.handlers[request.api_key](cast(Services, self.services), request, call))
