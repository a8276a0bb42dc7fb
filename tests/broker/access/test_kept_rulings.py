"""The rulings that an authorizer keeps: bounded in number and length, and none outlives its ACLs."""

from __future__ import annotations

import pytest

from coterie.authorizer import authorizer
from coterie.authorizer.acls import Acl, AclOperation, AclResourceType, PatternType, Permission
from coterie.authorizer.authorizer import Authorizer

ALLOWED = Acl(AclResourceType.GROUP, "g", PatternType.PREFIXED, "User:a", "*", AclOperation.READ, Permission.ALLOW)


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
