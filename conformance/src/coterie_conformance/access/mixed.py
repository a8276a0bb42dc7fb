"""One set of ACLs in ZooKeeper: Kafka's broker writes and ours reads, ours writes and Kafka's obeys (AclAuthorizer 2.6)."""

from __future__ import annotations

import asyncio

from coterie.authorizer.acls import Acl, AclFilter, AclOperation, AclResourceType, PatternType, Permission
from coterie.broker.cluster.access_nodes import AclNodes
from coterie.broker.cluster.zookeeper.kazoo_session import KazooSession
from coterie.client.admin.admin import Admin
from coterie.controller.changes import acl_changes
from coterie.controller.changes.acl_changes import AclResource
from coterie.text.addresses import format_address
from coterie.zookeeper.operations import List, Read, Znode
from coterie_conformance.everything.judge import Address

AGREE_S = 120.0  # after the stories Kafka 2.6 has thousands of notifications, and looks at all of them for each change
_KINDS = (
    AclResourceType.TOPIC,
    AclResourceType.GROUP,
    AclResourceType.TRANSACTIONAL_ID,
    AclResourceType.DELEGATION_TOKEN,
)


def every_kind(user: str) -> list[Acl]:
    """An entry of each type of resource and pattern, operation and permission that 2.6 has."""
    entries = [
        Acl(kind, f"of-{user}", pattern, f"User:{user}", host, operation, permission)
        for kind in _KINDS
        for pattern in (PatternType.LITERAL, PatternType.PREFIXED)
        for host in ("*", "10.0.0.1")
        for operation in (AclOperation.READ, AclOperation.DESCRIBE_CONFIGS, AclOperation.ALL)
        for permission in (Permission.ALLOW, Permission.DENY)
    ]
    cluster = AclOperation.IDEMPOTENT_WRITE, Permission.ALLOW
    return [
        *entries,
        Acl(AclResourceType.CLUSTER, "kafka-cluster", PatternType.LITERAL, f"User:{user}", "*", *cluster),
        Acl(AclResourceType.TOPIC, "*", PatternType.LITERAL, f"User:{user}", "*", AclOperation.READ, Permission.ALLOW),
    ]


async def check_zookeeper(kafka: Address, zookeeper: str) -> dict[str, bool]:
    """What holds, by name. Raises KafkaError, ZooKeeperError."""
    session = await KazooSession(_NoEvents()).open(zookeeper, 30_000, 30_000)
    try:
        async with Admin({"bootstrap.servers": format_address(*kafka)}) as admin:
            theirs, ours = sorted(every_kind("theirs")), sorted(every_kind("ours"))
            await admin.create_acls(theirs)
            checks = {"what Kafka writes is read": await _in_zookeeper(session, "User:theirs") == theirs}
            nodes = AclNodes(session.apply, lambda resource, acls: None)
            await nodes.alter(ours)
            checks["what coterie writes is obeyed"] = await _agrees(admin, "ours", ours)
            await nodes.alter((), ours)
            checks["what coterie removes is gone"] = await _agrees(admin, "ours", [])
            return checks
    finally:
        await session.close()


async def _agrees(admin: Admin, user: str, wanted: list[Acl]) -> bool:
    """Whether Kafka describes these within `AGREE_S`."""
    ends_s = asyncio.get_running_loop().time() + AGREE_S
    while await admin.describe_acls(AclFilter(principal=f"User:{user}")) != wanted:
        if asyncio.get_running_loop().time() > ends_s:
            return False
        await asyncio.sleep(0.1)
    return True


async def _in_zookeeper(session: KazooSession, principal: str) -> list[Acl]:
    acls: list[Acl] = []
    for pattern in acl_changes.ROOTS:
        for kind in acl_changes.TYPES:
            names: list[str] = await session.apply(List(acl_changes.type_path(pattern, kind)))  # type: ignore[assignment]
            for name in names:
                resource = AclResource(pattern, kind, name)
                node = await session.apply(Read(resource.path))
                acls += acl_changes.of_data(resource, node.data) if isinstance(node, Znode) else []
    return sorted(acl for acl in acls if acl.principal == principal)


class _NoEvents:
    """Nothing is watched."""

    def changed(self, path: str) -> None: ...

    def suspended(self) -> None: ...

    def connected(self) -> None: ...

    def expired(self) -> None: ...
