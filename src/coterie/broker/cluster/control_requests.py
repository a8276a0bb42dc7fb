"""The requests of the controller, and of brokers that shut down, as a broker of the cluster answers them."""

from __future__ import annotations

from collections.abc import Callable

from coterie.broker.cluster.controller_driver import ControllerDriver
from coterie.broker.cluster.replica_manager import ReplicaManager
from coterie.broker.cluster_view import ClusterView, LiveBroker
from coterie.broker.pending import Pending
from coterie.controller import encoding
from coterie.controller.requests import ShutdownAllowed
from coterie.replication.states import LEADER_DURING_DELETE, ReplicaRefusal, TopicPartition
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    RemainingPartition,
)
from coterie.wire.messages.leader_and_isr import LeaderAndIsrPartitionError, LeaderAndIsrRequest, LeaderAndIsrResponse
from coterie.wire.messages.stop_replica import StopReplicaPartitionError, StopReplicaRequest, StopReplicaResponse
from coterie.wire.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse

ANY_BROKER_EPOCH = -1  # of controllers before KIP-380


class ControlRequests:
    """``changed`` is called after roles or addresses have changed. What comes before this broker is registered waits until it
    is: its epoch is known then."""

    def __init__(
        self, manager: ReplicaManager, view: ClusterView, driver: ControllerDriver, changed: Callable[[], None]
    ) -> None:
        self._manager, self._view, self._driver, self._changed = manager, view, driver, changed
        self.leaders: dict[int, tuple[str, int]] = {}  # addresses, from LeaderAndIsr
        self._early: list[Callable[[], None]] = []

    def registered(self) -> None:
        """The broker's epoch is known."""
        early, self._early = self._early, []
        for answer in early:
            answer()

    def _once_registered(self, handle: Callable[[], Message]) -> Message | Pending:
        if self._manager.replicas.broker_epoch is not None:
            return handle()
        pending = Pending()
        self._early.append(lambda: pending.answer(handle()))
        return pending

    def _epochs(self, request: LeaderAndIsrRequest | StopReplicaRequest | UpdateMetadataRequest) -> tuple[int, int]:
        own = self._manager.replicas.broker_epoch
        assert own is not None
        broker_epoch = request.broker_epoch
        return request.controller_epoch, own if broker_epoch == ANY_BROKER_EPOCH else broker_epoch

    def leader_and_isr(self, request: LeaderAndIsrRequest) -> Message | Pending:
        """LeaderAndIsrResponse."""
        return self._once_registered(lambda: self._leader_and_isr(request))

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

    def stop_replica(self, request: StopReplicaRequest) -> Message | Pending:
        """StopReplicaResponse."""
        return self._once_registered(lambda: self._stop_replica(request))

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

    def update_metadata(self, request: UpdateMetadataRequest) -> Message | Pending:
        """UpdateMetadataResponse."""
        return self._once_registered(lambda: self._update_metadata(request))

    def _update_metadata(self, request: UpdateMetadataRequest) -> UpdateMetadataResponse:
        try:
            self._manager.replicas.check_controller(*self._epochs(request))
        except ReplicaRefusal as refusal:
            return UpdateMetadataResponse(refusal.error.value)
        states = encoding.partition_states(request)
        deleted: list[TopicPartition] = [p for p, s in states.items() if s.leader == LEADER_DURING_DELETE]
        live = [
            LiveBroker(broker, *registration.address, registration.rack)
            for broker, registration in encoding.live_brokers(request).items()
        ]
        kept = {partition: state for partition, state in states.items() if partition not in deleted}
        self._view.update(request.controller_id, live, kept)
        self._view.forget(deleted)
        self._changed()
        return UpdateMetadataResponse(ErrorCode.NONE)

    def controlled_shutdown(self, request: ControlledShutdownRequest) -> Message | Pending:
        """ControlledShutdownResponse; NOT_CONTROLLER from a broker that is none."""
        pending = Pending()

        def decided(allowed: ShutdownAllowed) -> None:
            rows = [RemainingPartition(*partition) for partition in allowed.remaining]
            pending.answer(ControlledShutdownResponse(allowed.error, rows))

        epoch = request.broker_epoch if request.broker_epoch >= 0 else None
        self._driver.shut_down(request.broker_id, epoch, decided)
        return pending
