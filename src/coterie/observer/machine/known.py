"""What an observer knows of a group and its members."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from coterie.coordinator.consumer.state import ConsumerGroup
from coterie.coordinator.journal.generations import GroupOwnership
from coterie.coordinator.journal.line import JournalLine
from coterie.coordinator.journal.patterns import LIVES_KEPT, Life
from coterie.coordinator.share.state import ShareGroup
from coterie.coordinator.state import TopicPartition
from coterie.coordinator.streams.leave import task_owners
from coterie.coordinator.streams.state import StreamsGroup
from coterie.observer.machine.sights import Described
from coterie.wire.messages.stored.consumer_offsets import GroupMetadataValue, MemberMetadata

COMMITS_KEPT = 8
SAME_COMMIT_MS = 50  # a member's partitions are committed by one request
REGULAR_COMMITS = 3
ModernGroup = ConsumerGroup | ShareGroup | StreamsGroup


@dataclass(slots=True)
class KnownMember:
    """A member: the times of its last commits, when a broker last described it as one, and since when none does."""

    metadata: MemberMetadata
    commits: deque[int] = field(default_factory=lambda: deque(maxlen=COMMITS_KEPT))
    listed_ms: int | None = None
    missing_ms: int | None = None
    came_ms: int = 0  # of a member of the consumer protocol: when its subscription was stored

    @property
    def session_ms(self) -> int | None:
        """None where no record has it."""
        return self.metadata.session_timeout or None

    @property
    def last_commit_ms(self) -> int | None:
        """None where no commit was seen."""
        return self.commits[-1] if self.commits else None

    @property
    def every_ms(self) -> int | None:
        """The longest pause between its last commits; None where there are too few of them for a cadence."""
        if len(self.commits) < REGULAR_COMMITS:
            return None
        return max(later - earlier for earlier, later in pairwise(self.commits))

    def committed(self, time_ms: int) -> None:
        """One of its partitions was committed."""
        if not self.commits or time_ms - self.commits[-1] > SAME_COMMIT_MS:
            self.commits.append(time_ms)


@dataclass(slots=True)
class Course:
    """The states that were described since the last generation: the present one and since when it is seen, and the first times
    at which PreparingRebalance and CompletingRebalance were."""

    state: str = ""
    since_ms: int = 0
    preparing_ms: int | None = None
    completing_ms: int | None = None
    is_reported: bool = False  # that the state lasts long


@dataclass(slots=True)
class KnownTopics:
    """How many partitions each topic has, and when the observer last saw the cluster without the topic; 0: never."""

    counts: dict[str, int] = field(default_factory=dict)
    absent_ms: dict[str, int] = field(default_factory=dict)
    ids: dict[str, bytes] = field(default_factory=dict)
    names: dict[bytes, str] = field(default_factory=dict)
    seen_ms: int = 0

    def seen(self, counts: Mapping[str, int], ids: Mapping[str, bytes], time_ms: int) -> None:
        """All topics, as the metadata has them."""
        for topic in counts:
            self.absent_ms.setdefault(topic, self.seen_ms)
        self.counts, self.ids, self.seen_ms = dict(counts), dict(ids), time_ms
        self.names.update((topic_id, topic) for topic, topic_id in ids.items())

    def was_absent(self, topic: str, time_ms: int) -> bool:
        """Whether the topic did not exist then, as a later look at the cluster showed."""
        return self.absent_ms.get(topic, self.seen_ms) >= time_ms


@dataclass(slots=True)
class KnownGroup:
    """A group. ``stored``: its last generation, by a record, or as described where none was read (``is_baseline``)."""

    group: str
    stored: GroupMetadataValue | None = None
    is_baseline: bool = False
    before: GroupMetadataValue | None = None  # the last generation in the log, until it is compared with a description
    stored_ms: int = 0
    members: dict[str, KnownMember] = field(default_factory=dict)
    ownership: GroupOwnership = field(default_factory=GroupOwnership)
    course: Course = field(default_factory=Course)
    described: Described | None = None
    described_ms: int | None = None
    moved_ms: int | None = None
    coordinator: tuple[int, int] | None = None
    is_lost: bool = False
    counts: dict[str, int] = field(default_factory=dict)  # partitions of the subscribed topics at the last generation
    gained: set[str] = field(default_factory=set)  # topics that were new when subscriptions grew by them
    is_revoking: bool = False  # the last generation of a cooperative group took partitions away
    logged: dict[int, Mapping[str, Any]] = field(default_factory=dict)
    modern: ModernGroup | None = None  # of a group that has an epoch: what its records hold
    owners: Mapping[TopicPartition, str] | None = None  # of a streams group, by its tasks, once a commit needs them
    are_states_new: bool = False  # partitions of a share group got their state, and the epoch has not risen for them
    notes: list[dict[str, str]] = field(default_factory=list)  # causes of the next group epoch, or generation
    leaving: list[JournalLine] = field(
        default_factory=list
    )  # members' removals, not written yet for the same reason as
    removal: JournalLine | None = None  # the group's: it may only have changed its protocol
    lives: deque[Life] = field(default_factory=lambda: deque(maxlen=LIVES_KEPT))
    replacements: dict[str, list[int]] = field(default_factory=dict)  # by instance id: when it got a new member id
    patterns: dict[tuple[str, str], int] = field(default_factory=dict)  # when each was last reported
    strangers: set[tuple[str, int]] = field(default_factory=set)

    @property
    def generation(self) -> int:
        """-1 where none is known."""
        if self.modern is not None:
            return self.modern.group_epoch
        return -1 if self.stored is None else self.stored.generation

    def owner_of(self, partition: TopicPartition, topic_id: bytes) -> KnownMember | None:
        """Who commits for a partition; several members of a share group have one, and commit nothing."""
        owner: str | None = None
        if self.modern is None:
            owner = self.ownership.partitions.owners.get(partition)
        elif isinstance(self.modern, ConsumerGroup):
            owner = self.modern.owners.get((topic_id, partition[1]))
        elif isinstance(self.modern, StreamsGroup):
            self.owners = task_owners(self.modern) if self.owners is None else self.owners
            owner = self.owners.get(partition)
        return None if owner is None else self.members.get(owner)

    @property
    def is_hot(self) -> bool:
        """Whether a rebalance is under way, as far as described."""
        return self.course.state not in ("", "Stable", "Empty", "Dead")

    def member(self, metadata: MemberMetadata) -> KnownMember:
        """The member of that id, with what is new about it; a record tells more than a description."""
        known = self.members.get(metadata.member_id)
        if known is None:
            known = self.members[metadata.member_id] = KnownMember(metadata)
        elif metadata.session_timeout or not known.metadata.session_timeout:
            known.metadata = metadata
        return known
