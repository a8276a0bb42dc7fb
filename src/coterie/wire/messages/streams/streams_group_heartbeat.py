"""StreamsGroupHeartbeat (key 88, KIP-1071): a member of a streams group joins with its topology (epoch 0), stays, reports its
tasks and leaves (-1, or -2 for a static one) by it. Null, or -1, in a request: unchanged. v1 adds the lag that a warm-up task
may have and requests the topology's description (KIP-1331).
"""

from __future__ import annotations

from coterie.wire.declaration import (
    Message,
    Struct,
    array,
    boolean,
    field,
    int8,
    int16,
    int32,
    int64,
    message,
    string,
    struct,
    uint16,
)


@struct
class KeyValue(Struct):
    key: str = field(string)
    value: str = field(string)


@struct
class InternalTopic(Struct):
    """An internal topic. 0 partitions: as many as its subtopology calls for; 0 replicas: the broker's default."""

    name: str = field(string)
    partitions: int = field(int32)
    replication_factor: int = field(int16)
    topic_configs: list[KeyValue] = field(array(KeyValue))


@struct
class CopartitionGroup(Struct):
    """Topics with equal numbers of partitions, each an index into the list of its name in the subtopology."""

    source_topics: list[int] = field(array(int16))
    source_topic_regex: list[int] = field(array(int16))
    repartition_source_topics: list[int] = field(array(int16))


@struct
class Subtopology(Struct):
    subtopology_id: str = field(string)
    source_topics: list[str] = field(array(string))
    source_topic_regex: list[str] = field(array(string))
    state_changelog_topics: list[InternalTopic] = field(array(InternalTopic))
    repartition_sink_topics: list[str] = field(array(string))
    repartition_source_topics: list[InternalTopic] = field(array(InternalTopic))
    copartition_groups: list[CopartitionGroup] = field(array(CopartitionGroup))


@struct
class Topology(Struct):
    epoch: int = field(int32)
    subtopologies: list[Subtopology] = field(array(Subtopology))


@struct
class TaskIds(Struct):
    subtopology_id: str = field(string)
    partitions: list[int] = field(array(int32))


@struct
class Endpoint(Struct):
    host: str = field(string)
    port: int = field(uint16)


@struct
class TaskOffset(Struct):
    """The sum of the offsets of a task's changelogs."""

    subtopology_id: str = field(string)
    partition: int = field(int32)
    offset: int = field(int64)


@message(api_key=88, versions="0-1", flexible="0+")
class StreamsGroupHeartbeatRequest(Message):
    group_id: str = field(string)
    member_id: str = field(string)
    member_epoch: int = field(int32)
    endpoint_information_epoch: int = field(int32)
    instance_id: str | None = field(string, nullable="0+", default=None)
    rack_id: str | None = field(string, nullable="0+", default=None)
    rebalance_timeout_ms: int = field(int32, default=-1)
    topology: Topology | None = field(Topology, nullable="0+", default=None)
    active_tasks: list[TaskIds] | None = field(array(TaskIds), nullable="0+", default=None)
    standby_tasks: list[TaskIds] | None = field(array(TaskIds), nullable="0+", default=None)
    warmup_tasks: list[TaskIds] | None = field(array(TaskIds), nullable="0+", default=None)
    process_id: str | None = field(string, nullable="0+", default=None)
    user_endpoint: Endpoint | None = field(Endpoint, nullable="0+", default=None)
    client_tags: list[KeyValue] | None = field(array(KeyValue), nullable="0+", default=None)
    task_offsets: list[TaskOffset] | None = field(array(TaskOffset), nullable="0+", default=None)
    task_end_offsets: list[TaskOffset] | None = field(array(TaskOffset), nullable="0+", default=None)
    shutdown_application: bool = field(boolean)


@struct
class GroupStatus(Struct):
    status_code: int = field(int8)
    status_detail: str = field(string)


@struct
class EndpointTopic(Struct):
    topic: str = field(string)
    partitions: list[int] = field(array(int32))


@struct
class EndpointToPartitions(Struct):
    user_endpoint: Endpoint = field(Endpoint)
    active_partitions: list[EndpointTopic] = field(array(EndpointTopic))
    standby_partitions: list[EndpointTopic] = field(array(EndpointTopic))


@message(api_key=88, versions="0-1", flexible="0+")
class StreamsGroupHeartbeatResponse(Message):
    throttle_time_ms: int = field(int32)
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable="0+", default=None)
    member_id: str = field(string)
    member_epoch: int = field(int32)
    heartbeat_interval_ms: int = field(int32)
    acceptable_recovery_lag_legacy: int = field(int32, "0")
    task_offset_interval_ms: int = field(int32)
    acceptable_recovery_lag: int = field(int64, "1+", default=-1)
    status: list[GroupStatus] | None = field(array(GroupStatus), nullable="0+")
    active_tasks: list[TaskIds] | None = field(array(TaskIds), nullable="0+", default=None)
    standby_tasks: list[TaskIds] | None = field(array(TaskIds), nullable="0+", default=None)
    warmup_tasks: list[TaskIds] | None = field(array(TaskIds), nullable="0+", default=None)
    topology_description_required: bool = field(boolean, "1+")
    endpoint_information_epoch: int = field(int32)
    partitions_by_user_endpoint: list[EndpointToPartitions] | None = field(
        array(EndpointToPartitions), nullable="0+", default=None
    )
