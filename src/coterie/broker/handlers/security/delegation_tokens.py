"""Delegation tokens (KIP-48): refused on connections that are not authenticated, and there are no others."""

from __future__ import annotations

from coterie.authentication.principal import ANONYMOUS
from coterie.broker.handlers.services import Handler
from coterie.broker.requests.calls import Call
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.security.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from coterie.wire.messages.security.describe_delegation_token import (
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

_CODE = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


def handle_create_delegation_token(
    broker: object, request: CreateDelegationTokenRequest, call: Call
) -> CreateDelegationTokenResponse:
    """Refused: there are no delegation tokens without authentication. The user is the anonymous one."""
    return CreateDelegationTokenResponse(
        _CODE,
        ANONYMOUS.type,
        principal_name=ANONYMOUS.name,
        token_requester_principal_type=ANONYMOUS.type,
        token_requester_principal_name=ANONYMOUS.name,
        issue_timestamp_ms=-1,
        expiry_timestamp_ms=-1,
        max_timestamp_ms=-1,
    )


def handle_renew_delegation_token(
    broker: object, request: RenewDelegationTokenRequest, call: Call
) -> RenewDelegationTokenResponse:
    return RenewDelegationTokenResponse(_CODE, -1)


def handle_expire_delegation_token(
    broker: object, request: ExpireDelegationTokenRequest, call: Call
) -> ExpireDelegationTokenResponse:
    return ExpireDelegationTokenResponse(_CODE, -1)


def handle_describe_delegation_token(
    broker: object, request: DescribeDelegationTokenRequest, call: Call
) -> DescribeDelegationTokenResponse:
    return DescribeDelegationTokenResponse(_CODE)


HANDLERS: dict[int, Handler] = {
    38: handle_create_delegation_token,
    39: handle_renew_delegation_token,
    40: handle_expire_delegation_token,
    41: handle_describe_delegation_token,
}
