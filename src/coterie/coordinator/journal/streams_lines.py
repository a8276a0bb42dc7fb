"""From what happened to a streams group to the journal's lines: what raised the group epoch, what the target assignment moves,
and of each member which active tasks it is to revoke, has released, was assigned, restores and has restored."""

from __future__ import annotations

from collections.abc import Mapping

from coterie.coordinator.journal.consumer_lines import because
from coterie.coordinator.journal.line import MOVED_SHOWN, JournalLine
from coterie.coordinator.streams import events as s
from coterie.coordinator.streams.state import CurrentTasks, RestoredOffsets, StreamsGroup, StreamsGroupMember
from coterie.coordinator.streams.tasks import TaskId
from coterie.text.quantity import quantity

_Owners = dict[TaskId, str]


class StreamsJournalLines:
    """Keeps, per group, what each member has, the last member that had each active task, and the last target."""

    def __init__(self) -> None:
        self._current: dict[tuple[str, str], CurrentTasks] = {}
        self._last: dict[str, _Owners] = {}
        self._targets: dict[str, _Owners] = {}
        self._restoring: dict[tuple[str, str], dict[TaskId, int]] = {}  # since when

    def loaded(self, group: StreamsGroup) -> None:
        """Takes the tasks from a group that was loaded from the log."""
        for member_id, member in group.members.items():
            self._current[group.group_id, member_id] = member.current
        self._last[group.group_id] = {t: i for i, m in group.members.items() for t in _held(m.current)}
        self._targets[group.group_id] = _targets(group)

    def fill(self, line: JournalLine, event: s.StreamsEvent, group: StreamsGroup) -> bool:
        """Completes the line of an event; False for an event that is not worth one."""
        group_id = group.group_id
        line.members = len(group.members)
        match event:
            case s.StreamsEpochStored():
                line.event = "epoch_raised"
                because(line, event.cause)
            case s.StreamsEpochRemoved():
                line.event = "group_removed"
                because(line, event.cause)
                self._last.pop(group_id, None)
                self._targets.pop(group_id, None)
            case s.StreamsMetadataRemoved(member_id, cause):
                replaced = cause is not None and cause.kind == "member_replaced"
                line.event = "member_replaced" if replaced else "member_removed"
                because(line, cause)
                self._restoring.pop((group_id, member_id), None)
                held = _held(self._current.pop((group_id, member_id), None))
                _move(line, dict.fromkeys(held, (member_id, None)))
            case s.TaskTargetEpochStored() if group.members:  # without members nothing was computed
                line.event = "target_computed"
                before, after = self._targets.get(group_id, {}), _targets(group)
                self._targets[group_id] = after
                changed = {t for t in before.keys() | after.keys() if before.get(t) != after.get(t)}
                _move(line, {task: (before.get(task), after.get(task)) for task in changed})
            case s.CurrentTasksStored(member_id, current):
                return self._reconciled(line, group_id, member_id, current)
            case s.TasksRestored(member_id, restored):
                return self._restored(line, group, member_id, restored)
            case _:
                return False
        return True

    def _restored(self, line: JournalLine, group: StreamsGroup, member_id: str, restored: RestoredOffsets) -> bool:
        """The tasks that the member says for the first time that it restores, and the ones that it has restored since;
        most reports have neither."""
        member = group.members.get(member_id)
        if member is None:
            return False
        key, awaited = (group.group_id, member_id), member.current.awaited
        before, lags = self._restoring.get(key, {}), restored.lags(awaited)
        self._restoring[key] = {task: before.get(task, line.time_ms) for task in lags}
        line.event, line.member, line.member_epoch = "tasks_restored", member_id, member.current.member_epoch
        for task in sorted(lags.keys() - before.keys()):
            _add_cause(line, "task_restores", member, f"task {_name(task)}, {quantity(lags[task], 'record')} behind")
        for task in sorted((before.keys() & awaited) - lags.keys()):
            taken_s = (line.time_ms - before[task]) // 1000
            _add_cause(line, "task_restored", member, f"task {_name(task)} in {taken_s} s")
        return bool(line.causes)

    def _reconciled(self, line: JournalLine, group_id: str, member_id: str, current: CurrentTasks) -> bool:
        """A member is to revoke tasks, or it released some and got others; one without either is not worth a line unless
        it is new in its epoch."""
        before = self._current.get((group_id, member_id), CurrentTasks())
        self._current[group_id, member_id] = current
        line.member, line.member_epoch = member_id, current.member_epoch
        revoking = current.pending_revocation.active.keys() - before.pending_revocation.active.keys()
        line.event = "member_revokes" if revoking else "member_reconciled"
        moved: dict[TaskId, tuple[str | None, str | None]] = dict.fromkeys(revoking, (member_id, None))
        if not revoking:
            last = self._last.setdefault(group_id, {})
            moved = dict.fromkeys(_held(before) - _held(current), (member_id, None))
            assigned = current.assigned.active.keys() - _held(before)
            moved |= {task: (last.get(task), member_id) for task in assigned}
            last |= dict.fromkeys(assigned, member_id)
        _move(line, moved)
        replicas = (before.assigned.standby, before.assigned.warmup) != (
            current.assigned.standby,
            current.assigned.warmup,
        )
        return bool(moved or replicas or current.member_epoch != before.member_epoch)


def _add_cause(line: JournalLine, kind: str, member: StreamsGroupMember, reason: str) -> None:
    fields = {
        "kind": kind,
        "member_id": member.member_id,
        "client_id": member.metadata.client_id,
        "group_instance_id": member.metadata.instance_id,
        "reason": reason,
    }
    line.causes.append({name: value for name, value in fields.items() if value})


def _name(task: TaskId) -> str:
    return f"{task[0]}_{task[1]}"


def _move(line: JournalLine, moved: Mapping[TaskId, tuple[str | None, str | None]]) -> None:
    line.moved = [
        {"topic": subtopology_id, "partition": partition, "from": last, "to": owner}
        for (subtopology_id, partition), (last, owner) in sorted(moved.items())[:MOVED_SHOWN]
    ]
    line.moved_count = sum(1 for last, owner in moved.values() if owner is not None and last not in (None, owner))
    line.unowned_count = 0 if line.event == "member_revokes" else sum(owner is None for _, owner in moved.values())


def _held(current: CurrentTasks | None) -> set[TaskId]:
    return set() if current is None else {*current.assigned.active, *current.pending_revocation.active}


def _targets(group: StreamsGroup) -> _Owners:
    return {task: member_id for member_id, tasks in group.target.items() for task in tasks.active}
