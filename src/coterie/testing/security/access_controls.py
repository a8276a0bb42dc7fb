"""What a test may deny its clients: ACLs of a `LocalBroker` in its own process, in force while a with-block runs."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from coterie.authorizer.acls import (
    EVERY_USER,
    Acl,
    AclOperation,
    AclResourceType,
    PatternType,
    Permission,
)
from coterie.testing.argument_checks import checked_arguments
from coterie.testing.loop_thread import WAIT_S
from coterie.testing.security.acls_of_tests import ACL_TYPES, alter_acls

if TYPE_CHECKING:
    from coterie.broker.broker import Broker
    from coterie.testing.cluster_brokers import ClusterBrokers
    from coterie.testing.faults import Faults

__tracebackhide__ = True  # for pytest: a failure is shown where the test called

T = TypeVar("T")


@checked_arguments
class AccessControls(ABC):
    """Each method raises ValueError for an operation that Kafka does not have, and for another number of resources than one."""

    faults: Faults
    broker: Broker
    _cluster: ClusterBrokers | None

    @abstractmethod
    def _call(self, what: Callable[[], T]) -> T:
        """Carries it out on the broker's loop."""

    @abstractmethod
    def _on_loop(self, work: Any, timeout_s: float) -> Any:
        """Runs a coroutine on that loop."""

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
        ends. A broker without an authorizer has one from then on, which allows everything else. In a cluster each broker
        obeys, also one that starts meanwhile."""
        resource = _resource("deny", topic, group, transactional_id)
        denied = _operation(operation)
        return self._denied(Acl(*resource, PatternType.LITERAL, principal, "*", denied, Permission.DENY))

    def _denied(self, acl: Acl) -> contextlib.AbstractContextManager[None]:
        return self._in_force(acl)

    @contextlib.contextmanager
    def _in_force(self, acl: Acl) -> Iterator[None]:
        self._alter_acls([acl], [])
        try:
            yield
        finally:
            self._alter_acls([], [acl])

    def _alter_acls(self, added: list[Acl], removed: list[Acl]) -> None:
        if self._cluster is not None:
            self._on_loop(self._cluster.alter_acls(added, removed), WAIT_S)
            return
        broker = self.broker
        self._call(lambda: alter_acls(broker, self.faults.wrap, added, removed))


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
    resources = [(kind, name) for kind, name in zip(ACL_TYPES, names, strict=True) if name is not None]
    if len(resources) != 1:
        raise ValueError(f"{what} needs one resource: topic, group or transactional_id")
    return resources[0]


def _operation(name: str) -> AclOperation:
    known = [one.name for one in AclOperation if one > AclOperation.ANY]
    if name.upper() not in known:
        raise ValueError(f"operation must be one of {', '.join(known)}, not {name!r}")
    return AclOperation[name.upper()]
