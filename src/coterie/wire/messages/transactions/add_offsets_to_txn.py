"""AddOffsetsToTxn (key 25): a group's offsets will be part of a transaction (KIP-98). v3 flexible, v4 new error
codes (KIP-890).
"""

from __future__ import annotations

from coterie.wire.declaration import Message, field, int16, int32, int64, message, string


@message(api_key=25, versions="0-4", flexible="3+")
class AddOffsetsToTxnRequest(Message):
    transactional_id: str = field(string)
    producer_id: int = field(int64)
    producer_epoch: int = field(int16)
    group_id: str = field(string)


@message(api_key=25, versions="0-4", flexible="3+")
class AddOffsetsToTxnResponse(Message):
    throttle_time_ms: int = field(int32)
    error_code: int = field(int16)
