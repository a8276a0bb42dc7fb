"""Settings in a cluster: altered at one broker through ZooKeeper, in force at all (Kafka's DynamicConfigChangeTest)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from coterie.broker.storage.topic import Topic
from coterie.client import KafkaError
from coterie.client.admin.admin import Admin
from coterie.client.connection.cluster import Cluster
from coterie.client.settings.settings import client_settings
from coterie.testing import LocalBroker
from coterie.wire.errors import ErrorCode, error_of
from coterie.wire.messages.settings.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from coterie.wire.messages.settings.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from coterie.zookeeper.operations import Read, Write, Znode
from tests.awaiting import until, until_in_thread

TOPIC = "orders"
TOPIC_TYPE, BROKER_TYPE, GROUP_TYPE = 2, 4, 32
SET, DELETE = 0, 1


@pytest.fixture
def cluster() -> Iterator[LocalBroker]:
    with LocalBroker(brokers=3) as brokers:
        brokers.create_topic(TOPIC, 1, {"retention.ms": "3600000"})
        yield brokers


def _requested(cluster: LocalBroker, broker_id: int, request: Any) -> Any:
    async def ask() -> Any:
        connections = Cluster(client_settings({"bootstrap.servers": cluster.bootstrap_servers}))
        try:
            await connections.metadata([])
            return await connections.request(request, broker_id)
        finally:
            connections.close()

    return asyncio.run(ask())


def _altered(
    cluster: LocalBroker, broker_id: int, kind: int, name: str, changes: Mapping[str, str | None]
) -> tuple[int, str]:
    configs = [AlterableConfig(key, DELETE if value is None else SET, value) for key, value in changes.items()]
    request = IncrementalAlterConfigsRequest([AlterConfigsResource(kind, name, configs)])
    (response,) = _requested(cluster, broker_id, request).responses
    return response.error_code, response.error_message or ""


def _described(cluster: LocalBroker, broker_id: int, kind: int, name: str) -> dict[str, str | None]:
    (result,) = _requested(cluster, broker_id, DescribeConfigsRequest([DescribeConfigsResource(kind, name)])).results
    assert result.error_code == 0, result.error_message
    return {config.name: config.value for config in result.configs}


def _topics(cluster: LocalBroker) -> list[Topic | None]:
    """A broker that has just started knows none."""
    return [broker.topics.by_name.get(TOPIC) for broker in cluster._brokers()]


def _until_in_force(cluster: LocalBroker, field: str, value: object) -> None:
    def in_force() -> bool:
        topics = _topics(cluster)
        return all(topic is not None and getattr(topic.partitions[0].log.config, field) == value for topic in topics)

    until_in_thread(in_force, lambda: f"{field}={value} at each broker")


def _leaderless(cluster: LocalBroker) -> list[int]:
    """The leader alone was in sync, and is killed; returns the other brokers."""
    leader = cluster.leader_of(TOPIC)
    cluster.shrink_isr(TOPIC, 0, to=[leader])
    cluster.kill(leader)
    assert cluster._cluster is not None
    zookeeper = cluster._cluster
    until_in_thread(lambda: (state := zookeeper.state(TOPIC, 0)) is not None and state.leader == -1, "no leader")
    return [broker for broker in (1, 2, 3) if broker != leader]


def test_a_new_topics_settings_are_in_force_at_each_broker(cluster: LocalBroker) -> None:
    _until_in_force(cluster, "retention_ms", 3_600_000)
    for broker_id in (1, 2, 3):
        assert _described(cluster, broker_id, TOPIC_TYPE, TOPIC)["retention.ms"] == "3600000"


def test_altered_at_one_broker_in_force_at_all(cluster: LocalBroker) -> None:  # testConfigChange
    changes = {"max.message.bytes": "2000", "cleanup.policy": "compact", "message.timestamp.type": "LogAppendTime"}
    assert _altered(cluster, 2, TOPIC_TYPE, TOPIC, changes) == (0, "")
    for broker_id in (1, 2, 3):  # what was written is described at once, also where the notification is still to come
        described = _described(cluster, broker_id, TOPIC_TYPE, TOPIC)
        assert {name: described[name] for name in changes} == changes
        assert described["retention.ms"] == "3600000"
    _until_in_force(cluster, "max_message_bytes", 2_000)
    _until_in_force(cluster, "cleanup_compact", True)
    with pytest.raises(KafkaError, match="MESSAGE_TOO_LARGE"):
        cluster.produce(TOPIC, bytes(3_000), key=b"k")
    assert _altered(cluster, 3, TOPIC_TYPE, TOPIC, {"max.message.bytes": None}) == (0, "")
    _until_in_force(cluster, "max_message_bytes", 1_048_588)


def test_what_is_not_valid_is_refused_and_not_written(cluster: LocalBroker) -> None:  # testIncorrectConfig..
    code, text = _altered(cluster, 1, TOPIC_TYPE, TOPIC, {"retention.ms": "soon"})
    assert error_of(code) is ErrorCode.INVALID_CONFIG
    assert "retention.ms" in text
    code, _ = _altered(cluster, 1, TOPIC_TYPE, "none", {"retention.ms": "1"})
    assert error_of(code) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    code, text = _altered(cluster, 1, BROKER_TYPE, "2", {"min.insync.replicas": "2"})
    assert (error_of(code), text) == (ErrorCode.INVALID_REQUEST, "this is broker 1, not 2")
    assert _described(cluster, 1, TOPIC_TYPE, TOPIC)["retention.ms"] == "3600000"


def test_two_alterations_at_a_time_are_both_kept(cluster: LocalBroker) -> None:
    async def both() -> None:
        connections = Cluster(client_settings({"bootstrap.servers": cluster.bootstrap_servers}))
        await connections.metadata([])
        changes = {1: ("retention.bytes", "77"), 2: ("segment.ms", "88"), 3: ("flush.ms", "99")}
        requests = [
            IncrementalAlterConfigsRequest(
                [AlterConfigsResource(TOPIC_TYPE, TOPIC, [AlterableConfig(name, SET, value)])]
            )
            for name, value in changes.values()
        ]
        await asyncio.gather(*(connections.request(r, number) for number, r in zip(changes, requests, strict=True)))
        connections.close()

    asyncio.run(both())
    described = _described(cluster, 1, TOPIC_TYPE, TOPIC)
    assert (described["retention.bytes"], described["segment.ms"], described["flush.ms"]) == ("77", "88", "99")


def test_the_topics_own_min_insync_replicas(cluster: LocalBroker) -> None:
    leader = cluster.leader_of(TOPIC)
    cluster.shrink_isr(TOPIC, 0, to=[leader])
    cluster.produce(TOPIC, b"one is enough")
    _altered(cluster, leader, TOPIC_TYPE, TOPIC, {"min.insync.replicas": "2"})
    with pytest.raises(KafkaError, match="NOT_ENOUGH_REPLICAS"):
        cluster.produce(TOPIC, b"too few")
    _altered(cluster, leader, TOPIC_TYPE, TOPIC, {"min.insync.replicas": None})
    cluster.produce(TOPIC, b"enough again")


# testTopicUncleanLeaderElectionEnable
def test_an_unclean_election_when_it_is_switched_on(cluster: LocalBroker) -> None:
    others = _leaderless(cluster)
    _altered(cluster, others[0], TOPIC_TYPE, TOPIC, {"unclean.leader.election.enable": "true"})
    assert cluster.leader_of(TOPIC) in others


# DynamicBrokerReconfigurationTest.testUncleanLeaderElectionEnable
def test_an_unclean_election_when_the_default_is_switched_on(cluster: LocalBroker) -> None:
    others = _leaderless(cluster)
    assert _altered(cluster, others[0], BROKER_TYPE, "", {"unclean.leader.election.enable": "true"}) == (0, "")
    assert cluster.leader_of(TOPIC) in others


def test_unclean_elections_by_a_setting_of_all_brokers() -> None:
    with LocalBroker(brokers=3, settings={"unclean.leader.election.enable": "true"}) as cluster:
        cluster.create_topic(TOPIC, 1)
        leader = cluster.leader_of(TOPIC)
        cluster.shrink_isr(TOPIC, 0, to=[leader])
        cluster.kill(leader)
        assert cluster.leader_of(TOPIC) != leader


def test_the_controller_keeps_a_default_of_min_insync_replicas_in_the_isr(cluster: LocalBroker) -> None:
    assert _altered(cluster, 1, BROKER_TYPE, "", {"min.insync.replicas": "3"}) == (0, "")
    brokers = cluster._brokers()
    until_in_thread(
        lambda: all(broker.settings.topic_defaults.min_insync_replicas == 3 for broker in brokers), "3 at each broker"
    )
    leader = cluster.leader_of(TOPIC)
    cluster.kill(leader)
    assert cluster.leader_of(TOPIC) != leader
    assert cluster._cluster is not None
    state = cluster._cluster.state(TOPIC, 0)
    assert state is not None
    assert len(state.isr) == 3


def test_a_broker_applies_what_was_altered_while_it_was_down(cluster: LocalBroker) -> None:
    cluster.stop(3)
    _altered(cluster, 1, TOPIC_TYPE, TOPIC, {"retention.ms": "7200000"})
    cluster.restart(3)
    _until_in_force(cluster, "retention_ms", 7_200_000)


def test_a_topic_created_again_has_its_own_settings(cluster: LocalBroker) -> None:
    async def again() -> None:
        async with Admin({"bootstrap.servers": cluster.bootstrap_servers}) as admin:
            await admin.delete_topic(TOPIC)
            await until(lambda: is_created(admin), "the topic again")  # its nodes go last

    async def is_created(admin: Admin) -> bool:
        try:
            await admin.create_topic(TOPIC, 1, {"retention.ms": "5000000"})
        except KafkaError as error:
            if error.code is ErrorCode.TOPIC_ALREADY_EXISTS:
                return False
            raise
        return True

    _altered(cluster, 1, TOPIC_TYPE, TOPIC, {"retention.bytes": "77"})
    asyncio.run(again())
    _until_in_force(cluster, "retention_ms", 5_000_000)
    _until_in_force(cluster, "retention_bytes", -1)


def test_a_tool_that_writes_the_nodes_itself(cluster: LocalBroker) -> None:
    """A later Kafka's setting has no effect; a value that cannot be leaves the settings before in force."""
    assert cluster._cluster is not None
    zookeeper = cluster._cluster.zookeeper

    def write(**settings: str) -> None:
        data = {"version": 1, "config": {name.replace("_", "."): value for name, value in settings.items()}}
        cluster._call(lambda: zookeeper.apply(Write(f"/config/topics/{TOPIC}", json.dumps(data))))

    write(retention_ms="6000000", later_kafkas="1")
    assert _described(cluster, 1, TOPIC_TYPE, TOPIC)["retention.ms"] == "6000000"
    write(retention_ms="never")
    assert _described(cluster, 1, TOPIC_TYPE, TOPIC)["retention.ms"] == "6000000"


def test_settings_of_brokers(cluster: LocalBroker) -> None:  # DynamicBrokerReconfigurationTest
    assert _altered(cluster, 2, BROKER_TYPE, "", {"log.retention.ms": "9000000"}) == (0, "")
    assert _altered(cluster, 3, BROKER_TYPE, "3", {"log.segment.bytes": "1048576"}) == (0, "")

    def segment_bytes() -> list[object]:
        return [broker.settings["log.segment.bytes"] for broker in cluster._brokers()]

    def retention_ms() -> set[object]:
        return {broker.settings["log.retention.ms"] for broker in cluster._brokers()}

    until_in_thread(lambda: retention_ms() == {9_000_000}, retention_ms)
    assert segment_bytes()[:2] == [1024**3, 1024**3]
    until_in_thread(lambda: segment_bytes()[2] == 1048576, segment_bytes)
    assert _described(cluster, 1, BROKER_TYPE, "1")["log.retention.ms"] == "9000000"
    assert _described(cluster, 1, BROKER_TYPE, "")["log.retention.ms"] == "9000000"


def test_settings_of_groups(cluster: LocalBroker) -> None:
    group, name = "billing/eu ä", "consumer.session.timeout.ms"
    assert _altered(cluster, 1, GROUP_TYPE, group, {name: "50000"}) == (0, "")
    for broker_id in (1, 2, 3):
        assert _described(cluster, broker_id, GROUP_TYPE, group)[name] == "50000"

    def timeouts() -> set[int]:
        return {broker.groups.config_of(group).group_consumer_session_timeout_ms for broker in cluster._brokers()}

    until_in_thread(lambda: timeouts() == {50_000}, timeouts)


def test_the_nodes_are_kafkas(cluster: LocalBroker) -> None:
    _altered(cluster, 1, TOPIC_TYPE, TOPIC, {"retention.bytes": "77"})
    assert cluster._cluster is not None
    zookeeper = cluster._cluster.zookeeper

    def read(path: str) -> object:
        node = cluster._call(lambda: zookeeper.apply(Read(path)))
        assert isinstance(node, Znode)
        return json.loads(node.data)

    settings = {"retention.ms": "3600000", "retention.bytes": "77"}
    assert read(f"/config/topics/{TOPIC}") == {"version": 1, "config": settings}
    assert read("/config/changes/config_change_0000000000") == {"version": 2, "entity_path": f"topics/{TOPIC}"}
