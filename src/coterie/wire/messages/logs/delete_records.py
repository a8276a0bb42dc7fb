"""DeleteRecords (key 21): moves the start of a partition's log up; -1 means up to its end. v2 flexible."""

from __future__ import annotations

from coterie.wire.declaration import Message, Struct, array, field, int16, int32, int64, message, string, struct


@struct
class DeleteRecordsPartition(Struct):
    partition_index: int = field(int32)
    offset: int = field(int64)


@struct
class DeleteRecordsTopic(Struct):
    name: str = field(string)
    partitions: list[DeleteRecordsPartition] = field(array(DeleteRecordsPartition))


@message(api_key=21, versions="0-2", flexible="2+")
class DeleteRecordsRequest(Message):
    topics: list[DeleteRecordsTopic] = field(array(DeleteRecordsTopic))
    timeout_ms: int = field(int32)


@struct
class DeleteRecordsPartitionResult(Struct):
    partition_index: int = field(int32)
    low_watermark: int = field(int64)
    error_code: int = field(int16)


@struct
class DeleteRecordsTopicResult(Struct):
    name: str = field(string)
    partitions: list[DeleteRecordsPartitionResult] = field(array(DeleteRecordsPartitionResult))


@message(api_key=21, versions="0-2", flexible="2+")
class DeleteRecordsResponse(Message):
    throttle_time_ms: int = field(int32)
    topics: list[DeleteRecordsTopicResult] = field(array(DeleteRecordsTopicResult))
