"""The sticky task assignor (Kafka 4.4's StickyTaskAssignor), the broker's only one: active tasks in equal numbers, each where
it was or where a standby or a disk has its state; then standbys, never two of a task in one process. Where members are equal
the choice is Kafka's too, since it follows Java's order of maps and queues. Neither racks nor client tags count, and nothing
becomes a warm-up task; offsets order the standbys that a task may move to.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter

from coterie.coordinator.streams.java_order import JavaQueue, computed_order, java_order
from coterie.coordinator.streams.tasks import (
    Members,
    Subtopologies,
    TaskAssignmentConfig,
    TaskAssignor,
    TaskId,
    Tasks,
)


class ProcessLoad:
    """``task_counts`` has the tasks of each member, ``load`` is their mean."""

    def __init__(self, member_ids: list[str]) -> None:
        self.task_counts = dict.fromkeys(java_order(member_ids), 0)
        self.load = 0.0
        self._task_count = 0
        self.tasks: set[TaskId] = set()
        self._active: dict[str, set[TaskId]] = {member_id: set() for member_id in member_ids}
        self._standby: dict[str, set[TaskId]] = {member_id: set() for member_id in member_ids}
        self._by_load: JavaQueue[str] | None = None

    def add(self, member_id: str, task: TaskId, is_active: bool) -> int:
        """Returns how many tasks the member has now."""
        self._by_load = None
        return self._add(member_id, task, is_active)

    def add_to_least_loaded(self, task: TaskId, is_active: bool) -> int:
        """Of members with equally many tasks, Kafka's choice. Returns how many tasks it has now."""
        if len(self.task_counts) == 1:
            return self._add(next(iter(self.task_counts)), task, is_active)
        if self._by_load is None:
            self._by_load = JavaQueue(self.task_counts, self.task_counts.__getitem__)
        member_id = self._by_load.pop()
        count = self._add(member_id, task, is_active)
        self._by_load.push(member_id)
        return count

    def assigned(self, member_id: str) -> Tasks:
        """The tasks of one member."""
        return Tasks(frozenset(self._active[member_id]), frozenset(self._standby[member_id]))

    def _add(self, member_id: str, task: TaskId, is_active: bool) -> int:
        (self._active if is_active else self._standby)[member_id].add(task)
        self.tasks.add(task)
        self.task_counts[member_id] += 1
        self._task_count += 1
        self.load = self._task_count / len(self.task_counts)
        return self.task_counts[member_id]


_BY_PARTITION = itemgetter(1, 0)


class _Quota:
    """How many tasks a member may get of what is left: it falls as members are full."""

    def __init__(self, task_count: int, member_count: int) -> None:
        self._task_count, self._member_count = task_count, member_count
        self.per_member = self._share()

    def count(self, tasks_of_member: int) -> None:
        """A member has that many tasks now; where it is full, the rest is shared by the others."""
        if tasks_of_member == self.per_member:
            self._member_count -= 1
            self._task_count -= tasks_of_member
            self.per_member = self._share()

    def _share(self) -> int:
        return -(-self._task_count // self._member_count) if self._member_count else 0


def assign_sticky(members: Members, subtopologies: Subtopologies, config: TaskAssignmentConfig) -> dict[str, Tasks]:
    """Every member has an entry. Without members there must be no tasks."""
    assignment = _Assignment(members, subtopologies, config)
    tasks = [(name, n) for name, subtopology in subtopologies.items() for n in range(subtopology.task_count)]
    assignment.assign_active(tasks)
    if config.standby_replicas > 0:
        stateful = [task for task in tasks if subtopologies[task[0]].is_stateful]
        assignment.assign_standbys(stateful, config.standby_replicas)
    return {member_id: assignment.process_of(member_id).assigned(member_id) for member_id in members}


class _Assignment:
    """An assignment in the making."""

    def __init__(self, members: Members, subtopologies: Subtopologies, config: TaskAssignmentConfig) -> None:
        in_order = java_order(members)
        self._members = members
        by_process: dict[str, list[str]] = {}
        for member_id in in_order:
            by_process.setdefault(members[member_id].process_id, []).append(member_id)
        in_buckets = computed_order([members[member_id].process_id for member_id in in_order], len(members))
        self._processes = {process_id: ProcessLoad(by_process[process_id]) for process_id in in_buckets}
        active = sum(s.task_count for s in subtopologies.values())
        stateful = sum(s.task_count for s in subtopologies.values() if s.is_stateful)
        self._active_quota = _Quota(active, len(members))
        self._quota = _Quota(active + stateful * config.standby_replicas, len(members))
        self._active_before = {task: member_id for member_id in in_order for task in members[member_id].tasks.active}
        self._standby_before = _standby_candidates(members, in_order)

    def process_of(self, member_id: str) -> ProcessLoad:
        return self._processes[self._members[member_id].process_id]

    def assign_active(self, tasks: Sequence[TaskId]) -> None:
        """To where they were, then to where they were standbys, then to the least loaded."""
        left: list[TaskId] = []
        for task in sorted(tasks, key=_BY_PARTITION):
            if not self._assign_active_to(self._active_before.get(task), task):
                left.append(task)
        remaining = [task for task in left if not self._assign_active_to(self._least_loaded_candidate(task), task)]
        queue = self._processes_by_load()
        for task in sorted(remaining):
            process = queue.pop()
            self._count_active(process.add_to_least_loaded(task, is_active=True))
            queue.push(process)

    def assign_standbys(self, tasks: Sequence[TaskId], replicas: int) -> None:
        """To where they were active, then to where they were standbys, then to the least loaded; fewer than ``replicas`` where
        every process has the task."""
        left: list[tuple[TaskId, int]] = []
        for task in sorted(tasks, key=_BY_PARTITION, reverse=True):
            for n in range(replicas):
                if not self._assign_standby_to_last_owner(task):
                    left.append((task, replicas - n))
                    break
        queue = self._processes_by_load()
        for task, count in sorted(left, key=itemgetter(0), reverse=True):
            for _ in range(count):
                if not self._assign_standby_to_least_loaded(queue, task):
                    break

    def _assign_active_to(self, member_id: str | None, task: TaskId) -> bool:
        if member_id is None:
            return False
        process = self.process_of(member_id)
        if process.task_counts[member_id] >= self._active_quota.per_member:
            return False
        self._count_active(process.add(member_id, task, is_active=True))
        return True

    def _count_active(self, tasks_of_member: int) -> None:
        self._active_quota.count(tasks_of_member)
        self._quota.count(tasks_of_member)

    def _assign_standby_to_last_owner(self, task: TaskId) -> bool:
        was_active = self._active_before.get(task)
        if was_active is not None and task in self.process_of(was_active).tasks:
            was_active = None
        for member_id in (was_active, self._least_loaded_candidate(task, without_task=True)):
            if member_id is not None and self.process_of(member_id).task_counts[member_id] < self._quota.per_member:
                self._quota.count(self.process_of(member_id).add(member_id, task, is_active=False))
                return True
        return False

    def _assign_standby_to_least_loaded(self, queue: JavaQueue[ProcessLoad], task: TaskId) -> bool:
        taken: list[ProcessLoad] = []
        assigned = False
        while len(queue) and not assigned:
            taken.append(queue.pop())
            if task not in taken[-1].tasks:
                self._quota.count(taken[-1].add_to_least_loaded(task, is_active=False))
                assigned = True
        for process in reversed(taken):
            queue.push(process)
        return assigned

    def _least_loaded_candidate(self, task: TaskId, *, without_task: bool = False) -> str | None:
        """The first that may have its state, unless both a later member and its process have less to do."""
        best: str | None = None
        for member_id in self._standby_before.get(task, ()):
            process = self.process_of(member_id)
            if without_task and task in process.tasks:
                continue
            if best is None or (
                process.load < self.process_of(best).load
                and process.task_counts[member_id] < self.process_of(best).task_counts[best]
            ):
                best = member_id
        return best

    def _processes_by_load(self) -> JavaQueue[ProcessLoad]:
        return JavaQueue(self._processes.values(), lambda process: process.load)


def _standby_candidates(members: Members, in_order: Sequence[str]) -> dict[TaskId, list[str]]:
    """The members that may have the state of a task: its standbys, then the ones with offsets of it, as a restarted one
    does that has them on its disk; each by how far it is."""
    candidates: dict[TaskId, list[tuple[bool, int, str]]] = {}
    for member_id in in_order:
        member = members[member_id]
        for task in member.tasks.standby:
            candidates.setdefault(task, []).append((False, -member.offsets.get(task, 0), member_id))
        for task, offset in member.offsets.items():
            if task not in member.tasks.standby:
                candidates.setdefault(task, []).append((True, -offset, member_id))
    return {task: [c[2] for c in sorted(ranked, key=itemgetter(0, 1))] for task, ranked in candidates.items()}


TASK_ASSIGNORS: dict[str, TaskAssignor] = {"sticky": assign_sticky}
