"""OffsetDelete (key 47): deletes committed offsets of partitions nobody subscribes to (KIP-496)."""

from __future__ import annotations

from coterie.wire.declaration import Message, Struct, array, field, int16, int32, message, string, struct


@struct
class OffsetDeleteRequestPartition(Struct):
    partition_index: int = field(int32)


@struct
class OffsetDeleteRequestTopic(Struct):
    name: str = field(string)
    partitions: list[OffsetDeleteRequestPartition] = field(array(OffsetDeleteRequestPartition))


@message(api_key=47, versions="0")
class OffsetDeleteRequest(Message):
    group_id: str = field(string)
    topics: list[OffsetDeleteRequestTopic] = field(array(OffsetDeleteRequestTopic))


@struct
class OffsetDeleteResponsePartition(Struct):
    partition_index: int = field(int32)
    error_code: int = field(int16)


@struct
class OffsetDeleteResponseTopic(Struct):
    name: str = field(string)
    partitions: list[OffsetDeleteResponsePartition] = field(array(OffsetDeleteResponsePartition))


@message(api_key=47, versions="0")
class OffsetDeleteResponse(Message):
    error_code: int = field(int16)
    throttle_time_ms: int = field(int32)
    topics: list[OffsetDeleteResponseTopic] = field(array(OffsetDeleteResponseTopic))
