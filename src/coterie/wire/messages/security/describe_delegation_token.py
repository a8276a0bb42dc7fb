"""DescribeDelegationToken (key 41, KIP-48). v2 flexible, v3 names who requested a token (KIP-373)."""

from __future__ import annotations

from coterie.wire.declaration import Message, Struct, array, bytes_, field, int16, int32, int64, message, string, struct


@struct
class DescribeDelegationTokenOwner(Struct):
    principal_type: str = field(string)
    principal_name: str = field(string)


@message(api_key=41, versions="0-3", flexible="2+")
class DescribeDelegationTokenRequest(Message):
    owners: list[DescribeDelegationTokenOwner] | None = field(array(DescribeDelegationTokenOwner), nullable="0+")


@struct
class DescribedDelegationTokenRenewer(Struct):
    principal_type: str = field(string)
    principal_name: str = field(string)


@struct
class DescribedDelegationToken(Struct):
    principal_type: str = field(string)
    principal_name: str = field(string)
    token_requester_principal_type: str = field(string, "3+")
    token_requester_principal_name: str = field(string, "3+")
    issue_timestamp: int = field(int64)
    expiry_timestamp: int = field(int64)
    max_timestamp: int = field(int64)
    token_id: str = field(string)
    hmac: bytes = field(bytes_)
    renewers: list[DescribedDelegationTokenRenewer] = field(array(DescribedDelegationTokenRenewer))


@message(api_key=41, versions="0-3", flexible="2+")
class DescribeDelegationTokenResponse(Message):
    error_code: int = field(int16)
    tokens: list[DescribedDelegationToken] = field(array(DescribedDelegationToken))
    throttle_time_ms: int = field(int32)
