"""ExpireDelegationToken (key 40, KIP-48). v2 flexible."""

from __future__ import annotations

from coterie.wire.declaration import Message, bytes_, field, int16, int32, int64, message


@message(api_key=40, versions="0-2", flexible="2+")
class ExpireDelegationTokenRequest(Message):
    hmac: bytes = field(bytes_)
    expiry_time_period_ms: int = field(int64)


@message(api_key=40, versions="0-2", flexible="2+")
class ExpireDelegationTokenResponse(Message):
    error_code: int = field(int16)
    expiry_timestamp_ms: int = field(int64)
    throttle_time_ms: int = field(int32)
