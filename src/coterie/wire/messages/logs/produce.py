"""Produce (key 0): record batches to partitions. v0-2 carry the old message sets, v3 batches v2 and a transactional id,
v7 allows zstd, v8 errors per record (KIP-467), v9 flexible, v10 the current leader in tags (KIP-951), v13 topic ids.
"""

from __future__ import annotations

from coterie.wire.declaration import (
    Message,
    Struct,
    array,
    field,
    int16,
    int32,
    int64,
    message,
    records,
    string,
    struct,
    uuid,
)
from coterie.wire.errors import ErrorCode

STORAGE_ERROR_FROM = 4


@struct
class PartitionProduceData(Struct):
    index: int = field(int32)
    records: bytes | None = field(records)


@struct
class TopicProduceData(Struct):
    name: str = field(string, "0-12")
    topic_id: bytes = field(uuid, "13+")
    partition_data: list[PartitionProduceData] = field(array(PartitionProduceData))


@message(api_key=0, versions="0-13", flexible="9+")
class ProduceRequest(Message):
    transactional_id: str | None = field(string, "3+", nullable="3+", default=None)
    acks: int = field(int16)
    timeout_ms: int = field(int32)
    topic_data: list[TopicProduceData] = field(array(TopicProduceData))


@struct
class BatchIndexAndErrorMessage(Struct):
    batch_index: int = field(int32)
    batch_index_error_message: str | None = field(string, nullable="0+", default=None)


@struct
class LeaderIdAndEpoch(Struct):
    leader_id: int = field(int32, default=-1)
    leader_epoch: int = field(int32, default=-1)


@struct
class NodeEndpoint(Struct):
    node_id: int = field(int32)
    host: str = field(string)
    port: int = field(int32)
    rack: str | None = field(string, nullable="0+", default=None)


@struct
class PartitionProduceResponse(Struct):
    index: int = field(int32)
    error_code: int = field(int16)
    base_offset: int = field(int64, default=-1)
    log_append_time_ms: int = field(int64, "2+", default=-1)
    log_start_offset: int = field(int64, "5+", default=-1)
    record_errors: list[BatchIndexAndErrorMessage] = field(array(BatchIndexAndErrorMessage), "8+")
    error_message: str | None = field(string, "8+", nullable="8+", default=None)
    current_leader: LeaderIdAndEpoch = field(LeaderIdAndEpoch, "10+", tag=0)


@struct
class TopicProduceResponse(Struct):
    name: str = field(string, "0-12")
    topic_id: bytes = field(uuid, "13+")
    partition_responses: list[PartitionProduceResponse] = field(array(PartitionProduceResponse))


@message(api_key=0, versions="0-13", flexible="9+")
class ProduceResponse(Message):
    responses: list[TopicProduceResponse] = field(array(TopicProduceResponse))
    throttle_time_ms: int = field(int32, "1+")
    node_endpoints: list[NodeEndpoint] = field(array(NodeEndpoint), "10+", tag=0)


def produce_error(version: int, code: ErrorCode) -> ErrorCode:
    """A code that clients of the version know."""
    is_newer = code == ErrorCode.KAFKA_STORAGE_ERROR and version < STORAGE_ERROR_FROM
    return ErrorCode.NOT_LEADER_OR_FOLLOWER if is_newer else code
