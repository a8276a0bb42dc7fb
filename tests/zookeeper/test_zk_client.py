"""Nodes, versions and watches: Kafka's KafkaZkClientTest, by its names, on the laboratory's ZooKeeper and on a real one."""

from __future__ import annotations

import pytest
from kazoo.protocol.serialization import Create as CreateRequest
from kazoo.security import OPEN_ACL_UNSAFE

from coterie.broker.cluster.entity_settings import EntitySettings
from coterie.client.zookeeper.zookeeper_groups import ZooKeeperGroups
from coterie.controller import nodes
from coterie.controller.assignment import ReplicaAssignment
from coterie.testing.local_zookeeper import LocalZooKeeper
from coterie.zookeeper import paths
from coterie.zookeeper.operations import (
    BadVersion,
    Create,
    Delete,
    List,
    NodeExists,
    NoNode,
    NotEmpty,
    Operation,
    Read,
    ReadEach,
    Write,
    Znode,
)
from tests.zookeeper.connections import Connection, RealConnection, delete_all


def node_at(connection: Connection, path: str) -> Znode:
    node = connection.apply(Read(path))
    assert isinstance(node, Znode)
    return node


def make(connection: Connection, *made: str) -> None:
    for path in made:
        connection.apply(Create(path, "", ephemeral=False))


# -- nodes --------------------------------------------------------------------------------------------------------------


def test_create_recursive(connection: Connection) -> None:
    """testCreateRecursive."""
    make(connection, "/create-newrootpath", "/create/some/random/long/path")
    assert node_at(connection, "/create-newrootpath").data == node_at(connection, "/create/some").data == ""
    with pytest.raises(NodeExists):
        make(connection, "/create/some/random/long/path")


def test_delete_path(connection: Connection) -> None:
    """testDeletePath: a node alone leaves the ones above it, and one with children stays."""
    make(connection, "/a/b/c")
    with pytest.raises(NotEmpty):
        connection.apply(Delete("/a/b"))
    connection.apply(Delete("/a/b/c"))
    assert connection.apply(List("/a")) == ["b"]
    with pytest.raises(NoNode):
        connection.apply(Delete("/a/b/c"))
    make(connection, "/a/b/c")
    delete_all(connection, "/a")
    assert connection.apply(List("/a")) == []


def test_get_children(connection: Connection) -> None:
    """testGetChildren."""
    assert connection.apply(List("/testpath")) == []
    make(connection, *(f"/testpath/child{n}" for n in (2, 3, 1)))
    assert connection.apply(List("/testpath")) == ["child1", "child2", "child3"]


def test_conditional_update_path(connection: Connection) -> None:
    """testConditionalUpdatePath, testGetDataAndVersion and testGetDataAndStat."""
    path = "/testconditionalpath"
    assert connection.apply(Read(path)) is None
    with pytest.raises(BadVersion):
        connection.apply(Write(path, "version0", version=0))
    assert connection.apply(Read(path)) is None
    make(connection, path)
    for version in (0, 1):
        connection.apply(Write(path, f"version{version + 1}", version=version))
        node = node_at(connection, path)
        assert (node.data, node.version) == (f"version{version + 1}", version + 1)
    with pytest.raises(BadVersion):
        connection.apply(Write(path, "version3", version=1))
    assert node_at(connection, path).data == "version2"


def test_create_sequential_persistent_path(connection: Connection) -> None:
    """testCreateSequentialPersistentPath."""
    for data in ("", "some value"):
        connection.apply(Create("/testpath/sequence_", data, ephemeral=False, sequential=True))
    assert connection.apply(List("/testpath")) == ["sequence_0000000000", "sequence_0000000001"]
    assert [node_at(connection, f"/testpath/sequence_{n:010d}").data for n in (0, 1)] == ["", "some value"]


# -- watches ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "is_watched",
    [
        pytest.param(True, id="testGetAllTopicsInClusterTriggersWatch"),
        pytest.param(False, id="testGetAllTopicsInClusterDoesNotTriggerWatch"),
    ],
)
def test_a_watch_of_all_topics(connection: Connection, is_watched: bool) -> None:
    """A list that watches nothing leaves the watch of an earlier one alone."""
    make(connection, paths.TOPICS)
    assert connection.apply(List(paths.TOPICS, watch=is_watched)) == []
    assert connection.apply(List(paths.TOPICS)) == []
    for name in ("topic1", "topic2"):
        make(connection, paths.topic(name))
    connection.settle()
    assert connection.events == [paths.TOPICS] * is_watched
    assert connection.apply(List(paths.TOPICS)) == ["topic1", "topic2"]


def test_znode_change_handler_for_data_change(connection: Connection) -> None:
    """testZNodeChangeHandlerForDataChange: the node's creation is one event, whichever session makes it."""
    assert connection.apply(Read("/foo", watch=True)) is None
    other = connection.other()
    make(other, "/foo")
    other.apply(Write("/foo", "again"))
    connection.settle()
    assert (connection.events, other.events) == (["/foo"], [])


# -- what Kafka keeps in them -------------------------------------------------------------------------------------------


def test_set_and_get_consumer_offset(connection: Connection) -> None:
    """testSetAndGetConsumerOffset and testConsumerOffsetPath."""
    path = paths.offset("test-group", "test-topic", 2)
    assert path == "/consumers/test-group/offsets/test-topic/2"
    assert connection.apply(ReadEach((path,))) == [None]
    for offset in (123, 125):
        connection.apply(Write(path, str(offset)))
        assert paths.offset_of(node_at(connection, path).data) == offset


def test_get_consumer_offset_no_data(zookeeper: LocalZooKeeper) -> None:
    """testGetConsumerOffsetNoData: Kafka makes nodes without data, which kazoo does not; such a node holds no offset."""
    connection = RealConnection(zookeeper.address)
    try:
        make(connection, paths.members("g"), paths.offsets("g", "t"))
        path, client = paths.offset("g", "t", 0), connection.client
        result = client.handler.async_result()
        client._call(CreateRequest(path, None, OPEN_ACL_UNSAFE, 0), result)
        result.get()
        assert client.get(path)[0] is None
        assert node_at(connection, path).data == ""
        assert connection.apply(ReadEach((path,))) == [""]
        with ZooKeeperGroups(zookeeper.address) as groups:
            assert groups.read("g").offsets == {}
            connection.apply(Write(path, "7"))
            assert groups.read("g").offsets == {("t", 0): 7}
    finally:
        connection.clear()
        connection.close()


def test_topic_assignments(connection: Connection) -> None:
    """testTopicAssignmentMethods."""
    assert connection.apply(Read(paths.topic("topic1"))) is None
    assignment = {0: (0, 1), 1: (0, 1), 2: (1, 2, 3)}
    connection.apply(Create(paths.topic("topic1"), nodes.topic(assignment), ephemeral=False))
    read = nodes.assignments_of(node_at(connection, paths.topic("topic1")).data)
    assert read == {partition: ReplicaAssignment(ids) for partition, ids in assignment.items()}
    connection.apply(Write(paths.topic("topic1"), nodes.assignments({p: read[p] for p in (0, 1)})))
    assert list(nodes.replicas_of(node_at(connection, paths.topic("topic1")).data)) == [0, 1]
    connection.apply(Create(paths.topic("topic2"), nodes.topic({0: (0, 1), 1: (0, 1)}), ephemeral=False))
    assert connection.apply(List(paths.TOPICS)) == ["topic1", "topic2"]


def test_cluster_id(connection: Connection) -> None:
    """testClusterIdMethods: the first one is kept."""
    for cluster_id in ("first", "second"):
        try:
            connection.apply(Create(nodes.CLUSTER_ID, nodes.cluster(cluster_id), ephemeral=False))
        except NodeExists:
            assert cluster_id == "second"
    assert nodes.cluster_id_of(node_at(connection, nodes.CLUSTER_ID).data) == "first"


async def test_entity_configs(connection: Connection) -> None:
    """testEntityConfigManagementMethods and testCreateConfigChangeNotification. What was read in an older version is not
    written; Kafka's is."""

    async def apply(operation: Operation) -> object:
        return connection.apply(operation)

    settings = EntitySettings(apply, lambda change: None)
    values = {"segment.bytes": "1024", "segment.index.bytes": "1024", "cleanup.policy": "compact"}
    assert await settings.read(nodes.TOPICS_KIND, "topic1") == ({}, -1)
    assert await settings.write(nodes.TOPICS_KIND, "topic1", values, -1)
    assert not await settings.write(nodes.TOPICS_KIND, "topic1", {}, -1)
    assert await settings.read(nodes.TOPICS_KIND, "topic1") == (values, 0)
    del values["cleanup.policy"]
    assert await settings.write(nodes.TOPICS_KIND, "topic1", values, 0)
    assert not await settings.write(nodes.TOPICS_KIND, "topic1", {}, 0)
    assert await settings.read(nodes.TOPICS_KIND, "topic1") == (values, 1)
    assert await settings.write(nodes.TOPICS_KIND, "topic2", values, -1)
    assert connection.apply(List(nodes.configs(nodes.TOPICS_KIND))) == ["topic1", "topic2"]
    names = connection.apply(List(nodes.CONFIG_CHANGES))
    assert names == [f"config_change_{n:010d}" for n in range(3)]
    texts = [node_at(connection, f"{nodes.CONFIG_CHANGES}/{name}").data for name in names]
    assert texts == [f'{{"version":2,"entity_path":"topics/topic{n}"}}' for n in (1, 1, 2)]
