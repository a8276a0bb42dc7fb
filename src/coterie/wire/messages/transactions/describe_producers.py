"""DescribeProducers (key 61): the producers that a partition's log knows, and where their open transactions begin (KIP-664)."""

from __future__ import annotations

from coterie.wire.declaration import Message, Struct, array, field, int16, int32, int64, message, string, struct


@struct
class DescribeProducersTopicRequest(Struct):
    name: str = field(string)
    partition_indexes: list[int] = field(array(int32))


@message(api_key=61, versions="0", flexible="0+")
class DescribeProducersRequest(Message):
    topics: list[DescribeProducersTopicRequest] = field(array(DescribeProducersTopicRequest))


@struct
class ProducerState(Struct):
    """Timestamp in ms since 1970; the epoch is an int32 here, alone of all messages."""

    producer_id: int = field(int64)
    producer_epoch: int = field(int32)
    last_sequence: int = field(int32, default=-1)
    last_timestamp: int = field(int64, default=-1)
    coordinator_epoch: int = field(int32)
    current_txn_start_offset: int = field(int64, default=-1)


@struct
class DescribeProducersPartitionResponse(Struct):
    partition_index: int = field(int32)
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable="0+", default=None)
    active_producers: list[ProducerState] = field(array(ProducerState))


@struct
class DescribeProducersTopicResponse(Struct):
    name: str = field(string)
    partitions: list[DescribeProducersPartitionResponse] = field(array(DescribeProducersPartitionResponse))


@message(api_key=61, versions="0", flexible="0+")
class DescribeProducersResponse(Message):
    throttle_time_ms: int = field(int32)
    topics: list[DescribeProducersTopicResponse] = field(array(DescribeProducersTopicResponse))
