"""Starts coterie and Apache Kafka with an authorizer, and asks both the stories, a few users at a time.

Administrators come by a listener without authentication, whose anonymous user is a super user on both sides. Users log in to
Kafka by SASL/PLAIN. Of coterie the authorizer is compared: a user's connections come by a listener of that user's own.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from coterie.authentication.principal import USER, Principal
from coterie.authorizer.acls import Acl, AclFilter, AclOperation, AclResourceType, PatternType, Permission
from coterie.broker.broker import Broker
from coterie.broker.cluster.access_nodes import AclNodes
from coterie.broker.cluster.zookeeper.session import KazooSession
from coterie.broker.connections.accepted_connection import AcceptedConnection
from coterie.broker.settings import BrokerSettings
from coterie.certify.settling import wait_for_coordinator
from coterie.certify.side import StorySide
from coterie.client.admin.admin import Admin
from coterie.client.security import PLAINTEXT, Security
from coterie.controller.changes import acl_changes
from coterie.controller.changes.acl_changes import AclResource
from coterie.text.addresses import format_address
from coterie.zookeeper.operations import List, Read, Znode
from coterie_conformance.access.stories import ALICE, Case, cases
from coterie_conformance.differences.table import ROWS
from coterie_conformance.everything.comparison import AGREE_S, Comparer, Comparison
from coterie_conformance.everything.judge import Address, JudgeResult, common_versions
from coterie_conformance.everything.run import settings_for
from coterie_conformance.servers.kafka import KafkaBroker, on_zookeeper

ACLS_KNOWN_S = (
    120.0  # after the stories Kafka 2.6 has thousands of notifications, and looks at all of them for each change
)
_KINDS = (
    AclResourceType.TOPIC,
    AclResourceType.GROUP,
    AclResourceType.TRANSACTIONAL_ID,
    AclResourceType.DELEGATION_TOKEN,
)
USERS = tuple(f"user{n}" for n in range(6))  # at a time
PASSWORD = "secret"
STANDARD = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
OF_ZOOKEEPER = "kafka.security.authorizer.AclAuthorizer"
_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"


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


async def _check_zookeeper(kafka: Address, zookeeper: str) -> dict[str, bool]:
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
    """Whether Kafka describes these within `ACLS_KNOWN_S`."""
    ends_s = asyncio.get_running_loop().time() + ACLS_KNOWN_S
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


Progress = Callable[[str], None]


def run_access(
    version: str, questions: int, seed: int, folder: Path, progress: Progress
) -> tuple[JudgeResult, dict[str, bool]]:
    """The outcome of the stories, and what holds of the ACLs in ZooKeeper where that Kafka has one. Raises CannotRun."""
    ours, theirs = settings_for(version)
    own = {
        "authorizer.class.name": OF_ZOOKEEPER if on_zookeeper(version) else STANDARD,
        "super.users": "User:ANONYMOUS",
    }
    kafka = KafkaBroker(version, folder, theirs | own)
    users = " ".join(f'user_{user}="{PASSWORD}"' for user in USERS)
    by_users = kafka.listen_also(
        "SASL_PLAINTEXT",
        {
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT",
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": f"{_MODULE} required {users};",
        },
    )

    def login(user: str) -> tuple[Address, Security]:
        return by_users, Security("SASL_PLAINTEXT", mechanism="PLAIN", username=user, password=PASSWORD)

    try:
        kafka.start()
        wait_for_coordinator(kafka.address)
        numbers = tuple(int(part) for part in version.split("."))
        theirs_now = Peer(kafka.address, login)
        verdict = asyncio.run(_beside_ours(ours | own, theirs_now, numbers, (questions, seed), progress))
        if not on_zookeeper(version):
            return verdict, {}
        return verdict, asyncio.run(_check_zookeeper(kafka.address, kafka.zookeeper_address))
    finally:
        kafka.stop()


@dataclass(frozen=True, slots=True)
class Peer:
    """A broker that is asked. ``login``: where the connections of a user go, and how they log in."""

    address: Address
    login: Callable[[str], tuple[Address, Security]]


async def _beside_ours(
    settings: dict[str, str], theirs: Peer, version: tuple[int, ...], wanted: tuple[int, int], progress: Progress
) -> JudgeResult:
    async with our_broker(settings) as ours:
        await asyncio.to_thread(wait_for_coordinator, ours.address)
        return await ask(ours, theirs, version, wanted, progress)


async def ask(
    ours: Peer, theirs: Peer, version: tuple[int, ...], wanted: tuple[int, int], progress: Progress
) -> JudgeResult:
    """``wanted``: how many questions at least, and the seed of their order."""
    questions, seed = wanted
    verdict = JudgeResult(".".join(map(str, version)))
    common = await common_versions((ours.address, theirs.address))
    every = list(cases(common))
    random.Random(seed).shuffle(every)
    remaining, numbers, began_s = iter(every), itertools.count(), time.monotonic()

    async def compare(case: Case, user: str, number: int) -> Comparison:
        """Once more where the sides differ: Kafka's brokers learn of an ACL a little after their controller."""
        story = case.story(user, common)
        for attempt in "01":
            prefix, base_ms = f"a{attempt}{number:06d}-", int(time.time()) * 1000
            us, them = (
                StorySide(name, peer.address, prefix, base_ms, others={ALICE: peer.login(user)})
                for name, peer in (("coterie", ours), ("kafka", theirs))
            )
            comparison = await Comparer((us, them), version, AGREE_S, None, ROWS).compare(story)
            await asyncio.gather(us.sweep(story), them.sweep(story))
            if not comparison.differences:
                break
        return comparison

    async def worker(user: str) -> None:
        for case in remaining:
            if verdict.requested >= questions:
                return
            verdict.add(await compare(case, user, next(numbers)))
            if verdict.stories % 100 == 0:
                rate = verdict.requested / (time.monotonic() - began_s)
                progress(
                    f"{verdict.requested:,} questions, {rate:.0f} a second, {len(verdict.kinds)} kinds of difference"
                )

    await asyncio.gather(*(worker(user) for user in USERS))
    verdict.seconds = time.monotonic() - began_s
    return verdict


@asynccontextmanager
async def our_broker(settings: dict[str, str]) -> AsyncIterator[Peer]:
    """With a listener for each user."""
    broker = Broker(BrokerSettings(settings))
    address = await broker.start("127.0.0.1", 0)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(broker.stop)
        of_user: dict[str, Address] = {}
        for user in USERS:
            server = await broker.loop.create_server(partial(UserConnection, broker, user), "127.0.0.1", 0)
            stack.callback(server.close)
            of_user[user] = server.sockets[0].getsockname()[:2]
        yield Peer(address, lambda user: (of_user[user], PLAINTEXT))


class UserConnection(AcceptedConnection):
    """A connection of a listener whose clients are all one user."""

    def __init__(self, broker: Broker, user: str) -> None:
        super().__init__(broker)
        self.connection.principal = Principal(USER, user)
