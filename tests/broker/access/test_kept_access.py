"""What a connection keeps of its client's access ends with its principal, and no ruling of it outlives the ACLs. The
rulings that an authorizer keeps: bounded in number and length, and none outlives its ACLs."""

from __future__ import annotations

import pytest

from coterie.authentication.principal import USER, Principal
from coterie.authorizer import authorizer
from coterie.authorizer.acls import Acl, AclOperation, AclResourceType, PatternType, Permission
from coterie.authorizer.authorizer import Authorizer
from coterie.broker.clients.acls import Acls
from coterie.broker.handlers.access.access import Access, access_of
from coterie.broker.requests.calls import Call, ClientConnection
from coterie.log.filesystem import MemoryFileSystem
from tests.broker.access.restricted_broker import GROUP, RestrictedBroker

ALLOWED = Acl(AclResourceType.GROUP, "g", PatternType.PREFIXED, "User:a", "*", AclOperation.READ, Permission.ALLOW)


def access(broker: RestrictedBroker, connection: ClientConnection) -> Access:
    kept = access_of(broker, Call(0, "client", connection))
    assert kept is not None
    return kept


def connected(user: str) -> ClientConnection:
    return ClientConnection("/10.0.0.7", principal=Principal(USER, user))


def may_read(broker: RestrictedBroker, connection: ClientConnection) -> bool:
    return access(broker, connection).allows_group(AclOperation.READ, "g")


def test_it_is_kept_with_its_connection() -> None:
    broker, connection = RestrictedBroker(), connected("a")
    assert access(broker, connection) is access(broker, connection)
    assert access(broker, connection) is not access(broker, connected("a"))


def test_another_principal_has_its_own() -> None:
    """As after the login of a connection that sent ApiVersions before."""
    broker, connection = RestrictedBroker(), connected("ANONYMOUS")
    broker.allow("a", AclOperation.READ, GROUP, "g")
    assert not may_read(broker, connection)
    connection.principal = Principal(USER, "a")
    assert may_read(broker, connection)
    connection.principal = Principal(USER, "b")
    assert not may_read(broker, connection)


def test_a_change_of_the_acls_is_in_force_at_once() -> None:
    broker, connection = RestrictedBroker(), connected("a")
    assert not may_read(broker, connection)
    allowed = broker.allow("a", AclOperation.READ, GROUP, "g")
    assert may_read(broker, connection)
    broker.acls.alter(removed=[allowed])
    assert not may_read(broker, connection)
    broker.acls.replace([allowed])
    assert may_read(broker, connection)


def test_other_acls_of_the_broker_are_in_force_at_once() -> None:
    """As those of `deny` in a test."""
    broker, connection = RestrictedBroker(), connected("a")
    broker.allow("a", AclOperation.READ, GROUP, "g")
    assert may_read(broker, connection)
    broker.clients.acls = Acls(MemoryFileSystem(broker.clock.now_ms), broker.settings.current, is_alone=True)
    assert not may_read(broker, connection)


def test_a_denial_is_logged_again_after_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    broker, connection = RestrictedBroker(), connected("a")
    for _ in range(3):
        assert not may_read(broker, connection)
        assert not may_read(broker, connection)
        broker.world.run_until(broker.world.now_ms + 61_000)
    assert caplog.text.count("is denied READ on group g") == 3


def is_allowed(by: Authorizer, name: str) -> bool:
    return by.decide("User:a", "10.0.0.1", AclOperation.READ, AclResourceType.GROUP, name).is_allowed


def test_no_ruling_outlives_its_acls() -> None:
    before = Authorizer([ALLOWED])
    assert is_allowed(before, "g-1")
    assert not is_allowed(before.with_acls([]), "g-1")
    assert is_allowed(before, "g-1")


def test_the_kept_rulings_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(authorizer, "MOST_KEPT", 3)
    by = Authorizer([ALLOWED])
    for number in range(10):
        assert is_allowed(by, f"g-{number}")
        assert len(by._rulings) <= 3
    kept = len(by._rulings)
    assert is_allowed(by, "g" * 1_000)
    assert len(by._rulings) == kept
