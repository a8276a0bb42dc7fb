"""Keys and values of `__transaction_state`, each behind an int16 version: where a transactional id stands (KIP-98). Value v1
flexible (KIP-915), with what transactions of version 2 need in tags (KIP-890).
"""

from __future__ import annotations

from coterie.wire.declaration import Message, Struct, array, field, int8, int16, int32, int64, message, string, struct


@message(versions="0")
class TransactionLogKey(Message):
    transactional_id: str = field(string)


@struct
class PartitionsSchema(Struct):
    topic: str = field(string)
    partition_ids: list[int] = field(array(int32))


@message(versions="0-1", flexible="1+")
class TransactionLogValue(Message):
    producer_id: int = field(int64)
    producer_epoch: int = field(int16)
    transaction_timeout_ms: int = field(int32)
    transaction_status: int = field(int8)
    transaction_partitions: list[PartitionsSchema] | None = field(array(PartitionsSchema), nullable="0+")
    transaction_last_update_timestamp_ms: int = field(int64)
    transaction_start_timestamp_ms: int = field(int64)
    previous_producer_id: int = field(int64, "1+", tag=0, default=-1)
    next_producer_id: int = field(int64, "1+", tag=1, default=-1)
    client_transaction_version: int = field(int16, "1+", tag=2)
