"""Keys and values of a streams group's records in `__consumer_offsets` (KIP-1071), as Apache Kafka 4.4 writes them. The version
of a key is its kind: 17 the group, 19 a member, 20 the target assignment, 21 a member's part of it, 22 what a member owns,
23 the topology. 18, the partitions of topics, was never released.
"""

from __future__ import annotations

from coterie.wire.declaration import Message, Struct, array, field, int8, int32, int64, message, string, struct
from coterie.wire.messages.streams.streams_group_heartbeat import Endpoint, KeyValue, Subtopology, TaskIds


@message(versions="17")
class StreamsGroupMetadataKey(Message):
    group_id: str = field(string)


@message(versions="0", flexible="0+")
class StreamsGroupMetadataValue(Message):
    """The epochs of a description: -1 none; -2 stored, where the plugin was interrupted."""

    epoch: int = field(int32)
    metadata_hash: int = field(int64)
    validated_topology_epoch: int = field(int32, tag=0, default=-1)
    last_assignment_configs: list[KeyValue] | None = field(array(KeyValue), nullable="0+", tag=1, default=None)
    stored_description_topology_epoch: int = field(int32, tag=2, default=-1)
    failed_description_topology_epoch: int = field(int32, tag=3, default=-1)


@message(versions="19")
class StreamsGroupMemberMetadataKey(Message):
    group_id: str = field(string)
    member_id: str = field(string)


@message(versions="0", flexible="0+")
class StreamsGroupMemberMetadataValue(Message):
    instance_id: str | None = field(string, nullable="0+", default=None)
    rack_id: str | None = field(string, nullable="0+", default=None)
    client_id: str = field(string)
    client_host: str = field(string)
    rebalance_timeout_ms: int = field(int32, default=-1)
    topology_epoch: int = field(int32)
    process_id: str = field(string)
    user_endpoint: Endpoint | None = field(Endpoint, nullable="0+", default=None)
    client_tags: list[KeyValue] = field(array(KeyValue))


@message(versions="20")
class StreamsGroupTargetAssignmentMetadataKey(Message):
    group_id: str = field(string)


@message(versions="0", flexible="0+")
class StreamsGroupTargetAssignmentMetadataValue(Message):
    assignment_epoch: int = field(int32)
    assignment_timestamp: int = field(int64, tag=0)  # ms since 1970 (KIP-1263)


@message(versions="21")
class StreamsGroupTargetAssignmentMemberKey(Message):
    group_id: str = field(string)
    member_id: str = field(string)


@message(versions="0", flexible="0+")
class StreamsGroupTargetAssignmentMemberValue(Message):
    active_tasks: list[TaskIds] = field(array(TaskIds))
    standby_tasks: list[TaskIds] = field(array(TaskIds))
    warmup_tasks: list[TaskIds] = field(array(TaskIds))


@message(versions="22")
class StreamsGroupCurrentMemberAssignmentKey(Message):
    group_id: str = field(string)
    member_id: str = field(string)


@struct
class OwnedTaskIds(Struct):
    """Tasks with the epoch at which each was assigned; of active tasks only."""

    subtopology_id: str = field(string)
    partitions: list[int] = field(array(int32))
    assignment_epochs: list[int] | None = field(array(int32), nullable="0+", tag=0, default=None)


@message(versions="0", flexible="0+")
class StreamsGroupCurrentMemberAssignmentValue(Message):
    member_epoch: int = field(int32)
    previous_member_epoch: int = field(int32)
    state: int = field(int8)
    active_tasks: list[OwnedTaskIds] = field(array(OwnedTaskIds))
    standby_tasks: list[OwnedTaskIds] = field(array(OwnedTaskIds))
    warmup_tasks: list[OwnedTaskIds] = field(array(OwnedTaskIds))
    active_tasks_pending_revocation: list[OwnedTaskIds] = field(array(OwnedTaskIds))
    standby_tasks_pending_revocation: list[OwnedTaskIds] = field(array(OwnedTaskIds))
    warmup_tasks_pending_revocation: list[OwnedTaskIds] = field(array(OwnedTaskIds))


@message(versions="23")
class StreamsGroupTopologyKey(Message):
    group_id: str = field(string)


@message(versions="0", flexible="0+")
class StreamsGroupTopologyValue(Message):
    epoch: int = field(int32)
    subtopologies: list[Subtopology] = field(array(Subtopology))
