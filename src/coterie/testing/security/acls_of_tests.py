"""The ACLs that a test gives a broker, which may have no authorizer of its own."""

from __future__ import annotations

from collections.abc import Callable

from coterie.authorizer.acls import (
    CLUSTER_NAME,
    EVERY_USER,
    Acl,
    AclOperation,
    AclResourceType,
    PatternType,
    Permission,
)
from coterie.broker.broker import Broker
from coterie.broker.handlers.services import Handler

ACL_TYPES = (AclResourceType.TOPIC, AclResourceType.GROUP, AclResourceType.CLUSTER, AclResourceType.TRANSACTIONAL_ID)
Handlers = dict[int, Handler]
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
    for kind in ACL_TYPES
]


def alter_acls(broker: Broker, wrap: Callable[[Handlers], Handlers], added: list[Acl], removed: list[Acl]) -> None:
    """Alters the ACLs of one broker. A broker without an authorizer has one from then on, which allows everything else:
    ``wrap`` is for the handlers that it uses then."""
    if broker.clients.acls is None:
        from coterie.broker.clients.acls import Acls
        from coterie.broker.handlers import HANDLERS
        from coterie.broker.handlers.access.checks import authorized
        from coterie.log.filesystem import MemoryFileSystem

        broker.clients.acls = Acls(MemoryFileSystem(broker.clock.now_ms), broker.settings.current, is_alone=True)
        broker.clients.acls.alter(_EVERYTHING)
        broker.handlers = wrap(authorized(HANDLERS))
    broker.clients.acls.alter(added, removed)
