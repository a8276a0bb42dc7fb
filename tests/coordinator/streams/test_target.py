"""The target assignment: what an assignor is given, and what of its result is stored. Names are those of Kafka 4.4's
TargetAssignmentBuilderTest, AssignmentConfigsImplTest, TasksTupleTest and TasksTupleWithEpochsTest."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from coterie.coordinator.outcome import CoordinatorConfig
from coterie.coordinator.streams import events as s
from coterie.coordinator.streams.state import (
    CurrentTasks,
    OwnedTasks,
    RestoredOffsets,
    StreamsGroup,
    StreamsGroupMember,
    StreamsMetadata,
)
from coterie.coordinator.streams.sticky_task_assignor import TASK_ASSIGNORS
from coterie.coordinator.streams.target import assignment_configs, compute_task_target
from coterie.coordinator.streams.tasks import (
    NO_TASKS,
    ConfiguredSubtopology,
    ConfiguredTopology,
    Members,
    Subtopologies,
    TaskAssignmentConfig,
    TaskId,
    Tasks,
    TopologyProblem,
)

FOO = ConfiguredSubtopology(6, {"foo"}, {}, set(), {})
READY = ConfiguredTopology(0, {"foo": FOO})
CONFIG = CoordinatorConfig()


class Assignor:
    """Assigns what it is given, and keeps what it was asked."""

    def __init__(self, given: Mapping[str, Tasks]) -> None:
        self.given = dict(given)
        self.members: Members = {}
        self.subtopologies: Subtopologies = {}
        self.config = TaskAssignmentConfig()

    def __call__(
        self, members: Members, subtopologies: Subtopologies, config: TaskAssignmentConfig
    ) -> dict[str, Tasks]:
        self.members, self.subtopologies, self.config = members, subtopologies, config
        return self.given


def tasks_of(*partitions: int, role: str = "active") -> Tasks:
    return Tasks(**{role: frozenset(("foo", p) for p in partitions)})


def computed(
    monkeypatch: pytest.MonkeyPatch,
    given: Mapping[str, Tasks],
    before: Mapping[str, Tasks],
    topology: ConfiguredTopology = READY,
    members: tuple[str, ...] = ("m1", "m2"),
) -> tuple[dict[str, Tasks], list[object]]:
    monkeypatch.setitem(TASK_ASSIGNORS, "sticky", Assignor(given))
    present = {member_id: StreamsGroupMember(member_id) for member_id in members}
    target, events = compute_task_target(StreamsGroup("g"), present, before, topology, 20, CONFIG, {}, 12_345)
    return target, list(events)


OTHER = {"m1": tasks_of(1, 2, 3), "m2": tasks_of(4, 5)}
SWAPPED = {"m1": tasks_of(4, 5), "m2": tasks_of(1, 2, 3)}
EPOCH = s.TaskTargetEpochStored(20, 12_345)


@pytest.mark.parametrize(
    ("given", "before", "stored"),
    [
        pytest.param(OTHER, OTHER, [], id="testAssignmentHasNotChanged"),
        pytest.param(SWAPPED, OTHER, ["m1", "m2"], id="testAssignmentSwapped"),
        pytest.param(OTHER | {"m2": tasks_of(4, 5, 0)}, OTHER, ["m2"], id="testPartialAssignmentUpdate"),
        pytest.param({}, {}, ["m1", "m2"], id="a-member-without-tasks-has-a-record"),
    ],
)
def test_what_changed_is_stored(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, Tasks], before: dict[str, Tasks], stored: list[str]
) -> None:
    target, events = computed(monkeypatch, given, before)
    assert target == {m: given.get(m, NO_TASKS) for m in ("m1", "m2")}
    assert events == [*(s.TaskTargetStored(m, target[m]) for m in stored), EPOCH]


def test_a_group_without_members(monkeypatch: pytest.MonkeyPatch) -> None:
    """testEmpty of TargetAssignmentBuilderTest"""
    assert computed(monkeypatch, {}, {}, members=()) == ({}, [EPOCH])


def test_no_tasks_while_the_topology_is_not_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    unready = ConfiguredTopology(0, {"foo": FOO}, problem=TopologyProblem(3, "Internal topics are missing"))
    target, _ = computed(monkeypatch, OTHER, OTHER, unready)
    assert set(target.values()) == {NO_TASKS}


def test_what_an_assignor_sees_of_a_member(monkeypatch: pytest.MonkeyPatch) -> None:
    """testCreateMemberMetadataAndState, testCreateMemberMetadataAndStatePopulatesTaskOffsets,
    testCreateMemberMetadataAndStateSourcesWarmupTasksFromCurrentAssignment"""
    assignor = Assignor({})
    monkeypatch.setitem(TASK_ASSIGNORS, "sticky", assignor)
    owned = OwnedTasks({("foo", 1): 9}, frozenset({("foo", 2)}), frozenset({("foo", 3)}))
    metadata = StreamsMetadata("i", "r", process_id="p", client_tags=(("tag1", "v1"), ("tag2", "v2")))
    member = StreamsGroupMember("m", metadata, CurrentTasks(9, 8, assigned=owned))
    offsets: dict[TaskId, int] = {("foo", 0): 10}
    group = StreamsGroup("g", restored={"m": RestoredOffsets(offsets, {("foo", 0): 20})})
    configs = {"num.standby.replicas": "2", "rack.aware.assignment.tags": "a,b"}
    compute_task_target(group, {"m": member}, {}, READY, 20, CONFIG, configs, 0)
    seen = assignor.members["m"]
    assert (seen.process_id, seen.instance_id, seen.rack_id) == ("p", "i", "r")
    assert seen.client_tags == {"tag1": "v1", "tag2": "v2"}
    assert seen.tasks == Tasks(frozenset({("foo", 1)}), frozenset({("foo", 2)}), frozenset({("foo", 3)}))
    assert (seen.offsets, seen.end_offsets) == (offsets, {("foo", 0): 20})
    assert assignor.config == TaskAssignmentConfig(2, ("a", "b"))
    assert (assignor.subtopologies["foo"].task_count, assignor.subtopologies["foo"].is_stateful) == (6, False)


@pytest.mark.parametrize(
    ("configs", "given"),
    [
        pytest.param({}, TaskAssignmentConfig(), id="testDefault"),
        pytest.param({}, TaskAssignmentConfig(0, ()), id="testFromEmptyMap"),
        pytest.param(
            {"num.standby.replicas": "2"}, TaskAssignmentConfig(2), id="testFromMapWithoutRackAwareAssignmentTags"
        ),
        pytest.param(
            {"num.standby.replicas": "2", "rack.aware.assignment.tags": "zone"},
            TaskAssignmentConfig(2, ("zone",)),
            id="testFromMap",
        ),
    ],
)
def test_the_settings_of_an_assignment(
    monkeypatch: pytest.MonkeyPatch, configs: dict[str, str], given: TaskAssignmentConfig
) -> None:
    """AssignmentConfigsImplTest"""
    assignor = Assignor({})
    monkeypatch.setitem(TASK_ASSIGNORS, "sticky", assignor)
    compute_task_target(StreamsGroup("g"), {}, {}, READY, 20, CONFIG, configs, 0)
    assert assignor.config == given


def test_the_settings_that_a_record_keeps() -> None:
    assert assignment_configs(CONFIG) == {"num.standby.replicas": "0"}
    config = CoordinatorConfig(
        group_streams_num_standby_replicas=1, group_streams_rack_aware_assignment_tags=("a", "b")
    )
    assert assignment_configs(config) == {"num.standby.replicas": "1", "rack.aware.assignment.tags": "a,b"}


OWNED = OwnedTasks({("foo", 1): 9}, frozenset({("foo", 2)}), frozenset({("foo", 3)}))


@pytest.mark.parametrize(
    ("tasks", "shared"),
    [
        (tasks_of(1), True),
        (tasks_of(2, role="standby"), True),
        (tasks_of(3, role="warmup"), True),
        (tasks_of(2), False),
        (tasks_of(3, role="standby"), False),
        (tasks_of(1, role="warmup"), False),
        (NO_TASKS, False),
    ],
)
def test_tasks_that_are_shared_in_a_role(tasks: Tasks, shared: bool) -> None:
    """testContainsAny of TasksTupleTest"""
    assert OWNED.shares_any(tasks) is shared


def test_tasks_as_values() -> None:
    """testSameTasks, testIsEmpty of TasksTupleTest; testIsEmpty of TasksTupleWithEpochsTest"""
    assert OWNED.tasks == Tasks(frozenset({("foo", 1)}), frozenset({("foo", 2)}), frozenset({("foo", 3)}))
    assert OWNED.tasks != Tasks(frozenset({("foo", 1)}), frozenset({("foo", 3)}), frozenset({("foo", 2)}))
    assert [bool(OwnedTasks({("foo", 1): 1})), bool(OwnedTasks({}, frozenset({("foo", 1)})))] == [True, True]
    assert [bool(OwnedTasks({}, frozenset(), frozenset({("foo", 1)}))), bool(OwnedTasks())] == [True, False]


def test_a_replica_of_what_is_active_counts_for_the_process() -> None:
    """The tasks that a member is to process are its active ones and its warm-ups."""
    assert CurrentTasks(assigned=OWNED).awaited == {("foo", 1), ("foo", 3)}
    restored = RestoredOffsets(
        {("foo", 1): 5, ("foo", 3): 9, ("foo", 2): 0}, {("foo", 1): 8, ("foo", 3): 9, ("foo", 2): 7}
    )
    assert restored.lags(CurrentTasks(assigned=OWNED).awaited) == {("foo", 1): 3}
