"""Delegation tokens (KIP-48, KIP-373): created, renewed, expired and described by users who did not log in by one.

On a connection without a login each request is DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, without a secret
DELEGATION_TOKEN_AUTH_DISABLED, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Callable

from coterie.authentication.delegation_tokens import DelegationToken
from coterie.authentication.principal import ANONYMOUS, USER, Principal
from coterie.broker.handlers.administration.cluster_responses import refusal_of, responded_by
from coterie.broker.handlers.services import ClientServices, Handler
from coterie.broker.requests.calls import Call, ClientConnection
from coterie.broker.requests.pending import Pending
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode, Refusal
from coterie.wire.messages.security.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from coterie.wire.messages.security.describe_delegation_token import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from coterie.wire.messages.security.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from coterie.wire.messages.security.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from coterie.zookeeper.operations import ZooKeeperError

NO_TIME_MS = -1  # in a refusal of the broker; the ones of Kafka's controller have 0
Change = tuple[str, DelegationToken | None]


def may_request(connection: ClientConnection) -> bool:
    """Whether the connection has a login that is not by a token (Kafka's allowTokenRequests)."""
    listener, login = connection.listener, connection.authentication
    if login is not None and login.is_by_token:
        return False
    return listener.has_sasl or (listener.has_tls and connection.principal != ANONYMOUS)


def owner_of(request: CreateDelegationTokenRequest, requester: Principal) -> Principal:
    """Whose the token will be: the requester's where the request names no owner."""
    name = request.owner_principal_name
    return Principal(request.owner_principal_type or USER, name) if name else requester


def refused_creation(
    owner: Principal, requester: Principal, code: ErrorCode, time_ms: int = NO_TIME_MS
) -> CreateDelegationTokenResponse:
    """The response without a token."""
    own = (owner.type, owner.name, requester.type, requester.name)
    return CreateDelegationTokenResponse(code, *own, time_ms, time_ms, time_ms)


def handle_create_delegation_token(
    broker: ClientServices, request: CreateDelegationTokenRequest, call: Call
) -> Message | Pending:
    """The response has the password of the token, its HMAC, which the broker does not keep. POLICY_VIOLATION: too many tokens,
    or too long names."""
    tokens, requester = broker.clients.tokens, call.connection.principal
    owner = owner_of(request, requester)
    if not may_request(call.connection):
        return refused_creation(owner, requester, ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
    renewers = [Principal(renewer.principal_type, renewer.principal_name) for renewer in request.renewers]
    lifetime_ms, now_ms = request.max_lifetime_ms, broker.clock.now_ms()
    try:
        token = tokens.limits.created(
            tokens.new_id(), owner, requester, renewers, lifetime_ms=lifetime_ms, now_ms=now_ms
        )
    except Refusal as refusal:
        return refused_creation(owner, requester, refusal.code)
    try:
        tokens.check_room(token)
    except Refusal as refusal:
        return refused_creation(owner, requester, refusal.code, 0)

    def response(failed: Refusal | None) -> Message:
        if failed is not None:
            return refused_creation(owner, requester, failed.code, 0)
        principals = (owner.type, owner.name, requester.type, requester.name)
        times = (token.issued_ms, token.expires_ms, token.max_ms)
        return CreateDelegationTokenResponse(
            ErrorCode.NONE, *principals, *times, token.token_id, tokens.limits.hmac_of(token.token_id)
        )

    return _kept(broker, (token.token_id, token), response)


def handle_renew_delegation_token(
    broker: ClientServices, request: RenewDelegationTokenRequest, call: Call
) -> Message | Pending:
    """A period from 0 down requests delegation.token.expiry.time.ms."""
    tokens, now_ms = broker.clients.tokens, broker.clock.now_ms()
    if not may_request(call.connection):
        return RenewDelegationTokenResponse(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, NO_TIME_MS)
    try:
        token = tokens.limits.renewed(
            tokens.by_hmac(request.hmac), call.connection.principal, request.renew_period_ms, now_ms
        )
    except Refusal as refusal:
        return RenewDelegationTokenResponse(refusal.code)

    def response(failed: Refusal | None) -> Message:
        return (
            RenewDelegationTokenResponse(failed.code) if failed else RenewDelegationTokenResponse(0, token.expires_ms)
        )

    return _kept(broker, (token.token_id, token), response)


def handle_expire_delegation_token(
    broker: ClientServices, request: ExpireDelegationTokenRequest, call: Call
) -> Message | Pending:
    """A negative period ends the token now."""
    tokens, now_ms = broker.clients.tokens, broker.clock.now_ms()
    if not may_request(call.connection):
        return ExpireDelegationTokenResponse(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, NO_TIME_MS)
    try:
        before, after = tokens.limits.expired(
            tokens.by_hmac(request.hmac), call.connection.principal, request.expiry_time_period_ms, now_ms
        )
    except Refusal as refusal:
        return ExpireDelegationTokenResponse(refusal.code)
    ends_ms = now_ms if after is None else after.expires_ms

    def response(failed: Refusal | None) -> Message:
        return ExpireDelegationTokenResponse(failed.code) if failed else ExpireDelegationTokenResponse(0, ends_ms)

    return _kept(broker, (before.token_id, after), response)


def handle_describe_delegation_token(
    broker: ClientServices, request: DescribeDelegationTokenRequest, call: Call
) -> DescribeDelegationTokenResponse:
    """The tokens that owners requested may use or renew; no list requests all. With an authorizer `access` leaves out what the
    client may not describe."""
    tokens = broker.clients.tokens
    if not may_request(call.connection):
        return DescribeDelegationTokenResponse(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
    if not tokens.limits.secret:
        return DescribeDelegationTokenResponse(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    owners = None if request.owners is None else [Principal(o.principal_type, o.principal_name) for o in request.owners]
    shown = [token for token in tokens.every() if owners is None or any(map(token.is_shown_to, owners))]
    return DescribeDelegationTokenResponse(
        tokens=[_described(token, tokens.limits.hmac_of(token.token_id)) for token in shown]
    )


def _described(token: DelegationToken, hmac: bytes) -> DescribedDelegationToken:
    principals = (token.owner.type, token.owner.name, token.requester.type, token.requester.name)
    times = (token.issued_ms, token.expires_ms, token.max_ms)
    renewers = [DescribedDelegationTokenRenewer(renewer.type, renewer.name) for renewer in token.renewers]
    return DescribedDelegationToken(*principals, *times, token.token_id, hmac, renewers)


def _kept(broker: ClientServices, change: Change, response: Callable[[Refusal | None], Message]) -> Message | Pending:
    """The response once the change is kept, or could not be."""
    nodes = broker.token_nodes
    if nodes is None:
        try:
            broker.clients.tokens.change([change])
        except OSError:
            return response(Refusal(ErrorCode.KAFKA_STORAGE_ERROR))
        return response(None)

    async def in_cluster() -> Message:
        try:
            await nodes.write(*change)
        except ZooKeeperError as error:
            return response(refusal_of(error))
        return response(None)

    return responded_by(in_cluster())


HANDLERS: dict[int, Handler] = {
    38: handle_create_delegation_token,
    39: handle_renew_delegation_token,
    40: handle_expire_delegation_token,
    41: handle_describe_delegation_token,
}
