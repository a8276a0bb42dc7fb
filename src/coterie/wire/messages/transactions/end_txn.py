"""EndTxn (key 26): a producer commits or aborts its transaction (KIP-98). v3 flexible, v5 returns the producer id and epoch of
the next transaction (KIP-890).
"""

from __future__ import annotations

from coterie.wire.declaration import Message, boolean, field, int16, int32, int64, message, string


@message(api_key=26, versions="0-5", flexible="3+")
class EndTxnRequest(Message):
    transactional_id: str = field(string)
    producer_id: int = field(int64)
    producer_epoch: int = field(int16)
    committed: bool = field(boolean)


@message(api_key=26, versions="0-5", flexible="3+")
class EndTxnResponse(Message):
    throttle_time_ms: int = field(int32)
    error_code: int = field(int16)
    producer_id: int = field(int64, "5+", default=-1)
    producer_epoch: int = field(int16, "5+", default=-1)
