"""AlterShareGroupOffsets (key 91, KIP-932): sets the start offsets of an empty share group."""

from __future__ import annotations

from coterie.wire.declaration import Message, Struct, array, field, int16, int32, int64, message, string, struct, uuid


@struct
class AlterShareGroupOffsetsRequestPartition(Struct):
    partition_index: int = field(int32)
    start_offset: int = field(int64)


@struct
class AlterShareGroupOffsetsRequestTopic(Struct):
    topic_name: str = field(string)
    partitions: list[AlterShareGroupOffsetsRequestPartition] = field(array(AlterShareGroupOffsetsRequestPartition))


@message(api_key=91, versions="0", flexible="0+")
class AlterShareGroupOffsetsRequest(Message):
    group_id: str = field(string)
    topics: list[AlterShareGroupOffsetsRequestTopic] = field(array(AlterShareGroupOffsetsRequestTopic))


@struct
class AlterShareGroupOffsetsResponsePartition(Struct):
    partition_index: int = field(int32)
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable="0+", default=None)


@struct
class AlterShareGroupOffsetsResponseTopic(Struct):
    topic_name: str = field(string)
    topic_id: bytes = field(uuid)
    partitions: list[AlterShareGroupOffsetsResponsePartition] = field(array(AlterShareGroupOffsetsResponsePartition))


@message(api_key=91, versions="0", flexible="0+")
class AlterShareGroupOffsetsResponse(Message):
    throttle_time_ms: int = field(int32)
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable="0+", default=None)
    responses: list[AlterShareGroupOffsetsResponseTopic] = field(array(AlterShareGroupOffsetsResponseTopic))
