"""The header before every request and response. A request header is v2 (flexible) when the request's version is flexible,
else v1; its client id is never compact. A response header is v1 when the version is flexible, except for
ApiVersions, whose answers always carry v0.
"""

from __future__ import annotations

from coterie.wire.declaration import Message, field, int16, int32, message, string


@message(versions="1")
class RequestHeader(Message):
    request_api_key: int = field(int16)
    request_api_version: int = field(int16)
    correlation_id: int = field(int32)
    client_id: str | None = field(string, nullable="1+")
