"""Requests about access: answered as by Apache Kafka without an authorizer and without authentication."""

from __future__ import annotations

import pytest

from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.security.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from coterie.wire.messages.security.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from coterie.wire.messages.security.delete_acls import DeleteAclsFilter, DeleteAclsRequest, DeleteAclsResponse
from coterie.wire.messages.security.describe_acls import DescribeAclsRequest, DescribeAclsResponse
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
from coterie.wire.messages.security.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from coterie.wire.messages.security.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from tests.broker.connections.test_server import broker

ANY = 1


@pytest.mark.parametrize("version", range(4))
async def test_acls_need_an_authorizer(version: int) -> None:
    async with broker() as connect:
        client = await connect()
        described = await client.ask(
            DescribeAclsRequest(ANY, operation=ANY, permission_type=ANY), DescribeAclsResponse, version
        )
        assert (described.error_code, described.resources) == (ErrorCode.SECURITY_DISABLED, [])
        creations = [AclCreation(2, name, 3, "User:a", "*", 3, 3) for name in ("t", "u")]
        created = await client.ask(CreateAclsRequest(creations), CreateAclsResponse, version)
        assert [r.error_code for r in created.results] == [ErrorCode.SECURITY_DISABLED] * 2
        matching = DeleteAclsFilter(ANY, operation=ANY, permission_type=ANY)
        deleted = await client.ask(DeleteAclsRequest([matching]), DeleteAclsResponse, version)
        assert [r.error_code for r in deleted.filter_results] == [ErrorCode.SECURITY_DISABLED]


TOKENS: list[tuple[Message, type[Message]]] = [
    (CreateDelegationTokenRequest(), CreateDelegationTokenResponse),
    (RenewDelegationTokenRequest(b"x", 1), RenewDelegationTokenResponse),
    (ExpireDelegationTokenRequest(b"x", 1), ExpireDelegationTokenResponse),
    (DescribeDelegationTokenRequest(None), DescribeDelegationTokenResponse),
]
CASES = [(q, a, v) for q, a in TOKENS for v in range(q.versions.first, q.versions.last + 1)]


@pytest.mark.parametrize(("request_", "response", "version"), CASES, ids=lambda x: getattr(x, "__name__", str(x)[:9]))
async def test_delegation_tokens_need_authentication(request_: Message, response: type[Message], version: int) -> None:
    async with broker() as connect:
        received = await (await connect()).ask(request_, response, version)
        assert received.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED  # type: ignore[attr-defined]


@pytest.mark.parametrize("version", range(2))
async def test_a_listener_without_sasl_agrees_on_no_mechanism(version: int) -> None:
    async with broker() as connect:
        client = await connect()
        handshake = await client.ask(SaslHandshakeRequest("PLAIN"), SaslHandshakeResponse, version)
        assert (handshake.error_code, handshake.mechanisms) == (ErrorCode.ILLEGAL_SASL_STATE, [])
        token = await client.ask(SaslAuthenticateRequest(b"token"), SaslAuthenticateResponse, version)
        assert (token.error_code, token.auth_bytes) == (ErrorCode.ILLEGAL_SASL_STATE, b"")
