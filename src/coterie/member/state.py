"""What a member knows, in five parts, and the stages that it goes through. Every part is frozen: only `replay` makes the next
state out of this one, and it asserts the transitions; the documentation draws them."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from coterie.assignors import AssignableTopics, Subscriber
from coterie.member.effects import TopicPartition
from coterie.wire.declaration import Message

NO_GENERATION = -1
UNKNOWN_MEMBER = ""


class Stage(Enum):
    """Where a member stands between two generations."""

    UNJOINED = "unjoined"  # no membership is wanted
    REJOIN_NEEDED = "rejoin_needed"  # a rebalance is due; what must be revoked before it has not been yet
    REVOKING = "revoking"  # the listener's callback runs, before the rebalance
    READY = "ready"  # JoinGroup can be sent
    JOINING = "joining"
    ASSIGNING = "assigning"  # leader: the driver looks the topics up and runs the assignor
    SYNCING = "syncing"
    RELEASING = "releasing"  # cooperative: the listener's callback runs, after the rebalance; then the rest is assigned
    STABLE = "stable"
    FAILED = "failed"  # by an error without a remedy, such as FENCED_INSTANCE_ID

    __hash__ = object.__hash__  # Enum's own is Python, and every look at a member hashes its stage


NOT_TAKING_PART = frozenset({Stage.UNJOINED, Stage.FAILED})
IN_A_ROUND = frozenset({Stage.JOINING, Stage.ASSIGNING, Stage.SYNCING})
AWAITS_RESPONSE = frozenset({Stage.JOINING, Stage.SYNCING})
SETTLED = NOT_TAKING_PART | {Stage.STABLE}  # no round is under way, and none is due
# The heartbeat thread of AbstractCoordinator is disabled while a JoinGroup waits, since its response may take long.
HEARTBEATING = frozenset(Stage) - NOT_TAKING_PART - {Stage.READY, Stage.JOINING}
LEGAL_SUCCESSORS: dict[Stage, frozenset[Stage]] = {
    Stage.UNJOINED: frozenset({Stage.REJOIN_NEEDED}),
    Stage.REJOIN_NEEDED: frozenset({Stage.REVOKING, Stage.READY}) | NOT_TAKING_PART,
    Stage.REVOKING: frozenset({Stage.REJOIN_NEEDED}) | NOT_TAKING_PART,
    Stage.READY: frozenset({Stage.JOINING, Stage.UNJOINED}),
    Stage.JOINING: frozenset({Stage.READY, Stage.ASSIGNING, Stage.SYNCING, Stage.REJOIN_NEEDED}) | NOT_TAKING_PART,
    Stage.ASSIGNING: frozenset({Stage.SYNCING, Stage.REJOIN_NEEDED}) | NOT_TAKING_PART,
    Stage.SYNCING: frozenset({Stage.RELEASING, Stage.STABLE, Stage.REJOIN_NEEDED}) | NOT_TAKING_PART,
    Stage.RELEASING: frozenset({Stage.REJOIN_NEEDED}) | NOT_TAKING_PART,
    Stage.STABLE: frozenset({Stage.REJOIN_NEEDED}) | NOT_TAKING_PART,
    Stage.FAILED: frozenset({Stage.REJOIN_NEEDED, Stage.UNJOINED}),
}
# The states of AbstractCoordinator.MemberState that a stage corresponds to. Kafka keeps "rejoin needed" as a flag beside
# the state, and runs the callbacks of a listener in either of two.
KAFKA_STATES: dict[Stage, tuple[str, ...]] = {
    Stage.UNJOINED: ("UNJOINED",),
    Stage.REJOIN_NEEDED: ("STABLE", "UNJOINED"),
    Stage.REVOKING: ("STABLE", "UNJOINED"),
    Stage.READY: ("STABLE", "UNJOINED"),
    Stage.JOINING: ("PREPARING_REBALANCE",),
    Stage.ASSIGNING: ("COMPLETING_REBALANCE",),
    Stage.SYNCING: ("COMPLETING_REBALANCE",),
    Stage.RELEASING: ("STABLE",),
    Stage.STABLE: ("STABLE",),
    Stage.FAILED: ("UNJOINED",),
}


@dataclass(frozen=True, slots=True)
class MembershipState:
    """The subscription, and the identity that the coordinator gave. ``protocol``: the assignor that the group chose.
    ``reason``: why the next JoinGroup is sent (KIP-800). ``former``: member id and generation before they were lost."""

    topics: frozenset[str] = frozenset()
    member_id: str = UNKNOWN_MEMBER
    generation: int = NO_GENERATION
    leader: str = ""
    protocol: str | None = None
    reason: str = "the consumer has just started"
    former: tuple[str, int] = (UNKNOWN_MEMBER, NO_GENERATION)

    @property
    def identity(self) -> tuple[str, int]:
        """Member id and generation, those before where they are lost."""
        return self.former if self.generation == NO_GENERATION else (self.member_id, self.generation)


@dataclass(frozen=True, slots=True)
class CoordinatorState:
    """Whether the group's coordinator is known. ``failures``: in a row; they set the pause until ``retry_at_ms``."""

    known: bool = False
    lookup_in_flight: bool = False
    failures: int = 0
    retry_at_ms: int = 0


@dataclass(frozen=True, slots=True)
class HeartbeatState:
    """The timers of Kafka's Heartbeat: the next one, the session without a response, and the user's last poll."""

    in_flight: bool = False
    due_ms: int = 0
    session_deadline_ms: int = 0
    last_poll_ms: int = 0


@dataclass(frozen=True, slots=True)
class RoundState:
    """A round of JoinGroup and SyncGroup, and what the leader knows of the last one.

    ``request``: the JoinGroup or SyncGroup in flight. ``rejoin_after``: something changed during the round, so that one
    more is due. Leader: ``subscribers``; ``metadata_snapshot``, the topics that the last assignment was made from;
    ``withholds``: not every partition was assigned, or that is unknown; ``unassigned_check_due_ms``: when to check
    whether the withheld partitions have an owner."""

    request: Message | None = None
    rejoin_after: bool = False
    subscribers: tuple[Subscriber, ...] = ()
    metadata_snapshot: AssignableTopics | None = None
    withholds: bool = False
    unassigned_check_due_ms: int | None = None


@dataclass(frozen=True, slots=True)
class OwnershipState:
    """Partitions. ``lost``: the owned ones may have new owners. ``revoking``: those of every `Revoke` that the
    listener has not returned from, in order. ``pending_assignment``: taken once the rest is released. ``last_assignment``:
    with its generation, which eager sticky sends after everything was revoked."""

    owned: tuple[TopicPartition, ...] = ()
    lost: bool = False
    revoking: tuple[tuple[TopicPartition, ...], ...] = ()
    pending_assignment: tuple[TopicPartition, ...] = ()
    last_assignment: tuple[tuple[TopicPartition, ...], int] = ((), NO_GENERATION)

    def kept(self) -> tuple[TopicPartition, ...]:
        """The owned ones that no `Revoke` names yet."""
        revoking = {tp for partitions in self.revoking for tp in partitions}
        return tuple(tp for tp in self.owned if tp not in revoking)


@dataclass(frozen=True, slots=True)
class MemberState:
    """A member as a whole."""

    stage: Stage = Stage.UNJOINED
    membership: MembershipState = field(default_factory=MembershipState)
    coordinator: CoordinatorState = field(default_factory=CoordinatorState)
    heartbeat: HeartbeatState = field(default_factory=HeartbeatState)
    round: RoundState = field(default_factory=RoundState)
    ownership: OwnershipState = field(default_factory=OwnershipState)

    @property
    def is_leader(self) -> bool:
        """Whether this member runs the assignor of its generation."""
        return self.membership.leader == self.membership.member_id != UNKNOWN_MEMBER

    @property
    def owes_heartbeats(self) -> bool:
        """Whether the coordinator expects heartbeats of this generation."""
        known = self.membership.generation >= 0 and self.membership.member_id != UNKNOWN_MEMBER
        return known and self.stage in HEARTBEATING
