"""What others request of a controller, and its responses: effects with the token of the command.

A broker that is not the controller, or is no more, responds with NOT_CONTROLLER.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from coterie.controller.assignment import ReplicaAssignment
from coterie.controller.requests import LeaderAndIsr, ShutdownAllowed, StopReplica
from coterie.replication.states import TopicPartition
from coterie.wire.errors import ErrorCode


class ElectionType(Enum):
    """The type of an election, as ElectLeaders numbers it."""

    PREFERRED = 0
    UNCLEAN = 1


@dataclass(frozen=True, slots=True)
class ShutDown:
    """ControlledShutdown; the response is a `ShutdownAllowed`. ``broker_epoch``: None from brokers before KIP-380."""

    broker: int
    broker_epoch: int | None = None


@dataclass(frozen=True, slots=True)
class ElectLeaders:
    """ElectLeaders; the response is a `LeadersElected`. ``partitions``: None for all of the cluster."""

    token: object
    kind: ElectionType
    partitions: tuple[TopicPartition, ...] | None = None


@dataclass(frozen=True, slots=True)
class AlterReassignments:
    """AlterPartitionReassignments; the response is a `ReassignmentsAltered`. ``targets``: None cancels a reassignment.
    ``may_change_factor``: a target may have another number of replicas (KIP-860)."""

    token: object
    targets: Mapping[TopicPartition, tuple[int, ...] | None]
    may_change_factor: bool = True


@dataclass(frozen=True, slots=True)
class ListReassignments:
    """ListPartitionReassignments; the response is a `ReassignmentsListed`. ``partitions``: None for all of the cluster."""

    token: object
    partitions: tuple[TopicPartition, ...] | None = None


@dataclass(frozen=True, slots=True)
class ReplicasStopped:
    """The response to a `StopReplica`. ``errors``: of the partitions that have one."""

    request: StopReplica
    errors: Mapping[TopicPartition, ErrorCode]


@dataclass(frozen=True, slots=True)
class RolesAssumed:
    """The response to a `LeaderAndIsr` that was carried out. ``errors``: of the partitions that have one."""

    request: LeaderAndIsr
    errors: Mapping[TopicPartition, ErrorCode]


@dataclass(frozen=True, slots=True)
class TopicConfigured:
    """The topic's settings have changed (`config_changes`)."""

    topic: str


@dataclass(frozen=True, slots=True)
class DefaultsConfigured:
    """The settings that topics have by default have changed (`ControllerMachine.configure`)."""


@dataclass(frozen=True, slots=True)
class LeadersElected:
    """The response to `ElectLeaders`, for each partition."""

    token: object
    results: Mapping[TopicPartition, ErrorCode]
    error: ErrorCode = ErrorCode.NONE


@dataclass(frozen=True, slots=True)
class ReassignmentsAltered:
    """The response to `AlterReassignments`: the reassignment has begun, or does not. It is complete when it is not listed."""

    token: object
    results: Mapping[TopicPartition, ErrorCode]
    error: ErrorCode = ErrorCode.NONE


@dataclass(frozen=True, slots=True)
class ReassignmentsListed:
    """The response to `ListReassignments`: the reassignments in progress."""

    token: object
    assignments: Mapping[TopicPartition, ReplicaAssignment]
    error: ErrorCode = ErrorCode.NONE


Command = (
    ShutDown
    | ElectLeaders
    | AlterReassignments
    | ListReassignments
    | ReplicasStopped
    | RolesAssumed
    | TopicConfigured
    | DefaultsConfigured
)
Response = LeadersElected | ReassignmentsAltered | ReassignmentsListed | ShutdownAllowed


def refusal(command: Command) -> Response | None:
    """The response of a broker that is not the controller; None where nothing waits for one."""
    error = ErrorCode.NOT_CONTROLLER
    match command:
        case ElectLeaders(token=token):
            return LeadersElected(token, {}, error)
        case AlterReassignments(token=token):
            return ReassignmentsAltered(token, {}, error)
        case ListReassignments(token=token):
            return ReassignmentsListed(token, {}, error)
        case ShutDown(broker=broker):
            return ShutdownAllowed(broker, (), error)
    return None
