"""Delegation tokens by request (KIP-48, KIP-373): who may ask, whose tokens are shown, and what outlives the broker.

Names of Kafka's: DelegationTokenRequestsTest (testDelegationTokenRequests), DelegationTokenRequestsOnPlainTextTest,
DelegationTokenRequestsWithDisableTokenFeatureTest, AuthorizerIntegrationTest's tokens.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from coterie.authentication.principal import ANONYMOUS, USER, Principal
from coterie.authorizer.acls import AclOperation, AclResourceType
from coterie.broker.clients import delegation_tokens
from coterie.broker.clients.delegation_tokens import FILE
from coterie.broker.requests.calls import Authentication, Call, ClientConnection
from coterie.broker.settings.listeners import PLAINTEXT_LISTENER, Listener
from coterie.log.filesystem import MemoryFileSystem
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode, error_of
from coterie.wire.messages.security.create_delegation_token import CreatableRenewers, CreateDelegationTokenRequest
from coterie.wire.messages.security.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from coterie.wire.messages.security.expire_delegation_token import ExpireDelegationTokenRequest
from coterie.wire.messages.security.renew_delegation_token import RenewDelegationTokenRequest
from tests.broker.access.restricted_broker import RestrictedBroker

SASL = Listener("SASL_PLAINTEXT", "", 0, "SASL_PLAINTEXT")
TLS = Listener("SSL", "", 0, "SSL")
SECRET = "the secret of the cluster"
DAY_MS = 86_400_000


class TokenBroker(RestrictedBroker):
    """One with a secret for tokens; requests come by SASL unless a test says otherwise."""

    def __init__(self, memory: MemoryFileSystem | None = None, *, secret: str | None = SECRET, **given: str) -> None:
        super().__init__(memory, **({} if secret is None else {"delegation_token_secret_key": secret}), **given)

    def send(self, user: str, request: Message, *, listener: Listener = SASL, by_token: bool = False) -> Any:
        connection = ClientConnection("/10.0.0.7", listener=listener)
        connection.principal = Principal(USER, user)
        if listener.has_sasl:
            connection.authentication = Authentication(is_complete=True, is_by_token=by_token)
        response = self.handlers[request.api_key](self, request, Call(type(request).versions.last, "c", connection))
        assert isinstance(response, Message)
        return response

    def create(self, user: str, *renewers: str, owner: str | None = None, lifetime_ms: int = -1) -> Any:
        rows = [CreatableRenewers(USER, name) for name in renewers]
        kind = None if owner is None else USER
        return self.send(user, CreateDelegationTokenRequest(kind, owner, rows, lifetime_ms))

    def described(self, user: str, *owners: str) -> list[str]:
        """The owners of the tokens that are shown."""
        rows = [DescribeDelegationTokenOwner(USER, name) for name in owners] or None
        response = self.send(user, DescribeDelegationTokenRequest(rows))
        assert response.error_code == ErrorCode.NONE
        return [token.principal_name for token in response.tokens]


@pytest.fixture
def broker() -> TokenBroker:
    return TokenBroker()


def requests(hmac: bytes = b"x") -> list[Message]:
    return [
        CreateDelegationTokenRequest(None, None, [], -1),
        RenewDelegationTokenRequest(hmac, -1),
        ExpireDelegationTokenRequest(hmac, -1),
        DescribeDelegationTokenRequest(None),
    ]


@pytest.mark.parametrize(
    ("listener", "user", "by_token"),
    [(PLAINTEXT_LISTENER, "alice", False), (TLS, ANONYMOUS.name, False), (SASL, "alice", True)],
)
def test_only_a_login_that_is_not_by_a_token_may_ask(
    broker: TokenBroker, listener: Listener, user: str, by_token: bool
) -> None:
    made = broker.create("alice")
    for request in requests(made.hmac):
        response = broker.send(user, request, listener=listener, by_token=by_token)
        assert response.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    assert broker.described("alice") == ["alice"]


def test_a_users_certificate_is_a_login(broker: TokenBroker) -> None:
    assert not broker.send("alice", requests()[0], listener=TLS).error_code


def test_without_a_secret_there_are_none() -> None:
    memory = MemoryFileSystem()
    broker = TokenBroker(memory, secret=None)
    codes = {broker.send("alice", request).error_code for request in requests()}
    assert codes == {ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED}
    assert not memory.exists(FILE)


def test_a_token_is_created_renewed_described_and_expired(broker: TokenBroker) -> None:
    """testExpireDelegationToken (SaslSslAdminIntegrationTest)."""
    now_ms = broker.clock.now_ms()
    made = broker.create("alice", "bob")
    assert (made.error_code, made.principal_name, made.token_requester_principal_name) == (0, "alice", "alice")
    assert (made.issue_timestamp_ms, made.expiry_timestamp_ms, made.max_timestamp_ms) == (
        now_ms,
        now_ms + DAY_MS,
        now_ms + 7 * DAY_MS,
    )
    assert len(made.hmac) == 64
    assert broker.send("bob", RenewDelegationTokenRequest(made.hmac, 50)).expiry_timestamp_ms == now_ms + 50
    (token,) = broker.send("alice", DescribeDelegationTokenRequest(None)).tokens
    assert (token.token_id, token.hmac, token.expiry_timestamp) == (made.token_id, made.hmac, now_ms + 50)
    assert [renewer.principal_name for renewer in token.renewers] == ["bob"]
    refused = broker.send("carol", ExpireDelegationTokenRequest(made.hmac, -1))
    assert refused.error_code == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    assert broker.send("bob", ExpireDelegationTokenRequest(made.hmac, -1)).expiry_timestamp_ms == now_ms
    assert broker.send("alice", RenewDelegationTokenRequest(made.hmac, 50)).error_code == (
        ErrorCode.DELEGATION_TOKEN_NOT_FOUND
    )
    assert broker.described("alice") == []


def test_owners_and_renewers_see_their_tokens_others_by_acl(broker: TokenBroker) -> None:
    made = broker.create("alice", "bob")
    broker.create("carol")
    assert broker.described("alice") == ["alice"]
    assert broker.described("bob") == ["alice"]
    assert broker.described("dave") == []
    assert broker.described("admin") == ["alice", "carol"]
    assert broker.described("admin", "bob") == ["alice"]  # whose owners or renewers they are
    assert broker.send("admin", DescribeDelegationTokenRequest([])).tokens == []
    broker.allow("dave", AclOperation.DESCRIBE, AclResourceType.DELEGATION_TOKEN, made.token_id)
    assert broker.described("dave") == ["alice"]
    broker.allow("erin", AclOperation.DESCRIBE_TOKENS, AclResourceType.USER, "User:carol")
    assert broker.described("erin") == ["carol"]


def test_a_token_for_another_user_needs_create_tokens(broker: TokenBroker) -> None:
    refused = broker.create("alice", owner="bob")
    assert error_of(refused.error_code) is ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    broker.allow("alice", AclOperation.CREATE_TOKENS, AclResourceType.USER, "User:bob")
    made = broker.create("alice", owner="bob")
    assert (made.error_code, made.principal_name, made.token_requester_principal_name) == (0, "bob", "alice")
    assert broker.described("alice") == broker.described("bob") == ["bob"]
    renewing = broker.send("alice", RenewDelegationTokenRequest(made.hmac, -1))
    assert renewing.error_code == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH


def test_tokens_outlive_the_broker_and_no_secret_is_on_the_disk() -> None:
    memory = MemoryFileSystem()
    broker = TokenBroker(memory)
    first, second = broker.create("alice"), broker.create("bob")
    broker.send("bob", ExpireDelegationTokenRequest(second.hmac, -1))
    (kept,) = json.loads(memory.read_file(FILE))["content"]
    assert kept.keys() == {
        "version",
        "owner",
        "renewers",
        "issueTimestamp",
        "maxTimestamp",
        "expiryTimestamp",
        "tokenId",
    }
    again = TokenBroker(memory)
    (token,) = again.send("alice", DescribeDelegationTokenRequest(None)).tokens
    assert (token.token_id, token.hmac) == (first.token_id, first.hmac)
    login = again.clients.tokens.login(first.token_id, "SCRAM-SHA-256", again.clock.now_ms())
    assert login is not None
    assert login.name == "alice"
    without = TokenBroker(memory, secret=None)
    assert without.clients.tokens.login(first.token_id, "SCRAM-SHA-256", again.clock.now_ms()) is None


def test_tokens_that_have_ended_are_no_login_and_are_removed(broker: TokenBroker) -> None:
    made = broker.create("alice", lifetime_ms=1_000)
    tokens, ended_ms = broker.clients.tokens, made.max_timestamp_ms + 1
    assert tokens.login(made.token_id, "SCRAM-SHA-512", ended_ms - 1) is not None
    assert tokens.login(made.token_id, "SCRAM-SHA-512", ended_ms) is None
    assert tokens.expired(ended_ms) == [made.token_id]
    tokens.remove(tokens.expired(ended_ms))
    assert broker.described("alice") == []


def test_a_user_cannot_create_tokens_without_end(broker: TokenBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delegation_tokens, "MAX_TOKENS", 2)
    codes = [broker.create("alice").error_code for _ in range(3)]
    assert codes == [ErrorCode.NONE, ErrorCode.NONE, ErrorCode.POLICY_VIOLATION]


def test_the_names_of_a_token_are_bounded(broker: TokenBroker) -> None:
    """A request may have a hundred thousand of them, of 32,767 bytes each."""
    room = delegation_tokens.MAX_NAMES_LENGTH - 2 * len("alice")
    assert broker.create("alice", "r" * room).error_code == ErrorCode.NONE
    assert broker.create("alice", "r" * room, "r").error_code == ErrorCode.POLICY_VIOLATION
    assert broker.described("alice") == ["alice"]


def test_the_setting_of_older_brokers_names_the_secret_too() -> None:
    memory = MemoryFileSystem()
    made = TokenBroker(memory, secret=None, delegation_token_master_key=SECRET).create("alice")
    assert TokenBroker().clients.tokens.limits.hmac_of(made.token_id) == made.hmac


MOST_MS = 2**63 - 1


@pytest.mark.parametrize(
    ("lifetime_ms", "max_ms", "expires_ms"),
    [(2 * 3_600_000, 2 * 3_600_000, 2 * 3_600_000), (MOST_MS, 7 * DAY_MS, DAY_MS)],
    ids=["testCreateDelegationTokenWithSmallerTimeout", "testCreateTokenWithOverflowTimestamp"],
)
def test_how_long_a_token_lives(broker: TokenBroker, lifetime_ms: int, max_ms: int, expires_ms: int) -> None:
    """As in SaslSslAdminIntegrationTest: a life shorter than the first renewal, and one beyond the largest time."""
    made = broker.create("alice", lifetime_ms=lifetime_ms)
    lives = made.max_timestamp_ms - made.issue_timestamp_ms, made.expiry_timestamp_ms - made.issue_timestamp_ms
    assert lives == (max_ms, expires_ms)


@pytest.mark.parametrize(
    ("period_ms", "expires_ms"),
    [(50, 50), (8 * DAY_MS, 7 * DAY_MS), (MOST_MS, 7 * DAY_MS)],
    ids=[
        "testExpireDelegationTokenWithOptionExpireTimePeriodMs",
        "testExpiredTimeStampLargerThanMaxLifeStamp",
        "testExpireTokenWithOverflowTimestamp",
    ],
)
def test_a_token_is_expired_after_a_period(broker: TokenBroker, period_ms: int, expires_ms: int) -> None:
    """As in SaslSslAdminIntegrationTest: never after its longest life."""
    made = broker.create("alice")
    expired = broker.send("alice", ExpireDelegationTokenRequest(made.hmac, period_ms))
    assert expired.expiry_timestamp_ms - made.issue_timestamp_ms == expires_ms
    assert broker.described("alice") == ["alice"]
    broker.world.run_until(made.issue_timestamp_ms + expires_ms + 1)
    renewed = broker.send("alice", RenewDelegationTokenRequest(made.hmac, -1))
    assert renewed.error_code == ErrorCode.DELEGATION_TOKEN_EXPIRED
