"""The load of a Kafka Streams process while tasks are assigned: its members, the stream threads, share its disk, so that it has
a task at most once (Kafka's ProcessState)."""

from __future__ import annotations

from coterie.coordinator.streams.java_order import JavaQueue, java_order
from coterie.coordinator.streams.tasks import TaskId, Tasks


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
