"""Groups work on three brokers with SASL and ACLs, in virtual time, while passwords rotate and rights are taken and given."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from coterie.authorizer.acls import Acl, AclFilter, AclOperation, AclResourceType
from coterie.client.admin.admin import Admin
from coterie.client.admin.cluster_types import UserScramCredentialUpsertion
from coterie.client.consumer.consumer import Consumer
from coterie.client.errors import AuthorizationError, KafkaError
from coterie.client.producer.producer import Producer
from coterie.testing.cluster_brokers import ClusterBrokers
from coterie.testing.faults import Faults
from coterie.testing.simulated import SimulatedWorld, _BrokerProcess
from tests.broker.cluster.access.test_secured_cluster import SETTINGS, allowed, login

pytestmark = pytest.mark.slow

SCRAM, GROUP = "SCRAM-SHA-256", "g"
LOT = 6  # records
KNOWN_S = 1.0  # until each broker has read what was altered at one
MAY_READ_THE_GROUP = allowed(AclResourceType.GROUP, GROUP, AclOperation.READ)
MAY_READ_THE_TOPIC = allowed(AclResourceType.TOPIC, "t", AclOperation.READ)


@dataclass
class Work:
    """A cluster with the topic t, and the records that were written and read."""

    cluster: ClusterBrokers
    servers: str
    admin: Admin
    producer: Producer[bytes, bytes]
    written: int = 0
    read: list[bytes | None] = field(default_factory=list)

    def alice(self, password: str) -> dict[str, str]:
        own = {"sasl.mechanism": SCRAM, "sasl.username": "alice", "sasl.password": password}
        return {"bootstrap.servers": self.servers, "security.protocol": "SASL_PLAINTEXT", **own}

    @asynccontextmanager
    async def consumer(self, password: str) -> AsyncIterator[Consumer[bytes, bytes]]:
        own = {"group.id": GROUP, "auto.offset.reset": "earliest", "enable.auto.commit": False}
        async with Consumer(self.alice(password) | own) as consumer:
            consumer.subscribe(["t"])
            yield consumer

    async def write(self) -> None:
        for _ in range(LOT):
            await (await self.producer.send("t", b"%d" % self.written))
            self.written += 1

    async def read_all(self, consumer: Consumer[bytes, bytes]) -> None:
        """Each record that was written, once; commits."""
        while len(self.read) < self.written:
            self.read += [r.value for records in (await consumer.poll(500)).values() for r in records]
        await consumer.commit()
        assert sorted(self.read, key=lambda value: int(value or b"")) == [b"%d" % n for n in range(self.written)]


@asynccontextmanager
async def working(world: SimulatedWorld, *acls: Acl) -> AsyncIterator[Work]:
    settings = SETTINGS | {"sasl.enabled.mechanisms": f"PLAIN,{SCRAM}", "offsets.topic.replication.factor": "3"}
    cluster = ClusterBrokers(
        settings, 3, (), Faults(), [], lambda cluster, number, rack: _BrokerProcess(world, cluster, number, rack)
    )
    await cluster.start()
    servers = ",".join(f"{one.host}:{one.port}" for one in cluster.brokers.values())
    own = {"bootstrap.servers": servers, **login("broker", "b-secret")}
    async with Admin(own) as admin, Producer(own | {"acks": "all"}) as producer:
        await admin.create_topic("t", 3, replication_factor=3)
        await admin.create_acls(acls)
        await admin.alter_user_scram_credentials([UserScramCredentialUpsertion("alice", SCRAM, "first")])
        await asyncio.sleep(KNOWN_S)
        yield Work(cluster, servers, admin, producer)
    await cluster.stop()


async def polled_for_ever(consumer: Consumer[bytes, bytes]) -> None:
    """Without the group's right it may get records of what it owned until a heartbeat is refused, and commits none."""
    while True:
        await consumer.poll(500)


async def test_a_password_is_rotated_while_its_group_works(coterie_world: SimulatedWorld) -> None:
    """Open connections stay; a login by the password before is refused at each broker, also at one that starts then."""
    async with working(coterie_world, MAY_READ_THE_GROUP, MAY_READ_THE_TOPIC) as work:
        await work.write()
        async with work.consumer("first") as consumer:
            await work.read_all(consumer)
            await work.admin.alter_user_scram_credentials([UserScramCredentialUpsertion("alice", SCRAM, "second")])
            await asyncio.sleep(KNOWN_S)
            await work.write()
            await work.read_all(consumer)
        await work.cluster.brokers[3].kill()
        await work.cluster.brokers[3].start()
        await work.write()
        async with work.consumer("second") as consumer:
            await work.read_all(consumer)
        for broker in work.cluster.brokers.values():
            alone = {"bootstrap.servers": f"{broker.host}:{broker.port}"}
            async with Admin(work.alice("second") | alone) as alice:
                assert await alice.describe_cluster()
            async with Admin(work.alice("first") | alone) as alice:
                with pytest.raises(KafkaError, match="SASL_AUTHENTICATION_FAILED"):
                    await alice.describe_cluster()


@pytest.mark.parametrize(
    ("taken", "error"),
    [(MAY_READ_THE_GROUP, "GROUP_AUTHORIZATION_FAILED"), (MAY_READ_THE_TOPIC, "TOPIC_AUTHORIZATION_FAILED")],
)
async def test_a_right_is_taken_and_given_again_while_the_group_works(
    coterie_world: SimulatedWorld, taken: Acl, error: str
) -> None:
    """The consumer has the error; the next one resumes where the group was, without a record lost or read twice."""
    async with working(coterie_world, MAY_READ_THE_GROUP, MAY_READ_THE_TOPIC) as work:
        await work.write()
        async with work.consumer("first") as consumer:
            await work.read_all(consumer)
            wanted = AclFilter(taken.resource_type, taken.name)
            assert await work.admin.delete_acls([wanted]) == [taken]
            await work.write()
            with pytest.raises(AuthorizationError, match=error):
                await polled_for_ever(consumer)
        await work.admin.create_acls([taken])
        await asyncio.sleep(KNOWN_S)
        async with work.consumer("first") as consumer:
            await work.read_all(consumer)
