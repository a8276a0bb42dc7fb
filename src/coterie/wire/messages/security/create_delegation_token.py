"""CreateDelegationToken (key 38, KIP-48). v2 flexible, v3 an owner other than the requester (KIP-373)."""

from __future__ import annotations

from coterie.wire.declaration import Message, Struct, array, bytes_, field, int16, int32, int64, message, string, struct


@struct
class CreatableRenewers(Struct):
    principal_type: str = field(string)
    principal_name: str = field(string)


@message(api_key=38, versions="0-3", flexible="2+")
class CreateDelegationTokenRequest(Message):
    owner_principal_type: str | None = field(string, "3+", nullable="3+", default=None)
    owner_principal_name: str | None = field(string, "3+", nullable="3+", default=None)
    renewers: list[CreatableRenewers] = field(array(CreatableRenewers))
    max_lifetime_ms: int = field(int64)


@message(api_key=38, versions="0-3", flexible="2+")
class CreateDelegationTokenResponse(Message):
    error_code: int = field(int16)
    principal_type: str = field(string)
    principal_name: str = field(string)
    token_requester_principal_type: str = field(string, "3+")
    token_requester_principal_name: str = field(string, "3+")
    issue_timestamp_ms: int = field(int64)
    expiry_timestamp_ms: int = field(int64)
    max_timestamp_ms: int = field(int64)
    token_id: str = field(string)
    hmac: bytes = field(bytes_)
    throttle_time_ms: int = field(int32)
