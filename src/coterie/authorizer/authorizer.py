"""Whether a principal may do something, and the rule that decides, in Kafka's order (StandardAuthorizerData of Kafka 4).

Super users may do everything. Otherwise an entry for the resource that denies refuses, one that allows permits, and where no
entry is about the resource at all, allow.everyone.if.no.acl.found says. An entry is about a resource when its pattern covers
the name, whatever its principal.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection, Iterable, Iterator
from enum import Enum
from functools import lru_cache
from typing import NamedTuple

from coterie.authorizer.acls import (
    EVERY_USER,
    WILDCARD,
    Acl,
    AclFilter,
    AclOperation,
    AclResourceType,
    PatternType,
    Permission,
)

_O = AclOperation
# operation -> the operations of entries that allow it; an entry that denies is about its own operation alone
_ALLOWED_BY: dict[AclOperation, frozenset[AclOperation]] = {
    **{operation: frozenset({operation, _O.ALL}) for operation in AclOperation},
    _O.DESCRIBE: frozenset({_O.DESCRIBE, _O.READ, _O.WRITE, _O.DELETE, _O.ALTER, _O.ALL}),
    _O.DESCRIBE_CONFIGS: frozenset({_O.DESCRIBE_CONFIGS, _O.ALTER_CONFIGS, _O.ALL}),
}


class Reason(Enum):
    """The kind of rule that decides."""

    SUPER_USER = "the principal is one of super.users"
    DENIED = "an ACL denies it"
    ALLOWED = "an ACL allows it"
    NO_ACL = "no ACL is about the resource, and allow.everyone.if.no.acl.found decides"
    NO_ALLOWING_ACL = "there are ACLs for the resource, and none allows it"


class Ruling(NamedTuple):
    """``acl``: the entry that decides, of DENIED and ALLOWED."""

    is_allowed: bool
    reason: Reason
    acl: Acl | None = None

    @property
    def rule(self) -> str:
        """The rule that decided, in words."""
        return self.reason.value if self.acl is None else f"{self.reason.value}: {self.acl.text}"

    @property
    def text(self) -> str:
        """The decision and its rule in one line."""
        return f"{'allowed' if self.is_allowed else 'denied'}: {self.rule}"


# Rulings are kept, since a member has the same one for each of its heartbeats; not of names that could fill the memory.
MOST_KEPT, KEPT_LENGTH = 10_000, 512


class _OfType:
    """The entries of one type of resource. ``lengths``: of the prefixes, longest first."""

    __slots__ = ("lengths", "literal", "prefixed")

    def __init__(self) -> None:
        self.literal: dict[str, list[Acl]] = {}
        self.prefixed: dict[str, list[Acl]] = {}
        self.lengths: tuple[int, ...] = ()

    def add(self, acl: Acl) -> None:
        by_name = self.prefixed if acl.pattern_type is PatternType.PREFIXED else self.literal
        by_name.setdefault(acl.name, []).append(acl)
        if by_name is self.prefixed and len(acl.name) not in self.lengths:
            self.lengths = tuple(sorted({*self.lengths, len(acl.name)}, reverse=True))

    def about(self, name: str) -> Iterator[Acl]:
        """The entries whose pattern covers a name."""
        yield from self.literal.get(name, ())
        for length in self.lengths:
            if length <= len(name):
                yield from self.prefixed.get(name[:length], ())
        if name != WILDCARD:
            yield from self.literal.get(WILDCARD, ())


class Authorizer:
    """Decides by a set of entries, which never changes; `with_acls` makes one of others."""

    def __init__(
        self, acls: Iterable[Acl] = (), super_users: Collection[str] = (), *, allows_without_acl: bool = False
    ) -> None:
        self.acls = tuple(sorted(set(acls)))
        self.super_users = frozenset(super_users)
        self.allows_without_acl = allows_without_acl
        self._rulings: dict[tuple[str, str, AclOperation, AclResourceType, str], Ruling] = {}
        self._by_type: dict[AclResourceType, _OfType] = {}
        for acl in self.acls:
            self._by_type.setdefault(acl.resource_type, _OfType()).add(acl)

    def with_acls(self, acls: Iterable[Acl]) -> Authorizer:
        """One with the same settings and other entries."""
        return Authorizer(acls, self.super_users, allows_without_acl=self.allows_without_acl)

    def matching(self, wanted: AclFilter) -> list[Acl]:
        """The entries that a filter describes."""
        return [acl for acl in self.acls if wanted.matches(acl)]

    def decide(
        self, principal: str, host: str, operation: AclOperation, resource_type: AclResourceType, name: str
    ) -> Ruling:
        """``host``: the address of the client, without a name."""
        key = principal, host, operation, resource_type, name
        ruling = self._rulings.get(key)
        if ruling is None:
            ruling = self._decided(*key)
            if len(principal) + len(name) <= KEPT_LENGTH:
                if len(self._rulings) >= MOST_KEPT:
                    self._rulings.clear()
                self._rulings[key] = ruling
        return ruling

    def _decided(
        self, principal: str, host: str, operation: AclOperation, resource_type: AclResourceType, name: str
    ) -> Ruling:
        if principal in self.super_users:
            return Ruling(True, Reason.SUPER_USER)
        of_type, allowing, has_acls = self._by_type.get(resource_type), None, False
        for acl in of_type.about(name) if of_type is not None else ():
            has_acls = True
            if acl.principal not in (principal, EVERY_USER) or not covers(acl.host, host):
                continue
            if acl.permission is Permission.DENY:
                if acl.operation in (operation, AclOperation.ALL):
                    return Ruling(False, Reason.DENIED, acl)
            elif allowing is None and acl.operation in _ALLOWED_BY[operation]:
                allowing = acl
        if allowing is not None:
            return Ruling(True, Reason.ALLOWED, allowing)
        return Ruling(False, Reason.NO_ALLOWING_ACL) if has_acls else Ruling(self.allows_without_acl, Reason.NO_ACL)

    def allows_for_any(
        self, principal: str, host: str, operation: AclOperation, resource_type: AclResourceType
    ) -> bool:
        """Whether the principal may do it to at least one resource of the type (KIP-679): an entry allows it, and no entry that
        denies it covers all of that one."""
        if self.decide(principal, host, operation, resource_type, "hardcode").is_allowed:
            return True  # Kafka looks at this name first
        of_type = self._by_type.get(resource_type, _OfType())
        allowing, denied, denied_prefixes = list[Acl](), set[str](), set[str]()
        for by_name in (of_type.literal, of_type.prefixed):
            for acl in (acl for acls in by_name.values() for acl in acls):
                is_about = acl.principal in (principal, EVERY_USER) and acl.operation in (operation, AclOperation.ALL)
                if not is_about or not covers(acl.host, host):
                    continue
                if acl.permission is Permission.ALLOW:
                    allowing.append(acl)
                elif by_name is of_type.prefixed:
                    denied_prefixes.add(acl.name)
                else:
                    denied.add(acl.name)
        if WILDCARD in denied:
            return False
        for acl in allowing:
            is_literal = acl.pattern_type is PatternType.LITERAL
            if is_literal and acl.name == WILDCARD:
                return True
            if not (is_literal and acl.name in denied) and not acl.name.startswith(tuple(denied_prefixes)):
                return True
        return False


def is_network(host: str) -> bool:
    """Whether the host of an entry is an address or a network (KIP-1276)."""
    try:
        ipaddress.ip_network(host, strict=False)
    except ValueError:
        return False
    return True


@lru_cache(maxsize=4096)
def covers(pattern: str, host: str) -> bool:
    """Whether the host of an entry, exact, `WILDCARD` or a network, covers the address of a client."""
    if pattern in (WILDCARD, host):
        return True
    if "/" not in pattern and ":" not in pattern:
        return False
    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(pattern, strict=False)
    except ValueError:
        return False
