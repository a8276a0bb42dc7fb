"""The controller's requests to brokers, and the effects that only a controller has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from coterie.replication.states import PartitionState, TopicPartition


@dataclass(frozen=True, slots=True)
class LeaderAndIsr:
    """LeaderAndIsr: the roles of a broker's replicas. Requests to one broker arrive in order; one without an answer is sent
    again for as long as the broker is registered under ``broker_epoch``."""

    broker: int
    broker_epoch: int
    controller: int
    controller_epoch: int
    states: Mapping[TopicPartition, PartitionState]


@dataclass(frozen=True, slots=True)
class UpdateMetadata:
    """UpdateMetadata: what the broker answers clients with. ``live``: the brokers of the cluster."""

    broker: int
    broker_epoch: int
    controller: int
    controller_epoch: int
    live: tuple[int, ...]
    states: Mapping[TopicPartition, PartitionState]


@dataclass(frozen=True, slots=True)
class StopReplica:
    """StopReplica: the replicas, with the leader epoch in which each is stopped."""

    broker: int
    broker_epoch: int
    controller: int
    controller_epoch: int
    epochs: Mapping[TopicPartition, int]


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
    """The answer to ControlledShutdown: the partitions that the broker still leads."""

    broker: int
    remaining: tuple[TopicPartition, ...] = ()


Request = LeaderAndIsr | UpdateMetadata | StopReplica


@dataclass(slots=True)
class RequestBatch:
    """Kafka's ControllerBrokerRequestBatch: the states to send, collected for each broker."""

    states: dict[int, dict[TopicPartition, PartitionState]] = field(default_factory=dict)
    stopped: dict[int, dict[TopicPartition, int]] = field(default_factory=dict)
    metadata: dict[TopicPartition, PartitionState] = field(default_factory=dict)

    def decided(self, partition: TopicPartition, state: PartitionState) -> None:
        """For all of the partition's replicas, and for everybody's metadata."""
        for broker in state.replicas:
            self.states.setdefault(broker, {})[partition] = state
        self.metadata[partition] = state

    def stop(self, broker: int, partition: TopicPartition, leader_epoch: int) -> None:
        self.stopped.setdefault(broker, {})[partition] = leader_epoch
