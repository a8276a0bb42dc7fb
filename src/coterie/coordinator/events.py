"""The events of a group. `replay` applies them, and nothing else changes a group.

Hard events are records of `__consumer_offsets`: appended first, and all that is left after a failover. Soft events
live in memory and in the journal.
"""

from __future__ import annotations

from coterie.coordinator.consumer.events import ConsumerEvent
from coterie.coordinator.share.events import ShareEvent
from coterie.coordinator.state import Cause, CommittedOffset, Member, Protocols, Token
from coterie.coordinator.streams.events import StreamsEvent
from coterie.machines.values import value
from coterie.wire.messages.stored.consumer_offsets import GroupMetadataValue


@value
class MemberIdReserved:
    """A member id was assigned with MEMBER_ID_REQUIRED (KIP-394) and expires unused at ``deadline_ms``."""

    member_id: str
    deadline_ms: int


@value
class ReservationDropped:
    """A member id expired unused, or its client left before it joined."""

    member_id: str
    cause: Cause


@value
class MemberJoined:
    """A new member; its JoinGroup waits under ``token``."""

    member: Member
    protocol_type: str
    token: Token
    cause: Cause


@value
class MemberRejoined:
    """A known member joins again; ``cause`` None when the group was rebalancing anyway."""

    member_id: str
    protocols: Protocols
    session_timeout_ms: int
    rebalance_timeout_ms: int
    token: Token
    cause: Cause | None


@value
class StaticMemberReplaced:
    """A restarted static member takes its old place under a new member id. ``token`` None: already responded to."""

    old_member_id: str
    member: Member
    token: Token
    cause: Cause
    rebalance: bool


@value
class MemberRemoved:
    """A member left, was removed by an admin, or its session or rebalance timeout ended (``cause``)."""

    member_id: str
    cause: Cause


@value
class RebalanceWanted:
    """Something calls for a rebalance without any member having come or gone."""

    cause: Cause


@value
class AssignmentLost:
    """The leader's assignment could not be stored: waiting SyncGroups received the error, and a rebalance follows."""

    cause: Cause


@value
class RebalanceStarted:
    """To PreparingRebalance. ``initial_delay_left_ms`` is not None when the first rebalance is delayed."""

    causes: tuple[Cause, ...]
    deadline_ms: int
    initial_delay_left_ms: int | None = None


@value
class JoinPhaseExtended:
    """The initial delay goes on, since members joined during it (group.initial.rebalance.delay.ms); both in ms."""

    deadline_ms: int
    initial_delay_left_ms: int | None = None


@value
class GenerationFormed:
    """The group goes to CompletingRebalance: all waiting JoinGroups receive this generation."""

    generation: int
    protocol: str
    leader: str
    sync_deadline_ms: int | None


@value
class SyncReceived:
    """A member has synced; under a token it waits for the leader's assignment."""

    member_id: str
    token: Token = None


@value
class GroupStored:
    """Hard: the group's record. Stable with members, Empty without."""

    value: GroupMetadataValue


@value
class GroupRemoved:
    """Hard: the group's tombstone. ``recorded`` False for a group that never had a record."""

    cause: Cause
    recorded: bool = True


@value
class OffsetStored:
    """Hard: a committed offset."""

    topic: str
    partition: int
    committed: CommittedOffset


@value
class OffsetRemoved:
    """Hard: a committed offset's tombstone."""

    topic: str
    partition: int


@value
class TransactionalOffsetStored:
    """Hard: an offset that counts once its producer's transaction commits; a record in a transactional batch."""

    topic: str
    partition: int
    committed: CommittedOffset
    producer_id: int


@value
class TransactionEnded:
    """Hard: the marker that a transaction coordinator wrote; it settles what the producer left pending."""

    producer_id: int
    committed: bool


Event = (
    MemberIdReserved
    | ReservationDropped
    | MemberJoined
    | MemberRejoined
    | StaticMemberReplaced
    | MemberRemoved
    | RebalanceWanted
    | AssignmentLost
    | RebalanceStarted
    | JoinPhaseExtended
    | GenerationFormed
    | SyncReceived
    | GroupStored
    | GroupRemoved
    | OffsetStored
    | OffsetRemoved
    | TransactionalOffsetStored
    | TransactionEnded
    | ConsumerEvent
    | ShareEvent
    | StreamsEvent
)
