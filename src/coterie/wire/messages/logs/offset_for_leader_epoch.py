"""OffsetForLeaderEpoch (key 23): where a leader epoch ends (KIP-320). v2 current epoch, v3 replica id, v4 flexible."""

from __future__ import annotations

from coterie.wire.declaration import Message, Struct, array, field, int16, int32, int64, message, string, struct


@struct
class OffsetForLeaderPartition(Struct):
    partition: int = field(int32)
    current_leader_epoch: int = field(int32, "2+", default=-1)
    leader_epoch: int = field(int32)


@struct
class OffsetForLeaderTopic(Struct):
    topic: str = field(string)
    partitions: list[OffsetForLeaderPartition] = field(array(OffsetForLeaderPartition))


@message(api_key=23, versions="0-4", flexible="4+")
class OffsetForLeaderEpochRequest(Message):
    replica_id: int = field(int32, "3+", default=-2)
    topics: list[OffsetForLeaderTopic] = field(array(OffsetForLeaderTopic))


@struct
class OffsetForLeaderPartitionResult(Struct):
    error_code: int = field(int16)
    partition: int = field(int32)
    leader_epoch: int = field(int32, "1+", default=-1)
    end_offset: int = field(int64, default=-1)


@struct
class OffsetForLeaderTopicResult(Struct):
    topic: str = field(string)
    partitions: list[OffsetForLeaderPartitionResult] = field(array(OffsetForLeaderPartitionResult))


@message(api_key=23, versions="0-4", flexible="4+")
class OffsetForLeaderEpochResponse(Message):
    throttle_time_ms: int = field(int32, "2+")
    topics: list[OffsetForLeaderTopicResult] = field(array(OffsetForLeaderTopicResult))
