"""State of a streams group (KIP-1071): what its records hold, and what only the memory of its coordinator has.

A member is two values because it is two records: its metadata, which the member sends, and its current tasks, which
`reconcile` moves towards the target. Only `replay` changes a group. Names are those of Kafka 4.4's StreamsGroup.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum

from coterie.coordinator.consumer.state import INITIAL_EPOCH, JOIN_GROUP_EPOCH, MemberTimers
from coterie.coordinator.state import GroupOffsets
from coterie.coordinator.streams.tasks import ConfiguredTopology, TaskId, Tasks
from coterie.machines.values import value
from coterie.wire.messages.stored.streams_group_records import StreamsGroupTopologyValue

NO_TOPOLOGY_EPOCH = -1
HostAndPort = tuple[str, int]


class StreamsMemberState(IntEnum):
    """A member's state as its record has it (Kafka's streams MemberState); any other number is read as UNKNOWN."""

    STABLE = 1
    UNREVOKED_TASKS = 2
    UNRELEASED_TASKS = 3
    UNKNOWN = 127

    @classmethod
    def _missing_(cls, value: object) -> StreamsMemberState:
        return cls.UNKNOWN


class StreamsGroupState(StrEnum):
    """A group's state under Kafka's name; it follows from its epochs, its topology and its members."""

    EMPTY = "Empty"
    NOT_READY = "NotReady"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


@value
class StreamsMetadata:
    """What a member says of itself. ``rebalance_timeout_ms`` is the longest time that it may take to revoke tasks."""

    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topology_epoch: int = NO_TOPOLOGY_EPOCH
    process_id: str = ""
    user_endpoint: HostAndPort | None = None
    client_tags: tuple[tuple[str, str], ...] = ()  # by key


@value
class OwnedTasks:
    """The tasks that a member has; active ones with the epoch in which each was assigned (KIP-1251)."""

    active: Mapping[TaskId, int] = field(default_factory=dict)
    standby: frozenset[TaskId] = frozenset()
    warmup: frozenset[TaskId] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.active or self.standby or self.warmup)

    def shares_any(self, tasks: Tasks) -> bool:
        """Whether one of these tasks is in the same role among ``tasks``."""
        return bool(self.active.keys() & tasks.active or self.standby & tasks.standby or self.warmup & tasks.warmup)

    @property
    def tasks(self) -> Tasks:
        """The same without epochs."""
        return Tasks(frozenset(self.active), self.standby, self.warmup)


NOTHING_OWNED = OwnedTasks()


@value
class CurrentTasks:
    """Where a member stands: its epoch, and the tasks that it may run or must revoke."""

    member_epoch: int = JOIN_GROUP_EPOCH
    previous_member_epoch: int = JOIN_GROUP_EPOCH
    state: StreamsMemberState = StreamsMemberState.STABLE
    assigned: OwnedTasks = NOTHING_OWNED
    pending_revocation: OwnedTasks = NOTHING_OWNED

    def is_reconciled_to(self, assignment_epoch: int) -> bool:
        """Whether the member has everything of that target assignment, and nothing else."""
        return self.state == StreamsMemberState.STABLE and self.member_epoch == assignment_epoch

    @property
    def awaited(self) -> frozenset[TaskId]:
        """The tasks that the member is to process: active ones, and warm-ups."""
        return self.assigned.warmup | self.assigned.active.keys()

    def assignment_epoch(self, task: TaskId) -> int | None:
        """The epoch in which the member got the task as an active one; None where it is not responsible for it."""
        return self.assigned.active.get(task, self.pending_revocation.active.get(task))


@value
class StreamsGroupMember:
    """A member of the group: a stream thread."""

    member_id: str
    metadata: StreamsMetadata = StreamsMetadata()
    current: CurrentTasks = CurrentTasks()


@value
class RestoredOffsets:
    """How far a member has restored its tasks: the sums of its changelogs' offsets and of their ends. A task that runs is in
    neither; one that is on the member's disk alone has no end."""

    offsets: Mapping[TaskId, int] = field(default_factory=dict)
    end_offsets: Mapping[TaskId, int] = field(default_factory=dict)

    def lags(self, tasks: Iterable[TaskId]) -> dict[TaskId, int]:
        """Of these tasks the ones that the member restores, and how many records each is behind."""
        behind = {t: self.end_offsets.get(t, 0) - self.offsets[t] for t in sorted(tasks) if t in self.offsets}
        return {task: lag for task, lag in behind.items() if lag > 0}


@dataclass(slots=True)
class TaskOwners:
    """The processes that have each task, assigned or pending revocation: of an active task the last that got it."""

    active: dict[TaskId, str] = field(default_factory=dict)
    standby: dict[TaskId, Counter[str]] = field(default_factory=dict)
    warmup: dict[TaskId, Counter[str]] = field(default_factory=dict)


@dataclass(slots=True)
class StreamsGroup(GroupOffsets):
    """A streams group. ``target`` is by member id; ``stored_description_epoch`` and ``failed_description_epoch`` are those of
    a plugin of Kafka's (KIP-1331), kept as they were read."""

    group_epoch: int = INITIAL_EPOCH
    metadata_hash: int = 0
    validated_topology_epoch: int = NO_TOPOLOGY_EPOCH
    assignment_configs: dict[str, str] = field(default_factory=dict)  # of the last group epoch
    stored_description_epoch: int = NO_TOPOLOGY_EPOCH
    failed_description_epoch: int = NO_TOPOLOGY_EPOCH
    topology: StreamsGroupTopologyValue | None = None
    assignment_epoch: int = INITIAL_EPOCH
    assignment_timestamp_ms: int = 0
    members: dict[str, StreamsGroupMember] = field(default_factory=dict)
    static_members: dict[str, str] = field(default_factory=dict)  # instance id -> member id
    target: dict[str, Tasks] = field(default_factory=dict)
    owners: TaskOwners = field(default_factory=TaskOwners)
    timers: dict[str, MemberTimers] = field(default_factory=dict)
    # In memory alone.
    configured: ConfiguredTopology | None = None
    topics_version: int = -1  # of the broker's metadata that the group epoch stands for; -1: not compared yet
    restored: dict[str, RestoredOffsets] = field(default_factory=dict)
    restores_since_ms: dict[str, dict[TaskId, int]] = field(default_factory=dict)
    endpoint_epoch: int = 0
    shutdown_member_id: str | None = None  # the member that wants the whole application to stop
    initial_delay_until_ms: int | None = None  # no target assignment before, in a group that was empty
    queued_ms: int = -1
    is_dead: bool = False
    phase_since_ms: int = field(default=-1, compare=False)  # by the clock of this broker; -1: no event changed it yet

    @property
    def phase(self) -> StreamsGroupState:
        """Kafka's StreamsGroup.maybeUpdateGroupState."""
        if self.is_dead:
            return StreamsGroupState.DEAD
        if not self.members:
            return StreamsGroupState.EMPTY
        if self.topology is None or self.topology.epoch != self.validated_topology_epoch:
            return StreamsGroupState.NOT_READY
        if self.group_epoch > self.assignment_epoch:
            return StreamsGroupState.ASSIGNING
        if all(m.current.is_reconciled_to(self.assignment_epoch) for m in self.members.values()):
            return StreamsGroupState.STABLE
        return StreamsGroupState.RECONCILING

    @property
    def generation(self) -> int:
        """The group epoch: as a classic group's generation it never falls."""
        return self.group_epoch

    def has_no_state(self) -> bool:
        """No record of it is in the log: equal to a group that never existed."""
        kept = self.members or self.offsets or self.pending_offsets or self.topology
        return not kept and self.group_epoch == self.assignment_epoch == INITIAL_EPOCH

    def static_member(self, instance_id: str) -> StreamsGroupMember | None:
        """The member that has the instance id."""
        member_id = self.static_members.get(instance_id)
        return None if member_id is None else self.members[member_id]

    def next_deadline_ms(self) -> int | None:
        """The end of the initial delay."""
        return self.initial_delay_until_ms
