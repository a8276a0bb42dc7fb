"""AlterReplicaLogDirs (key 34, KIP-113): moves replicas between the log directories of one broker. v2 flexible."""

from __future__ import annotations

from coterie.wire.declaration import Message, Struct, array, field, int16, int32, message, string, struct


@struct
class AlterReplicaLogDirTopic(Struct):
    name: str = field(string)
    partitions: list[int] = field(array(int32))


@struct
class AlterReplicaLogDir(Struct):
    path: str = field(string)
    topics: list[AlterReplicaLogDirTopic] = field(array(AlterReplicaLogDirTopic))


@message(api_key=34, versions="0-2", flexible="2+")
class AlterReplicaLogDirsRequest(Message):
    dirs: list[AlterReplicaLogDir] = field(array(AlterReplicaLogDir))


@struct
class AlterReplicaLogDirPartitionResult(Struct):
    partition_index: int = field(int32)
    error_code: int = field(int16)


@struct
class AlterReplicaLogDirTopicResult(Struct):
    topic_name: str = field(string)
    partitions: list[AlterReplicaLogDirPartitionResult] = field(array(AlterReplicaLogDirPartitionResult))


@message(api_key=34, versions="0-2", flexible="2+")
class AlterReplicaLogDirsResponse(Message):
    throttle_time_ms: int = field(int32)
    results: list[AlterReplicaLogDirTopicResult] = field(array(AlterReplicaLogDirTopicResult))
