"""The task assignor of streams groups beside Apache Kafka's Java class: every task at the same member."""

from __future__ import annotations

import random
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from coterie.assignors import Assignment
from coterie.coordinator.streams.sticky_task_assignor import assign_sticky
from coterie.coordinator.streams.tasks import AssignableSubtopology, TaskAssignmentConfig, TaskId, TaskMember, Tasks
from coterie_conformance.assignors.comparison import AssignmentComparison, JavaAssignors

PROGRAM = "AssignTasks.java"
SINCE = "4.4.0"  # before, the classes took other arguments


@dataclass(frozen=True, slots=True)
class TaskCase:
    """One question: members, a topology, standbys."""

    members: Mapping[str, TaskMember]
    subtopologies: Mapping[str, AssignableSubtopology]
    standby_replicas: int = 0

    def lines(self) -> Iterator[str]:
        """The case as the input lines of `AssignTasks.java`."""
        yield f"config {self.standby_replicas}"
        for name, s in self.subtopologies.items():
            yield f"subtopology {name} {s.task_count} {'stateful' if s.is_stateful else 'stateless'}"
        for member_id, m in self.members.items():
            offsets = ",".join(f"{name}_{n}:{offset}" for (name, n), offset in sorted(m.offsets.items())) or "-"
            yield f"member {member_id} {m.process_id} {text_of(m.tasks.active)} {text_of(m.tasks.standby)} {offsets}"
        yield "end"

    def tasks(self) -> dict[str, Tasks]:
        """Our assignment."""
        config = TaskAssignmentConfig(self.standby_replicas)
        return assign_sticky(self.members, self.subtopologies, config)

    def ours(self) -> Assignment:
        """The assignment with a role as a topic, as the lines of the Java program are read."""
        return {member_id: by_role(tasks) for member_id, tasks in self.tasks().items()}


def compare_tasks(version: str, cases: Iterable[TaskCase]) -> AssignmentComparison:
    """Asks both about every case. Raises CannotRun."""
    java, comparison = JavaAssignors(version, PROGRAM), AssignmentComparison()
    try:
        for case in cases:
            theirs, took_ms = java.ask(case)
            started = time.perf_counter()
            ours = case.ours()
            comparison.our_ms += (time.perf_counter() - started) * 1000
            comparison.their_ms += took_ms
            comparison.cases += 1
            comparison.same += ours == theirs
            if ours != theirs:
                comparison.failures.append(f"ours {ours}, theirs {theirs}: {'; '.join(case.lines())}")
    finally:
        java.close()
    return comparison


def text_of(tasks: frozenset[TaskId]) -> str:
    """`0_1,0_2`, or `-` for none."""
    return ",".join(f"{name}_{n}" for name, n in sorted(tasks)) or "-"


def by_role(tasks: Tasks) -> dict[str, list[int]]:
    """`active/0` to the partitions of subtopology 0."""
    owned: dict[str, list[int]] = {}
    for role in ("active", "standby"):
        for name, n in sorted(getattr(tasks, role)):
            owned.setdefault(f"{role}/{name}", []).append(n)
    return owned


def task_cases(count: int, seed: int) -> Iterator[TaskCase]:
    """Groups without tasks, groups after a change of members or topics, and groups whose members have any tasks; members of one
    process, standbys, restarted members with state on their disks."""
    rng = random.Random(seed)
    for _ in range(count):
        case = _first(rng)
        for _ in range(rng.randint(0, 3)):
            case = _changed(rng, case)
        yield _scattered(rng, case) if rng.random() < 0.2 else case


def _first(rng: random.Random) -> TaskCase:
    processes = [_text(rng) for _ in range(rng.randint(1, 5))]
    size = 40 if rng.random() < 0.1 else 8
    members = {_text(rng): TaskMember(rng.choice(processes)) for _ in range(rng.randint(1, size))}
    names = sorted({str(rng.randint(0, 14)) for _ in range(rng.randint(1, 4))})
    subtopologies = {name: AssignableSubtopology(rng.randint(1, 9), rng.random() < 0.6) for name in names}
    return TaskCase(members, subtopologies, rng.randint(0, 3))


def _changed(rng: random.Random, case: TaskCase) -> TaskCase:
    """The members have their assignment; then some leave, restart or join, and inputs grow."""
    assigned = case.tasks()
    members: dict[str, TaskMember] = {}
    for member_id, member in case.members.items():
        event = rng.random()
        tasks = assigned[member_id]
        progress = {task: rng.randint(0, 100) for task in sorted(tasks.active | tasks.standby) if rng.random() < 0.5}
        if event < 0.1:
            members[_text(rng)] = TaskMember(member.process_id, offsets=progress)
        elif event < 0.9 or not members:
            members[member_id] = TaskMember(member.process_id, tasks, offsets=progress if rng.random() < 0.5 else {})
    for _ in range(rng.randint(0, 2)):
        process = rng.choice([m.process_id for m in members.values()]) if rng.random() < 0.5 else _text(rng)
        members[_text(rng)] = TaskMember(process)
    subtopologies = dict(case.subtopologies)
    if rng.random() < 0.2:
        name = rng.choice(sorted(subtopologies))
        subtopologies[name] = replace(
            subtopologies[name], task_count=subtopologies[name].task_count + rng.randint(1, 4)
        )
    return replace(case, members=members, subtopologies=subtopologies, standby_replicas=rng.randint(0, 3))


def _scattered(rng: random.Random, case: TaskCase) -> TaskCase:
    """Each task active at any member, and standby at any others."""
    owned: dict[str, tuple[set[TaskId], set[TaskId]]] = {member_id: (set(), set()) for member_id in case.members}
    for name, subtopology in case.subtopologies.items():
        for n in range(subtopology.task_count):
            active, *others = rng.sample(sorted(owned), min(len(owned), rng.randint(1, 3)))
            owned[active][0].add((name, n))
            for other in others:
                owned[other][1].add((name, n))
    members = {
        member_id: replace(case.members[member_id], tasks=Tasks(frozenset(active), frozenset(standby)))
        for member_id, (active, standby) in owned.items()
    }
    return replace(case, members=members)


def _text(rng: random.Random) -> str:
    return f"{rng.randrange(16**8):08x}"
