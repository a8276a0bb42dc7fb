"""What can happen to a member of the consumer protocol, beside the events that it shares with a classic one; times in ms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from coterie.member.consumer.state import LocalAssignment, SentFields, TopicIdPartition
from coterie.member.events import (
    CoordinatorFound,
    CoordinatorLookupFailed,
    CoordinatorLookupStarted,
    CoordinatorLost,
    Polled,
    RetryScheduled,
)
from coterie.wire.messages.groups.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from coterie.wire.messages.share.share_group_heartbeat import ShareGroupHeartbeatRequest


@dataclass(frozen=True, slots=True)
class TopicsSubscribed:
    """``regex`` as in `EpochState`. The next heartbeat carries it, at once."""

    topics: frozenset[str]
    regex: str | None
    now_ms: int


@dataclass(frozen=True, slots=True)
class JoinStarted:
    """The member joins, with epoch 0 and nothing owned."""


@dataclass(frozen=True, slots=True)
class StateReported:
    """A heartbeat is in flight; ``sent``: what it and those before it tell the coordinator."""

    request: ConsumerGroupHeartbeatRequest | ShareGroupHeartbeatRequest
    sent: SentFields
    now_ms: int


@dataclass(frozen=True, slots=True)
class StateAccepted:
    """The response to the heartbeat in flight, without error."""

    epoch: int
    interval_ms: int
    now_ms: int


@dataclass(frozen=True, slots=True)
class StateUnknown:
    """The heartbeat in flight, if there is one, failed or went unheard: the next one carries everything."""


@dataclass(frozen=True, slots=True)
class SentFieldsForgotten:
    """The next heartbeat carries everything; the one in flight goes on."""


@dataclass(frozen=True, slots=True)
class TargetReceived:
    """A target assignment other than the one before."""

    partitions: frozenset[TopicIdPartition]


@dataclass(frozen=True, slots=True)
class TopicLookupStarted:
    """The target's topic ids without a name are looked up."""


@dataclass(frozen=True, slots=True)
class TopicLookupEnded:
    """``names``: the ones known to the brokers; the rest is looked up again, from ``retry_at_ms`` on."""

    names: Mapping[bytes, str]
    retry_at_ms: int


@dataclass(frozen=True, slots=True)
class ReconciliationStarted:
    """The callbacks that lead to ``assignment`` begin; ``revoked``: for the first of them."""

    assignment: LocalAssignment
    revoked: frozenset[TopicIdPartition]


@dataclass(frozen=True, slots=True)
class PartitionsAssigned:
    """The reconciliation's partitions are owned, and the listener's callback for them is under way."""


@dataclass(frozen=True, slots=True)
class ReconciliationEnded:
    """The assignment is in use; the next heartbeat acknowledges it."""


@dataclass(frozen=True, slots=True)
class ReconciliationFailed:
    """A callback raised: the next poll begins again."""


@dataclass(frozen=True, slots=True)
class UnchangedAssignmentTaken:
    """A new target with the partitions in use, as far as their topics have names: no callback runs."""


@dataclass(frozen=True, slots=True)
class ListenerReturned:
    """From the first callback under way; ``keeps``: its partitions stay owned, since it raised."""

    keeps: bool


@dataclass(frozen=True, slots=True)
class EpochFenced:
    """The coordinator does not have the member, or not in this epoch: everything owned is lost. ``lost``: the partitions of
    the listener's callback."""

    lost: frozenset[TopicIdPartition]


@dataclass(frozen=True, slots=True)
class LeavePrepared:
    """No target is taken any more."""


@dataclass(frozen=True, slots=True)
class LeaveStarted:
    """``epoch``: -1, or -2 of a static member that may come back."""

    epoch: int


@dataclass(frozen=True, slots=True)
class LeaveEnded:
    """The last heartbeat is out, or cannot be sent: membership, subscription and owned partitions end."""


@dataclass(frozen=True, slots=True)
class MemberStale:
    """As `LeaveEnded`, for want of polls: the subscription is kept, the owned partitions are lost. ``lost`` as in
    `EpochFenced`."""

    lost: frozenset[TopicIdPartition]


@dataclass(frozen=True, slots=True)
class MembershipEnded:
    """By an error without a remedy. ``lost`` as in `EpochFenced`."""

    lost: frozenset[TopicIdPartition]


ConsumerMemberEvent = (
    Polled
    | CoordinatorLookupStarted
    | CoordinatorFound
    | CoordinatorLookupFailed
    | CoordinatorLost
    | RetryScheduled
    | TopicsSubscribed
    | JoinStarted
    | StateReported
    | StateAccepted
    | StateUnknown
    | SentFieldsForgotten
    | TargetReceived
    | TopicLookupStarted
    | TopicLookupEnded
    | ReconciliationStarted
    | PartitionsAssigned
    | ReconciliationEnded
    | ReconciliationFailed
    | UnchangedAssignmentTaken
    | ListenerReturned
    | EpochFenced
    | LeavePrepared
    | LeaveStarted
    | LeaveEnded
    | MemberStale
    | MembershipEnded
)
