"""InitProducerId (key 22): a producer id and epoch for idempotent writing (KIP-98). v2 flexible, v3 bumps an epoch
(KIP-360), v4 PRODUCER_FENCED, v5 abortable errors, v6 two-phase commit (KIP-939).
"""

from __future__ import annotations

from coterie.wire.declaration import Message, boolean, field, int16, int32, int64, message, string


@message(api_key=22, versions="0-6", flexible="2+")
class InitProducerIdRequest(Message):
    transactional_id: str | None = field(string, nullable="0+")
    transaction_timeout_ms: int = field(int32)
    producer_id: int = field(int64, "3+", default=-1)
    producer_epoch: int = field(int16, "3+", default=-1)
    enable_2pc: bool = field(boolean, "6+")
    keep_prepared_txn: bool = field(boolean, "6+")


@message(api_key=22, versions="0-6", flexible="2+")
class InitProducerIdResponse(Message):
    throttle_time_ms: int = field(int32)
    error_code: int = field(int16)
    producer_id: int = field(int64, default=-1)
    producer_epoch: int = field(int16)
    ongoing_txn_producer_id: int = field(int64, "6+", default=-1)
    ongoing_txn_producer_epoch: int = field(int16, "6+", default=-1)
