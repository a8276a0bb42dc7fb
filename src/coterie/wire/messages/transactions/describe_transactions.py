"""DescribeTransactions (key 65): what the transaction coordinator knows of transactional ids (KIP-664)."""

from __future__ import annotations

from coterie.wire.declaration import Message, Struct, array, field, int16, int32, int64, message, string, struct


@message(api_key=65, versions="0", flexible="0+")
class DescribeTransactionsRequest(Message):
    transactional_ids: list[str] = field(array(string))


@struct
class TransactionTopic(Struct):
    topic: str = field(string)
    partitions: list[int] = field(array(int32))


@struct
class DescribedTransaction(Struct):
    """Times in ms since 1970."""

    error_code: int = field(int16)
    transactional_id: str = field(string)
    transaction_state: str = field(string)
    transaction_timeout_ms: int = field(int32)
    transaction_start_time_ms: int = field(int64)
    producer_id: int = field(int64)
    producer_epoch: int = field(int16)
    topics: list[TransactionTopic] = field(array(TransactionTopic))


@message(api_key=65, versions="0", flexible="0+")
class DescribeTransactionsResponse(Message):
    throttle_time_ms: int = field(int32)
    transaction_states: list[DescribedTransaction] = field(array(DescribedTransaction))
