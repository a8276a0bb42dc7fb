"""The requests of the controller, and of brokers that shut down, as a broker of the cluster serves them."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from coterie.broker.cluster.cluster_view import ClusterView, LiveBroker
from coterie.broker.cluster.controller_driver import ControllerDriver
from coterie.broker.cluster.replicas.replica_manager import ReplicaManager
from coterie.broker.requests.pending import Pending
from coterie.controller import encoding
from coterie.controller.nodes import PLAINTEXT
from coterie.controller.requests import ShutdownAllowed
from coterie.replication.states import LEADER_DURING_DELETE, ReplicaRefusal, TopicPartition
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.brokers.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    RemainingPartition,
)
from coterie.wire.messages.brokers.leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
)
from coterie.wire.messages.brokers.stop_replica import (
    StopReplicaPartitionError,
    StopReplicaRequest,
    StopReplicaResponse,
)
from coterie.wire.messages.brokers.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse

ANY_BROKER_EPOCH = -1  # of controllers before KIP-380
ControlledRequest = LeaderAndIsrRequest | StopReplicaRequest | UpdateMetadataRequest


class ControlRequests:
    """``changed`` is called after roles or addresses have changed. What comes for a registration that this broker does not know
    of yet waits until it does: a replica has no role at its beginning. ``with_settings`` calls its second argument once the
    settings of those topics are known."""

    def __init__(
        self,
        manager: ReplicaManager,
        view: ClusterView,
        driver: ControllerDriver,
        changed: Callable[[], None],
        protocol: str = PLAINTEXT,
    ) -> None:
        self._protocol = protocol  # of the listener of each broker by which it is reached
        self._manager, self._view, self._driver, self._changed = manager, view, driver, changed
        self.leaders: dict[int, tuple[str, int]] = {}  # addresses, from LeaderAndIsr
        self._early: list[tuple[int, Callable[[], None]]] = []  # with the epochs that they are meant for
        self.with_settings: Callable[[Iterable[str], Callable[[], None]], None] = lambda topics, then: then()

    def registered(self) -> None:
        """The broker's epoch is known."""
        early, self._early = self._early, []
        for broker_epoch, handle in early:
            self._once_registered(broker_epoch, handle)

    def _once_registered(self, broker_epoch: int, handle: Callable[[], None]) -> None:
        own = self._manager.replicas.broker_epoch
        if own is None or broker_epoch > own:
            self._early.append((broker_epoch, handle))
        else:
            handle()

    def _responded(self, request: ControlledRequest, handle: Callable[[], Message]) -> Pending:
        pending = Pending()
        self._once_registered(request.broker_epoch, lambda: pending.respond(handle()))
        return pending

    def _epochs(self, request: ControlledRequest) -> tuple[int, int]:
        own = self._manager.replicas.broker_epoch
        assert own is not None
        broker_epoch = request.broker_epoch
        return request.controller_epoch, own if broker_epoch == ANY_BROKER_EPOCH else broker_epoch

    def leader_and_isr(self, request: LeaderAndIsrRequest) -> Pending:
        """Carries out the controller's LeaderAndIsr; returns its response."""
        pending, topics = Pending(), {topic for topic, _ in encoding.partition_states(request)}

        def handle() -> None:
            self.with_settings(topics, lambda: pending.respond(self._leader_and_isr(request)))

        self._once_registered(request.broker_epoch, handle)
        return pending

    def _leader_and_isr(self, request: LeaderAndIsrRequest) -> LeaderAndIsrResponse:
        states = encoding.partition_states(request)
        try:
            self.leaders |= encoding.live_leaders(request)
            refused = self._manager.leader_and_isr(*self._epochs(request), states, encoding.new_partitions(request))
        except ReplicaRefusal as refusal:
            code = refusal.error.value
            return LeaderAndIsrResponse(code, [LeaderAndIsrPartitionError(*p, code) for p in states])
        self._changed()
        codes = {partition: error.value for partition, error in refused.items()}
        rows = [LeaderAndIsrPartitionError(*partition, codes.get(partition, ErrorCode.NONE)) for partition in states]
        return LeaderAndIsrResponse(ErrorCode.NONE, rows)

    def stop_replica(self, request: StopReplicaRequest) -> Pending:
        """Carries out the controller's StopReplica; returns its response."""
        return self._responded(request, lambda: self._stop_replica(request))

    def _stop_replica(self, request: StopReplicaRequest) -> StopReplicaResponse:
        stopped = encoding.stopped_replicas(request)
        try:
            refused = self._manager.stop_replicas(*self._epochs(request), stopped)
        except ReplicaRefusal as refusal:
            code = refusal.error.value
            return StopReplicaResponse(code, [StopReplicaPartitionError(*partition, code) for partition in stopped])
        self._changed()
        codes = {partition: error.value for partition, error in refused.items()}
        rows = [StopReplicaPartitionError(*partition, codes.get(partition, ErrorCode.NONE)) for partition in stopped]
        return StopReplicaResponse(ErrorCode.NONE, rows)

    def update_metadata(self, request: UpdateMetadataRequest) -> Pending:
        """Carries out the controller's UpdateMetadata; returns its response."""
        return self._responded(request, lambda: self._update_metadata(request))

    def _update_metadata(self, request: UpdateMetadataRequest) -> UpdateMetadataResponse:
        states = encoding.partition_states(request)
        try:
            self._manager.update_metadata(*self._epochs(request), states)
        except ReplicaRefusal as refusal:
            return UpdateMetadataResponse(refusal.error.value)
        own = self._protocol
        deleted: list[TopicPartition] = [p for p, s in states.items() if s.leader == LEADER_DURING_DELETE]
        live = [
            LiveBroker(broker, *registration.address_by(own), registration.rack, registration.has_protocol(own))
            for broker, registration in encoding.live_brokers(request).items()
        ]
        kept = {partition: state for partition, state in states.items() if partition not in deleted}
        self._view.update(request.controller_id, live, kept, encoding.offline_replicas(request))
        self._view.forget(deleted)
        self._changed()
        return UpdateMetadataResponse(ErrorCode.NONE)

    def controlled_shutdown(self, request: ControlledShutdownRequest) -> Pending:
        """ControlledShutdownResponse; NOT_CONTROLLER from a broker that is none."""
        pending = Pending()

        def decided(allowed: ShutdownAllowed) -> None:
            rows = [RemainingPartition(*partition) for partition in allowed.remaining]
            pending.respond(ControlledShutdownResponse(allowed.error, rows))

        epoch = request.broker_epoch if request.broker_epoch >= 0 else None
        self._driver.shut_down(request.broker_id, epoch, decided)
        return pending
