"""AddPartitionsToTxn (key 24): a producer tells the coordinator which partitions its transaction will write to (KIP-98).
v3 flexible; from v4 on only brokers ask, for several transactions at once (KIP-890).
"""

from __future__ import annotations

from coterie.wire.declaration import Message, Struct, array, field, int16, int32, int64, message, string, struct


@struct
class AddPartitionsToTxnTopic(Struct):
    name: str = field(string)
    partitions: list[int] = field(array(int32))


@message(api_key=24, versions="0-3", flexible="3+")
class AddPartitionsToTxnRequest(Message):
    transactional_id: str = field(string)
    producer_id: int = field(int64)
    producer_epoch: int = field(int16)
    topics: list[AddPartitionsToTxnTopic] = field(array(AddPartitionsToTxnTopic))


@struct
class AddPartitionsToTxnPartitionResult(Struct):
    partition_index: int = field(int32)
    partition_error_code: int = field(int16)


@struct
class AddPartitionsToTxnTopicResult(Struct):
    name: str = field(string)
    results_by_partition: list[AddPartitionsToTxnPartitionResult] = field(array(AddPartitionsToTxnPartitionResult))


@message(api_key=24, versions="0-3", flexible="3+")
class AddPartitionsToTxnResponse(Message):
    throttle_time_ms: int = field(int32)
    results_by_topic: list[AddPartitionsToTxnTopicResult] = field(array(AddPartitionsToTxnTopicResult))
