"""State of a share group: what its records hold, and the timers, which none does. Names are those of Kafka 4.4's ShareGroup and
ShareGroupMember.

Nobody waits for another member's partitions, so a member has its target at once. Of each partition the share coordinator keeps
a state, which is initialized before the partition is assigned to anybody: `StatePartitions` says how far that is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from coterie.coordinator.consumer.state import INITIAL_EPOCH, JOIN_GROUP_EPOCH, MemberTimers, TopicId, TopicIdPartition
from coterie.coordinator.state import GroupOffsets
from coterie.machines.values import value


class ShareGroupState(StrEnum):
    """A group's state under Kafka's name (ShareGroup.ShareGroupState)."""

    EMPTY = "Empty"
    STABLE = "Stable"
    DEAD = "Dead"


@value
class ShareSubscription:
    """What a member requests, and who it is."""

    topic_names: frozenset[str] = frozenset()
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""


@value
class ShareAssignment:
    """What a member has. It is stable always."""

    member_epoch: int = JOIN_GROUP_EPOCH
    previous_member_epoch: int = -1
    assigned: frozenset[TopicIdPartition] = frozenset()


@value
class ShareGroupMember:
    """A member of the group."""

    member_id: str
    subscription: ShareSubscription = ShareSubscription()
    current: ShareAssignment = ShareAssignment()


@value
class StateTopic:
    """A topic whose partitions have a state, or get one: ``since_ms`` they are being initialized."""

    name: str
    partitions: frozenset[int]
    since_ms: int = 0


@value
class StatePartitions:
    """The partitions whose states the share coordinator has, is to initialize, or to delete; by topic id. Of deleted ones
    the topic's name alone is known."""

    initializing: Mapping[TopicId, StateTopic] = field(default_factory=dict)
    initialized: Mapping[TopicId, StateTopic] = field(default_factory=dict)
    deleting: Mapping[TopicId, str] = field(default_factory=dict)

    def known_topics(self) -> frozenset[TopicId]:
        """The topics that have a state or are to get one."""
        return frozenset((*self.initializing, *self.initialized))


@dataclass(slots=True)
class ShareGroup(GroupOffsets):
    """A share group. ``target`` is by member id; ``topic_subscribers`` counts the members by topic."""

    group_epoch: int = INITIAL_EPOCH
    metadata_hash: int = 0
    assignment_epoch: int = INITIAL_EPOCH
    assignment_timestamp_ms: int = 0
    members: dict[str, ShareGroupMember] = field(default_factory=dict)
    static_members: dict[str, str] = field(
        default_factory=dict
    )  # there are none; as groups of the other protocols have
    target: dict[str, frozenset[TopicIdPartition]] = field(default_factory=dict)
    topic_subscribers: Counter[str] = field(default_factory=Counter)
    timers: dict[str, MemberTimers] = field(default_factory=dict)
    states: StatePartitions | None = None  # None: no record of them
    topics_version: int = -1  # of the broker's metadata that the group epoch stands for; -1: not compared yet
    is_dead: bool = False
    phase_since_ms: int = field(default=-1, compare=False)  # by the clock of this broker; -1: no event changed it yet

    @property
    def phase(self) -> ShareGroupState:
        """Kafka's ShareGroup.maybeUpdateGroupState."""
        if self.is_dead:
            return ShareGroupState.DEAD
        return ShareGroupState.STABLE if self.members else ShareGroupState.EMPTY

    @property
    def generation(self) -> int:
        """The group epoch: as a classic group's generation it never falls."""
        return self.group_epoch

    def has_no_state(self) -> bool:
        """No record of it is in the log: equal to a group that never existed."""
        kept = self.members or self.states is not None or self.offsets or self.pending_offsets
        return not kept and self.group_epoch == self.assignment_epoch == INITIAL_EPOCH
