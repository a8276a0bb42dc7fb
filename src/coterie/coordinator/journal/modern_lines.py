"""From what happened to a group with an epoch to the journal's lines: what raised the epoch, what the target assignment moves,
and of each member what it is to revoke, has released and was assigned. Of a share group several members may have a partition,
so that none has moved; of a streams group it is active tasks, and which of them a member restores and has restored."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from coterie.coordinator.consumer import events as c
from coterie.coordinator.consumer.state import (
    ConsumerGroup,
    ConsumerMember,
    CurrentAssignment,
    TopicId,
    TopicIdPartition,
)
from coterie.coordinator.journal.line import MOVED_SHOWN, OWNERS_SHOWN, JournalLine
from coterie.coordinator.share import events as share
from coterie.coordinator.share.state import ShareGroup
from coterie.coordinator.state import Cause
from coterie.coordinator.streams import events as streams
from coterie.coordinator.streams.state import CurrentTasks, RestoredOffsets, StreamsGroup, StreamsGroupMember
from coterie.coordinator.streams.tasks import TaskId
from coterie.machines.ownership import OwnerChange, PartitionOwners, count_moved
from coterie.text.quantity import quantity

TopicName = Callable[[TopicId], str]  # of an id; of a topic that is gone any text that names it
_Owners = dict[TaskId, str]


class ConsumerJournalLines:
    """Keeps, per group, what each member has and is to have, and the last owner of each partition, to say what changed."""

    def __init__(self, topic_name: TopicName) -> None:
        self._topic_name = topic_name
        self._current: dict[tuple[str, str], CurrentAssignment] = {}
        self._owners: dict[str, PartitionOwners] = {}
        self._targets: dict[str, PartitionOwners] = {}

    def loaded(self, group: ConsumerGroup) -> None:
        """Takes the assignments from a group that was loaded from the log."""
        group_id = group.group_id
        for member_id, member in group.members.items():
            self._current[group_id, member_id] = member.current
        self._owners[group_id], self._targets[group_id] = PartitionOwners(), PartitionOwners()
        self._owners[group_id].assigned({p: i for i, m in group.members.items() for p in _held(m.current)})
        self._targets[group_id].assigned(_owners(group))
        for kept in (self._owners, self._targets):
            kept[group_id].present(map(_identity, group.members.values()))

    def fill(self, line: JournalLine, event: object, group: ConsumerGroup) -> bool:
        """Completes the line of an event; False for an event that is not worth one."""
        line.members = len(group.members)
        match event:
            case c.GroupEpochStored():
                line.event = "epoch_raised"
                because(line, event.cause)
            case c.GroupEpochRemoved():
                line.event = "group_removed"
                because(line, event.cause)
                for kept in (self._owners, self._targets):
                    kept.pop(group.group_id, None)
            case c.SubscriptionRemoved(member_id, cause):
                line.event = (
                    "member_replaced" if cause is not None and cause.kind == "member_replaced" else "member_removed"
                )
                because(line, cause)
                held = _held(self._current.pop((group.group_id, member_id), None))
                self._moved(line, self._owners_in(group).released(member_id, sorted(held)))
            case c.TargetEpochStored() if group.members:  # without members nothing was computed
                line.event = "target_computed"
                targets = self._targets.setdefault(group.group_id, PartitionOwners())
                targets.present(map(_identity, group.members.values()))
                self._moved(line, sorted(targets.assigned(_owners(group))))
            case c.CurrentStored(member_id, current):
                return self._reconciled(line, group, member_id, current)
            case _:
                return False
        return True

    def _reconciled(self, line: JournalLine, group: ConsumerGroup, member_id: str, current: CurrentAssignment) -> bool:
        """A member is to revoke partitions, or it released some and got others; one without either is not worth a
        line unless it is new in its epoch."""
        before = self._current.get((group.group_id, member_id), CurrentAssignment())
        self._current[group.group_id, member_id] = current
        line.member, line.member_epoch = member_id, current.member_epoch
        if current.has_partitions_of(before):
            line.event, line.moved_count = "member_reconciled", 0
            return current.member_epoch != before.member_epoch
        released = _held(before) - _held(current)
        assigned = current.assigned.keys() - _held(before)
        revoking = current.pending_revocation.keys() - before.pending_revocation.keys()
        line.event = "member_revokes" if revoking else "member_reconciled"
        if revoking:
            self._moved(line, [OwnerChange(p, member_id, None) for p in sorted(revoking)])
            line.unowned_count = 0  # until it has released them
        else:
            owners = self._owners_in(group)
            owners.present(_identity(m) for m in [group.members.get(member_id)] if m is not None)
            self._moved(line, owners.released(member_id, sorted(released)) + owners.took(member_id, sorted(assigned)))
        return bool(revoking or released or assigned or current.member_epoch != before.member_epoch)

    def _owners_in(self, group: ConsumerGroup) -> PartitionOwners:
        return self._owners.setdefault(group.group_id, PartitionOwners())

    def _moved(self, line: JournalLine, changes: list[OwnerChange]) -> None:
        shown: list[dict[str, Any]] = [
            {"topic": self._topic_name(topic), "partition": partition, "from": last_owner, "to": owner}
            for (topic, partition), last_owner, owner in changes[:MOVED_SHOWN]
        ]
        line.moved, line.moved_count = shown, count_moved(changes)
        line.unowned_count = sum(change.owner is None for change in changes)


def because(line: JournalLine, cause: Cause | None) -> None:
    """Puts the cause into the line."""
    if cause is not None:
        fields = {
            "kind": cause.kind,
            "member_id": cause.member_id,
            "client_id": cause.client_id,
            "group_instance_id": cause.group_instance_id,
        }
        line.causes = [{name: value for name, value in fields.items() if value}]


def _held(current: CurrentAssignment | None) -> set[TopicIdPartition]:
    return set() if current is None else {*current.assigned, *current.pending_revocation}


def _identity(member: ConsumerMember) -> tuple[str, str | None]:
    return member.member_id, member.subscription.instance_id


def _owners(group: ConsumerGroup) -> dict[TopicIdPartition, str]:
    targets: Iterable[tuple[str, frozenset[TopicIdPartition]]] = group.target.items()
    return {partition: member_id for member_id, partitions in targets for partition in partitions}


def fill_share_line(line: JournalLine, event: share.ShareEvent, group: ShareGroup) -> bool:
    """Completes the line of an event; False for an event that is not worth one."""
    line.members = len(group.members)
    match event:
        case share.ShareEpochStored():
            line.event = "epoch_raised"
            because(line, event.cause)
        case share.ShareEpochRemoved():
            line.event = "group_removed"
            because(line, event.cause)
        case share.ShareMemberRemoved():
            line.event = "member_removed"
            because(line, event.cause)
            line.owners = _share_owners(group, event.member_id)
        case share.ShareTargetEpochStored() if group.members:  # without members nothing was computed
            line.event = "target_computed"
        case share.ShareCurrentStored():
            line.event = "member_reconciled"
            line.member, line.member_epoch = event.member_id, event.current.member_epoch
            line.owners = _share_owners(group)
        case share.StatePartitionsStored() if event.cause is not None:
            line.event = "states_changed"
            because(line, event.cause)
        case _:
            return False
    return True


def _share_owners(group: ShareGroup, removed: str = "") -> dict[str, dict[str, list[int]]] | None:
    """What each member has but the one that is removed; None where it is too much for a line."""
    states = {} if group.states is None else group.states.initialized
    owners: dict[str, dict[str, list[int]]] = {}
    count = 0
    for member_id, member in group.members.items():
        for topic_id, partition in sorted(member.current.assigned) if member_id != removed else ():
            if topic_id in states:
                owners.setdefault(member_id, {}).setdefault(states[topic_id].name, []).append(partition)
                count += 1
    return owners if count <= OWNERS_SHOWN else None


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
        self._last[group.group_id] = {t: i for i, m in group.members.items() for t in _held_tasks(m.current)}
        self._targets[group.group_id] = _targets(group)

    def fill(self, line: JournalLine, event: streams.StreamsEvent, group: StreamsGroup) -> bool:
        """Completes the line of an event; False for an event that is not worth one."""
        group_id = group.group_id
        line.members = len(group.members)
        match event:
            case streams.StreamsEpochStored():
                line.event = "epoch_raised"
                because(line, event.cause)
            case streams.StreamsEpochRemoved():
                line.event = "group_removed"
                because(line, event.cause)
                self._last.pop(group_id, None)
                self._targets.pop(group_id, None)
            case streams.StreamsMetadataRemoved(member_id, cause):
                replaced = cause is not None and cause.kind == "member_replaced"
                line.event = "member_replaced" if replaced else "member_removed"
                because(line, cause)
                self._restoring.pop((group_id, member_id), None)
                held = _held_tasks(self._current.pop((group_id, member_id), None))
                _move(line, dict.fromkeys(held, (member_id, None)))
            case streams.TaskTargetEpochStored() if group.members:  # without members nothing was computed
                line.event = "target_computed"
                before, after = self._targets.get(group_id, {}), _targets(group)
                self._targets[group_id] = after
                changed = {t for t in before.keys() | after.keys() if before.get(t) != after.get(t)}
                _move(line, {task: (before.get(task), after.get(task)) for task in changed})
            case streams.CurrentTasksStored(member_id, current):
                return self._reconciled(line, group_id, member_id, current)
            case streams.TasksRestored(member_id, restored):
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
            moved = dict.fromkeys(_held_tasks(before) - _held_tasks(current), (member_id, None))
            assigned = current.assigned.active.keys() - _held_tasks(before)
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


def _held_tasks(current: CurrentTasks | None) -> set[TaskId]:
    return set() if current is None else {*current.assigned.active, *current.pending_revocation.active}


def _targets(group: StreamsGroup) -> _Owners:
    return {task: member_id for member_id, tasks in group.target.items() for task in tasks.active}
