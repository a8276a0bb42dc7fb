"""What a member knows, in five parts. Every part is frozen: only `replay` makes the next state out of this one."""

from __future__ import annotations

from dataclasses import dataclass, field

from coterie.assignors import AssignableTopics, Subscriber
from coterie.member.effects import TopicPartition
from coterie.member.stages import HEARTBEATING, Stage
from coterie.wire.declaration import Message

NO_GENERATION = -1
UNKNOWN_MEMBER = ""


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
