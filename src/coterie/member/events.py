"""What can happen to a member. `replay` applies these and nothing else makes a new state; times in ms."""

from __future__ import annotations

from dataclasses import dataclass

from coterie.assignors import AssignableTopics, Subscriber
from coterie.member.effects import TopicPartition
from coterie.wire.declaration import Message

# -- the user ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Polled:
    """The user polled, which restarts max.poll.interval.ms."""

    now_ms: int


@dataclass(frozen=True, slots=True)
class SubscriptionChanged:
    """By the user; the round that it calls for is an event of its own."""

    topics: frozenset[str]


@dataclass(frozen=True, slots=True)
class RejoinRequested:
    """A rebalance is wanted; a round under way ends first."""

    reason: str


@dataclass(frozen=True, slots=True)
class GroupLeft:
    """Membership, subscription and owned partitions end."""


@dataclass(frozen=True, slots=True)
class PollIntervalExceeded:
    """The membership ended for want of polls: the subscription is kept, and the owned partitions are lost."""


# -- the coordinator --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CoordinatorLookupStarted:
    """A FindCoordinator is in flight: no other one begins."""


@dataclass(frozen=True, slots=True)
class CoordinatorFound:
    """Requests may be sent to it."""


@dataclass(frozen=True, slots=True)
class CoordinatorLookupFailed:
    """No FindCoordinator is in flight any more; a `RetryScheduled` follows."""


@dataclass(frozen=True, slots=True)
class CoordinatorLost:
    """It moved, or does not respond."""


@dataclass(frozen=True, slots=True)
class RetryScheduled:
    """One more failure in a row."""

    retry_at_ms: int


@dataclass(frozen=True, slots=True)
class HeartbeatSent:
    """``session_deadline_ms``: a coordinator without a response by then counts as lost."""

    next_due_ms: int
    session_deadline_ms: int


@dataclass(frozen=True, slots=True)
class HeartbeatEnded:
    """By a response, or by a connection or session that is over."""

    successful: bool


# -- a round ----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PrepareCompleted:
    """Nothing is left to revoke before the JoinGroup."""


@dataclass(frozen=True, slots=True)
class JoinSent:
    """The JoinGroup is in flight; its response counts only while ``request`` is the one expected."""

    request: Message


@dataclass(frozen=True, slots=True)
class RoundRequestEnded:
    """The JoinGroup or SyncGroup in flight has a response, or will never have one."""


@dataclass(frozen=True, slots=True)
class MemberIdAssigned:
    """The coordinator named a member id by MEMBER_ID_REQUIRED (KIP-394)."""

    member_id: str


@dataclass(frozen=True, slots=True)
class GenerationJoined:
    """The JoinGroup succeeded. ``withholds``: that the group has unassigned partitions cannot be excluded (KIP-814)."""

    member_id: str
    generation: int
    leader: str
    protocol: str | None
    withholds: bool
    heartbeat_due_ms: int


@dataclass(frozen=True, slots=True)
class SubscribersReceived:
    """Leader: the members of the generation."""

    subscribers: tuple[Subscriber, ...]


@dataclass(frozen=True, slots=True)
class AssignmentStarted:
    """Leader: the driver runs the assignor."""


@dataclass(frozen=True, slots=True)
class GroupAssigned:
    """Leader: the assignor has run over these topics. ``withholds``: not every partition was assigned."""

    topics: AssignableTopics
    withholds: bool


@dataclass(frozen=True, slots=True)
class SyncSent:
    """The SyncGroup is in flight; its response counts only while ``request`` is the one expected."""

    request: Message


@dataclass(frozen=True, slots=True)
class AssignmentReceived:
    """The SyncGroup succeeded."""

    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class RevocationStarted:
    """The listener is called before the JoinGroup, for these partitions."""

    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class RevocationAwaited:
    """Before the JoinGroup: the listener has not returned from an earlier `Revoke`."""


@dataclass(frozen=True, slots=True)
class ReleaseStarted:
    """Cooperative: after the SyncGroup, what other members are to have."""

    partitions: tuple[TopicPartition, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class PartitionsRevoked:
    """The listener returned from the earliest `Revoke` under way."""


@dataclass(frozen=True, slots=True)
class AssignmentTaken:
    """The assignment that was received is owned."""


@dataclass(frozen=True, slots=True)
class RoundCompleted:
    """To STABLE, or to the next round where partitions were released or something changed meanwhile."""


@dataclass(frozen=True, slots=True)
class RoundAbandoned:
    """The round starts over. ``reason`` None keeps the one of the JoinGroup before."""

    reason: str | None = None


@dataclass(frozen=True, slots=True)
class GenerationLost:
    """UNKNOWN_MEMBER_ID, or ILLEGAL_GENERATION, after which the member id is kept."""

    member_id_kept: bool


@dataclass(frozen=True, slots=True)
class MembershipFailed:
    """An error without a remedy: the owned partitions are lost. ``partitions``: the ones that no `Revoke` names yet."""

    partitions: tuple[TopicPartition, ...]


# -- the leader's watch -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MetadataSnapshotTaken:
    """Leader: the topics of the whole group, which later ones are compared with."""

    topics: AssignableTopics


@dataclass(frozen=True, slots=True)
class UnassignedCheckScheduled:
    """Leader: at that time it looks for partitions without an owner."""

    due_ms: int


@dataclass(frozen=True, slots=True)
class UnassignedCheckStarted:
    """Leader: the driver compares the topics with what the members own."""


Event = (
    Polled
    | SubscriptionChanged
    | RejoinRequested
    | GroupLeft
    | PollIntervalExceeded
    | CoordinatorLookupStarted
    | CoordinatorFound
    | CoordinatorLookupFailed
    | CoordinatorLost
    | RetryScheduled
    | HeartbeatSent
    | HeartbeatEnded
    | PrepareCompleted
    | JoinSent
    | RoundRequestEnded
    | MemberIdAssigned
    | GenerationJoined
    | SubscribersReceived
    | AssignmentStarted
    | GroupAssigned
    | SyncSent
    | AssignmentReceived
    | RevocationStarted
    | RevocationAwaited
    | ReleaseStarted
    | PartitionsRevoked
    | AssignmentTaken
    | RoundCompleted
    | RoundAbandoned
    | GenerationLost
    | MembershipFailed
    | MetadataSnapshotTaken
    | UnassignedCheckScheduled
    | UnassignedCheckStarted
)
