"""Events of a group of the consumer protocol. Hard ones are one record of `__consumer_offsets` each, keys 3 to 8 and 16.

A removal is the record's tombstone. ``cause`` goes into the journal and not into the record. The soft ones are the last.
"""

from __future__ import annotations

from coterie.coordinator.consumer.state import ConsumerSubscription, CurrentAssignment, ResolvedRegex, TopicIdPartition
from coterie.coordinator.state import Cause
from coterie.machines.values import value


@value
class GroupEpochStored:
    """Key 3: the group epoch rose; a new target assignment is due. ``metadata_hash`` is that of the subscribed topics."""

    epoch: int
    metadata_hash: int
    cause: Cause | None = None


@value
class GroupEpochRemoved:
    """Key 3: the group is gone; the last of its tombstones."""

    cause: Cause | None = None


@value
class PartitionMetadataStored:
    """Key 4: written by Kafka before 4.1 alone; nothing but its presence counts."""


@value
class PartitionMetadataRemoved:
    """Key 4."""


@value
class SubscriptionStored:
    """Key 5: a member is new, or requests something else."""

    member_id: str
    subscription: ConsumerSubscription


@value
class SubscriptionRemoved:
    """Key 5: the member is gone; the last of its three tombstones."""

    member_id: str
    cause: Cause | None = None


@value
class TargetEpochStored:
    """Key 6: a target assignment of this epoch is complete; computed at ``timestamp_ms``."""

    epoch: int
    timestamp_ms: int


@value
class TargetEpochRemoved:
    """Key 6."""


@value
class TargetStored:
    """Key 7: what a member is to have in the end."""

    member_id: str
    partitions: frozenset[TopicIdPartition]


@value
class TargetRemoved:
    """Key 7."""

    member_id: str


@value
class CurrentStored:
    """Key 8: what a member has now."""

    member_id: str
    current: CurrentAssignment


@value
class CurrentRemoved:
    """Key 8."""

    member_id: str


@value
class RegexStored:
    """Key 16: the topics that a subscribed regular expression matches."""

    regex: str
    resolved: ResolvedRegex


@value
class RegexRemoved:
    """Key 16: its last subscriber is gone."""

    regex: str


@value
class TopicsChecked:
    """Soft: the group epoch stands for the topics of this version of the broker's metadata."""

    version: int


@value
class RegexResolutionStarted:
    """Soft: the topics of the group's regular expressions are being looked up."""


@value
class RegexResolutionEnded:
    """Soft: the lookup has ended."""


@value
class ClassicDeadlinesSet:
    """Soft: until when a member of the classic protocol must send its JoinGroup, or its SyncGroup; None: it owes none."""

    member_id: str
    join_ms: int | None
    sync_ms: int | None


@value
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
