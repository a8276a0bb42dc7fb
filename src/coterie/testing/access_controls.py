"""What a test may deny its clients: ACLs of a `LocalBroker` in its own process, in force while a with-block runs."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeVar

from coterie.authorizer.acls import (
    CLUSTER_NAME,
    EVERY_USER,
    Acl,
    AclOperation,
    AclResourceType,
    PatternType,
    Permission,
)
from coterie.testing.argument_checks import checked_arguments

if TYPE_CHECKING:
    from coterie.broker.broker import Broker
    from coterie.testing.cluster_brokers import ClusterBrokers
    from coterie.testing.faults import Faults

__tracebackhide__ = True  # for pytest: a failure is shown where the test called

T = TypeVar("T")
_TYPES = (AclResourceType.TOPIC, AclResourceType.GROUP, AclResourceType.CLUSTER, AclResourceType.TRANSACTIONAL_ID)


@checked_arguments
class AccessControls(ABC):
    """Each method raises ValueError for an operation that Kafka does not have, and for another number of resources than one."""

    faults: Faults
    broker: Broker
    _cluster: ClusterBrokers | None

    @abstractmethod
    def _call(self, what: Callable[[], T]) -> T:
        """Carries it out on the broker's loop."""

    def deny(
        self,
        operation: str,
        *,
        topic: str | None = None,
        group: str | None = None,
        transactional_id: str | None = None,
        principal: str = EVERY_USER,
    ) -> contextlib.AbstractContextManager[None]:
        """The principal, by default each one, may not do that (READ, WRITE, DESCRIBE, ...) to the resource until the with-block
        ends. A broker without an authorizer has one from then on, which allows everything else."""
        resource = _resource("deny", topic, group, transactional_id)
        denied = _operation(operation)
        return self._denied(Acl(*resource, PatternType.LITERAL, principal, "*", denied, Permission.DENY))

    def _denied(self, acl: Acl) -> contextlib.AbstractContextManager[None]:
        if self._cluster is not None:
            raise ValueError("deny needs a broker alone; create ACLs by an admin for a cluster")
        return self._in_force(acl)

    @contextlib.contextmanager
    def _in_force(self, acl: Acl) -> Iterator[None]:
        broker = self.broker
        self._call(lambda: self._add_acl(broker, acl))
        try:
            yield
        finally:
            self._call(lambda: self._remove_acl(broker, acl))

    def _add_acl(self, broker: Broker, acl: Acl) -> None:
        if broker.clients.acls is None:
            from coterie.broker.clients.acls import Acls
            from coterie.broker.handlers import HANDLERS
            from coterie.broker.handlers.access.checks import authorized
            from coterie.log.files.filesystem import MemoryFileSystem

            broker.clients.acls = Acls(MemoryFileSystem(broker.clock.now_ms), broker.settings.current, is_alone=True)
            broker.clients.acls.alter(_EVERYTHING)
            broker.handlers = self.faults.wrap(authorized(HANDLERS))
        broker.clients.acls.alter([acl])

    def _remove_acl(self, broker: Broker, acl: Acl) -> None:
        """The authorizer stays: it allows everything where the test's is the only one."""
        assert broker.clients.acls is not None
        broker.clients.acls.alter(removed=[acl])


def allow(
    operation: str,
    *,
    topic: str | None = None,
    group: str | None = None,
    transactional_id: str | None = None,
    principal: str = EVERY_USER,
    prefixed: bool = False,
) -> Acl:
    """An entry for ``acls`` of `LocalBroker`: the principal (User:NAME), by default each one, may do that to the resource, or,
    ``prefixed``, to each whose name begins so. Raises ValueError as `LocalBroker.deny` does."""
    resource = _resource("allow", topic, group, transactional_id)
    pattern = PatternType.PREFIXED if prefixed else PatternType.LITERAL
    return Acl(*resource, pattern, principal, "*", _operation(operation), Permission.ALLOW)


def _resource(
    what: str, topic: str | None, group: str | None, transactional_id: str | None
) -> tuple[AclResourceType, str]:
    names = (topic, group, None, transactional_id)
    resources = [(kind, name) for kind, name in zip(_TYPES, names, strict=True) if name is not None]
    if len(resources) != 1:
        raise ValueError(f"{what} needs one resource: topic, group or transactional_id")
    return resources[0]


def _operation(name: str) -> AclOperation:
    known = [one.name for one in AclOperation if one > AclOperation.ANY]
    if name.upper() not in known:
        raise ValueError(f"operation must be one of {', '.join(known)}, not {name!r}")
    return AclOperation[name.upper()]


_EVERYTHING = [
    Acl(
        kind,
        CLUSTER_NAME if kind is AclResourceType.CLUSTER else "*",
        PatternType.LITERAL,
        EVERY_USER,
        "*",
        AclOperation.ALL,
        Permission.ALLOW,
    )
    for kind in _TYPES
]
