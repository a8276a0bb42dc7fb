"""LocalBroker(brokers=3): brokers that replicate, and what may happen to each of them while clients are at work. When a
ZooKeeper counts as started: not before it opens sessions. Servers of one response stand for its phases."""

from __future__ import annotations

import asyncio
import socketserver
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from coterie.client import KafkaError
from coterie.client.admin.admin import Admin
from coterie.client.blocking import BlockingConsumer, BlockingProducer
from coterie.testing import LocalBroker
from coterie.testing.local_zookeeper import is_serving
from tests.awaiting import until_in_thread

TOPIC, GROUP = "orders", "billing"
REFUSED: list[tuple[Callable[[LocalBroker], object], str]] = [
    (lambda c: c.kill(4), "there is no broker 4; there are 1, 2, 3"),
    (lambda c: c.restart(1), "broker 1 runs; stop or kill it first"),
    (lambda c: c.move_leader("none", 0, 1), "broker 1 has no replica of none-0"),
    (lambda c: c.move_leader("lone", 0, 2), "broker 2 has no replica of lone-0"),
    (lambda c: c.shrink_isr("lone", 0, to=[2, 3]), r"lone-0 is led by 1, which must be in \[2, 3\]"),
    (lambda c: c.move_coordinator(GROUP), f"the coordinator of {GROUP}, has no other replica in sync"),
]


@pytest.fixture
def cluster() -> Iterator[LocalBroker]:
    with LocalBroker(brokers=3) as brokers:
        yield brokers


def test_three_brokers_are_up_and_replicate(cluster: LocalBroker) -> None:
    cluster.create_topic(TOPIC, 3)
    assert {cluster.leader_of(TOPIC, partition) for partition in range(3)} == {1, 2, 3}
    cluster.produce(TOPIC, b"one", b"two", partition=1)
    assert cluster.in_sync(TOPIC, 1) == {1, 2, 3}
    assert len(cluster.bootstrap_servers.split(",")) == 3


def _produced(cluster: LocalBroker, first: int, count: int) -> None:
    """Each value once, acknowledged by all replicas in sync."""
    with BlockingProducer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all"}) as producer:
        for number in range(first, first + count):
            producer.send(TOPIC, b"%d" % number, key=b"%d" % number)


def _consumed(consumer: BlockingConsumer, values: list[bytes | None], count: int) -> None:
    def polled() -> bool:
        values.extend(record.value for records in consumer.poll(100).values() for record in records)
        return len(values) >= count

    until_in_thread(polled, lambda: f"{len(values)} of {count}")


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_group_goes_on_when_its_coordinator_is_gone(cluster: LocalBroker, end: str) -> None:
    cluster.create_topic(TOPIC, 3)
    values: list[bytes | None] = []
    group = {"group.id": GROUP, "auto.offset.reset": "earliest", "enable.auto.commit": "false"}
    with BlockingConsumer({"bootstrap.servers": cluster.bootstrap_servers} | group) as consumer:
        consumer.subscribe([TOPIC])
        _produced(cluster, 0, 30)
        _consumed(consumer, values, 30)
        consumer.commit()
        before = cluster.committed(GROUP)
        coordinator = cluster.coordinator_of(GROUP)
        if end == "stop":
            cluster.stop(coordinator)
        else:
            cluster.kill(coordinator)
        _produced(cluster, 30, 30)
        _consumed(consumer, values, 60)
        assert cluster.coordinator_of(GROUP) != coordinator
        after = cluster.committed(GROUP)
        assert all(after[partition] >= offset for partition, offset in before.items())
        consumer.commit()
    assert sorted(set(values), key=lambda v: int(v or b"-1")) == [b"%d" % number for number in range(60)]
    cluster.restart(coordinator)
    until_in_thread(
        lambda: all(cluster.in_sync(TOPIC, p) == {1, 2, 3} for p in range(3)), "every replica in sync again"
    )
    assert sum(cluster.committed(GROUP).values()) == 60


def test_a_broker_that_is_cut_off_leads_nothing_any_more(cluster: LocalBroker) -> None:
    cluster.create_topic(TOPIC, 1)
    leader = cluster.leader_of(TOPIC)
    cluster.partition(leader)
    until_in_thread(lambda: cluster.leader_of(TOPIC) != leader, "another leader")
    cluster.heal()
    until_in_thread(lambda: cluster.in_sync(TOPIC) == {1, 2, 3}, "all in sync again")


def test_a_broker_that_is_paused_is_replaced_and_comes_back(cluster: LocalBroker) -> None:
    cluster.create_topic(TOPIC, 1)
    leader = cluster.leader_of(TOPIC)
    cluster.pause(leader)
    until_in_thread(lambda: cluster.leader_of(TOPIC) != leader, "another leader")
    _produced(cluster, 0, 5)
    cluster.resume(leader)
    until_in_thread(lambda: cluster.in_sync(TOPIC) == {1, 2, 3}, "all in sync again")


def test_too_few_replicas_in_sync_refuse_appends() -> None:
    with LocalBroker({"min.insync.replicas": "2"}, brokers=3) as cluster:
        cluster.create_topic(TOPIC, 1)
        leader = cluster.leader_of(TOPIC)
        others = [broker for broker in (1, 2, 3) if broker != leader]
        cluster.shrink_isr(TOPIC, 0, to=[leader, others[0]])
        assert cluster.in_sync(TOPIC) == {leader, others[0]}
        cluster.produce(TOPIC, b"still enough")
        cluster.shrink_isr(TOPIC, 0, to=[leader])
        with pytest.raises(KafkaError, match="NOT_ENOUGH_REPLICAS"):
            cluster.produce(TOPIC, b"too few")
        cluster.heal()
        until_in_thread(lambda: cluster.in_sync(TOPIC) == {1, 2, 3}, "all in sync again")


def test_clients_see_racks_leaders_and_the_controller() -> None:
    async def story(address: str) -> list[tuple[int, str | None]]:
        async with Admin({"bootstrap.servers": address}) as admin:
            described = await admin.describe_cluster()
            return [(node.id, node.rack) for node in described.nodes]

    with LocalBroker(brokers=3, racks=["a", "b", "c"]) as cluster:
        assert asyncio.run(story(cluster.bootstrap_servers)) == [(1, "a"), (2, "b"), (3, "c")]


def test_a_leader_is_moved(cluster: LocalBroker) -> None:
    cluster.create_topic(TOPIC, 1)
    for broker_id in (1, 2, 3, 1):
        cluster.move_leader(TOPIC, 0, broker_id)
        assert cluster.leader_of(TOPIC) == broker_id
    cluster.produce(TOPIC, b"there")


def test_a_coordinator_is_moved(cluster: LocalBroker) -> None:
    cluster.create_topic(TOPIC, 1)
    cluster.produce(TOPIC, b"one")
    values: list[bytes | None] = []
    group = {"group.id": GROUP, "auto.offset.reset": "earliest", "enable.auto.commit": "false"}
    with BlockingConsumer({"bootstrap.servers": cluster.bootstrap_servers} | group) as consumer:
        consumer.subscribe([TOPIC])
        _consumed(consumer, values, 1)
        former = cluster.coordinator_of(GROUP)
        cluster.move_coordinator(GROUP)
        assert cluster.coordinator_of(GROUP) != former
        consumer.commit()
        assert cluster.committed(GROUP) == {(TOPIC, 0): 1}


def test_a_partition_that_is_not_there_is_reported_at_once(cluster: LocalBroker) -> None:
    cluster.create_topic(TOPIC, 1)
    with pytest.raises(KafkaError, match="there is no topic none"):
        cluster.produce("none", b"x", partition=0)
    with pytest.raises(KafkaError, match=f"{TOPIC} has partitions 0 to 0"):
        cluster.produce(TOPIC, b"x", partition=1)


def test_a_topic_is_enlarged_and_deleted(cluster: LocalBroker) -> None:
    confluent = pytest.importorskip("confluent_kafka.admin")
    cluster.create_topic(TOPIC, 1)
    admin = confluent.AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    admin.create_partitions([confluent.NewPartitions(TOPIC, 3)])[TOPIC].result(20)
    partitions = admin.list_topics(TOPIC).topics[TOPIC].partitions
    assert {len(partition.replicas) for partition in partitions.values()} == {3}
    assert len(partitions) == 3
    admin.delete_topics([TOPIC])[TOPIC].result(20)
    assert TOPIC not in admin.list_topics().topics


def test_our_admin_finds_the_controller(cluster: LocalBroker) -> None:
    async def story(address: str, topic: str) -> None:
        async with Admin({"bootstrap.servers": address}) as admin:
            for attempt in range(4):  # any of the brokers is asked first
                name = f"{topic}-{attempt}"
                await admin.create_topic(name, 1)
                await admin.create_partitions(name, 2)
                assert len((await admin.describe_topics([name]))[name].partitions) == 2
                await admin.delete_topic(name)

    for number, address in enumerate(cluster.bootstrap_servers.split(",")):
        asyncio.run(story(address, f"topic-{number}"))


def test_confluents_client_goes_on_when_the_coordinator_dies(cluster: LocalBroker) -> None:
    confluent = pytest.importorskip("confluent_kafka")
    cluster.create_topic(TOPIC, 3)
    address = {"bootstrap.servers": cluster.bootstrap_servers}
    producer = confluent.Producer({**address, "acks": "all"})
    consumer = confluent.Consumer(
        {**address, "group.id": GROUP, "auto.offset.reset": "earliest", "enable.auto.commit": False}
    )
    values: list[bytes] = []

    def polled(count: int) -> bool:
        message = consumer.poll(0.1)
        if message is not None and not message.error():
            values.append(message.value())
        return len(values) >= count

    try:
        consumer.subscribe([TOPIC])
        for first in (0, 20):
            for number in range(first, first + 20):
                producer.produce(TOPIC, b"%d" % number, key=b"%d" % number)
            assert producer.flush(20) == 0
            until_in_thread(lambda count=first + 20: polled(count), lambda: f"{len(values)} records", 40)  # type: ignore[misc]
            consumer.commit(asynchronous=False)
            cluster.kill(cluster.coordinator_of(GROUP))
    finally:
        consumer.close()
    assert sorted(set(values), key=int) == [b"%d" % number for number in range(40)]


def test_a_broker_alone_has_no_cluster() -> None:
    with LocalBroker() as broker, pytest.raises(ValueError, match="there is one broker here"):
        broker.kill(1)


def test_what_is_refused() -> None:
    with LocalBroker({"offsets.topic.replication.factor": "1"}, brokers=3) as cluster:
        asyncio.run(_create_lone(cluster.bootstrap_servers))
        assert cluster.leader_of("lone") == 1
        with BlockingConsumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": GROUP}) as consumer:
            consumer.committed([("lone", 0)])  # a first request makes `__consumer_offsets`
        for call, sentence in REFUSED:
            with pytest.raises(ValueError, match=sentence):
                call(cluster)


async def _create_lone(address: str) -> None:
    async with Admin({"bootstrap.servers": address}) as admin:
        await admin.create_topic("lone", assignments={0: [1]})


@contextmanager
def server_that_responds(response: bytes) -> Iterator[int]:
    """Its port. Each connection gets ``answer`` to its four letters, and is closed."""

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            assert self.rfile.read(4) == b"srvr"
            self.wfile.write(response)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


@pytest.mark.parametrize(
    ("response", "is_started"),
    [
        pytest.param(b"", False, id="closes without an answer"),
        pytest.param(b"This ZooKeeper instance is not currently serving requests\n", False, id="loads its data"),
        pytest.param(b"Zookeeper version: 3.9.3, built on 2024-10-17\nMode: standalone\n", True, id="serves"),
    ],
)
def test_a_zookeeper_counts_as_started_once_it_opens_sessions(response: bytes, is_started: bool) -> None:
    with server_that_responds(response) as port:
        assert is_serving(port) is is_started
    assert not is_serving(port), "a port without a server"
