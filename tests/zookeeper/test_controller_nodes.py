"""What brokers and their controller write: Kafka's KafkaZkClientTest, by its names, on the laboratory's ZooKeeper and on a
real one."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import pytest

from coterie.controller import nodes
from coterie.controller.assignment import ReplicaAssignment
from coterie.controller.elected.office import ActiveController
from coterie.controller.elected.session import Candidate, Moved, OfficeSession
from coterie.controller.elected.topics import TopicChanges
from coterie.controller.elected.view import ControllerConfig
from coterie.controller.machine import ControllerMachine
from coterie.controller.nodes import registration_of
from coterie.controller.requests import Registered, RequestBatch
from coterie.machines.script import Steps, Wait
from coterie.replication.states import PartitionState, TopicPartition
from coterie.zookeeper import paths
from coterie.zookeeper.operations import BadVersion, Create, Delete, List, NodeExists, Read, Write, Znode
from tests.zookeeper.connections import Connection, Elected, T, carry_out
from tests.zookeeper.test_zk_client import make, node_at

EPOCH = 4
PARTITION, OTHER, MISSING = ("topic1", 0), ("topic1", 1), ("topic2", 0)
STATES = {
    PARTITION: PartitionState(1, 0, (2, 3), EPOCH, 0, (1, 2, 3)),
    OTHER: PartitionState(0, 1, (1, 2), EPOCH, 0, (0, 1, 2)),
}


def elected(connection: Connection, *, is_replaced: bool = False) -> OfficeSession:
    """A controller that knows the two partitions."""
    if connection.apply(Read(nodes.CONTROLLER_EPOCH)) is None:
        connection.apply(Create(nodes.CONTROLLER_EPOCH, str(EPOCH), ephemeral=False))
    version = node_at(connection, nodes.CONTROLLER_EPOCH).version
    session = OfficeSession(cast(Candidate, Elected()), EPOCH, version + is_replaced)
    for partition, state in STATES.items():
        session.view.assign(partition, ReplicaAssignment(state.replicas))
    return session


def run(connection: Connection, steps: Steps[T]) -> T | None:
    return carry_out(steps, connection.apply)[0]


def create_states(connection: Connection) -> None:
    for partition, state in STATES.items():
        connection.apply(Create(paths.partition_state(*partition), nodes.state(state), ephemeral=False))


def held_state(connection: Connection, partition: TopicPartition) -> PartitionState:
    state = nodes.state_of(node_at(connection, paths.partition_state(*partition)), STATES[partition].replicas)
    assert isinstance(state, PartitionState)
    return state


def next_of(state: PartitionState) -> PartitionState:
    return replace(state, leader_epoch=state.leader_epoch + 1, isr=state.isr[:1])


# -- partitions ---------------------------------------------------------------------------------------------------------


def test_states_are_read(connection: Connection) -> None:
    """testGetTopicPartitionStates and testGetTopicsAndPartitions."""
    session = elected(connection)
    assert connection.apply(List(paths.TOPICS)) == []
    assert [run(connection, session.read_state(partition)) for partition in STATES] == [None, None]
    make(connection, paths.topic("topic1"), paths.topic("topic2"))
    assert connection.apply(List(paths.TOPICS)) == ["topic1", "topic2"]
    assert connection.apply(List(f"{paths.topic('topic1')}/partitions")) == []
    create_states(connection)
    assert [run(connection, session.read_state(partition)) for partition in STATES] == list(STATES.values())
    assert session.view.states == STATES
    session.view.assign(("topic1", 2), ReplicaAssignment((1,)))
    assert run(connection, session.read_state(("topic1", 2))) is None


def test_states_are_created_once(connection: Connection) -> None:
    """testCreateAndGetTopicPartitionStatesRaw: one that exists is read."""
    make(connection, paths.topic("topic1"))
    replaced = elected(connection, is_replaced=True)
    replaced.view.live = {2: 1}
    with pytest.raises(Moved):
        run(connection, replaced.create_states(RequestBatch()))
    assert connection.apply(List(f"{paths.topic('topic1')}/partitions")) == []
    for live, leader_epoch in ({2: 1}, 0), ({1: 1, 2: 1}, 0):
        session, batch = elected(connection), RequestBatch()
        session.view.live = live
        run(connection, session.create_states(batch))
        for partition, state in STATES.items():
            created = replace(state, leader=2, leader_epoch=leader_epoch, isr=(2,))
            assert held_state(connection, partition) == created == session.view.states[partition]
        assert set(batch.metadata) == set(STATES)


def test_update_leader_and_isr(connection: Connection) -> None:
    """testUpdateLeaderAndIsr and testSetTopicPartitionStatesRaw: only the controller's, only over the version that it knows,
    and decided again where a leader has written meanwhile."""
    session, batch = elected(connection), RequestBatch()
    session.view.states = dict(STATES)
    assert not run(connection, session.decide(PARTITION, next_of, batch))  # no node
    assert not run(connection, session.decide(MISSING, next_of, batch))
    assert (batch.metadata, connection.apply(List(paths.TOPICS))) == ({}, [])
    create_states(connection)
    replaced = elected(connection, is_replaced=True)
    replaced.view.states = dict(STATES)
    with pytest.raises(Moved):
        run(connection, replaced.decide(PARTITION, next_of, batch))
    assert held_state(connection, PARTITION) == STATES[PARTITION]
    session.view.states = dict(STATES)
    assert run(connection, session.decide(PARTITION, next_of, batch))
    changed = replace(next_of(STATES[PARTITION]), version=1)
    assert held_state(connection, PARTITION) == session.view.states[PARTITION] == batch.metadata[PARTITION] == changed
    by_leader = replace(STATES[OTHER], isr=(2, 1))
    connection.other().apply(Write(paths.partition_state(*OTHER), nodes.state(by_leader), 0))
    assert run(connection, session.decide(OTHER, next_of, batch))
    assert held_state(connection, OTHER) == replace(next_of(by_leader), version=2)


def test_an_assignment_in_a_topics_node(connection: Connection) -> None:
    """testTopicAssignments: beside the other partitions."""
    session, assignment = elected(connection), ReplicaAssignment((1, 2, 3), (1,), (3,))
    assert run(connection, session.write_assignment(PARTITION, assignment)) is False
    connection.apply(Create(paths.topic("topic1"), nodes.topic({0: (), 1: (5,)}), ephemeral=False))
    assert run(connection, session.write_assignment(PARTITION, assignment)) is True
    node = node_at(connection, paths.topic("topic1"))
    assert nodes.assignments_of(node.data) == {0: assignment, 1: ReplicaAssignment((5,))}
    with pytest.raises(Moved):
        run(connection, elected(connection, is_replaced=True).write_assignment(PARTITION, ReplicaAssignment((7,))))


@pytest.mark.parametrize(
    "is_replaced",
    [
        pytest.param(False, id="testDeleteRecursive"),
        pytest.param(True, id="testDeleteRecursiveWithControllerEpochVersionCheck"),
    ],
)
def test_delete_recursive(connection: Connection, is_replaced: bool) -> None:
    """A controller that was replaced deletes nothing."""
    session = elected(connection, is_replaced=is_replaced)
    run(connection, session.delete_below("/delete/does-not-exist"))
    make(connection, "/delete/some/random/path", "/delete/other", "/deleted-not")

    def delete() -> None:
        run(connection, session.delete_below("/delete"))
        run(connection, session.delete("/delete"))

    if is_replaced:
        with pytest.raises(Moved):
            delete()
        assert connection.apply(List("/delete/some/random")) == ["path"]
        return
    delete()
    assert (connection.apply(List("/delete")), connection.apply(Read("/delete"))) == ([], None)
    assert node_at(connection, "/deleted-not").data == ""
    delete()  # again: nothing is there


def test_log_configs(connection: Connection) -> None:
    """testGetLogConfigs: a topic's own settings over the cluster's."""
    session = elected(connection)
    topics, view = TopicChanges(session), session.view
    run(connection, topics.read_config("topic1"))
    assert (view.topic_configs["topic1"], view.min_insync_replicas("topic1")) == ({}, 2)
    for name, count in (("topic1", "1"), ("topic2", "3")):
        own = {"min.insync.replicas": count, "unclean.leader.election.enable": "true"}
        connection.apply(Write(nodes.topic_config(name), nodes.settings(own)))
        run(connection, topics.read_config(name))
        assert view.topic_configs[name] == own
    assert [view.min_insync_replicas(name) for name in ("topic1", "topic2", "none")] == [1, 3, 2]
    assert [view.unclean_leader_election_enable(name) for name in ("topic1", "none")] == [True, False]


# -- brokers and the controller -----------------------------------------------------------------------------------------


def machine(broker: int, host: str = "test.host") -> ControllerMachine:
    return ControllerMachine(ControllerConfig(broker, nodes.broker(host, 9999, None, 0)), 0)


def registered(connection: Connection, host: str = "test.host") -> list[object]:
    """The effects of broker 1's registration."""
    return carry_out(machine(1, host)._register(), connection.apply)[1]


def test_register_broker_info(connection: Connection) -> None:
    """testRegisterBrokerInfo and testRetryRegisterBrokerInfo: a second broker of that id changes nothing; it waits for the
    first one's session to end, where Kafka's stops."""
    other = connection.other()
    (first,) = registered(connection)
    node = node_at(other, paths.broker(1))
    assert first == Registered(node.created)
    assert (registration_of(node.data).address, node.mine) == (("test.host", 9999), False)
    assert registered(connection, "test.host2") == [first]
    (waiting,) = registered(other, "test.host2")
    assert isinstance(waiting, Wait)
    assert node_at(other, paths.broker(1)) == node
    connection.apply(Delete(paths.broker(1)))  # as with the end of the session
    (again,) = registered(other, "test.host2")
    assert isinstance(again, Registered)
    assert again.broker_epoch > node.created
    assert registration_of(node_at(connection, paths.broker(1)).data).address == ("test.host2", 9999)


def test_brokers_are_read(connection: Connection) -> None:
    """testGetBrokerMethods."""
    office = ActiveController(cast(Candidate, Elected()), EPOCH, 0)
    assert run(connection, office._read_brokers()) == {}
    for number, of in ((1, connection), (0, connection.other())):
        of.apply(Create(paths.broker(number), nodes.broker(f"test.host{number}", 9998 + number, None, 0)))
    live = run(connection, office._read_brokers())
    assert live == {number: node_at(connection, paths.broker(number)).created for number in (0, 1)}
    addresses = {n: registration_of(text).address for n, text in office.view.registrations.items()}
    assert addresses == {0: ("test.host0", 9998), 1: ("test.host1", 9999)}


def test_controller_epochs(connection: Connection) -> None:
    """testControllerEpochMethods and testControllerManagementMethods."""
    assert connection.apply(Read(nodes.CONTROLLER)) is None
    with pytest.raises(BadVersion):
        connection.apply(Write(nodes.CONTROLLER_EPOCH, "1", version=0))
    for epoch in (1, 2):
        elected_in = run(connection, machine(1)._elect(is_mine=False))
        assert elected_in == (epoch, epoch)
        assert node_at(connection, nodes.CONTROLLER).mine
        assert node_at(connection, nodes.CONTROLLER_EPOCH).data == str(epoch)
        assert run(connection.other(), machine(2)._elect(is_mine=False)) is None  # one at a time
        connection.apply(Delete(nodes.CONTROLLER))
    with pytest.raises(NodeExists):
        connection.apply(Create(nodes.CONTROLLER_EPOCH, "0", ephemeral=False))
    connection.apply(Write(nodes.CONTROLLER_EPOCH, "3", version=2))
    with pytest.raises(BadVersion):
        connection.apply(Write(nodes.CONTROLLER_EPOCH, "3", version=2))


def test_top_level_paths(connection: Connection) -> None:
    """testCreateTopLevelPaths: those that a controller watches. Kafka makes some for what a broker of ours has not."""
    candidate = machine(1)
    steps = candidate._life()
    carry_out(steps, connection.apply)
    assert candidate.office is not None
    watched = (paths.BROKERS, paths.TOPICS, nodes.ISR_CHANGES, nodes.DELETED_TOPICS)
    assert all(isinstance(connection.apply(Read(path)), Znode) for path in watched)
