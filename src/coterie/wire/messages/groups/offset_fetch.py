"""OffsetFetch (key 9): committed offsets. v0 read from ZooKeeper in Kafka, here it is as v1; v2 all topics with null and a
top-level error, v5 leader epochs, v6 flexible, v7 require-stable (KIP-447), v8 several groups (KIP-709), v9 member epochs
(KIP-848), v10 topic ids.
"""

from __future__ import annotations

from coterie.wire.declaration import (
    Message,
    Struct,
    array,
    boolean,
    field,
    int16,
    int32,
    int64,
    message,
    string,
    struct,
    uuid,
)

TOP_LEVEL_ERROR_FROM, SEVERAL_FROM = 2, 8


@struct
class OffsetFetchRequestTopic(Struct):
    name: str = field(string)
    partition_indexes: list[int] = field(array(int32))


@struct
class OffsetFetchRequestTopics(Struct):
    name: str = field(string, "8-9")
    topic_id: bytes = field(uuid, "10+")
    partition_indexes: list[int] = field(array(int32))


@struct
class OffsetFetchRequestGroup(Struct):
    group_id: str = field(string)
    member_id: str | None = field(string, "9+", nullable="9+", default=None)
    member_epoch: int = field(int32, "9+", default=-1)
    topics: list[OffsetFetchRequestTopics] | None = field(array(OffsetFetchRequestTopics), nullable="8+")


@message(api_key=9, versions="0-10", flexible="6+")
class OffsetFetchRequest(Message):
    group_id: str = field(string, "0-7")
    topics: list[OffsetFetchRequestTopic] | None = field(array(OffsetFetchRequestTopic), "0-7", nullable="2-7")
    groups: list[OffsetFetchRequestGroup] = field(array(OffsetFetchRequestGroup), "8+")
    require_stable: bool = field(boolean, "7+")


@struct
class OffsetFetchResponsePartition(Struct):
    partition_index: int = field(int32)
    committed_offset: int = field(int64)
    committed_leader_epoch: int = field(int32, "5+", default=-1)
    metadata: str | None = field(string, nullable="0+")
    error_code: int = field(int16)


@struct
class OffsetFetchResponseTopic(Struct):
    name: str = field(string)
    partitions: list[OffsetFetchResponsePartition] = field(array(OffsetFetchResponsePartition))


@struct
class OffsetFetchResponseTopics(Struct):
    name: str = field(string, "8-9")
    topic_id: bytes = field(uuid, "10+")
    partitions: list[OffsetFetchResponsePartition] = field(array(OffsetFetchResponsePartition))


@struct
class OffsetFetchResponseGroup(Struct):
    group_id: str = field(string)
    topics: list[OffsetFetchResponseTopics] = field(array(OffsetFetchResponseTopics))
    error_code: int = field(int16)


@message(api_key=9, versions="0-10", flexible="6+")
class OffsetFetchResponse(Message):
    throttle_time_ms: int = field(int32, "3+")
    topics: list[OffsetFetchResponseTopic] = field(array(OffsetFetchResponseTopic), "0-7")
    error_code: int = field(int16, "2-7")
    groups: list[OffsetFetchResponseGroup] = field(array(OffsetFetchResponseGroup), "8+")


def groups_of(request: OffsetFetchRequest, version: int) -> list[OffsetFetchRequestGroup]:
    """One until version 7, any number from 8 on."""
    if version >= SEVERAL_FROM:
        return request.groups
    topics = None
    if request.topics is not None:
        topics = [OffsetFetchRequestTopics(t.name, partition_indexes=t.partition_indexes) for t in request.topics]
    return [OffsetFetchRequestGroup(request.group_id, topics=topics)]


def groups_response(
    version: int, groups: list[OffsetFetchResponseGroup], request: OffsetFetchRequest
) -> OffsetFetchResponse:
    """To `groups_of`. Until version 1 the error of the group is that of each partition."""
    if version >= SEVERAL_FROM:
        return OffsetFetchResponse(groups=groups)
    group = groups[0]
    if not group.error_code:
        return OffsetFetchResponse(topics=[OffsetFetchResponseTopic(t.name, t.partitions) for t in group.topics])
    topics = [
        OffsetFetchResponseTopic(t.name, [refused_partition(p, group.error_code) for p in t.partition_indexes])
        for t in request.topics or ()
        if version < TOP_LEVEL_ERROR_FROM
    ]
    return OffsetFetchResponse(error_code=group.error_code, topics=topics)


def refused_partition(partition_index: int, error_code: int) -> OffsetFetchResponsePartition:
    """Without an offset."""
    return OffsetFetchResponsePartition(partition_index, -1, -1, "", error_code)
