"""The controller's requests to brokers, and the effects that only a controller has."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from coterie.replication.states import PartitionState, StoppedReplica, TopicPartition
from coterie.wire.errors import ErrorCode

Offline = Mapping[TopicPartition, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class ControlRequest:
    """Requests to one broker arrive in order; one without a response is sent again for as long as the broker is registered
    under ``broker_epoch``."""

    broker: int
    broker_epoch: int
    controller: int
    controller_epoch: int


@dataclass(frozen=True, slots=True)
class LeaderAndIsr(ControlRequest):
    """LeaderAndIsr: the roles of a broker's replicas. ``new``: replicas of new partitions, or added by a reassignment.
    ``leaders``: the registrations of the living leaders. The response goes to `ControllerMachine.submit`, as `RolesAssumed`."""

    states: Mapping[TopicPartition, PartitionState]
    new: frozenset[TopicPartition] = frozenset()
    leaders: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class UpdateMetadata(ControlRequest):
    """UpdateMetadata: the state from which the broker responds to clients. ``live``: the brokers of the cluster and their
    registrations. A leader LEADER_DURING_DELETE: the partition goes. ``offline``: the replicas whose broker is down or shuts
    down, or whose log directory has failed, of the partitions that have some."""

    live: Mapping[int, str]
    states: Mapping[TopicPartition, PartitionState]
    offline: Offline = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StopReplica(ControlRequest):
    """StopReplica: replicas without a role from now on; their logs are removed where it says ``delete``. The response goes to
    `ControllerMachine.submit`, as `ReplicasStopped`."""

    stopped: Mapping[TopicPartition, StoppedReplica]


@dataclass(frozen=True, slots=True)
class Registered:
    """This broker is registered; ``broker_epoch`` is the id of the transaction that did it (KIP-380)."""

    broker_epoch: int


@dataclass(frozen=True, slots=True)
class InOffice:
    """This broker is the controller, in that epoch; 0: it is no more."""

    controller_epoch: int


@dataclass(frozen=True, slots=True)
class ShutdownAllowed:
    """The response to ControlledShutdown: the partitions that the broker still leads."""

    broker: int
    remaining: tuple[TopicPartition, ...] = ()
    error: ErrorCode = ErrorCode.NONE


Request = LeaderAndIsr | UpdateMetadata | StopReplica


@dataclass(slots=True)
class RequestBatch:
    """Kafka's ControllerBrokerRequestBatch: the states to send, collected for each broker."""

    states: dict[int, dict[TopicPartition, PartitionState]] = field(default_factory=dict)
    new: dict[int, set[TopicPartition]] = field(default_factory=dict)
    stopped: dict[int, dict[TopicPartition, StoppedReplica]] = field(default_factory=dict)
    metadata: dict[TopicPartition, PartitionState] = field(default_factory=dict)

    def decided(
        self,
        partition: TopicPartition,
        state: PartitionState,
        new: Collection[int] = (),
        lost: Collection[int] = (),
    ) -> None:
        """For all of the partition's replicas, of which some are ``new``, and for everybody's metadata. ``lost``: replicas in a
        failed log directory, which get no role."""
        for broker in state.replicas:
            if broker not in lost:
                self.role(broker, partition, state, new=broker in new)
        self.metadata[partition] = state

    def role(self, broker: int, partition: TopicPartition, state: PartitionState, *, new: bool = False) -> None:
        """LeaderAndIsr for one replica."""
        self.states.setdefault(broker, {})[partition] = state
        if new:
            self.new.setdefault(broker, set()).add(partition)

    def stop(self, broker: int, partition: TopicPartition, leader_epoch: int, *, delete: bool = False) -> None:
        """A replica that is to be deleted stays so."""
        stopped = self.stopped.setdefault(broker, {})
        is_deleted = partition in stopped and stopped[partition].delete
        stopped[partition] = StoppedReplica(leader_epoch, delete or is_deleted)
