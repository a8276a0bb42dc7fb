"""The ACLs of a cluster: all are read at the start, and each resource again when a notification names it (Kafka's AclAuthorizer
2.6). Notifications that every broker had time to read are deleted.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from itertools import chain

from coterie.authorizer.acls import Acl, PatternType
from coterie.controller.changes import acl_nodes
from coterie.controller.changes.acl_nodes import AclResource
from coterie.controller.changes.notifications import NotificationScript
from coterie.machines.script import Steps, Wait
from coterie.zookeeper.operations import Corrupt, List, Read, Znode

PATTERNS = (PatternType.LITERAL, PatternType.PREFIXED)


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
        """The watch of a path of `acl_nodes.CHANGES` fired."""
        self._changed.add(path)
        self.nudge()

    def written(self, resource: AclResource, acls: list[Acl]) -> AclsRead:
        """This broker has altered the entries of a resource, and knows them before its notification comes back."""
        self._by_resource[resource] = acls
        return self._effect()

    def _read_at_start(self) -> Steps[None]:
        """The watches are set before the ACLs are read, so that no change is missed."""
        for pattern in PATTERNS:
            self._changed.discard(acl_nodes.CHANGES[pattern])
            yield from self._watch(acl_nodes.CHANGES[pattern])
        by_resource = {}
        for pattern in PATTERNS:
            for kind in acl_nodes.TYPES:
                for name in (yield from self.perform(List(acl_nodes.type_path(pattern, kind)))):
                    resource = AclResource(pattern, kind, name)
                    by_resource[resource] = yield from self._read(resource)
        self._by_resource = by_resource
        yield self._effect()

    def _step(self) -> Steps[None]:
        for pattern in PATTERNS:
            if acl_nodes.CHANGES[pattern] in self._changed:
                self._changed.discard(acl_nodes.CHANGES[pattern])
                yield from self._read_new(pattern)
                return
        yield Wait(None)

    def _read_new(self, pattern: PatternType) -> Steps[None]:
        resources: dict[AclResource, None] = {}
        for data in (yield from self._notified(acl_nodes.CHANGES[pattern])):
            with suppress(Corrupt):  # a tool's mistake
                resources[acl_nodes.changed_resource(pattern, data)] = None
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
            return acl_nodes.of_data(resource, node.data)
        except Corrupt:
            return []

    def _effect(self) -> AclsRead:
        return AclsRead(tuple(chain.from_iterable(self._by_resource.values())))
