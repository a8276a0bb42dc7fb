"""DescribeShareGroupOffsets (key 90, KIP-932): the start offsets of share groups; null topics are all of a group's. v1 adds
the lag (KIP-1226).
"""

from __future__ import annotations

from coterie.wire.declaration import Message, Struct, array, field, int16, int32, int64, message, string, struct, uuid


@struct
class DescribeShareGroupOffsetsRequestTopic(Struct):
    topic_name: str = field(string)
    partitions: list[int] = field(array(int32))


@struct
class DescribeShareGroupOffsetsRequestGroup(Struct):
    group_id: str = field(string)
    topics: list[DescribeShareGroupOffsetsRequestTopic] | None = field(
        array(DescribeShareGroupOffsetsRequestTopic), nullable="0+"
    )


@message(api_key=90, versions="0-1", flexible="0+")
class DescribeShareGroupOffsetsRequest(Message):
    groups: list[DescribeShareGroupOffsetsRequestGroup] = field(array(DescribeShareGroupOffsetsRequestGroup))


@struct
class DescribeShareGroupOffsetsResponsePartition(Struct):
    partition_index: int = field(int32)
    start_offset: int = field(int64)
    leader_epoch: int = field(int32)
    lag: int = field(int64, "1+", default=-1)
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable="0+", default=None)


@struct
class DescribeShareGroupOffsetsResponseTopic(Struct):
    topic_name: str = field(string)
    topic_id: bytes = field(uuid)
    partitions: list[DescribeShareGroupOffsetsResponsePartition] = field(
        array(DescribeShareGroupOffsetsResponsePartition)
    )


@struct
class DescribeShareGroupOffsetsResponseGroup(Struct):
    group_id: str = field(string)
    topics: list[DescribeShareGroupOffsetsResponseTopic] = field(array(DescribeShareGroupOffsetsResponseTopic))
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable="0+", default=None)


@message(api_key=90, versions="0-1", flexible="0+")
class DescribeShareGroupOffsetsResponse(Message):
    throttle_time_ms: int = field(int32)
    groups: list[DescribeShareGroupOffsetsResponseGroup] = field(array(DescribeShareGroupOffsetsResponseGroup))
