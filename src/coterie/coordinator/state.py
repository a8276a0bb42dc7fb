"""A group's state: its phase, members, offsets, and waiting requests.

Only `replay` changes these; everything else reads them (`coordinator/replay.py`; ``queued_ms`` alone is the mark of the shard's
heap). Names are Kafka's; the phases and the table of legal transitions are those of its ClassicGroupState.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from coterie.assignors.blobs import decode_subscribed_topics
from coterie.machines.values import value
from coterie.wire.primitives import NULL_UUID, WireError

Token = Hashable  # names a request that waits for its response; the driver knows what it stands for
Protocols = tuple[tuple[str, bytes], ...]
TopicPartition = tuple[str, int]
NO_GENERATION = -1
UNKNOWN_MEMBER = ""
CONSUMER = "consumer"


class Phase(StrEnum):
    """The group's state under Kafka's name (ClassicGroupState); LEGAL_PREDECESSORS has the transitions."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


# The phases by their own names: in Python 3.11 the class looks each up by a call, dozens of times in a join.
EMPTY, PREPARING, COMPLETING, STABLE, DEAD = Phase
LEGAL_PREDECESSORS: dict[Phase, frozenset[Phase]] = {
    EMPTY: frozenset({PREPARING}),
    PREPARING: frozenset({STABLE, COMPLETING, EMPTY}),
    COMPLETING: frozenset({PREPARING}),
    STABLE: frozenset({COMPLETING}),
    DEAD: frozenset({EMPTY, PREPARING, COMPLETING, STABLE}),
}
CAN_REBALANCE = frozenset({STABLE, COMPLETING, EMPTY})


@value
class Cause:
    """Why something happened to a group. ``reason`` is the client's own (KIP-800)."""

    kind: str
    member_id: str = ""
    client_id: str = ""
    group_instance_id: str | None = None
    reason: str | None = None


@dataclass(slots=True)
class Member:
    """A member. ``protocols`` in order of preference; timeouts and ``deadline_ms`` in ms."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: Protocols
    assignment: bytes = b""
    is_new: bool = False
    deadline_ms: int = 0
    queued_ms: int = -1  # the time at which the shard's heap will look at this deadline; -1: not queued
    heartbeat_ms: int = -1  # the time of its last Heartbeat; -1: none yet
    heartbeat_interval_ms: int = -1  # between the last two, which the protocol does not state; -1: not known

    def metadata(self, protocol: str) -> bytes:
        """The subscription given for that protocol; a member without it is a bug, as in Kafka."""
        for name, metadata in self.protocols:
            if name == protocol:
                return metadata
        raise AssertionError(f"member {self.member_id} does not support protocol {protocol}")


def count_protocols(members: Iterable[Member]) -> Counter[str]:
    """By how many of the members each protocol is supported."""
    return Counter(name for member in members for name in {name for name, _ in member.protocols})


@dataclass(slots=True)
class Reservation:
    """A member id assigned with MEMBER_ID_REQUIRED, until it is used or its deadline passes."""

    deadline_ms: int
    queued_ms: int = -1


@value
class CommittedOffset:
    """A committed offset; ``commit_timestamp_ms`` and ``expire_timestamp_ms`` since 1970, -1 for no explicit expiry;
    ``topic_id`` 16 bytes, zeros where the commit had none."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int = -1
    topic_id: bytes = NULL_UUID


@dataclass(slots=True)
class PendingOffset:
    """An offset of an open transaction. ``order`` is its place among the group's pending ones; superseded: a record
    that lies later in the log has already counted, so this one never will."""

    committed: CommittedOffset
    order: int
    superseded: bool = False


@dataclass(slots=True)
class GroupOffsets:
    """The committed offsets of a group of either protocol, and those of open transactions by producer id."""

    group_id: str
    offsets: dict[TopicPartition, CommittedOffset] = field(default_factory=dict)
    pending_offsets: dict[int, dict[TopicPartition, PendingOffset]] = field(default_factory=dict)
    pending_order: int = 0

    def has_pending_offset(self, topic_partition: TopicPartition) -> bool:
        return any(topic_partition in pending for pending in self.pending_offsets.values())


@dataclass(slots=True)
class Group(GroupOffsets):
    """A group of the classic protocol, as one partition of `__consumer_offsets` holds it."""

    phase: Phase = EMPTY
    phase_since_ms: int = -1
    protocol_type: str | None = None
    generation: int = 0
    protocol: str | None = None
    leader: str | None = None
    subscriptions: tuple[bytes, ...] | None = None  # the members', as they stood when the generation was formed
    members: dict[str, Member] = field(default_factory=dict)  # in the order in which they joined
    static_members: dict[str, str] = field(default_factory=dict)  # group.instance.id -> member id
    reservations: dict[str, Reservation] = field(default_factory=dict)
    waiting_joins: dict[str, Token] = field(default_factory=dict)
    waiting_syncs: dict[str, Token] = field(default_factory=dict)
    pending_sync: set[str] = field(default_factory=set)  # members that owe a SyncGroup in this generation
    protocol_counts: Counter[str] = field(default_factory=Counter)
    wanted: list[Cause] = field(default_factory=list)  # causes that call for a rebalance not yet begun
    join_deadline_ms: int | None = None
    sync_deadline_ms: int | None = None
    initial_delay_left_ms: int | None = None  # not None: the first rebalance of an empty group is being delayed
    joined_during_delay: bool = False
    queued_ms: int = -1

    @property
    def is_dead(self) -> bool:
        return self.phase == DEAD

    def has_no_state(self) -> bool:
        """No record of it is in the log and no request waits: equal to a group that never existed."""
        kept = self.members or self.offsets or self.pending_offsets or self.reservations or self.wanted
        return self.phase == EMPTY and self.protocol_type is None and not self.generation and not kept

    def is_waiting(self, member_id: str) -> bool:
        return member_id in self.waiting_joins or member_id in self.waiting_syncs

    def everyone_joined(self) -> bool:
        return len(self.waiting_joins) == len(self.members) and not self.reservations

    def rebalance_timeout_ms(self) -> int:
        """The largest of the members', in ms; 0 without members."""
        return max([m.rebalance_timeout_ms for m in self.members.values()], default=0)

    def candidate_protocols(self) -> set[str]:
        """The protocols that every member supports."""
        everyone = len(self.members)
        return {name for name, count in self.protocol_counts.items() if count == everyone}

    def supports(self, protocol_type: str, protocols: Protocols) -> bool:
        """Whether a member with these could be in the group (Kafka's ClassicGroup.supportsProtocols)."""
        if not protocol_type or not protocols:
            return False
        if not self.members:
            return True
        candidates = self.candidate_protocols()
        return protocol_type == self.protocol_type and any(name in candidates for name, _ in protocols)

    def select_protocol(self) -> str:
        """Each member votes for its first candidate; most votes win; ties go to the protocol voted for first in
        join order (Kafka's ClassicGroup.selectProtocol)."""
        candidates = self.candidate_protocols()
        if len(candidates) == 1:
            return candidates.pop()
        votes: Counter[str] = Counter()
        for member in self.members.values():
            votes[next(name for name, _ in member.protocols if name in candidates)] += 1
        return max(votes, key=lambda name: votes[name])

    def remember_subscriptions(self) -> None:
        protocol = self.protocol
        known = () if protocol is None else tuple(m.metadata(protocol) for m in self.members.values())
        self.subscriptions = known

    def next_deadline_ms(self) -> int | None:
        """The earlier of the join and the sync phase's deadline."""
        if self.join_deadline_ms is None or self.sync_deadline_ms is None:
            return self.join_deadline_ms if self.sync_deadline_ms is None else self.sync_deadline_ms
        return min(self.join_deadline_ms, self.sync_deadline_ms)


def subscribed_topics(group: Group) -> frozenset[str] | None:
    """The union of the topics subscribed to when the generation was formed: who joins since is not counted yet. None
    if the group is not a consumer group, has no generation yet, or a subscription cannot be read (scenarios
    testSubscribedTopics, testSubscribedTopicsNonConsumerGroup)."""
    if group.protocol_type != CONSUMER or group.subscriptions is None:
        return None
    topics: set[str] = set()
    for subscription in group.subscriptions:
        try:
            topics |= decode_subscribed_topics(subscription)
        except WireError:
            return None
    return frozenset(topics)
