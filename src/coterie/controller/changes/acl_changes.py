"""The ACLs of a cluster in ZooKeeper (Kafka's AclAuthorizer 2.6 and ZkData): their nodes, one for each resource pattern, and a
machine that reads all at the start, and each resource again when a notification names it.

/kafka-acl/TYPE/NAME                      literal   {"version":1,"acls":[{principal, permissionType, operation, host}]}
/kafka-acl-extended/prefixed/TYPE/NAME    prefixed  the same
/kafka-acl-changes/acl_changes_N          sequential: TYPE:NAME, whose literal entries were altered
/kafka-acl-extended-changes/acl_changes_N sequential: {"version":1,"resourceType","name","patternType"}
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from enum import IntEnum
from itertools import chain
from typing import NamedTuple, TypeVar

from coterie.authorizer.acls import Acl, AclOperation, AclResourceType, PatternType, Permission
from coterie.controller.session_script import NotificationScript
from coterie.machines.script import Steps, Wait
from coterie.zookeeper.operations import Corrupt, List, Read, Znode

E = TypeVar("E", bound=IntEnum)
ROOTS = {PatternType.LITERAL: "/kafka-acl", PatternType.PREFIXED: "/kafka-acl-extended/prefixed"}
CHANGES = {PatternType.LITERAL: "/kafka-acl-changes", PatternType.PREFIXED: "/kafka-acl-extended-changes"}
CHANGE_PREFIX = "acl_changes_"
TYPES = [kind for kind in AclResourceType if kind > AclResourceType.ANY]
_MALFORMED = (ValueError, KeyError, TypeError, AttributeError, RecursionError)
PATTERNS = (PatternType.LITERAL, PatternType.PREFIXED)


class AclResource(NamedTuple):
    """The resource pattern of a node."""

    pattern_type: PatternType
    resource_type: AclResourceType
    name: str

    @property
    def path(self) -> str:
        """Of its node."""
        return f"{type_path(self.pattern_type, self.resource_type)}/{self.name}"

    @property
    def change(self) -> tuple[str, str]:
        """The path and the data of a notification that its entries were altered."""
        path = f"{CHANGES[self.pattern_type]}/{CHANGE_PREFIX}"
        if self.pattern_type is PatternType.LITERAL:
            return path, f"{self.resource_type.name}:{self.name}"
        parts = {
            "version": 1,
            "resourceType": self.resource_type.name,
            "name": self.name,
            "patternType": self.pattern_type.name,
        }
        return path, json.dumps(parts, separators=(",", ":"))


def resource_of(acl: Acl) -> AclResource:
    """The resource pattern of an entry."""
    return AclResource(acl.pattern_type, acl.resource_type, acl.name)


def type_path(pattern_type: PatternType, resource_type: AclResourceType) -> str:
    """The node above those of one type of resource."""
    return f"{ROOTS[pattern_type]}/{_camel(resource_type.name)}"


def changed_resource(pattern_type: PatternType, data: str) -> AclResource:
    """The resource of a notification. Raises Corrupt."""
    try:
        if pattern_type is PatternType.LITERAL:
            kind, _, name = data.partition(":")
        else:
            parts = json.loads(data)
            kind, name, pattern_type = parts["resourceType"], parts["name"], PatternType[parts["patternType"].upper()]
        return AclResource(pattern_type, _member(AclResourceType, kind), name)
    except _MALFORMED as error:
        raise Corrupt(f"a notification of ACLs holds {data[:200]!r}") from error


def to_data(acls: Iterable[Acl]) -> str:
    """What the node of a resource with these entries holds."""
    rows = [
        {
            "principal": acl.principal,
            "permissionType": _camel(acl.permission.name),
            "operation": _camel(acl.operation.name),
            "host": acl.host,
        }
        for acl in acls
    ]
    return json.dumps({"version": 1, "acls": rows}, separators=(",", ":"))


def of_data(resource: AclResource, data: str) -> list[Acl]:
    """The entries in a resource's node. Raises Corrupt."""
    if not data:
        return []
    try:
        return [
            Acl(
                resource.resource_type,
                resource.name,
                resource.pattern_type,
                row["principal"],
                row["host"],
                _member(AclOperation, row["operation"]),
                _member(Permission, row["permissionType"]),
            )
            for row in json.loads(data)["acls"]
        ]
    except _MALFORMED as error:
        raise Corrupt(f"{resource.path} holds {data[:200]!r}") from error


def _camel(name: str) -> str:
    """``TRANSACTIONAL_ID`` -> ``TransactionalId``, as Kafka's SecurityUtils."""
    return "".join(word.capitalize() for word in name.split("_"))


def _member(kind: type[E], name: str) -> E:
    """By a name in either form. Raises KeyError."""
    plain = name.replace("_", "").lower()
    for member in kind:
        if member.name.replace("_", "").lower() == plain:
            return member
    raise KeyError(name)


@dataclass(frozen=True, slots=True)
class AclsRead:
    """Effect: all ACLs of the cluster."""

    acls: tuple[Acl, ...]


class AclChanges(NotificationScript):
    """One for each broker with an authorizer. Inputs beside those of a NotificationScript: `changed` (a watch fired)."""

    def __init__(self, now_ms: int) -> None:
        super().__init__(now_ms)
        self._changed: set[str] = set()  # paths
        self._by_resource: dict[AclResource, list[Acl]] = {}

    def changed(self, path: str) -> None:
        """The watch of a path of `CHANGES` fired."""
        self._changed.add(path)
        self.nudge()

    def written(self, resource: AclResource, acls: list[Acl]) -> AclsRead:
        """This broker has altered the entries of a resource, and knows them before its notification comes back."""
        self._by_resource[resource] = acls
        return self._effect()

    def _read_at_start(self) -> Steps[None]:
        """The watches are set before the ACLs are read, so that no change is missed."""
        for pattern in PATTERNS:
            self._changed.discard(CHANGES[pattern])
            yield from self._watch(CHANGES[pattern])
        by_resource = {}
        for pattern in PATTERNS:
            for kind in TYPES:
                for name in (yield from self.perform(List(type_path(pattern, kind)))):
                    resource = AclResource(pattern, kind, name)
                    by_resource[resource] = yield from self._read(resource)
        self._by_resource = by_resource
        yield self._effect()

    def _step(self) -> Steps[None]:
        for pattern in PATTERNS:
            if CHANGES[pattern] in self._changed:
                self._changed.discard(CHANGES[pattern])
                yield from self._read_new(pattern)
                return
        yield Wait(None)

    def _read_new(self, pattern: PatternType) -> Steps[None]:
        resources: dict[AclResource, None] = {}
        for data in (yield from self._notified(CHANGES[pattern])):
            with suppress(Corrupt):  # a tool's mistake
                resources[changed_resource(pattern, data)] = None
        for resource in resources:
            self._by_resource[resource] = yield from self._read(resource)
        if resources:
            yield self._effect()
        yield from self._delete_old()

    def _read(self, resource: AclResource) -> Steps[list[Acl]]:
        """None where there is no such node, or one that is a tool's mistake: nobody may do by it what he could not before."""
        node: Znode | None = yield from self.perform(Read(resource.path))
        if node is None:
            return []
        try:
            return of_data(resource, node.data)
        except Corrupt:
            return []

    def _effect(self) -> AclsRead:
        return AclsRead(tuple(chain.from_iterable(self._by_resource.values())))
