"""The brokers of a new topic's partitions, as in Kafka's AdminRackAwareTest and AddPartitionsTest. Replicas while they
change, and the controller's view of them: Kafka's ControllerContextTest, by its names."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.controller.assignment import ReplicaAssignment, assign_replicas
from coterie.controller.elected.view import ControllerConfig, ControllerView
from coterie.replication.states import PartitionState, TopicPartition

A0, A1, B0 = ("A", 0), ("A", 1), ("B", 0)


def test_replicas_go_round_as_in_kafka() -> None:
    """testReplicaAssignment"""
    assert assign_replicas(range(5), 10, 3, start_index=0, shift=0) == {
        0: (0, 1, 2),
        1: (1, 2, 3),
        2: (2, 3, 4),
        3: (3, 4, 0),
        4: (4, 0, 1),
        5: (0, 2, 3),
        6: (1, 3, 4),
        7: (2, 4, 0),
        8: (3, 0, 1),
        9: (4, 1, 2),
    }


def test_more_replicas_than_brokers() -> None:
    """testReplicaAssignment"""
    with pytest.raises(ValueError, match="replication factor 3 with 2 brokers"):
        assign_replicas([0, 1], 10, 3, start_index=0, shift=0)


@given(
    st.lists(st.integers(0, 99), min_size=1, max_size=6, unique=True),
    st.integers(1, 20),
    st.integers(0, 5),
    st.integers(0, 5),
    st.data(),
)
def test_leaders_and_replicas_are_spread(
    brokers: list[int], partitions: int, start_index: int, shift: int, data: st.DataObject
) -> None:
    factor = data.draw(st.integers(1, len(brokers)))
    assigned = assign_replicas(brokers, partitions, factor, start_index=start_index, shift=shift)
    assert sorted(assigned) == list(range(partitions))
    assert all(len(set(replicas)) == factor for replicas in assigned.values())
    leads = [sum(replicas[0] == broker for replicas in assigned.values()) for broker in brokers]
    assert max(leads) - min(leads) <= 1


@given(st.integers(2, 5), st.integers(1, 8), st.integers(1, 8), st.integers(0, 4))
def test_added_partitions_go_on_where_the_others_end(brokers: int, before: int, added: int, start_index: int) -> None:
    """testIncrementPartitions: with the topic's start, the leaders are those of a topic made with all of them."""
    whole = assign_replicas(range(brokers), before + added, 2, start_index=start_index, shift=0)
    new = assign_replicas(range(brokers), added, 2, start_index=start_index, shift=0, first_partition=before)
    assert {p: r[0] for p, r in new.items()} == {p: r[0] for p, r in whole.items() if p >= before}


Ids = tuple[int, ...]


def view() -> ControllerView:
    made = ControllerView(ControllerConfig(1, ""), live={1: 1, 2: 1, 3: 1})
    for partition, replicas in {A0: (1, 2, 3), A1: (2, 3, 1), B0: (3, 1, 2)}.items():
        made.assign(partition, ReplicaAssignment(replicas))
    return made


def test_an_assignment_is_replaced_in_the_state_as_well() -> None:
    """testUpdatePartitionFullReplicaAssignmentUpdatesReplicaAssignment."""
    made = view()
    made.states[A0] = PartitionState(1, 0, (1,), 1, 0, (1, 2, 3))
    for assignment in (ReplicaAssignment((4,)), ReplicaAssignment((3,), (1,), (2,))):
        made.assign(A0, assignment)
        state = made.states[A0]
        assert made.assigned[A0] == assignment
        assert (state.replicas, state.adding_replicas, state.removing_replicas) == (
            assignment.replicas,
            assignment.adding,
            assignment.removing,
        )
        assert (A0 in made.reassigning) == assignment.is_reassigned


@pytest.mark.parametrize(
    ("topic", "partitions"),
    [
        pytest.param("A", [A0, A1], id="testPartitionReplicaAssignmentForTopicReturnsExpectedReplicaAssignments"),
        pytest.param("NONEXISTENT", [], id="testPartitionReplicaAssignmentForTopicReturnsEmptyMapIfTopicDoesNotExist"),
    ],
)
def test_the_partitions_of_a_topic(topic: str, partitions: list[TopicPartition]) -> None:
    made = view()
    assert made.partitions_of(topic) == partitions
    made.remove_topic(topic)
    assert set(made.assigned) == {A0, A1, B0} - set(partitions)


@pytest.mark.parametrize(
    ("assignment", "target", "is_reassigned"),
    [
        (ReplicaAssignment((1, 2, 3, 4, 5, 6), (2, 3, 4), (1, 5, 6)), (2, 3, 4), True),
        (ReplicaAssignment((1, 2, 3, 4), (), (1, 4)), (2, 3), True),
        (ReplicaAssignment((1, 2, 3, 4), (4,), (2,)), (1, 3, 4), True),
        (ReplicaAssignment((1, 2, 3, 4, 5, 6)), (1, 2, 3, 4, 5, 6), False),
        (ReplicaAssignment((1, 2, 3)).reassigned_to((3, 1, 2)), (3, 1, 2), False),
    ],
)
def test_the_target_of_an_assignment(assignment: ReplicaAssignment, target: Ids, is_reassigned: bool) -> None:
    """testPartitionReplicaAssignment."""
    assert (assignment.target, assignment.is_reassigned) == (target, is_reassigned)


@pytest.mark.parametrize(
    ("origin", "target", "assignment"),
    [
        ((1, 2, 3, 4), (4, 2, 5, 3), ReplicaAssignment((4, 2, 5, 3, 1), (5,), (1,))),
        ((1, 2, 3), (4, 5, 6), ReplicaAssignment((4, 5, 6, 1, 2, 3), (4, 5, 6), (1, 2, 3))),
        ((1, 2, 3), (7, 8, 9), ReplicaAssignment((7, 8, 9, 1, 2, 3), (7, 8, 9), (1, 2, 3))),
        ((1, 2, 3), (3, 1, 2), ReplicaAssignment((3, 1, 2))),
    ],
)
def test_a_reassignment_replaces_another(origin: Ids, target: Ids, assignment: ReplicaAssignment) -> None:
    """testReassignTo: from the replicas before the first one, to which a cancelled one goes back."""
    first = ReplicaAssignment(origin).reassigned_to(target)
    assert first == assignment
    assert first.target == target
    assert ReplicaAssignment(origin).reassigned_to((*origin, 10)).reassigned_to(target) == assignment
    assert first.reassigned_to(origin) == ReplicaAssignment(origin)
