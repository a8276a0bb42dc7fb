"""CreateAcls, DescribeAcls and DeleteAcls of a broker with an authorizer: kept on the disk, and in force at once.
Requests about access: answered as by Apache Kafka without an authorizer and without authentication."""

from __future__ import annotations

import logging

import pytest

from coterie.authorizer.acls import Acl, AclOperation, AclResourceType, PatternType, Permission
from coterie.broker.clients.acls import FILE, MAX_LINES, REPORT_AGAIN_MS
from coterie.broker.requests.calls import CannotRespond
from coterie.configuration import SettingError
from coterie.log.checked_files import UnreadableFile
from coterie.log.filesystem import MemoryFileSystem
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode, error_of
from coterie.wire.messages.groups.heartbeat import HeartbeatRequest
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
from tests.broker.access.restricted_broker import RestrictedBroker
from tests.broker.connections.test_server import broker

TOPIC, GROUP, CLUSTER = AclResourceType.TOPIC, AclResourceType.GROUP, AclResourceType.CLUSTER
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
READ, WRITE, ALLOW, ANY = AclOperation.READ, AclOperation.WRITE, Permission.ALLOW, 1
ANY_FILTER = 1
TOKENS: list[tuple[Message, type[Message]]] = [
    (CreateDelegationTokenRequest(), CreateDelegationTokenResponse),
    (RenewDelegationTokenRequest(b"x", 1), RenewDelegationTokenResponse),
    (ExpireDelegationTokenRequest(b"x", 1), ExpireDelegationTokenResponse),
    (DescribeDelegationTokenRequest(None), DescribeDelegationTokenResponse),
]
CASES = [(q, a, v) for q, a in TOKENS for v in range(q.versions.first, q.versions.last + 1)]


def creation(name: str, operation: int = READ, pattern: int = LITERAL, kind: int = TOPIC) -> AclCreation:
    return AclCreation(kind, name, pattern, "User:alice", "*", operation, ALLOW)


def create(broker: RestrictedBroker, *creations: AclCreation, version: int = 3) -> list[ErrorCode]:
    response: CreateAclsResponse = broker.ask("admin", CreateAclsRequest(list(creations)), version)
    return [error_of(result.error_code) for result in response.results]


def described(broker: RestrictedBroker, **parts: object) -> list[tuple[str, int, list[int]]]:
    """Name, pattern and operations of each resource."""
    wanted = {"resource_type_filter": ANY, "pattern_type_filter": ANY, "operation": ANY, "permission_type": ANY} | parts
    response = broker.ask("admin", DescribeAclsRequest(**wanted), 3)  # type: ignore[arg-type]
    assert not response.error_code
    return [(r.resource_name, r.pattern_type, [acl.operation for acl in r.acls]) for r in response.resources]


def test_created_acls_are_described_by_resource_and_deleted_by_filters() -> None:
    broker = RestrictedBroker()
    assert create(broker, creation("a"), creation("a", WRITE), creation("b", READ, PREFIXED)) == [ErrorCode.NONE] * 3
    assert create(broker, creation("a")) == [ErrorCode.NONE]  # it is one entry
    assert described(broker) == [("a", LITERAL, [READ, WRITE]), ("b", PREFIXED, [READ])]
    assert described(broker, resource_name_filter="bc", pattern_type_filter=2) == [("b", PREFIXED, [READ])]
    filters = [
        DeleteAclsFilter(ANY, "a", LITERAL, operation=READ, permission_type=ANY),
        DeleteAclsFilter(ANY, "a", LITERAL, operation=ANY, permission_type=ANY),
        DeleteAclsFilter(ANY, "c", LITERAL, operation=ANY, permission_type=ANY),
    ]
    response = broker.ask("admin", DeleteAclsRequest(filters), 3)
    assert [[acl.operation for acl in r.matching_acls] for r in response.filter_results] == [[READ], [READ, WRITE], []]
    assert described(broker) == [("b", PREFIXED, [READ])]


def test_entries_that_cannot_be_are_refused_each_for_itself() -> None:
    broker = RestrictedBroker()
    invalid = [
        creation(""),
        creation("c", kind=CLUSTER),
        creation("t", ANY),
        creation("t", READ, 2),
        creation("t", kind=ANY),
    ]
    assert create(broker, *invalid, creation("t")) == [ErrorCode.INVALID_REQUEST] * 5 + [ErrorCode.NONE]
    assert described(broker) == [("t", LITERAL, [READ])]


@pytest.mark.parametrize("code", [0, 99])
def test_a_code_that_does_not_exist_closes_the_connection(code: int) -> None:
    """As Kafka, which cannot read such a request."""
    with pytest.raises(CannotRespond, match=f"AclOperation {code}"):
        create(RestrictedBroker(), creation("t", code))


def test_acls_are_in_force_at_once_and_after_a_restart() -> None:
    memory = MemoryFileSystem()
    broker = RestrictedBroker(memory)
    heartbeat = HeartbeatRequest("g", 1, "m")
    assert broker.ask("alice", heartbeat, 4).error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
    create(broker, creation("g", kind=GROUP))
    assert broker.ask("alice", heartbeat, 4).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    after = RestrictedBroker(memory).ask("alice", heartbeat, 4)  # the groups are being loaded
    assert after.error_code == ErrorCode.NONE


def test_what_cannot_be_written_is_refused_and_not_in_force(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = MemoryFileSystem()
    broker = RestrictedBroker(memory)

    def full(path: str, data: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(memory, "write_file", full)
    assert create(broker, creation("a")) == [ErrorCode.KAFKA_STORAGE_ERROR]
    assert described(broker) == []


@pytest.mark.parametrize("content", [b"no json", b"[1]", b'[{"name": "t"}]'])
def test_a_damaged_file_stops_the_start(content: bytes) -> None:
    memory = MemoryFileSystem()
    memory.write_file(FILE, content)
    with pytest.raises(UnreadableFile, match="denies all but super users"):
        RestrictedBroker(memory)


def test_a_denial_has_one_line_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    broker = RestrictedBroker()

    def lines() -> list[str]:
        return [record.getMessage() for record in caplog.records if "is denied" in record.getMessage()]

    for _ in range(3):
        broker.ask("alice", HeartbeatRequest("g", 1, "m"), 4)
    broker.ask("alice", HeartbeatRequest("h", 1, "m"), 4)
    why = "no ACL is about the resource, and allow.everyone.if.no.acl.found decides"
    assert lines() == [f"User:alice from 10.0.0.7 is denied READ on group {name}: {why}" for name in "gh"]
    broker.world.run_until(broker.world.now_ms + REPORT_AGAIN_MS)
    broker.ask("alice", HeartbeatRequest("g", 1, "m"), 4)
    assert len(lines()) == 3


def test_the_denials_of_a_principal_that_tries_names_have_a_bounded_number_of_lines(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING)
    broker = RestrictedBroker()

    def lines(user: str) -> list[str]:
        return [text for record in caplog.records if f"User:{user} " in (text := record.getMessage())]

    for number in range(MAX_LINES + 50):
        broker.ask("alice", HeartbeatRequest(f"g-{number}", 1, "m"), 4)
    broker.ask("bob", HeartbeatRequest("g", 1, "m"), 4)
    assert len(lines("alice")) == MAX_LINES + 1
    assert lines("alice")[-1] == f"User:alice has {MAX_LINES} lines about denials in a minute; further ones have none"
    assert len(lines("bob")) == 1
    broker.world.run_until(broker.world.now_ms + REPORT_AGAIN_MS)
    broker.ask("alice", HeartbeatRequest("g-0", 1, "m"), 4)
    assert len(lines("alice")) == MAX_LINES + 2


def test_the_settings_of_the_authorizer_may_have_white_space() -> None:
    """testAclConfigWithWhitespace."""
    broker = RestrictedBroker(super_users="  User:root ;User:a,b ", allow_everyone_if_no_acl_found=" true ")
    assert broker.acls.authorizer.super_users == {"User:root", "User:a,b"}
    assert broker.acls.authorizer.allows_without_acl


def test_another_authorizer_is_refused() -> None:
    with pytest.raises(SettingError, match=r"authorizer\.class\.name"):
        RestrictedBroker(authorizer_class_name="org.example.MyAuthorizer")


def test_rows_of_the_file_hold_every_part() -> None:
    """testAclOperations, testAclOperations2, testAclDescribe, testAclDelete. testAttemptToCreateInvalidAcls."""
    memory = MemoryFileSystem()
    broker = RestrictedBroker(memory)
    acl = broker.deny("eve", WRITE, AclResourceType.TRANSACTIONAL_ID, "x", pattern=PREFIXED, host="10.0.0.0/8")
    assert RestrictedBroker(memory).acls.authorizer.acls == (acl,)
    assert isinstance(acl, Acl)


def test_the_first_versions_see_literal_entries_alone() -> None:
    """testLegacyAclOpsNeverAffectOrReturnPrefixed."""
    broker = RestrictedBroker()
    create(broker, creation("ab"), creation("a", READ, PREFIXED))
    legacy = DescribeAclsRequest(ANY, "ab", operation=ANY, permission_type=ANY)
    codes = [resource.pattern_type for resource in broker.ask("admin", legacy, 1).resources]
    assert codes == [LITERAL]
    filters = [DeleteAclsFilter(ANY, name, operation=ANY, permission_type=ANY) for name in ("a", "ab")]
    response = broker.ask("admin", DeleteAclsRequest(filters), 1)
    assert [len(result.matching_acls) for result in response.filter_results] == [0, 1]
    assert described(broker) == [("a", PREFIXED, [READ])]


def test_who_may_not_alter_the_cluster_alters_no_entry() -> None:
    """testAclAuthorizationDenied: DESCRIBE shows them, and only ALTER changes them."""
    broker = RestrictedBroker()
    create(broker, creation("a"))
    wanted = DescribeAclsRequest(ANY, resource_name_filter=None, operation=ANY, permission_type=ANY)
    filters = [DeleteAclsFilter(ANY, "a", LITERAL, operation=ANY, permission_type=ANY)]
    denied = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert broker.ask("alice", wanted, 3).error_code == denied
    broker.allow("alice", AclOperation.DESCRIBE, CLUSTER, "kafka-cluster")
    assert broker.ask("alice", wanted, 3).error_code == ErrorCode.NONE
    (created,) = broker.ask("alice", CreateAclsRequest([creation("b")]), 3).results
    (deleted,) = broker.ask("alice", DeleteAclsRequest(filters), 3).filter_results
    assert (created.error_code, deleted.error_code) == (denied, denied)
    assert ("a", LITERAL, [READ]) in described(broker)


@pytest.mark.parametrize("version", range(4))
async def test_acls_need_an_authorizer(version: int) -> None:
    async with broker() as connect:
        client = await connect()
        described = await client.ask(
            DescribeAclsRequest(ANY_FILTER, operation=ANY_FILTER, permission_type=ANY_FILTER),
            DescribeAclsResponse,
            version,
        )
        assert (described.error_code, described.resources) == (ErrorCode.SECURITY_DISABLED, [])
        creations = [AclCreation(2, name, 3, "User:a", "*", 3, 3) for name in ("t", "u")]
        created = await client.ask(CreateAclsRequest(creations), CreateAclsResponse, version)
        assert [r.error_code for r in created.results] == [ErrorCode.SECURITY_DISABLED] * 2
        matching = DeleteAclsFilter(ANY_FILTER, operation=ANY_FILTER, permission_type=ANY_FILTER)
        deleted = await client.ask(DeleteAclsRequest([matching]), DeleteAclsResponse, version)
        assert [r.error_code for r in deleted.filter_results] == [ErrorCode.SECURITY_DISABLED]


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
