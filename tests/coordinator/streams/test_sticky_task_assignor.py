"""The sticky task assignor gives each group of Apache Kafka 4.4's StickyTaskAssignorTest the assignment of Kafka's class, which
`sticky_cases.txt` has by the names of its tests; so do the java orders that it follows. Many more groups are compared by the
part `assignors` of the conformance run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from coterie.coordinator.streams.java_order import JavaQueue, computed_order, java_order
from coterie.coordinator.streams.sticky_task_assignor import TASK_ASSIGNORS, ProcessLoad, assign_sticky
from coterie.coordinator.streams.tasks import AssignableSubtopology, TaskAssignmentConfig, TaskId, TaskMember, Tasks

CASES = Path(__file__).with_name("sticky_cases.txt")


@dataclass
class StickyCase:
    name: str
    standbys: int = 0
    subtopologies: dict[str, AssignableSubtopology] = field(default_factory=dict)
    members: dict[str, TaskMember] = field(default_factory=dict)
    expected: dict[str, Tasks] = field(default_factory=dict)


def tasks_of(text: str) -> frozenset[TaskId]:
    tasks: set[TaskId] = set()
    for name, _, runs in (item.rpartition(":") for item in text.split(",") if item != "-"):
        for first, _, last in (run.partition("-") for run in runs.split("+")):
            tasks |= {(name, n) for n in range(int(first), int(last or first) + 1)}
    return frozenset(tasks)


def offsets_of(text: str) -> dict[TaskId, int]:
    items = [item.rpartition(":") for item in text.split(",") if item != "-"]
    return {(task.rpartition("_")[0], int(task.rpartition("_")[2])): int(offset) for task, _, offset in items}


def cases() -> Iterator[StickyCase]:
    case = StickyCase("")
    for words in map(str.split, CASES.read_text().splitlines()):
        match words:
            case ["case", name]:
                if case.name:
                    yield case
                case = StickyCase(name)
            case ["standbys", count]:
                case.standbys = int(count)
            case ["subtopology", name, count, kind]:
                case.subtopologies[name] = AssignableSubtopology(int(count), kind == "stateful")
            case ["member", member_id, process_id, active, standby, offsets, "->", *assigned]:
                before = Tasks(tasks_of(active), tasks_of(standby))
                case.members[member_id] = TaskMember(process_id, before, offsets=offsets_of(offsets))
                case.expected[member_id] = Tasks(*map(tasks_of, assigned))
    yield case


@pytest.mark.parametrize("case", list(cases()), ids=lambda case: case.name)
def test_a_group_of_kafkas(case: StickyCase) -> None:
    assigned = assign_sticky(case.members, case.subtopologies, TaskAssignmentConfig(case.standbys))
    assert assigned == case.expected
    active = [task for tasks in assigned.values() for task in tasks.active]
    assert len(active) == len(set(active)) == sum(s.task_count for s in case.subtopologies.values())


def test_the_assignors_have_kafkas_names() -> None:
    """testToStringReturnsName of StickyTaskAssignorTest."""
    assert list(TASK_ASSIGNORS) == ["sticky"]


TASK_1, TASK_2, TASK_3 = ("a", 0), ("a", 1), ("b", 0)


def test_the_load_of_a_process() -> None:
    """ProcessStateTest: shouldAddActiveTaskToMember, shouldAddStandbyTaskToMember, shouldIncreaseCapacity,
    shouldReturnTrueIfTaskIsAssigned, shouldReturnFalseIfTaskIsNotAssigned, shouldReturnAllAssignedTasks."""
    process = ProcessLoad(["m1", "m2"])
    assert process.load == 0
    assert process.add("m1", TASK_1, is_active=True) == 1
    assert process.load == 0.5
    assert process.add("m1", TASK_2, is_active=False) == 2
    assert process.load == 1
    assert process.tasks == {TASK_1, TASK_2}
    assert process.assigned("m1") == Tasks(frozenset({TASK_1}), frozenset({TASK_2}))
    assert process.assigned("m2") == Tasks()
    assert process.add_to_least_loaded(TASK_3, is_active=True) == 1
    assert process.task_counts == {"m1": 2, "m2": 1}


def test_keys_are_in_the_order_of_a_hash_map() -> None:
    """By String.hashCode modulo the buckets: 16, and twice as many once three quarters are used."""
    assert java_order(["b", "a", "p", "q"]) == ["p", "a", "q", "b"]  # p is 112, a bucket 0; a and q are in bucket 1
    assert java_order(["q", "a"], capacity=16) == ["q", "a"]
    assert java_order("qrstuvwxyzabc") == list("abcqrstuvwxyz")
    assert java_order(["a", "\N{GRINNING FACE}"], 1) == ["\N{GRINNING FACE}", "a"]  # of two UTF-16 units


def test_a_computed_key_is_the_first_of_its_bucket() -> None:
    assert computed_order(["a", "q"], 16) == ["q", "a"]
    assert computed_order(["a", "b"], 1) == ["b", "a"], "one call too few to make room"
    assert computed_order(["a", "b", "c", "d", "d"], 4) == computed_order(["a", "b", "c", "d"], 8)


def test_equal_elements_leave_a_priority_queue_as_javas() -> None:
    queue = JavaQueue("abcde", lambda _: 0.0)
    assert [queue.pop() for _ in range(5)] == ["a", "e", "d", "c", "b"]
    with pytest.raises(IndexError):
        queue.pop()
