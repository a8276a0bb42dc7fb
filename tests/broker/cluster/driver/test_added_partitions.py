"""Partitions added to a topic of a cluster: Kafka's AddPartitionsTest, by name."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping

import pytest

from coterie.broker.cluster.cluster_view import ClusterView, LiveBroker
from coterie.broker.cluster.topic_changes import TopicAdministration
from coterie.broker.settings import BrokerSettings
from coterie.broker.storage.topics import Topics
from coterie.client.connection.cluster import Cluster
from coterie.client.settings.settings import client_settings
from coterie.controller import nodes
from coterie.controller.assignment import ReplicaAssignment
from coterie.log.filesystem import MemoryFileSystem
from coterie.testing import LocalBroker
from coterie.wire.errors import ErrorCode, Refusal, error_of
from coterie.wire.messages.topics.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from coterie.zookeeper.operations import BadVersion, Operation, Read, Write, Znode

TOPIC = "orders"
Placement = Mapping[int, tuple[int, ...]]


class TopicNode:
    """The topic's node in ZooKeeper. ``overtaken_by``: what another broker writes just before the first write."""

    def __init__(self, content: str, overtaken_by: str | None = None) -> None:
        self.content, self.version, self.overtaken_by = content, 0, overtaken_by

    async def apply(self, operation: Operation) -> object:
        if isinstance(operation, Read):
            return Znode(self.content, version=self.version)
        assert isinstance(operation, Write)
        if self.overtaken_by is not None:
            self.content, self.version, self.overtaken_by = self.overtaken_by, self.version + 1, None
        if operation.version != self.version:
            raise BadVersion
        self.content, self.version = operation.data, self.version + 1
        return None


def enlarged(
    node: TopicNode, count: int, assigned: Placement | None = None, live: tuple[int, ...] = (0, 1, 2, 3)
) -> Placement:
    """The replicas of all partitions, after any broker has added some."""

    async def story() -> None:
        view, settings = ClusterView(0, is_alone=False), BrokerSettings()
        view.update(0, [LiveBroker(number, "host", 9092) for number in live], {})
        topics = Topics(MemoryFileSystem(), settings, in_cluster=True)
        changes = TopicAdministration(settings, topics, view, node.apply, random.Random(count))
        await changes.enlarge(TOPIC, count, assigned, validate_only=False)

    asyncio.run(story())
    return nodes.replicas_of(node.content)


@pytest.mark.parametrize(
    ("first", "count", "live", "placed"),
    [
        pytest.param(
            (2, 3, 0, 1),
            7,
            (0, 1, 2, 3),
            [(2, {0, 1, 2, 3}), *((leader, {0, 1, 2, 3}) for leader in (3, 0, 1, 2, 3, 0))],
            id="testReplicaPlacementAllServers",
        ),
        pytest.param(
            (1, 2), 3, (0, 1, 2, 3), [(1, {1, 2}), (2, {0, 2}), (3, {1, 3})], id="testReplicaPlacementPartialServers"
        ),
        pytest.param((2, 3), 2, (0, 1, 3), [(2, {2, 3}), (0, {0, 1})], id="the first replica is down: the next broker"),
        pytest.param((9,), 2, (0, 1, 3), [(9, {9}), (1, {1})], id="no broker follows it: the first one"),
    ],
)
def test_leaders_go_on_from_the_first_partition(
    first: tuple[int, ...], count: int, live: tuple[int, ...], placed: list[tuple[int, set[int]]]
) -> None:
    replicas = enlarged(TopicNode(nodes.topic({0: first})), count, live=live)
    assert [(replicas[index][0], set(replicas[index])) for index in range(count)] == placed


def test_a_topic_that_another_broker_enlarges_first() -> None:
    """The node's new content counts: its partitions stay."""
    node = TopicNode(nodes.topic({0: (1, 2)}), overtaken_by=nodes.topic({0: (1, 2), 1: (3, 0)}))
    assert enlarged(node, 3)[1] == (3, 0)


@pytest.mark.parametrize(
    ("content", "error", "text"),
    [
        pytest.param(
            nodes.topic({1: (0, 1)}),
            ErrorCode.UNKNOWN_SERVER_ERROR,
            "partition 0 is missing",
            id="testMissingPartition0",
        ),
        pytest.param(
            nodes.assignments({0: ReplicaAssignment((0, 1, 2), adding=(2,), removing=(0,))}),
            ErrorCode.REASSIGNMENT_IN_PROGRESS,
            "once that has ended",
            id="while a reassignment is under way",
        ),
    ],
)
def test_a_topic_that_cannot_be_enlarged(content: str, error: ErrorCode, text: str) -> None:
    node = TopicNode(content)
    for assigned in (None, {1: (0, 1), 2: (0, 1, 2)}):
        with pytest.raises(Refusal, match=text) as refusal:
            enlarged(node, 3, assigned)
        assert refusal.value.code is error
    assert node.content == content


def requested(cluster: LocalBroker, count: int, *added: list[int]) -> ErrorCode:
    """The controller's response to CreatePartitions with an assignment."""

    async def story() -> ErrorCode:
        connections = Cluster(client_settings({"bootstrap.servers": cluster.bootstrap_servers}))
        await connections.metadata([])
        assignments = [CreatePartitionsAssignment(ids) for ids in added]
        request = CreatePartitionsRequest([CreatePartitionsTopic(TOPIC, count, assignments)], 20_000)
        response = await connections.request_controller(request, lambda r: r.results)
        connections.close()
        return error_of(response.results[0].error_code)

    return asyncio.run(story())


def test_manual_assignment_of_replicas() -> None:
    """testManualAssignmentOfReplicas; testWrongReplicaCount: partition 0 has as many replicas as each that is added."""
    with LocalBroker({"default.replication.factor": "2"}, brokers=3) as cluster:
        cluster.create_topic(TOPIC, 1)
        for wrong in ([1, 2, 3], [1]):
            assert requested(cluster, 2, wrong) is ErrorCode.INVALID_REPLICA_ASSIGNMENT
        assert requested(cluster, 3, [3, 1], [2, 3]) is ErrorCode.NONE
        assert [cluster.leader_of(TOPIC, index) for index in (1, 2)] == [3, 2]
        assert [cluster.in_sync(TOPIC, index) for index in (1, 2)] == [{1, 3}, {2, 3}]
        assert requested(cluster, 3, [3, 1], [2, 3]) is ErrorCode.INVALID_PARTITIONS
