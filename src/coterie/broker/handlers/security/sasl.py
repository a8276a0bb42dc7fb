"""SASL on a listener without authentication: both steps are refused with ILLEGAL_SASL_STATE."""

from __future__ import annotations

from coterie.broker.handlers.services import Handler
from coterie.broker.requests.calls import Call
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.security.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from coterie.wire.messages.security.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse


def handle_sasl_handshake(broker: object, request: SaslHandshakeRequest, call: Call) -> SaslHandshakeResponse:
    return SaslHandshakeResponse(ErrorCode.ILLEGAL_SASL_STATE)


def handle_sasl_authenticate(broker: object, request: SaslAuthenticateRequest, call: Call) -> SaslAuthenticateResponse:
    text = "SASL is not enabled on this listener; connect without it"
    return SaslAuthenticateResponse(ErrorCode.ILLEGAL_SASL_STATE, text)


HANDLERS: dict[int, Handler] = {17: handle_sasl_handshake, 36: handle_sasl_authenticate}
