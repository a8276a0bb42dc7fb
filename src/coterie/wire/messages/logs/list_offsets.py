"""ListOffsets (key 2): the offset for a timestamp; -2 is the start, -1 the end, -3 the record with the largest timestamp
(v7, KIP-734). v0 returns up to max_num_offsets start offsets of segments, the newest first; v2 isolation level, v4
leader epochs, v6 flexible; v8 and v9 add -4 and -5 for tiered storage, v10 a timeout, v11 -6.
"""

from __future__ import annotations

from coterie.wire.declaration import Message, Struct, array, field, int8, int16, int32, int64, message, string, struct
from coterie.wire.errors import ErrorCode

_TIMESTAMPS_FROM = {-3: 7, -4: 8, -5: 9}
NOT_AVAILABLE_FROM = 5


@struct
class ListOffsetsPartition(Struct):
    partition_index: int = field(int32)
    current_leader_epoch: int = field(int32, "4+", default=-1)
    timestamp: int = field(int64)
    max_num_offsets: int = field(int32, "0", default=1)


@struct
class ListOffsetsTopic(Struct):
    name: str = field(string)
    partitions: list[ListOffsetsPartition] = field(array(ListOffsetsPartition))


@message(api_key=2, versions="0-11", flexible="6+")
class ListOffsetsRequest(Message):
    replica_id: int = field(int32, default=-1)
    isolation_level: int = field(int8, "2+")
    topics: list[ListOffsetsTopic] = field(array(ListOffsetsTopic))
    timeout_ms: int = field(int32, "10+")


@struct
class ListOffsetsPartitionResponse(Struct):
    partition_index: int = field(int32)
    error_code: int = field(int16)
    old_style_offsets: list[int] = field(array(int64), "0")
    timestamp: int = field(int64, "1+", default=-1)
    offset: int = field(int64, "1+", default=-1)
    leader_epoch: int = field(int32, "4+", default=-1)


@struct
class ListOffsetsTopicResponse(Struct):
    name: str = field(string)
    partitions: list[ListOffsetsPartitionResponse] = field(array(ListOffsetsPartitionResponse))


@message(api_key=2, versions="0-11", flexible="6+")
class ListOffsetsResponse(Message):
    throttle_time_ms: int = field(int32, "2+")
    topics: list[ListOffsetsTopicResponse] = field(array(ListOffsetsTopicResponse))


def has_timestamp(version: int, timestamp: int) -> bool:
    """Whether a negative timestamp means something in the version; -6 does in none here."""
    return timestamp >= (-2 if version == 0 else -5) and version >= _TIMESTAMPS_FROM.get(timestamp, 0)


def list_offsets_error(version: int, code: ErrorCode) -> ErrorCode:
    """A code that clients of the version know."""
    is_newer = code == ErrorCode.OFFSET_NOT_AVAILABLE and version < NOT_AVAILABLE_FROM
    return ErrorCode.LEADER_NOT_AVAILABLE if is_newer else code
