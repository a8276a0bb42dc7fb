"""Events of a streams group. Hard ones are one record of `__consumer_offsets` each, keys 17 and 19 to 23.

A removal is the record's tombstone. ``cause`` goes into the journal and not into the record. The soft ones are the last.
"""

from __future__ import annotations

from coterie.coordinator.state import Cause
from coterie.coordinator.streams.state import CurrentTasks, RestoredOffsets, StreamsMetadata
from coterie.coordinator.streams.tasks import ConfiguredTopology, Tasks
from coterie.machines.values import value
from coterie.wire.messages.stored.streams_group_records import StreamsGroupTopologyValue


@value
class StreamsEpochStored:
    """Key 17: the group epoch rose; a new target assignment is due, with ``assignment_configs`` (KIP-1357). The epoch of the
    topology is -1 where its topics are not as it needs them."""

    epoch: int
    metadata_hash: int
    validated_topology_epoch: int
    assignment_configs: tuple[tuple[str, str], ...] = ()
    stored_description_epoch: int = -1
    failed_description_epoch: int = -1
    cause: Cause | None = None


@value
class StreamsEpochRemoved:
    """Key 17: the group is gone."""

    cause: Cause | None = None


@value
class StreamsMetadataStored:
    """Key 19: a member is new, or says something else of itself."""

    member_id: str
    metadata: StreamsMetadata


@value
class StreamsMetadataRemoved:
    """Key 19: the member is gone; the last of its three tombstones."""

    member_id: str
    cause: Cause | None = None


@value
class TaskTargetEpochStored:
    """Key 20: a target assignment of this epoch is complete; computed at ``timestamp_ms``."""

    epoch: int
    timestamp_ms: int


@value
class TaskTargetEpochRemoved:
    """Key 20."""


@value
class TaskTargetStored:
    """Key 21: the tasks that a member is to have in the end."""

    member_id: str
    tasks: Tasks


@value
class TaskTargetRemoved:
    """Key 21."""

    member_id: str


@value
class CurrentTasksStored:
    """Key 22: what a member has now."""

    member_id: str
    current: CurrentTasks


@value
class CurrentTasksRemoved:
    """Key 22."""

    member_id: str


@value
class TopologyStored:
    """Key 23: the first member brought the topology."""

    topology: StreamsGroupTopologyValue


@value
class TopologyRemoved:
    """Key 23."""


@value
class TopologyConfigured:
    """Soft: the topology over the topics of this version of the broker's metadata."""

    configured: ConfiguredTopology
    topics_version: int


@value
class TasksRestored:
    """Soft: a member reported how far it has restored its tasks."""

    member_id: str
    restored: RestoredOffsets


@value
class ShutdownRequested:
    """Soft: a member wants the whole application to stop; the first one counts until the group is empty."""

    member_id: str


@value
class EndpointsChanged:
    """Soft: members have to get the endpoints for interactive queries again."""

    epoch: int


@value
class InitialDelaySet:
    """Soft: no target assignment before ``until_ms``; None: the delay is over."""

    until_ms: int | None


@value
class StreamsExpiryDelayed:
    """Soft: the member's removal could not be stored; its passed deadlines come again at ``deadline_ms``."""

    member_id: str
    deadline_ms: int


STREAMS_TIMER_EVENTS = (CurrentTasksStored, StreamsExpiryDelayed)  # they change a member's deadlines
STREAMS_REMOVALS = (
    StreamsEpochRemoved,
    StreamsMetadataRemoved,
    TaskTargetEpochRemoved,
    TaskTargetRemoved,
    CurrentTasksRemoved,
    TopologyRemoved,
)
StreamsEvent = (
    StreamsEpochStored
    | StreamsEpochRemoved
    | StreamsMetadataStored
    | StreamsMetadataRemoved
    | TaskTargetEpochStored
    | TaskTargetEpochRemoved
    | TaskTargetStored
    | TaskTargetRemoved
    | CurrentTasksStored
    | CurrentTasksRemoved
    | TopologyStored
    | TopologyRemoved
    | TopologyConfigured
    | TasksRestored
    | ShutdownRequested
    | EndpointsChanged
    | InitialDelaySet
    | StreamsExpiryDelayed
)
