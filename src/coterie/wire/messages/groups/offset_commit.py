"""OffsetCommit (key 8). v0 a simple consumer's (Kafka kept it in ZooKeeper; here it is a commit like any other), v1
generation, member and a timestamp per partition, v2-4 a retention time, v6 leader epoch, v7 group.instance.id, v8
flexible, v9 GROUP_ID_NOT_FOUND for an unknown group (KIP-848), v10 topic ids.
"""

from __future__ import annotations

from coterie.wire.declaration import Message, Struct, array, field, int16, int32, int64, message, string, struct, uuid


@struct
class OffsetCommitRequestPartition(Struct):
    partition_index: int = field(int32)
    committed_offset: int = field(int64)
    committed_leader_epoch: int = field(int32, "6+", default=-1)
    commit_timestamp: int = field(int64, "1", default=-1)
    committed_metadata: str | None = field(string, nullable="0+")


@struct
class OffsetCommitRequestTopic(Struct):
    name: str = field(string, "0-9")
    topic_id: bytes = field(uuid, "10+")
    partitions: list[OffsetCommitRequestPartition] = field(array(OffsetCommitRequestPartition))


@message(api_key=8, versions="0-10", flexible="8+")
class OffsetCommitRequest(Message):
    group_id: str = field(string)
    generation_id_or_member_epoch: int = field(int32, "1+", default=-1)
    member_id: str = field(string, "1+")
    group_instance_id: str | None = field(string, "7+", nullable="7+", default=None)
    retention_time_ms: int = field(int64, "2-4", default=-1)
    topics: list[OffsetCommitRequestTopic] = field(array(OffsetCommitRequestTopic))


@struct
class OffsetCommitResponsePartition(Struct):
    partition_index: int = field(int32)
    error_code: int = field(int16)


@struct
class OffsetCommitResponseTopic(Struct):
    name: str = field(string, "0-9")
    topic_id: bytes = field(uuid, "10+")
    partitions: list[OffsetCommitResponsePartition] = field(array(OffsetCommitResponsePartition))


@message(api_key=8, versions="0-10", flexible="8+")
class OffsetCommitResponse(Message):
    throttle_time_ms: int = field(int32, "3+")
    topics: list[OffsetCommitResponseTopic] = field(array(OffsetCommitResponseTopic))
