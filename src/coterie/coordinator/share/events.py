"""Events of a share group. Hard ones are one record of `__consumer_offsets` each, keys 10 to 15; a removal is the record's
tombstone. ``cause`` goes into the journal and not into the record. The soft ones are the last."""

from __future__ import annotations

from coterie.coordinator.consumer.state import TopicIdPartition
from coterie.coordinator.share.state import ShareAssignment, ShareSubscription, StatePartitions
from coterie.coordinator.state import Cause
from coterie.machines.values import value


@value
class ShareMemberStored:
    """Key 10: a member is new, or requests something else."""

    member_id: str
    subscription: ShareSubscription


@value
class ShareMemberRemoved:
    """Key 10: the member is gone; the last of its three tombstones."""

    member_id: str
    cause: Cause | None = None


@value
class ShareEpochStored:
    """Key 11: the group epoch rose; a new target assignment is due. ``metadata_hash`` is that of the subscribed topics."""

    epoch: int
    metadata_hash: int
    cause: Cause | None = None


@value
class ShareEpochRemoved:
    """Key 11: the group is gone; the last of its tombstones."""

    cause: Cause | None = None


@value
class ShareTargetEpochStored:
    """Key 12: a target assignment of this epoch is complete; computed at ``timestamp_ms``."""

    epoch: int
    timestamp_ms: int


@value
class ShareTargetEpochRemoved:
    """Key 12."""


@value
class ShareTargetStored:
    """Key 13: what a member is to have."""

    member_id: str
    partitions: frozenset[TopicIdPartition]


@value
class ShareTargetRemoved:
    """Key 13."""

    member_id: str


@value
class ShareCurrentStored:
    """Key 14: what a member has."""

    member_id: str
    current: ShareAssignment


@value
class ShareCurrentRemoved:
    """Key 14."""

    member_id: str


@value
class StatePartitionsStored:
    """Key 15: the partitions with a state. ``cause`` where an administrator changed them."""

    states: StatePartitions
    cause: Cause | None = None


@value
class StatePartitionsRemoved:
    """Key 15."""


@value
class ShareTopicsChecked:
    """Soft: the group epoch stands for the topics of this version of the broker's metadata."""

    version: int


@value
class ShareExpiryDelayed:
    """Soft: the member's removal could not be stored; its passed session comes again at ``deadline_ms``."""

    member_id: str
    deadline_ms: int


SHARE_TIMER_EVENTS = (ShareExpiryDelayed,)
SHARE_REMOVALS = (
    ShareMemberRemoved,
    ShareEpochRemoved,
    ShareTargetEpochRemoved,
    ShareTargetRemoved,
    ShareCurrentRemoved,
    StatePartitionsRemoved,
)
ShareEvent = (
    ShareMemberStored
    | ShareMemberRemoved
    | ShareEpochStored
    | ShareEpochRemoved
    | ShareTargetEpochStored
    | ShareTargetEpochRemoved
    | ShareTargetStored
    | ShareTargetRemoved
    | ShareCurrentStored
    | ShareCurrentRemoved
    | StatePartitionsStored
    | StatePartitionsRemoved
    | ShareTopicsChecked
    | ShareExpiryDelayed
)
