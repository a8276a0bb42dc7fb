"""AddPartitionsToTxn (key 24): a producer names to the coordinator the partitions that its transaction will write to (KIP-98).
v3 flexible; from v4 on only brokers send it, for several transactions at once, or verify only; v5 new error codes (KIP-890).
"""

from __future__ import annotations

from coterie.wire.declaration import (
    Message,
    Struct,
    array,
    boolean,
    field,
    int16,
    int32,
    int64,
    message,
    string,
    struct,
)

SEVERAL_FROM = 4


@struct
class AddPartitionsToTxnTopic(Struct):
    name: str = field(string)
    partitions: list[int] = field(array(int32))


@struct
class AddPartitionsToTxnTransaction(Struct):
    transactional_id: str = field(string)
    producer_id: int = field(int64)
    producer_epoch: int = field(int16)
    verify_only: bool = field(boolean)
    topics: list[AddPartitionsToTxnTopic] = field(array(AddPartitionsToTxnTopic))


@message(api_key=24, versions="0-5", flexible="3+")
class AddPartitionsToTxnRequest(Message):
    """``transactions`` stands alone from version 4 on, and the others before it."""

    transactional_id: str = field(string, "0-3")
    producer_id: int = field(int64, "0-3")
    producer_epoch: int = field(int16, "0-3")
    topics: list[AddPartitionsToTxnTopic] = field(array(AddPartitionsToTxnTopic), "0-3")
    transactions: list[AddPartitionsToTxnTransaction] = field(array(AddPartitionsToTxnTransaction), "4+")


@struct
class AddPartitionsToTxnPartitionResult(Struct):
    partition_index: int = field(int32)
    partition_error_code: int = field(int16)


@struct
class AddPartitionsToTxnTopicResult(Struct):
    name: str = field(string)
    results_by_partition: list[AddPartitionsToTxnPartitionResult] = field(array(AddPartitionsToTxnPartitionResult))


@struct
class AddPartitionsToTxnResult(Struct):
    transactional_id: str = field(string)
    topic_results: list[AddPartitionsToTxnTopicResult] = field(array(AddPartitionsToTxnTopicResult))


@message(api_key=24, versions="0-5", flexible="3+")
class AddPartitionsToTxnResponse(Message):
    throttle_time_ms: int = field(int32)
    results_by_topic: list[AddPartitionsToTxnTopicResult] = field(array(AddPartitionsToTxnTopicResult), "0-3")
    error_code: int = field(int16, "4+")
    results_by_transaction: list[AddPartitionsToTxnResult] = field(array(AddPartitionsToTxnResult), "4+")


def transactions_of(request: AddPartitionsToTxnRequest, version: int) -> list[AddPartitionsToTxnTransaction]:
    """One until version 3, any number from 4 on."""
    if version >= SEVERAL_FROM:
        return request.transactions
    name, producer = request.transactional_id, (request.producer_id, request.producer_epoch)
    return [AddPartitionsToTxnTransaction(name, *producer, topics=request.topics)]


def transactions_response(version: int, results: list[AddPartitionsToTxnResult]) -> AddPartitionsToTxnResponse:
    """To `transactions_of`."""
    if version >= SEVERAL_FROM:
        return AddPartitionsToTxnResponse(results_by_transaction=results)
    return AddPartitionsToTxnResponse(results_by_topic=results[0].topic_results)
