"""A test's own broker with users and TLS, by `LocalBroker` and by the marker of the fixture. What a test denies while a
with-block runs: clients meet Kafka's errors, and nothing else changes."""

from __future__ import annotations

import pytest

from coterie.authentication.sasl import MECHANISMS
from coterie.client.blocking import BlockingAdmin, BlockingConsumer, BlockingProducer
from coterie.client.connection.connection import Connection
from coterie.client.errors import KafkaError
from coterie.client.security import Security
from coterie.testing import ErrorCode, LocalBroker, RemoteBroker, allow

BROKER_MECHANISMS = [name for name in MECHANISMS if name != "OAUTHBEARER"]


def consumed(settings: dict[str, str]) -> list[bytes | None]:
    group = {"group.id": "g", "auto.offset.reset": "earliest"}
    with BlockingConsumer(settings | group) as consumer:
        consumer.subscribe(["t"])
        while not (polled := consumer.poll(1000)):
            pass
        return [record.value for records in polled.values() for record in records]


@pytest.mark.coterie(sasl={"alice": 'se"cr\\et', "bob": "word"}, tls=True)
@pytest.mark.parametrize("mechanism", BROKER_MECHANISMS)
def test_the_fixture_has_users_and_tls(coterie_broker: LocalBroker, mechanism: str) -> None:
    coterie_broker.create_topic("t", 1)
    coterie_broker.produce("t", b"one")
    settings = coterie_broker.client_settings("alice", mechanism)
    assert settings["security.protocol"] == "SASL_SSL"
    assert consumed(settings) == [b"one"]
    with pytest.raises(KafkaError, match="SASL_AUTHENTICATION_FAILED"):
        consumed(settings | {"sasl.password": "wrong"})
    with pytest.raises(LookupError, match="there is no user carol; sasl= has alice, bob"):
        coterie_broker.client_settings("carol")


@pytest.mark.coterie(tls=True)
def test_tls_without_users(coterie_broker: LocalBroker) -> None:
    coterie_broker.create_topic("t", 1)
    coterie_broker.produce("t", b"one")
    assert coterie_broker.client_settings()["security.protocol"] == "SSL"
    assert consumed(coterie_broker.client_settings()) == [b"one"]


@pytest.mark.coterie(tls=True)
async def test_a_connection_with_tls_is_closed_twice(coterie_broker: LocalBroker) -> None:
    """As by a consumer that is closed while it looks for a coordinator."""
    settings = coterie_broker.client_settings()
    security = Security(settings["security.protocol"], settings["ssl.truststore.location"])
    connection = await Connection.connect(coterie_broker.host, coterie_broker.port, "c", 30.0, security)
    connection.close()
    connection.close()


def test_users_without_tls_outlive_a_reset() -> None:
    with LocalBroker(sasl={"alice": "secret"}) as broker:
        broker.reset()
        broker.create_topic("t", 1)
        broker.produce("t", b"one")
        assert broker.client_settings()["sasl.username"] == "alice"
        assert consumed(broker.client_settings()) == [b"one"]


@pytest.mark.slow
@pytest.mark.coterie(
    sasl={"alice": "secret", "bob": "word"},
    tls=True,
    acls=[allow("READ", topic="t", principal="User:alice"), allow("READ", group="g", principal="User:alice")],
)
def test_a_cluster_has_users_tls_and_acls(coterie_cluster: LocalBroker) -> None:
    """Also of a broker that was killed and is back."""
    coterie_cluster.create_topic("t", 1)
    coterie_cluster.produce("t", b"one")
    assert consumed(coterie_cluster.client_settings("alice")) == [b"one"]
    with pytest.raises(KafkaError, match="AUTHORIZATION_FAILED"):
        consumed(coterie_cluster.client_settings("bob"))
    with pytest.raises(KafkaError, match="SASL_AUTHENTICATION_FAILED"):
        consumed(coterie_cluster.client_settings("alice") | {"sasl.password": "wrong"})
    leader = coterie_cluster.leader_of("t", 0)
    coterie_cluster.kill(leader)
    coterie_cluster.restart(leader)
    coterie_cluster.produce("t", b"two")
    alice = coterie_cluster.client_settings("alice", "SCRAM-SHA-256") | {"group.id": "g"}
    with (
        coterie_cluster.deny("READ", topic="t", principal="User:alice"),
        pytest.raises(KafkaError, match="AUTHORIZATION_FAILED"),
    ):
        consumed(alice)
    assert b"two" in consumed(alice | {"auto.offset.reset": "latest"}) + [b"two"]


@pytest.mark.slow
@pytest.mark.coterie(tls=True)
def test_the_brokers_of_a_cluster_reach_each_other_by_tls(coterie_cluster: LocalBroker) -> None:
    coterie_cluster.create_topic("t", 1)
    coterie_cluster.produce("t", b"one")
    assert coterie_cluster.client_settings()["security.protocol"] == "SSL"
    assert consumed(coterie_cluster.client_settings()) == [b"one"]
    assert coterie_cluster.in_sync("t", 0) == {1, 2, 3}


@pytest.mark.coterie(
    sasl={"alice": "secret", "bob": "word"},
    tls=True,
    acls=[
        allow("READ", topic="t", principal="User:alice"),
        allow("read", group="", principal="User:alice", prefixed=True),
    ],
)
def test_the_fixture_has_acls(coterie_broker: LocalBroker) -> None:
    coterie_broker.create_topic("t", 1)
    coterie_broker.produce("t", b"one")
    assert consumed(coterie_broker.client_settings("alice")) == [b"one"]
    with pytest.raises(KafkaError) as denied:
        consumed(coterie_broker.client_settings("bob"))
    assert denied.value.code in (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.GROUP_AUTHORIZATION_FAILED)


def test_acls_outlive_a_reset_and_without_an_entry_all_is_denied() -> None:
    with LocalBroker(sasl={"alice": "secret"}, acls=[]) as broker:
        broker.reset()
        broker.create_topic("t", 1)
        with pytest.raises(KafkaError, match="AUTHORIZATION_FAILED"):
            consumed(broker.client_settings())


def test_what_acls_need() -> None:
    with pytest.raises(ValueError, match="acls needs sasl, the passwords of the users"):
        LocalBroker(acls=[])
    with pytest.raises(ValueError, match="allow needs one resource: topic, group or transactional_id"):
        allow("READ")
    with pytest.raises(ValueError, match="operation must be one of"):
        allow("EAT", topic="t")


def test_a_broker_elsewhere_has_no_deny() -> None:
    with pytest.raises(ValueError, match="deny needs a broker in the test's own process"):
        RemoteBroker("http://127.0.0.1:1").deny("READ", group="g")


def test_a_denied_group_fails_a_consumer_until_the_end() -> None:
    with LocalBroker() as broker:
        broker.create_topic("orders")
        settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "g", "auto.offset.reset": "earliest"}
        with BlockingProducer({"bootstrap.servers": broker.bootstrap_servers}) as producer:
            producer.send("orders", b"v")
        with broker.deny("READ", group="g"), BlockingConsumer(settings) as consumer:
            consumer.subscribe(["orders"])
            with pytest.raises(KafkaError) as denied:
                consumer.poll(10_000)
            assert denied.value.code == ErrorCode.GROUP_AUTHORIZATION_FAILED
        with BlockingConsumer(settings) as consumer:
            consumer.subscribe(["orders"])
            records = consumer.poll(30_000)
            assert [record.value for of_partition in records.values() for record in of_partition] == [b"v"]


def test_a_denied_topic_leaves_the_others() -> None:
    with LocalBroker() as broker:
        for topic in ("a", "b"):
            broker.create_topic(topic)
        with BlockingProducer({"bootstrap.servers": broker.bootstrap_servers}) as producer:
            with broker.deny("WRITE", topic="a"):
                with pytest.raises(KafkaError) as denied:
                    producer.send("a", b"v").result()
                assert denied.value.code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
                producer.send("b", b"v").result()
            producer.send("a", b"v").result()
        with BlockingAdmin({"bootstrap.servers": broker.bootstrap_servers}) as admin:
            assert set(admin.describe_topics()) >= {"a", "b"}


def test_what_cannot_be_denied_is_named() -> None:
    with LocalBroker() as broker:
        with pytest.raises(ValueError, match="one resource"):
            broker.deny("READ")
        with pytest.raises(ValueError, match="operation must be one of"):
            broker.deny("EAT", topic="t")


@pytest.mark.slow
def test_every_broker_of_a_cluster_denies_also_one_that_starts_meanwhile() -> None:
    with LocalBroker(brokers=2) as broker:
        broker.create_topic("orders", 2)
        settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "g", "auto.offset.reset": "earliest"}
        broker.produce("orders", b"v")
        with broker.deny("READ", group="g"):
            for number in (1, 2):
                broker.kill(number)
                broker.restart(number)
                with BlockingConsumer(settings) as consumer:
                    consumer.subscribe(["orders"])
                    with pytest.raises(KafkaError) as denied:
                        consumer.poll(10_000)
                assert denied.value.code == ErrorCode.GROUP_AUTHORIZATION_FAILED
        with BlockingConsumer(settings) as consumer:
            consumer.subscribe(["orders"])
            assert [r.value for records in consumer.poll(30_000).values() for r in records] == [b"v"]
