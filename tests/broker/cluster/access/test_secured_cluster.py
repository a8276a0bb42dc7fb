"""Three brokers that reach each other by SASL, with ACLs: their requests are accepted, a stranger's are refused."""

from __future__ import annotations

from pathlib import Path

import pytest
import trustme

from coterie.authorizer.acls import Acl, AclOperation, AclResourceType, PatternType, Permission
from coterie.broker.broker import Broker
from coterie.broker.cluster.peers.secured import peer_security
from coterie.broker.settings import BrokerSettings, SettingError
from coterie.broker.settings.listeners import check_for_cluster, client_listeners
from coterie.broker.settings.tables.broker_table import KAFKA_AUTHORIZERS
from coterie.client.admin.admin import Admin
from coterie.client.connection.connection import Connection
from coterie.client.consumer.consumer import Consumer
from coterie.client.errors import KafkaError
from coterie.client.producer.producer import Producer
from coterie.client.security import Security
from coterie.testing.cluster_brokers import ClusterBrokers
from coterie.testing.faults import Faults
from coterie.testing.local_broker import DEFAULTS
from coterie.testing.simulated import SimulatedWorld, _BrokerProcess
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.brokers.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse

JAAS = 'M required username="broker" password="b-secret" user_broker="b-secret" user_alice="a-secret";'
SETTINGS = DEFAULTS | {
    "listeners": "SASL_PLAINTEXT://:0",
    "security.inter.broker.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "sasl.enabled.mechanisms": "PLAIN",
    "sasl.jaas.config": JAAS,
    "authorizer.class.name": KAFKA_AUTHORIZERS[1],
    "super.users": "User:broker",
}


def login(user: str, password: str) -> dict[str, str]:
    sasl = {"sasl.mechanism": "PLAIN", "sasl.username": user, "sasl.password": password}
    return {"security.protocol": "SASL_PLAINTEXT", **sasl}


@pytest.mark.slow
async def test_brokers_reach_each_other_by_tls(tmp_path: Path) -> None:
    """By real sockets. The authority is one that the brokers trust, and the name in the certificate is looked for."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(tmp_path / "broker.pem")
    settings = SETTINGS | {
        "listeners": "SASL_SSL://:0",
        "security.inter.broker.protocol": "SASL_SSL",
        "ssl.keystore.location": str(tmp_path / "broker.pem"),
        "ssl.truststore.location": str(tmp_path / "ca.pem"),
    }
    cluster = ClusterBrokers(settings, 3, (), Faults(), [])
    await cluster.start()
    servers = ",".join(f"{one.host}:{one.port}" for one in cluster.brokers.values())
    own = {"security.protocol": "SASL_SSL", "ssl.truststore.location": str(tmp_path / "ca.pem")}
    own = {"bootstrap.servers": servers} | login("broker", "b-secret") | own
    async with Admin(own) as admin:
        await admin.create_topic("t", 3)
    async with Producer(own | {"acks": "all"}) as producer:
        for number in range(3):
            await (await producer.send("t", b"v", partition=number))
    await cluster.stop()


def allowed(kind: AclResourceType, name: str, operation: AclOperation) -> Acl:
    return Acl(kind, name, PatternType.LITERAL, "User:alice", "*", operation, Permission.ALLOW)


async def started(world: SimulatedWorld) -> ClusterBrokers:
    cluster = ClusterBrokers(
        SETTINGS, 3, (), Faults(), [], lambda cluster, number, rack: _BrokerProcess(world, cluster, number, rack)
    )
    await cluster.start()
    return cluster


async def leader_and_isr(cluster: ClusterBrokers, user: str, password: str) -> int:
    """The error code of its response from broker 2."""
    broker = cluster.brokers[2]
    security = Security("SASL_PLAINTEXT", mechanism="PLAIN", username=user, password=password)
    connection = await Connection.connect(broker.host, broker.port, "c", 30.0, security)
    request = LeaderAndIsrRequest(1, 1000, -1, topic_states=[], live_leaders=[])
    try:
        return (await connection.request_version(request, LeaderAndIsrResponse, 4, 30.0)).error_code
    finally:
        connection.close()


async def test_records_are_replicated_and_a_stranger_deposes_nobody(coterie_world: SimulatedWorld) -> None:
    cluster = await started(coterie_world)
    servers = ",".join(f"{one.host}:{one.port}" for one in cluster.brokers.values())
    admin_settings = {"bootstrap.servers": servers, **login("broker", "b-secret")}
    async with Admin(admin_settings) as admin:
        await admin.create_topic("t", 3)
        topic, group = AclResourceType.TOPIC, AclResourceType.GROUP
        read, write = AclOperation.READ, AclOperation.WRITE
        await admin.create_acls([allowed(topic, "t", read), allowed(topic, "t", write), allowed(group, "g", read)])
    alice = {"bootstrap.servers": servers, **login("alice", "a-secret")}
    async with Producer(alice | {"acks": "all", "enable.idempotence": False}) as producer:
        for number in range(9):
            await (await producer.send("t", b"%d" % number))
    values: list[bytes | None] = []
    async with Consumer(alice | {"group.id": "g", "auto.offset.reset": "earliest"}) as consumer:
        consumer.subscribe(["t"])
        while len(values) < 9:
            values += [r.value for records in (await consumer.poll(1000)).values() for r in records]
    assert set(values) == {b"%d" % number for number in range(9)}
    isrs = [set(state.isr) for (name, _), state in cluster.brokers[1].broker.cluster.states.items() if name == "t"]
    assert isrs == [{1, 2, 3}] * 3
    assert await leader_and_isr(cluster, "alice", "a-secret") == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert await leader_and_isr(cluster, "broker", "b-secret") != ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    with pytest.raises(KafkaError, match="SASL_AUTHENTICATION_FAILED"):
        await leader_and_isr(cluster, "mallory", "m")
    await cluster.stop()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"sasl.mechanism.inter.broker.protocol": "GSSAPI"},
            "sasl.mechanism.inter.broker.protocol must be one of PLAIN",
        ),
        (
            {"sasl.jaas.config": 'M required user_a="b-secret";'},
            "plain.sasl.jaas.config must have username and password",
        ),
    ],
)
def test_settings_without_which_no_broker_is_reached(changes: dict[str, str], message: str) -> None:
    settings = BrokerSettings(SETTINGS | changes)
    with pytest.raises(SettingError, match=message) as refused:
        peer_security(settings, client_listeners(settings)[0])
    assert "b-secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"security.inter.broker.protocol": "PLAINTEXT"}, "security.inter.broker.protocol must be SASL_PLAINTEXT"),
        ({"inter.broker.listener.name": "OTHER"}, "inter.broker.listener.name must be SASL_PLAINTEXT"),
        ({"listeners": "PLAINTEXT://:0,SASL_PLAINTEXT://:0"}, "must have one listener"),
    ],
)
def test_the_only_listener_is_that_between_brokers(changes: dict[str, str], message: str) -> None:
    settings = BrokerSettings(SETTINGS | changes)
    with pytest.raises(SettingError, match=message):
        check_for_cluster(settings.current, client_listeners(settings))


def test_a_cluster_without_security_needs_no_setting() -> None:
    settings = BrokerSettings({})
    check_for_cluster(settings.current, client_listeners(settings))
    assert Broker(settings).settings is settings
