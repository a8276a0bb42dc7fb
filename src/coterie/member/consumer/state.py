"""What a member of the consumer protocol knows, in five parts, and its states with the transitions between them (Kafka's
MemberState). Every part is frozen: only `replay` makes the next state, and it asserts the transitions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from coterie.member.state import CoordinatorState
from coterie.wire.messages.groups.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from coterie.wire.messages.share.share_group_heartbeat import ShareGroupHeartbeatRequest

JOIN_EPOCH, LEAVE_EPOCH, LEAVE_STATIC_EPOCH = 0, -1, -2
TopicIdPartition = tuple[bytes, int]


class ConsumerStage(Enum):
    """Where a member stands between two target assignments."""

    UNSUBSCRIBED = "unsubscribed"  # no membership is wanted
    JOINING = "joining"  # the heartbeat with epoch 0 is due, or has no response yet
    RECONCILING = (
        "reconciling"  # the target differs from the assignment in use: callbacks run, or topic ids have no name yet
    )
    ACKNOWLEDGING = "acknowledging"  # a new assignment is in use; the next heartbeat reports it, without waiting
    STABLE = "stable"
    FENCED = "fenced"  # by the coordinator: the listener loses everything, then the member joins again
    PREPARE_LEAVING = "prepare_leaving"  # the user leaves: heartbeats continue while the listener's callback runs
    LEAVING = "leaving"  # the last heartbeat is due
    STALE = "stale"  # left for want of polls: the listener loses everything, and the next poll joins again
    FATAL = "fatal"  # by an error without a remedy, such as UNRELEASED_INSTANCE_ID

    __hash__ = object.__hash__  # Enum's own is Python, and every look at a member hashes its stage


_S = ConsumerStage
IN_GROUP = frozenset({_S.RECONCILING, _S.ACKNOWLEDGING, _S.STABLE})
TAKES_TARGETS = IN_GROUP | {_S.JOINING}
HEARTBEATS = TAKES_TARGETS | {_S.PREPARE_LEAVING}
# As Kafka's, and beside them STALE to UNSUBSCRIBED: a stale member whose user unsubscribes does not join again.
CONSUMER_SUCCESSORS: dict[ConsumerStage, frozenset[ConsumerStage]] = {
    _S.UNSUBSCRIBED: frozenset({_S.JOINING}),
    _S.JOINING: frozenset({_S.RECONCILING, _S.FENCED, _S.PREPARE_LEAVING, _S.FATAL}),
    _S.RECONCILING: frozenset({_S.ACKNOWLEDGING, _S.FENCED, _S.PREPARE_LEAVING, _S.FATAL}),
    _S.ACKNOWLEDGING: frozenset({_S.STABLE, _S.RECONCILING, _S.FENCED, _S.PREPARE_LEAVING, _S.FATAL}),
    _S.STABLE: frozenset({_S.RECONCILING, _S.FENCED, _S.PREPARE_LEAVING, _S.FATAL}),
    _S.FENCED: frozenset({_S.JOINING, _S.UNSUBSCRIBED}),
    _S.PREPARE_LEAVING: frozenset({_S.LEAVING, _S.FATAL}),
    _S.LEAVING: frozenset({_S.UNSUBSCRIBED, _S.STALE}),
    _S.STALE: frozenset({_S.JOINING, _S.UNSUBSCRIBED}),
    _S.FATAL: frozenset(),
}


@dataclass(frozen=True, slots=True)
class LocalAssignment:
    """Partitions by topic id. ``number`` rises with every new target, so that an assignment that returns is acknowledged
    once more; it is never sent (Kafka's local epoch)."""

    number: int = -1
    partitions: frozenset[TopicIdPartition] = frozenset()


NO_ASSIGNMENT = LocalAssignment()


@dataclass(frozen=True, slots=True)
class EpochState:
    """The subscription and the member epoch. ``regex``: None until a pattern was subscribed to, "" once it was given up.
    ``joins``: how often the member has begun to join. ``former``: the epoch before it was lost, JOIN_EPOCH for none."""

    topics: frozenset[str] = frozenset()
    regex: str | None = None
    epoch: int = JOIN_EPOCH
    joins: int = 0
    former: int = JOIN_EPOCH


@dataclass(frozen=True, slots=True)
class SentFields:
    """What the coordinator has by earlier heartbeats, so that the next one can leave it out."""

    topics: frozenset[str]
    regex: str | None
    assignment: LocalAssignment


@dataclass(frozen=True, slots=True)
class HeartbeatProgress:
    """``request``: the one in flight. ``sent``: None where the coordinator may have nothing, so that everything is sent."""

    request: ConsumerGroupHeartbeatRequest | ShareGroupHeartbeatRequest | None = None
    sent: SentFields | None = None
    interval_ms: int = 0  # the coordinator's, from its first response on
    due_ms: int = 0
    last_poll_ms: int = 0


@dataclass(frozen=True, slots=True)
class TopicNames:
    """The names of assigned topic ids, and the lookup of the missing ones."""

    names: Mapping[bytes, str] = field(default_factory=dict)
    lookup_in_flight: bool = False
    lookup_failures: int = 0
    lookup_retry_at_ms: int = 0


@dataclass(frozen=True, slots=True)
class ListenerCall:
    """A callback that the listener has not returned from. ``revoked``: its partitions; None: of an assignment."""

    revoked: frozenset[TopicIdPartition] | None


@dataclass(frozen=True, slots=True)
class AssignmentState:
    """``target``: the coordinator's newest. ``current``: the one in use, which heartbeats report. ``reconciling``: the one
    that the callbacks under way lead to. ``owned``: what is read, from the assignment's callback to the end of the
    revocation's; ``lost``: it may have new owners. ``calls``: the callbacks under way, in order. ``awaits_poll``: a
    callback raised, so that the next poll reconciles again."""

    target: LocalAssignment = NO_ASSIGNMENT
    current: LocalAssignment = NO_ASSIGNMENT
    reconciling: LocalAssignment | None = None
    owned: frozenset[TopicIdPartition] = frozenset()
    lost: bool = False
    calls: tuple[ListenerCall, ...] = ()
    awaits_poll: bool = False

    def held(self) -> frozenset[TopicIdPartition]:
        """What a report names: also what the target gives and no callback has taken into use yet. Absence would acknowledge
        that it is revoked, where a newer target, not heard of yet, takes it back; and the callback is about to begin."""
        return self.current.partitions | self.owned | self.target.partitions

    def kept(self) -> frozenset[TopicIdPartition]:
        """The owned ones that no revocation under way names."""
        return self.owned.difference(*(call.revoked for call in self.calls if call.revoked is not None))


@dataclass(frozen=True, slots=True)
class ConsumerMembershipState:
    """A member as a whole."""

    stage: ConsumerStage = ConsumerStage.UNSUBSCRIBED
    epochs: EpochState = field(default_factory=EpochState)
    coordinator: CoordinatorState = field(default_factory=CoordinatorState)
    heartbeat: HeartbeatProgress = field(default_factory=HeartbeatProgress)
    topics: TopicNames = field(default_factory=TopicNames)
    assignment: AssignmentState = field(default_factory=AssignmentState)

    def unresolved(self) -> frozenset[bytes]:
        """The topic ids of the target without a name."""
        return frozenset(topic for topic, _ in self.assignment.target.partitions if topic not in self.topics.names)

    def resolved(self) -> LocalAssignment:
        """The target as far as its topics have names."""
        target, names = self.assignment.target, self.topics.names
        return LocalAssignment(target.number, frozenset(p for p in target.partitions if p[0] in names))

    def named(self, partitions: frozenset[TopicIdPartition]) -> tuple[tuple[str, int], ...]:
        """The partitions by topic name and number, in order."""
        return tuple(sorted((self.topics.names[topic], number) for topic, number in partitions))
