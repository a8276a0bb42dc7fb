"""Scenarios of the authorizer (tests/spec/authorizer): what entries there are, and which rule decides a request.

== testTopicAcl
allow User:alice READ topic:foo host=192.168.1.2
ask User:alice READ topic:foo host=192.168.1.2
    allowed: an ACL allows it: ALLOW User:alice READ on topic foo from host 192.168.1.2
ask User:alice WRITE topic:foo
    denied: there are ACLs for the resource, and none allows it

``pattern=prefixed`` makes a resource's name a prefix, or in a filter ``any`` or ``match``. Clients come from 192.168.0.1 unless
``host`` says otherwise; the host of an entry is `*`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from coterie.authorizer.acls import (
    WILDCARD,
    Acl,
    AclFilter,
    AclOperation,
    AclResourceType,
    PatternType,
    Permission,
    check,
)
from coterie.authorizer.authorizer import Authorizer
from coterie.wire.errors import Refusal
from coterie_conformance.scenarios.groups.scenario import run_step

Options = dict[str, str]
_CLIENT = "192.168.0.1"


class AuthorizerScenario:
    """One authorizer."""

    def __init__(self) -> None:
        self.authorizer = Authorizer()
        self._trace: list[str] = []
        self.verbs: dict[str, Callable[[list[str], Options], None]] = {
            "super": self._super,
            "everyone": self._everyone,
            "allow": lambda words, options: self._add(Permission.ALLOW, words, options),
            "deny": lambda words, options: self._add(Permission.DENY, words, options),
            "remove": self._remove,
            "ask": self._ask,
            "operations": self._operations,
            "any": self._any,
            "list": self._list,
        }

    def step(self, line: str) -> list[str]:
        """Runs one step; returns its trace. Raises ScenarioError."""
        self._trace = []
        run_step(self.verbs, line)
        return self._trace

    def _super(self, words: list[str], options: Options) -> None:
        """``super User:a User:b``: super.users."""
        old = self.authorizer
        self.authorizer = Authorizer(old.acls, words, allows_without_acl=old.allows_without_acl)

    def _everyone(self, words: list[str], options: Options) -> None:
        """allow.everyone.if.no.acl.found becomes true."""
        self.authorizer = Authorizer(self.authorizer.acls, self.authorizer.super_users, allows_without_acl=True)

    def _add(self, permission: Permission, words: list[str], options: Options) -> None:
        """``allow User:a READ,WRITE topic:t host=H``; `deny` likewise."""
        principal, operations, resource = words
        resource_type, name = _resource(resource)
        pattern = PatternType[options.get("pattern", "literal").upper()]
        for operation in operations.split(","):
            host = options.get("host", WILDCARD)
            acl = Acl(resource_type, name, pattern, principal, host, AclOperation[operation], permission)
            try:
                check(acl)
            except Refusal as refusal:
                self._trace.append(f"{refusal.code.name}: {refusal.message}")
            else:
                self.authorizer = self.authorizer.with_acls([*self.authorizer.acls, acl])

    def _remove(self, words: list[str], options: Options) -> None:
        """``remove topic:t principal=User:a operation=READ permission=ALLOW``: all that the filter describes."""
        removed = self.authorizer.matching(_filter(words, options))
        self.authorizer = self.authorizer.with_acls(acl for acl in self.authorizer.acls if acl not in removed)

    def _list(self, words: list[str], options: Options) -> None:
        """`list`: all, or what a filter as that of `remove` describes."""
        self._print(self.authorizer.matching(_filter(words, options)))

    def _print(self, acls: Iterable[Acl]) -> None:
        self._trace += [acl.text for acl in acls] or ["none"]

    def _ask(self, words: list[str], options: Options) -> None:
        """``ask User:a READ topic:t host=H``."""
        principal, operation, resource = words
        host = options.get("host", _CLIENT)
        self._trace.append(self.authorizer.decide(principal, host, AclOperation[operation], *_resource(resource)).text)

    def _operations(self, words: list[str], options: Options) -> None:
        """``operations User:a topic:t``: all that are allowed."""
        principal, resource = words
        allowed = [
            operation.name
            for operation in AclOperation
            if operation > AclOperation.ANY
            and self.authorizer.decide(principal, _CLIENT, operation, *_resource(resource)).is_allowed
        ]
        self._trace.append(" ".join(allowed) or "none")

    def _any(self, words: list[str], options: Options) -> None:
        """``any User:a WRITE topic``: whether the principal may do it to at least one resource of the type."""
        principal, operation, kind = words
        own = principal, options.get("host", _CLIENT), AclOperation[operation], AclResourceType[kind.upper()]
        self._trace.append("allowed" if self.authorizer.allows_for_any(*own) else "denied")


def _resource(text: str) -> tuple[AclResourceType, str]:
    """``topic:t``."""
    kind, _, name = text.partition(":")
    return AclResourceType[kind.upper()], name


def _filter(words: list[str], options: Options) -> AclFilter:
    kind, name = _resource(words[0]) if words else (AclResourceType.ANY, "")
    return AclFilter(
        kind,
        name or None,
        PatternType[options.get("pattern", "literal" if name else "any").upper()],
        options.get("principal"),
        options.get("host"),
        AclOperation[options.get("operation", "ANY")],
        Permission[options.get("permission", "ANY")],
    )
