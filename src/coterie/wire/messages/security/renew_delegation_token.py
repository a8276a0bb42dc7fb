"""RenewDelegationToken (key 39, KIP-48). v2 flexible."""

from __future__ import annotations

from coterie.wire.declaration import Message, bytes_, field, int16, int32, int64, message


@message(api_key=39, versions="0-2", flexible="2+")
class RenewDelegationTokenRequest(Message):
    hmac: bytes = field(bytes_)
    renew_period_ms: int = field(int64)


@message(api_key=39, versions="0-2", flexible="2+")
class RenewDelegationTokenResponse(Message):
    error_code: int = field(int16)
    expiry_timestamp_ms: int = field(int64)
    throttle_time_ms: int = field(int32)
