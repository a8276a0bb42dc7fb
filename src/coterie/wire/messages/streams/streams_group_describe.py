"""StreamsGroupDescribe (key 89, KIP-1071): streams groups with their epochs and topology, and members with their tasks. v1 adds
the description of the topology (KIP-1331) and the assignor (KIP-1357). Status of a description: 0 not requested, 1 not
stored, 2 failed, 3 available. Type of a node: 1 source, 2 processor, 3 sink.
"""

from __future__ import annotations

from coterie.wire.declaration import Message, Struct, array, boolean, field, int8, int16, int32, message, string, struct
from coterie.wire.messages.streams.streams_group_heartbeat import Endpoint, InternalTopic, KeyValue, TaskIds, TaskOffset


@message(api_key=89, versions="0-1", flexible="0+")
class StreamsGroupDescribeRequest(Message):
    group_ids: list[str] = field(array(string))
    include_authorized_operations: bool = field(boolean)
    include_topology_description: bool = field(boolean, "1+")


@struct
class DescribedSubtopology(Struct):
    subtopology_id: str = field(string)
    source_topics: list[str] = field(array(string))
    repartition_sink_topics: list[str] = field(array(string))
    state_changelog_topics: list[InternalTopic] = field(array(InternalTopic))
    repartition_source_topics: list[InternalTopic] = field(array(InternalTopic))


@struct
class DescribedTopology(Struct):
    epoch: int = field(int32)
    subtopologies: list[DescribedSubtopology] | None = field(array(DescribedSubtopology), nullable="0+", default=None)


@struct
class TaskAssignment(Struct):
    active_tasks: list[TaskIds] = field(array(TaskIds))
    standby_tasks: list[TaskIds] = field(array(TaskIds))
    warmup_tasks: list[TaskIds] = field(array(TaskIds))


@struct
class StreamsMember(Struct):
    member_id: str = field(string)
    member_epoch: int = field(int32)
    instance_id: str | None = field(string, nullable="0+", default=None)
    rack_id: str | None = field(string, nullable="0+", default=None)
    client_id: str = field(string)
    client_host: str = field(string)
    topology_epoch: int = field(int32)
    process_id: str = field(string)
    user_endpoint: Endpoint | None = field(Endpoint, nullable="0+", default=None)
    client_tags: list[KeyValue] = field(array(KeyValue))
    task_offsets: list[TaskOffset] = field(array(TaskOffset))
    task_end_offsets: list[TaskOffset] = field(array(TaskOffset))
    assignment: TaskAssignment = field(TaskAssignment)
    target_assignment: TaskAssignment = field(TaskAssignment)
    is_classic: bool = field(boolean)


@struct
class TopologyNode(Struct):
    name: str = field(string)
    node_type: int = field(int8)
    source_topics: list[str] = field(array(string))
    sink_topic: str | None = field(string, nullable="0+", default=None)
    stores: list[str] = field(array(string))
    successors: list[str] = field(array(string))


@struct
class SubtopologyDescription(Struct):
    subtopology_id: str = field(string)
    nodes: list[TopologyNode] = field(array(TopologyNode))


@struct
class GlobalStore(Struct):
    source: TopologyNode = field(TopologyNode)
    processor: TopologyNode = field(TopologyNode)


@struct
class TopologyDescription(Struct):
    subtopologies: list[SubtopologyDescription] = field(array(SubtopologyDescription))
    global_stores: list[GlobalStore] = field(array(GlobalStore))


@struct
class DescribedStreamsGroup(Struct):
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable="0+", default=None)
    group_id: str = field(string)
    group_state: str = field(string)
    group_epoch: int = field(int32)
    assignment_epoch: int = field(int32)
    topology: DescribedTopology | None = field(DescribedTopology, nullable="0+", default=None)
    members: list[StreamsMember] = field(array(StreamsMember))
    authorized_operations: int = field(int32, default=-(2**31))
    topology_description: TopologyDescription | None = field(TopologyDescription, "1+", nullable="1+", default=None)
    topology_description_status: int = field(int8, "1+")
    assignor_name: str | None = field(string, "1+", nullable="1+", default=None)


@message(api_key=89, versions="0-1", flexible="0+")
class StreamsGroupDescribeResponse(Message):
    throttle_time_ms: int = field(int32)
    groups: list[DescribedStreamsGroup] = field(array(DescribedStreamsGroup))
