"""Broker processes on a real ZooKeeper: what they register, a coordinator that is killed, folders that are not theirs."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from coterie.broker.ensemble import read_cluster_id
from coterie.broker.settings import BrokerSettings
from coterie.client.blocking import BlockingAdmin, BlockingConsumer, BlockingProducer
from coterie.coordinator.partitioning import partition_for
from coterie.pipeline.session import JavaMissing
from coterie.runtime.zookeeper_session import ZooKeeperSession, connect
from coterie.testing.local_zookeeper import LocalZooKeeper
from coterie.zookeeper.operations import Create, Delete, Read, Znode
from tests.awaiting import until_in_thread
from tests.broker_process import free_port

TOPIC, GROUP, OFFSETS_PARTITIONS = "orders", "billing", 4
SESSION_MS, CONNECT_MS = 2_000, 10_000
SETTINGS = {
    "default.replication.factor": "3",
    "offsets.topic.replication.factor": "3",
    "offsets.topic.num.partitions": str(OFFSETS_PARTITIONS),
    "min.insync.replicas": "2",
    "group.initial.rebalance.delay.ms": "0",
    "replica.lag.time.max.ms": "2000",
    "replica.fetch.backoff.ms": "100",
    "controlled.shutdown.retry.backoff.ms": "100",
    "zookeeper.session.timeout.ms": str(SESSION_MS),
    "zookeeper.connection.timeout.ms": str(CONNECT_MS),
}


class ClusterProcess:
    """A broker of the cluster, on a port that stays the same."""

    def __init__(self, folder: Path, zookeeper: str, broker_id: int, **settings: str) -> None:
        self.broker_id, self.data, self.port = broker_id, folder / f"broker-{broker_id}", free_port()
        self._log = folder / f"broker-{broker_id}.log"
        given = {**SETTINGS, "zookeeper.connect": zookeeper, "broker.id": str(broker_id)}
        given |= {name.replace("_", "."): value for name, value in settings.items()}
        self._command = [sys.executable, "-m", "coterie", "broker", "--listen", self.address, "--data", str(self.data)]
        for name, value in given.items():
            self._command += ["--set", f"{name}={value}"]
        self.process: subprocess.Popen[str]

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def begin(self) -> None:
        with self._log.open("ab") as err:
            self.process = subprocess.Popen(self._command, stdout=subprocess.PIPE, stderr=err, text=True)

    def until_listening(self) -> None:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line.startswith("listening on"), line + self.output()

    def output(self) -> str:
        return self._log.read_text()

    def kill(self) -> None:
        self.process.kill()
        self._wait()

    def stop(self) -> None:
        self.process.terminate()
        assert self._wait() == 0, self.output()

    def _wait(self) -> int:
        code = self.process.wait(20)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalZooKeeper]:
    pytest.importorskip("kazoo")
    try:
        with LocalZooKeeper(tmp_path_factory.mktemp("zookeeper"), tick_ms=500) as server:
            yield server
    except JavaMissing as missing:
        pytest.skip(str(missing))


@pytest.fixture
def session(zookeeper: LocalZooKeeper) -> Iterator[ZooKeeperSession]:
    """The test's own; afterwards the cluster's id is gone, so that the next test has another cluster."""
    own = ZooKeeperSession(connect(zookeeper.address, CONNECT_MS, CONNECT_MS), lambda path: None, lambda state: None)
    yield own
    own.apply(Delete("/cluster/id"))
    own.close()


def read(session: ZooKeeperSession, path: str) -> Znode:
    node = session.apply(Read(path))
    assert isinstance(node, Znode), path
    return node


@pytest.fixture
def brokers(
    zookeeper: LocalZooKeeper, session: ZooKeeperSession, tmp_path: Path
) -> Iterator[dict[int, ClusterProcess]]:
    every = {number: ClusterProcess(tmp_path, zookeeper.address, number) for number in (1, 2, 3)}
    for broker in every.values():
        broker.begin()
    try:
        for broker in every.values():
            broker.until_listening()
        yield every
    finally:
        for broker in every.values():
            if broker.process.poll() is None:
                broker.kill()


def in_sync(admin: BlockingAdmin, topic: str) -> list[set[int]]:
    return [{node.id for node in info.isr} for info in admin.describe_topics([topic])[topic].partitions]


def isrs(session: ZooKeeperSession) -> list[set[int]]:
    """Of the topic's partitions, as ZooKeeper has them."""
    states = [read(session, f"/brokers/topics/{TOPIC}/partitions/{partition}/state") for partition in range(3)]
    return [set(json.loads(state.data)["isr"]) for state in states]


def coordinator(admin: BlockingAdmin) -> int:
    partition = admin.describe_topics(["__consumer_offsets"])["__consumer_offsets"].partitions[
        partition_for(GROUP, OFFSETS_PARTITIONS)
    ]
    return -1 if partition.leader is None else partition.leader.id


@pytest.mark.slow
def test_a_group_on_three_processes(brokers: dict[int, ClusterProcess], session: ZooKeeperSession) -> None:
    """One is killed, its replicas come back; all stop in order and start again with everything."""
    registered = json.loads(read(session, "/brokers/ids/2").data)
    address = brokers[2].address
    assert registered.pop("timestamp").isdigit()
    assert registered == {
        "listener_security_protocol_map": {"PLAINTEXT": "PLAINTEXT"},
        "endpoints": [f"PLAINTEXT://{address}"],
        "jmx_port": -1,
        "host": "127.0.0.1",
        "port": brokers[2].port,
        "version": 4,
    }
    cluster_id = json.loads(read(session, "/cluster/id").data)["id"]
    assert f"cluster.id={cluster_id}\nbroker.id=2\n" in (brokers[2].data / "meta.properties").read_text()

    servers = {"bootstrap.servers": ",".join(broker.address for broker in brokers.values())}
    group = {"group.id": GROUP, "auto.offset.reset": "earliest", "enable.auto.commit": "false"}
    values: list[bytes | None] = []
    with BlockingAdmin(servers) as admin:
        until_in_thread(lambda: len(admin.describe_cluster().nodes) == 3, "all brokers")
        admin.create_topic(TOPIC, 3)
        with BlockingConsumer(servers | group) as consumer, BlockingProducer(servers | {"acks": "all"}) as producer:

            def consumed(count: int) -> None:
                def polled() -> bool:
                    values.extend(record.value for records in consumer.poll(100).values() for record in records)
                    return len(values) >= count

                until_in_thread(polled, lambda: f"{len(values)} of {count}")

            def produced(first: int) -> None:
                for number in range(first, first + 30):
                    producer.send(TOPIC, b"%d" % number, key=b"%d" % number)
                producer.flush()

            consumer.subscribe([TOPIC])
            produced(0)
            consumed(30)
            consumer.commit()
            killed = brokers[coordinator(admin)]
            killed.kill()
            produced(30)
            consumed(60)
            until_in_thread(lambda: coordinator(admin) not in (killed.broker_id, -1), "another coordinator")
            consumer.commit()
            killed.begin()
            killed.until_listening()
            until_in_thread(lambda: in_sync(admin, TOPIC) == [{1, 2, 3}] * 3, lambda: in_sync(admin, TOPIC))
    assert sorted(int(value or b"") for value in values) == list(range(60))
    for broker in brokers.values():
        broker.stop()
    assert all((broker.data / ".kafka_cleanshutdown").exists() for broker in brokers.values())
    for broker in brokers.values():
        broker.begin()
    for broker in brokers.values():
        broker.until_listening()
    with BlockingAdmin(servers) as admin:
        until_in_thread(lambda: in_sync(admin, TOPIC) == [{1, 2, 3}] * 3, lambda: in_sync(admin, TOPIC))
        until_in_thread(lambda: coordinator(admin) > 0, "a coordinator")
        assert sum(admin.list_consumer_group_offsets(GROUP).values()) == 60
    for broker in brokers.values():
        broker.kill()
    assert isrs(session) == [{1, 2, 3}] * 3
    (brokers[1].data / "boot-id").write_text("another boot")  # as after a reset of its machine
    brokers[1].begin()
    brokers[1].until_listening()
    assert isrs(session) == [{2, 3}] * 3
    brokers[2].begin()
    brokers[2].until_listening()
    assert all(2 in isr for isr in isrs(session))
    brokers[3].begin()
    with BlockingAdmin(servers) as admin:
        until_in_thread(lambda: in_sync(admin, TOPIC) == [{1, 2, 3}] * 3, lambda: in_sync(admin, TOPIC))
        assert sum(admin.list_offsets(dict.fromkeys(((TOPIC, p) for p in range(3)), -1)).values()) == 60


def test_a_folder_of_another_cluster(zookeeper: LocalZooKeeper, session: ZooKeeperSession, tmp_path: Path) -> None:
    broker = ClusterProcess(tmp_path, zookeeper.address, 7)
    broker.begin()
    broker.until_listening()
    broker.stop()
    session.apply(Delete("/cluster/id"))
    broker.begin()
    assert broker._wait() == 1
    assert "choose another --data" in broker.output().splitlines()[-1]


def test_an_id_that_is_in_use(zookeeper: LocalZooKeeper, session: ZooKeeperSession, tmp_path: Path) -> None:
    one = ClusterProcess(tmp_path, zookeeper.address, 7)
    one.begin()
    one.until_listening()
    (tmp_path / "other").mkdir()
    timeouts = {"zookeeper_session_timeout_ms": "1000", "zookeeper_connection_timeout_ms": "500"}
    other = ClusterProcess(tmp_path / "other", zookeeper.address, 7, **timeouts)
    other.begin()
    assert other._wait() == 1
    assert "with broker.id 7; stop it, or give this one another id" in other.output().splitlines()[-1]
    one.stop()


@pytest.mark.slow
def test_a_cluster_below_a_path_of_zookeeper(zookeeper: LocalZooKeeper, session: ZooKeeperSession) -> None:
    """Which is made, as by Kafka."""
    settings = BrokerSettings({"broker.id": "1", "zookeeper.connect": f"{zookeeper.address}/our/kafka"})
    assert asyncio.run(read_cluster_id(settings, lambda: "first")) == "first"
    assert asyncio.run(read_cluster_id(settings, lambda: "second")) == "first"
    assert read(session, "/our/kafka/cluster/id").data == '{"version":"1","id":"first"}'
    session.apply(Create("/cluster/id", "", ephemeral=False))  # which the fixture removes
