"""Tokens of SASL without the header of a request, as clients send them after version 0 of SaslHandshake (KIP-43)."""

from __future__ import annotations

from typing import Any

from coterie.broker.connections.routes import Route
from coterie.wire.declaration import Message
from coterie.wire.messages.security.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from coterie.wire.primitives import WireError


def request_of(frame: bytes) -> SaslAuthenticateRequest:
    """The request that a frame stands for, its size included."""
    return SaslAuthenticateRequest(frame[4:])


def _raw_frame(correlation_id: int, response: Message) -> bytes:
    """Only the token; a login that failed has no response."""
    assert isinstance(response, SaslAuthenticateResponse)
    return len(response.auth_bytes).to_bytes(4, "big") + response.auth_bytes


def _unread(data: bytes, at: int, room: int = 0) -> tuple[Any, int]:
    raise WireError("a token of SASL has no request")


RAW_TOKEN = Route(36, 0, "SaslAuthenticate", _unread, False, False, _raw_frame)
