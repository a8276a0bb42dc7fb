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
from coterie.broker.broker import Broker
from coterie.broker.connections.accepted_connection import AcceptedConnection
from coterie.broker.settings import BrokerSettings
from coterie.certify.settling import wait_for_coordinator
from coterie.certify.side import StorySide
from coterie.client.security import PLAINTEXT, Security
from coterie_conformance.access.mixed import check_zookeeper
from coterie_conformance.access.stories import ALICE, Case, cases
from coterie_conformance.differences.table import ROWS
from coterie_conformance.everything.comparison import AGREE_S, Comparer, Comparison
from coterie_conformance.everything.judge import Address, JudgeResult, common_versions
from coterie_conformance.everything.run import settings_for
from coterie_conformance.servers.kafka import KafkaBroker, on_zookeeper

USERS = tuple(f"user{n}" for n in range(6))  # at a time
PASSWORD = "secret"
STANDARD = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
OF_ZOOKEEPER = "kafka.security.authorizer.AclAuthorizer"
_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
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
        return verdict, asyncio.run(check_zookeeper(kafka.address, kafka.zookeeper_address))
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
