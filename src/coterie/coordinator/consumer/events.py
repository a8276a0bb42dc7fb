"""Events of a group of the consumer protocol. Hard ones are one record of `__consumer_offsets` each, keys 3 to 8 and 16.

A removal is the record's tombstone. ``cause`` goes into the journal and not into the record. The soft ones are the last.
"""

from __future__ import annotations

from dataclasses import dataclass

from coterie.coordinator.consumer.state import ConsumerSubscription, CurrentAssignment, ResolvedRegex, TopicIdPartition
from coterie.coordinator.state import Cause


@dataclass(frozen=True, slots=True)
class GroupEpochStored:
    """Key 3: the group epoch rose; a new target assignment is due. ``metadata_hash`` is that of the subscribed topics."""

    epoch: int
    metadata_hash: int
    cause: Cause | None = None


@dataclass(frozen=True, slots=True)
class GroupEpochRemoved:
    """Key 3: the group is gone; the last of its tombstones."""

    cause: Cause | None = None


@dataclass(frozen=True, slots=True)
class PartitionMetadataStored:
    """Key 4: written by Kafka before 4.1 alone; nothing but its presence counts."""


@dataclass(frozen=True, slots=True)
class PartitionMetadataRemoved:
    """Key 4."""


@dataclass(frozen=True, slots=True)
class SubscriptionStored:
    """Key 5: a member is new, or asks for something else."""

    member_id: str
    subscription: ConsumerSubscription


@dataclass(frozen=True, slots=True)
class SubscriptionRemoved:
    """Key 5: the member is gone; the last of its three tombstones."""

    member_id: str
    cause: Cause | None = None


@dataclass(frozen=True, slots=True)
class TargetEpochStored:
    """Key 6: a target assignment of this epoch is complete; computed at ``timestamp_ms``."""

    epoch: int
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class TargetEpochRemoved:
    """Key 6."""


@dataclass(frozen=True, slots=True)
class TargetStored:
    """Key 7: what a member is to have in the end."""

    member_id: str
    partitions: frozenset[TopicIdPartition]


@dataclass(frozen=True, slots=True)
class TargetRemoved:
    """Key 7."""

    member_id: str


@dataclass(frozen=True, slots=True)
class CurrentStored:
    """Key 8: what a member has now."""

    member_id: str
    current: CurrentAssignment


@dataclass(frozen=True, slots=True)
class CurrentRemoved:
    """Key 8."""

    member_id: str


@dataclass(frozen=True, slots=True)
class RegexStored:
    """Key 16: the topics that a subscribed regular expression matches."""

    regex: str
    resolved: ResolvedRegex


@dataclass(frozen=True, slots=True)
class RegexRemoved:
    """Key 16: its last subscriber is gone."""

    regex: str


@dataclass(frozen=True, slots=True)
class TopicsChecked:
    """Soft: the group epoch stands for the topics of this version of the broker's metadata."""

    version: int


@dataclass(frozen=True, slots=True)
class RegexResolutionStarted:
    """Soft: the topics of the group's regular expressions are being looked up."""


@dataclass(frozen=True, slots=True)
class RegexResolutionEnded:
    """Soft: the lookup has ended."""


@dataclass(frozen=True, slots=True)
class ClassicDeadlinesSet:
    """Soft: until when a member of the classic protocol must send its JoinGroup, or its SyncGroup; None: it owes none."""

    member_id: str
    join_ms: int | None
    sync_ms: int | None


@dataclass(frozen=True, slots=True)
class ExpiryDelayed:
    """Soft: the member's removal could not be stored; its passed deadlines come again at ``deadline_ms``."""

    member_id: str
    deadline_ms: int


TIMER_EVENTS = (CurrentStored, ClassicDeadlinesSet, ExpiryDelayed)  # they change a member's deadlines
ConsumerEvent = (
    GroupEpochStored
    | GroupEpochRemoved
    | PartitionMetadataStored
    | PartitionMetadataRemoved
    | SubscriptionStored
    | SubscriptionRemoved
    | TargetEpochStored
    | TargetEpochRemoved
    | TargetStored
    | TargetRemoved
    | CurrentStored
    | CurrentRemoved
    | RegexStored
    | RegexRemoved
    | TopicsChecked
    | RegexResolutionStarted
    | RegexResolutionEnded
    | ClassicDeadlinesSet
    | ExpiryDelayed
)
