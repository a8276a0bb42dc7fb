"""SaslHandshake and SaslAuthenticate (KIP-43, KIP-152, KIP-368): a login, and a login again before the session ends.

A login that fails has its response after connection.failed.authentication.delay.ms, and its connection is closed then. Kafka's
`SaslServerAuthenticator` has the same steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from coterie.authentication.principal import USER, Principal
from coterie.authentication.sasl import Authenticated, AuthenticationFailed, Exchange, RefusalToken, step
from coterie.broker.clients.logins import LONG
from coterie.broker.handlers.services import Handler, SaslServices
from coterie.broker.requests.calls import Authentication, Call, CannotRespond
from coterie.broker.requests.pending import Pending
from coterie.broker.requests.turns import Work
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode, short_text
from coterie.wire.messages.security.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from coterie.wire.messages.security.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse


def handle_sasl_handshake(broker: SaslServices, request: SaslHandshakeRequest, call: Call) -> SaslHandshakeResponse:
    """Begins an exchange. ILLEGAL_SASL_STATE on a listener without SASL; UNSUPPORTED_SASL_MECHANISM, after which the connection
    is closed."""
    state, listener = call.connection.authentication, call.connection.listener.name
    if state is None:
        return SaslHandshakeResponse(ErrorCode.ILLEGAL_SASL_STATE)
    mechanisms = broker.clients.logins.mechanisms(listener)
    is_other = state.is_complete and request.mechanism != state.mechanism
    if request.mechanism not in mechanisms or is_other:
        text = "a connection from %s requests the mechanism %r of SASL, which it cannot have"
        broker.log_lines.warning(text, call.connection.host, short_text(request.mechanism))
        state.is_refused = True
        return SaslHandshakeResponse(ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms)
    state.mechanism, state.exchange = request.mechanism, broker.clients.logins.begin(listener, request.mechanism)
    if call.api_version == 0:
        state.is_raw = True
        state.changed()
    return SaslHandshakeResponse(ErrorCode.NONE, mechanisms)


def handle_sasl_authenticate(broker: SaslServices, request: SaslAuthenticateRequest, call: Call) -> Message | Pending:
    """A step of the exchange. ILLEGAL_SASL_STATE without a handshake before it."""
    state = call.connection.authentication
    if state is None:
        text = "SASL is not enabled on this listener; connect without it"
        return SaslAuthenticateResponse(ErrorCode.ILLEGAL_SASL_STATE, text)
    if state.exchange is None:
        text = "SaslAuthenticate comes after SaslHandshake"
        return SaslAuthenticateResponse(ErrorCode.ILLEGAL_SASL_STATE, text)
    return broker.turns.run(_authenticate(broker, state, state.exchange, request.auth_bytes, call), timed=False)


Result = tuple[bytes | Authenticated | None, Exception | None]


def _attempt(exchange: Exchange, token: bytes) -> Callable[[], Result]:
    def attempt() -> Result:
        try:
            return step(exchange, token), None
        except Exception as error:
            return None, error

    return attempt


def _authenticate(broker: SaslServices, state: Authentication, exchange: Exchange, token: bytes, call: Call) -> Work:
    attempt = _attempt(exchange, token)
    result, error = (yield attempt) if state.mechanism in LONG else attempt()
    if isinstance(error, AuthenticationFailed):
        return _refused(broker, state, call, str(error))
    if error is not None:
        raise error
    if isinstance(result, RefusalToken):
        _log_refusal(broker, state, call, result.reason)
    if isinstance(result, bytes):
        return SaslAuthenticateResponse(auth_bytes=result)
    assert isinstance(result, Authenticated)
    principal = Principal(USER, result.name)
    if state.is_complete and principal != call.connection.principal:
        return _refused(broker, state, call, "authentication failed: a connection keeps its principal")
    return _completed(broker, state, call, principal, result)


def _completed(
    broker: SaslServices, state: Authentication, call: Call, principal: Principal, end: Authenticated
) -> SaslAuthenticateResponse:
    connection, logins = call.connection, broker.clients.logins
    session_ms = logins.session_ms(connection.listener.name, state.mechanism, end.expires_ms)
    state.exchange, state.is_raw, state.is_complete, state.is_by_token = None, False, True, end.is_by_token
    state.session_ends_s = math.inf if session_ms is None else broker.scheduler.time() + session_ms / 1000
    connection.principal = principal
    state.changed()
    return SaslAuthenticateResponse(auth_bytes=end.token, session_lifetime_ms=session_ms or 0)


def _log_refusal(broker: SaslServices, state: Authentication, call: Call, text: str) -> None:
    state.is_logged = True
    host, mechanism = call.connection.host, state.mechanism
    broker.log_lines.warning("a connection from %s is refused (%s): %s", host, mechanism, text)


def _refused(broker: SaslServices, state: Authentication, call: Call, text: str) -> Pending:
    """The user is not named: some type a password there."""
    if not state.is_logged:
        _log_refusal(broker, state, call, text)
    state.exchange = None
    pending = Pending()

    def respond() -> None:
        state.is_refused = True
        if state.is_raw:
            pending.fail(CannotRespond(""))  # such a token has no room for an error
            return
        pending.respond(SaslAuthenticateResponse(ErrorCode.SASL_AUTHENTICATION_FAILED, text))

    delay_s = broker.clients.logins.failure_delay_s(call.connection.listener.name)
    pending.cancel = broker.scheduler.call_later(delay_s, respond).cancel
    return pending


HANDLERS: dict[int, Handler] = {17: handle_sasl_handshake, 36: handle_sasl_authenticate}
