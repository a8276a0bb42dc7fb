"""Topic ids in a cluster (KIP-516): another for each topic of a name, the same at each broker, and a log of a deleted topic is
not taken for that of another one of its name."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Iterator

import pytest

from coterie.broker.cluster.hosted_topics import HostedTopics
from coterie.broker.storage.topic import Partition
from coterie.client import KafkaError
from coterie.client.admin.admin import Admin
from coterie.client.blocking import BlockingAdmin
from coterie.client.connection.connection import Connection
from coterie.replication.states import TopicPartition
from coterie.testing import LocalBroker
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.logs.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from coterie.wire.messages.logs.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from coterie.zookeeper.operations import Read, Znode
from tests.awaiting import until, until_in_thread
from tests.broker.handlers.test_old_versions import batch

TOPIC = "orders"


@pytest.fixture
def cluster() -> Iterator[LocalBroker]:
    with LocalBroker(brokers=3) as brokers:
        brokers.create_topic(TOPIC, 2)
        yield brokers


def _ids(cluster: LocalBroker) -> set[bytes | None]:
    topics = [broker.topics.by_name.get(TOPIC) for broker in cluster._brokers()]
    return {None if topic is None else topic.topic_id for topic in topics}


def _one_id(cluster: LocalBroker) -> bytes:
    until_in_thread(lambda: len(_ids(cluster)) == 1 and None not in _ids(cluster), lambda: f"one id: {_ids(cluster)}")
    (topic_id,) = _ids(cluster)
    assert topic_id is not None
    return topic_id


def _node(cluster: LocalBroker) -> dict[str, object]:
    assert cluster._cluster is not None
    zookeeper = cluster._cluster.zookeeper
    node = cluster._call(lambda: zookeeper.apply(Read(f"/brokers/topics/{TOPIC}")))
    assert isinstance(node, Znode)
    read: dict[str, object] = json.loads(node.data)
    return read


def _created_again(cluster: LocalBroker) -> None:
    async def story() -> None:
        async with Admin({"bootstrap.servers": cluster.bootstrap_servers}) as admin:
            await admin.delete_topic(TOPIC)
            await until(lambda: created(admin), "the topic again")  # its nodes go last

    async def created(admin: Admin) -> bool:
        try:
            await admin.create_topic(TOPIC, 2)
        except KafkaError as error:
            if error.code is ErrorCode.TOPIC_ALREADY_EXISTS:
                return False
            raise
        return True

    asyncio.run(story())


def test_a_topic_that_is_created_again_has_another_id(cluster: LocalBroker) -> None:
    first = _one_id(cluster)
    _created_again(cluster)
    second = _one_id(cluster)
    assert first != second


def test_the_id_is_in_the_topics_node_and_stays_there(cluster: LocalBroker) -> None:
    before = _node(cluster)
    assert (before["version"], len(str(before["topic_id"]))) == (3, 22)
    topic_id = _one_id(cluster)
    with BlockingAdmin({"bootstrap.servers": cluster.bootstrap_servers}) as admin:
        admin.create_partitions(TOPIC, 3)
        leader = cluster.leader_of(TOPIC, 2)
        others = [broker for broker in (1, 2, 3) if broker != leader]
        cluster.move_leader(TOPIC, 2, others[0])  # by a reassignment
    assert _node(cluster)["topic_id"] == before["topic_id"]
    cluster.stop(1)
    cluster.restart(1)
    assert _one_id(cluster) == topic_id


def test_a_cluster_with_older_brokers_has_none_in_its_nodes() -> None:
    with LocalBroker({"inter.broker.protocol.version": "2.6"}, brokers=3) as cluster:
        cluster.create_topic(TOPIC, 2)
        assert _node(cluster)["version"] == 2
        assert "topic_id" not in _node(cluster)
        first = _one_id(cluster)
        _created_again(cluster)
        assert _one_id(cluster) != first  # what the brokers derive is never shown


def test_a_log_of_a_deleted_topic_is_set_aside(cluster: LocalBroker) -> None:
    """Its broker was down when the topic was deleted, after its replicas had been moved away, and created again."""
    for number in range(20):
        cluster.produce(TOPIC, b"old %d" % number, partition=0)
    cluster.stop(3)
    with BlockingAdmin({"bootstrap.servers": cluster.bootstrap_servers}) as admin:
        admin.alter_partition_reassignments({(TOPIC, partition): [1, 2] for partition in range(2)})
        until_in_thread(lambda: not admin.list_partition_reassignments(), "moved")
        admin.delete_topic(TOPIC)

        def created() -> bool:
            try:
                admin.create_topic(TOPIC, 2, replication_factor=2)
            except KafkaError as error:
                return error.code is not ErrorCode.TOPIC_ALREADY_EXISTS
            return True

        until_in_thread(created, "the topic again")
        cluster.produce(TOPIC, b"new", partition=0)
        cluster.restart(3)
        assert cluster.coordinator_of is not None
        admin.alter_partition_reassignments({(TOPIC, 0): [1, 2, 3]})
        until_in_thread(lambda: cluster.in_sync(TOPIC, 0) == {1, 2, 3}, lambda: f"in sync: {cluster.in_sync(TOPIC, 0)}")
    logs = [broker.topics.partition(TOPIC, 0).log for broker in cluster._brokers()]
    assert [log.end_offset for log in logs] == [1, 1, 1]
    assert len({bytes(log.read(0, 10_000)) for log in logs}) == 1


def test_a_broker_that_comes_back_knows_the_ids_and_settings_of_all_topics(cluster: LocalBroker) -> None:
    """Of several topics that the controller announces at once, each is announced here with its own."""
    names = ["a", "b", "c", TOPIC]
    for name in names[:3]:
        cluster.create_topic(name, 1, {"retention.ms": "77000"})

    def known() -> list[dict[str, tuple[bytes, str | None]]]:
        every = [broker.topics.by_name for broker in cluster._brokers()]
        return [{n: (t[n].topic_id, t[n].configs.get("retention.ms")) for n in names if n in t} for t in every]

    until_in_thread(lambda: all(each == known()[0] and len(each) == 4 for each in known()), "all topics")
    before = known()[0]
    cluster.kill(1)
    cluster.restart(1)
    until_in_thread(lambda: all(len(each) == 4 for each in known()), "all topics again")
    assert known() == [before] * 3


def test_no_replica_has_a_role_once_its_topic_is_deleted(cluster: LocalBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its log is closed at UpdateMetadata, before StopReplica: a follower's fetch that was answered then failed to write."""
    _one_id(cluster)
    deleted: list[Partition] = []
    with_role: list[Partition] = []
    forgotten = HostedTopics.forgotten

    def noted(hosted: HostedTopics, partitions: Iterable[TopicPartition]) -> None:
        known = [hosted._topics.partition(*partition) for partition in partitions]
        deleted.extend(known)
        with_role.extend(partition for partition in known if partition.replica is not None)
        forgotten(hosted, [(partition.topic, partition.index) for partition in known])

    monkeypatch.setattr(HostedTopics, "forgotten", noted)
    with BlockingAdmin({"bootstrap.servers": cluster.bootstrap_servers}) as admin:
        admin.delete_topic(TOPIC)
    until_in_thread(lambda: _ids(cluster) == {None}, lambda: f"the deletion at each broker: {_ids(cluster)}")
    assert len(deleted) == 6
    assert not with_role


@pytest.mark.parametrize("version", [15, 16])
def test_a_broker_that_does_not_lead_names_the_leader(cluster: LocalBroker, version: int) -> None:
    """KIP-951, from version 16 of Fetch on."""
    topic_id = _one_id(cluster)
    view = cluster._brokers()[0].cluster
    state = view.states[TOPIC, 0]
    leader, other = view.live[state.leader], next(b for b in view.live.values() if b.broker_id != state.leader)

    async def story() -> FetchResponse:
        connection = await Connection.connect(other.host, other.port, "test", 20)
        wanted = [FetchTopic(TOPIC, topic_id, [FetchPartition(0, fetch_offset=0, partition_max_bytes=100)])]
        request = FetchRequest(max_wait_ms=0, min_bytes=1, topics=wanted)
        response = await connection.request(request, FetchResponse, 20, highest=version)
        connection.close()
        return response

    response = asyncio.run(story())
    (data,) = response.responses[0].partitions
    named = (leader.broker_id, state.leader_epoch) if version == 16 else (-1, -1)
    assert data.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (data.current_leader.leader_id, data.current_leader.leader_epoch) == named
    endpoints = [(node.node_id, node.host, node.port) for node in response.node_endpoints]
    assert endpoints == ([(leader.broker_id, leader.host, leader.port)] if version == 16 else [])


@pytest.mark.parametrize("version", [9, 10, 13])
def test_a_broker_that_does_not_lead_names_the_leader_to_a_producer(cluster: LocalBroker, version: int) -> None:
    """KIP-951, from version 10 of Produce on; 13 has topic ids."""
    topic_id = _one_id(cluster)
    view = cluster._brokers()[0].cluster
    state = view.states[TOPIC, 0]
    leader, other = view.live[state.leader], next(b for b in view.live.values() if b.broker_id != state.leader)

    async def story() -> ProduceResponse:
        connection = await Connection.connect(other.host, other.port, "test", 20)
        data = [PartitionProduceData(0, batch(b"a"))]
        request = ProduceRequest(None, -1, 1000, [TopicProduceData(TOPIC, topic_id, data)])
        response = await connection.request(request, ProduceResponse, 20, highest=version)
        connection.close()
        return response

    response = asyncio.run(story())
    (row,) = response.responses[0].partition_responses
    named = (leader.broker_id, state.leader_epoch) if version >= 10 else (-1, -1)
    assert row.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (row.current_leader.leader_id, row.current_leader.leader_epoch) == named
    endpoints = [(node.node_id, node.host, node.port) for node in response.node_endpoints]
    assert endpoints == ([(leader.broker_id, leader.host, leader.port)] if version >= 10 else [])
