"""`coterie cluster start --secure`: real processes over SASL_SSL on a real ZooKeeper that knows its owner."""

from __future__ import annotations

import os
import signal
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from coterie.broker.settings import read_properties
from coterie.client.blocking import BlockingConsumer, BlockingProducer
from coterie.client.errors import KafkaError
from coterie.runtime.zookeeper_session import ZooKeeperSession, connect
from coterie.zookeeper.operations import Delete, List, Read, Write, ZooKeeperError
from tests.awaiting import until_in_thread
from tests.cli.broker.test_cluster import SETTINGS, coterie, folder, local

__all__ = ["folder"]

RECORDS = 30


def stranger(address: str) -> ZooKeeperSession:
    return ZooKeeperSession(connect(address, 10_000, 10_000), lambda _: None, lambda _: None)


def sent(settings: dict[str, str], values: range) -> None:
    with BlockingProducer(settings | {"acks": "all"}) as producer:
        for number in values:
            producer.send("orders", b"%d" % number).result()


def polled(consumer: BlockingConsumer[bytes, bytes], until: int, values: set[bytes | None]) -> None:
    while len(values) < until:
        values |= {record.value for records in consumer.poll(500).values() for record in records}


@pytest.fixture
def client(folder: Path) -> Iterator[dict[str, str]]:
    """The settings of an administrator of three secure brokers."""
    data = ["--data", str(folder)]
    started = coterie("cluster", "start", *data, "--secure", "--port", "0", "--detach", *SETTINGS)
    assert started.exit_code == 0, started.output
    path = started.output.splitlines()[1].removeprefix("command-config=")
    yield read_properties(Path(path).read_text())
    assert coterie("cluster", "stop", *data).exit_code == 0


@pytest.mark.slow
def test_consumers_go_on_when_a_secure_broker_is_killed(folder: Path, client: dict[str, str]) -> None:
    """A user who was added at one broker logs in at each, and reads by its ACLs alone."""
    config = ["--command-config", str(folder / "client.properties")]
    assert coterie("topics", "create", "orders", "-p", "3", "-r", "3", *config).output == "created orders\n"
    assert coterie("users", "add", "alice", *config, stdin="secret\n").exit_code == 0
    entry = ["--principal", "User:alice", "--operation", "read"]
    assert coterie("acls", "add", *entry, "--topic", "orders", *config).exit_code == 0
    assert coterie("acls", "add", *entry, "--group", "crew", *config).exit_code == 0
    jaas = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="alice" password="secret";'
    alice = client | {"sasl.jaas.config": jaas, "group.id": "crew", "auto.offset.reset": "earliest"}
    sent(client, range(RECORDS))
    values: set[bytes | None] = set()
    with BlockingConsumer(alice) as consumer:
        consumer.subscribe(["orders"])
        polled(consumer, RECORDS, values)
        consumer.commit()
        killed = local(folder).pid(1)
        assert killed is not None
        os.kill(killed, signal.SIGKILL)
        sent(client, range(RECORDS, 2 * RECORDS))
        polled(consumer, 2 * RECORDS, values)
        consumer.commit()
        assert coterie("cluster", "start", "--data", str(folder), "--detach").exit_code == 0
        sent(client, range(2 * RECORDS, 3 * RECORDS))
        polled(consumer, 3 * RECORDS, values)
    assert values == {b"%d" % number for number in range(3 * RECORDS)}
    with pytest.raises(KafkaError, match="AUTHORIZATION_FAILED"):
        sent(alice, range(1))
    with pytest.raises(KafkaError, match="SASL_AUTHENTICATION_FAILED"):
        sent(client | {"sasl.jaas.config": jaas.replace("secret", "guess")}, range(1))
    assert ": UP" not in coterie("cluster", "describe", "--data", str(folder)).output


@pytest.mark.slow
def test_nobody_else_changes_its_zookeeper_or_reads_its_secrets(folder: Path, client: dict[str, str]) -> None:
    """The judge is ZooKeeper itself, asked by a session without a login."""
    config = ["--command-config", str(folder / "client.properties")]
    assert coterie("topics", "create", "orders", "-r", "3", *config).exit_code == 0
    assert coterie("users", "add", "alice", *config, stdin="secret\n").exit_code == 0
    until_in_thread(lambda: coterie("users", "list", *config).output.count("alice") == 1, "the user")
    session = stranger(local(folder).zookeeper)
    try:
        assert session.apply(List("/brokers/ids")) == ["1", "2", "3"]
        for operation in (
            Delete("/controller"),
            Delete("/brokers/ids/1"),
            Write("/brokers/topics/orders", "{}"),
            Write("/kafka-acl/Topic/orders", "{}"),
            Write("/of-a-stranger", ""),
            Read("/config/users/alice"),
            List("/config/users"),
        ):
            with pytest.raises(ZooKeeperError, match="NoAuth"):
                session.apply(operation)
    finally:
        session.close()
    assert coterie("topics", "list", "-b", client["bootstrap.servers"]).exit_code == 1  # without a login
    for path in (folder / "client.properties", *(folder / "secrets").glob("[!c]*")):
        assert not path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO), path
    passwords = [
        read_properties(p.read_text()) for p in (folder / "secrets/broker.properties", folder / "client.properties")
    ]
    secrets = [
        value for settings in passwords for name, value in settings.items() if name.endswith((".config", ".digest"))
    ]
    assert len(secrets) == 3
    shown = [p.read_text() for p in (*folder.glob("*.log"), folder / "cluster.json")]
    shown += [Path(f"/proc/{local(folder).pid(broker)}/cmdline").read_text() for broker in (1, 2, 3)]
    for secret in secrets:
        word = secret.split('password="')[-1].rstrip('";').split(":")[-1]
        assert not [text for text in shown if word in text]
    assert coterie("cluster", "start", "--data", str(folder), "--secure").output.startswith("Error: the cluster in")
