"""SaslAuthenticate (key 36): one token of the exchange each way (KIP-152). v1 how long the session lasts (KIP-368), v2
flexible."""

from __future__ import annotations

from coterie.wire.declaration import Message, bytes_, field, int16, int64, message, string


@message(api_key=36, versions="0-2", flexible="2+")
class SaslAuthenticateRequest(Message):
    auth_bytes: bytes = field(bytes_)


@message(api_key=36, versions="0-2", flexible="2+")
class SaslAuthenticateResponse(Message):
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable="0+", default=None)
    auth_bytes: bytes = field(bytes_)
    session_lifetime_ms: int = field(int64, "1+")
