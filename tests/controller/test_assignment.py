"""Replicas while they change, and the controller's view of them: Kafka's ControllerContextTest, by its names."""

from __future__ import annotations

import pytest

from coterie.controller.assignment import ReplicaAssignment
from coterie.controller.elected.view import ControllerConfig, ControllerView
from coterie.replication.states import PartitionState, TopicPartition

A0, A1, B0 = ("A", 0), ("A", 1), ("B", 0)
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
