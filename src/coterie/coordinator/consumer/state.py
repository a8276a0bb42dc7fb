"""State of a group of the consumer protocol (KIP-848): what its records hold, and the timers, which none does.

A member is two values because it is two records: its subscription (ConsumerGroupMemberMetadata), which the member sends,
and its current assignment (ConsumerGroupCurrentMemberAssignment), which `reconcile` moves towards the target. Only
`replay` changes a group. Names are those of Kafka 4.3's ConsumerGroup and ConsumerGroupMember.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum

from coterie.coordinator.state import GroupOffsets
from coterie.machines.values import value

TopicId = bytes  # the 16 bytes of a topic's UUID
TopicIdPartition = tuple[TopicId, int]

JOIN_GROUP_EPOCH = 0
LEAVE_GROUP_EPOCH = -1
LEAVE_GROUP_STATIC_EPOCH = -2
INITIAL_EPOCH = 1  # of a group and of its target assignment, before any record of them
NO_ASSIGNMENT_EPOCH = -1  # the tombstone's


class ConsumerMemberState(IntEnum):
    """A member's state as its record has it (Kafka's MemberState); any other number is read as UNKNOWN."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127

    @classmethod
    def _missing_(cls, value: object) -> ConsumerMemberState:
        return cls.UNKNOWN


class ConsumerGroupState(StrEnum):
    """A group's state under Kafka's name (ConsumerGroupState); it follows from the epochs of the group and its members."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


class MigrationPolicy(StrEnum):
    """Which groups with members change their protocol while they live (group.consumer.migration.policy)."""

    DISABLED = "disabled"
    UPGRADE = "upgrade"
    DOWNGRADE = "downgrade"
    BIDIRECTIONAL = "bidirectional"

    @property
    def upgrades(self) -> bool:
        return self in (MigrationPolicy.UPGRADE, MigrationPolicy.BIDIRECTIONAL)

    @property
    def downgrades(self) -> bool:
        return self in (MigrationPolicy.DOWNGRADE, MigrationPolicy.BIDIRECTIONAL)


@value
class ClassicMetadata:
    """What a member that uses the classic protocol within the group brought with its JoinGroup; the timeout in ms."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]


@value
class ConsumerSubscription:
    """What a member requests: topics by name and by one regular expression ("" for none). ``rebalance_timeout_ms`` is the
    longest time that it may take to revoke partitions."""

    topic_names: frozenset[str] = frozenset()
    topic_regex: str = ""
    rebalance_timeout_ms: int = -1
    server_assignor: str | None = None
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    classic: ClassicMetadata | None = None


@value
class CurrentAssignment:
    """Where a member stands: its epoch, and the partitions it may use or must revoke, each with the epoch in which it was
    assigned (KIP-1251)."""

    member_epoch: int = JOIN_GROUP_EPOCH
    previous_member_epoch: int = -1
    state: ConsumerMemberState = ConsumerMemberState.STABLE
    assigned: Mapping[TopicIdPartition, int] = field(default_factory=dict)
    pending_revocation: Mapping[TopicIdPartition, int] = field(default_factory=dict)

    def is_reconciled_to(self, assignment_epoch: int) -> bool:
        """Whether the member has everything of that target assignment, and nothing else."""
        return self.state == ConsumerMemberState.STABLE and self.member_epoch == assignment_epoch

    def has_partitions_of(self, before: CurrentAssignment) -> bool:
        """Whether the member kept all that it had, and got nothing: then `reconcile` leaves the same mapping."""
        return self.assigned is before.assigned and not self.pending_revocation and not before.pending_revocation

    def assignment_epoch(self, partition: TopicIdPartition) -> int | None:
        """The epoch in which the member got the partition; None where it is not responsible for it."""
        return self.assigned.get(partition, self.pending_revocation.get(partition))


@value
class ConsumerMember:
    """A member of the group."""

    member_id: str
    subscription: ConsumerSubscription = ConsumerSubscription()
    current: CurrentAssignment = CurrentAssignment()


@dataclass(slots=True)
class MemberTimers:
    """A member's deadlines, in ms: of its session, of its revocation (rebalance timeout), and, of a member that uses the
    classic protocol, of its next JoinGroup or SyncGroup. ``queued_ms``: when the shard's heap looks at them; -1: never."""

    session_ms: int = 0
    rebalance_ms: int | None = None
    join_ms: int | None = None
    sync_ms: int | None = None
    queued_ms: int = -1

    @property
    def deadline_ms(self) -> int:
        """The first of them."""
        first = self.session_ms
        for other in (self.rebalance_ms, self.join_ms, self.sync_ms):
            if other is not None and other < first:
                first = other
        return first


@value
class ResolvedRegex:
    """The topics that a regular expression matched, in the metadata of ``version``, at ``timestamp_ms``."""

    topics: frozenset[str]
    version: int
    timestamp_ms: int


@dataclass(slots=True)
class ConsumerGroup(GroupOffsets):
    """A group of the consumer protocol. ``target`` is by member id; ``owners`` names for each partition the member that has
    it assigned or pending revocation. Members are counted, so that no heartbeat looks at all of them: ``epochs`` those in
    state STABLE by epoch, ``topic_subscribers`` and ``regex_subscribers`` by what they subscribe to."""

    group_epoch: int = INITIAL_EPOCH
    metadata_hash: int = 0
    assignment_epoch: int = INITIAL_EPOCH
    assignment_timestamp_ms: int = 0
    members: dict[str, ConsumerMember] = field(default_factory=dict)
    static_members: dict[str, str] = field(default_factory=dict)  # instance id -> member id
    target: dict[str, frozenset[TopicIdPartition]] = field(default_factory=dict)
    regexes: dict[str, ResolvedRegex] = field(default_factory=dict)
    owners: dict[TopicIdPartition, str] = field(default_factory=dict)
    epochs: Counter[int] = field(default_factory=Counter)
    topic_subscribers: Counter[str] = field(default_factory=Counter)
    regex_subscribers: Counter[str] = field(default_factory=Counter)
    timers: dict[str, MemberTimers] = field(default_factory=dict)
    partition_metadata_recorded: bool = False  # by a Kafka before 4.1: its tombstone is due with the next epoch
    topics_version: int = -1  # of the broker's metadata that the group epoch stands for; -1: not compared yet
    resolving: bool = False  # the topics of its regular expressions are being looked up
    is_dead: bool = False
    phase_since_ms: int = field(default=-1, compare=False)  # by the clock of this broker; -1: no event changed it yet

    @property
    def phase(self) -> ConsumerGroupState:
        """Kafka's ConsumerGroup.maybeUpdateGroupState."""
        if self.is_dead:
            return ConsumerGroupState.DEAD
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.group_epoch > self.assignment_epoch:
            return ConsumerGroupState.ASSIGNING
        reconciled = self.epochs[self.assignment_epoch] == len(self.members)
        return ConsumerGroupState.STABLE if reconciled else ConsumerGroupState.RECONCILING

    @property
    def generation(self) -> int:
        """The group epoch: as a classic group's generation it never falls."""
        return self.group_epoch

    def has_no_state(self) -> bool:
        """No record of it is in the log: equal to a group that never existed."""
        kept = self.members or self.offsets or self.pending_offsets
        return not kept and self.group_epoch == self.assignment_epoch == INITIAL_EPOCH

    def static_member(self, instance_id: str) -> ConsumerMember | None:
        """The member that has the instance id."""
        member_id = self.static_members.get(instance_id)
        return None if member_id is None else self.members[member_id]
