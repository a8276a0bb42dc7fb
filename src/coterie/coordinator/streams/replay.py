"""The only road by which a streams group changes: apply one event (Kafka's GroupMetadataManager.replay)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from coterie.coordinator.consumer.state import (
    LEAVE_GROUP_EPOCH,
    LEAVE_GROUP_STATIC_EPOCH,
    NO_ASSIGNMENT_EPOCH,
    MemberTimers,
)
from coterie.coordinator.streams import events as s
from coterie.coordinator.streams.state import (
    CurrentTasks,
    OwnedTasks,
    StreamsGroup,
    StreamsGroupMember,
    StreamsMemberState,
)
from coterie.coordinator.streams.tasks import TaskId


def replay_streams(group: StreamsGroup, event: s.StreamsEvent, now_ms: int) -> None:
    """Applies ``event``, which happened at ``now_ms``."""
    before = group.phase
    _APPLY[type(event)](group, event, now_ms)
    if group.phase is not before:
        group.phase_since_ms = now_ms


def streams_removals_before(group: StreamsGroup, event: s.StreamsEvent) -> list[s.StreamsEvent]:
    """The removals that a whole log has before this event and that the group has not had: a damaged log may lack them."""
    match event:
        case s.StreamsMetadataRemoved(member_id):
            return [s.CurrentTasksRemoved(member_id), s.TaskTargetRemoved(member_id)]
        case s.TaskTargetEpochRemoved():
            return [s.TaskTargetRemoved(member_id) for member_id in group.target]
        case s.StreamsEpochRemoved():
            targets = [s.TaskTargetRemoved(member_id) for member_id in group.target]
            currents = [s.CurrentTasksRemoved(member_id) for member_id in group.members]
            members = [s.StreamsMetadataRemoved(member_id) for member_id in group.members]
            return [*targets, s.TaskTargetEpochRemoved(), *currents, *members]
    return []


def restart_streams_timers(group: StreamsGroup, now_ms: int, session_timeout_ms: int) -> None:
    """A coordinator that has loaded the group starts each member's session again (Kafka's GroupMetadataManager.onLoaded)."""
    for member_id, timers in group.timers.items():
        member = group.members[member_id]
        timers.session_ms = now_ms + session_timeout_ms
        timers.rebalance_ms = now_ms + member.metadata.rebalance_timeout_ms if _revokes(member.current) else None


def _revokes(current: CurrentTasks) -> bool:
    unrevoked = current.state == StreamsMemberState.UNREVOKED_TASKS
    return unrevoked and current.member_epoch != LEAVE_GROUP_STATIC_EPOCH


def _epoch(group: StreamsGroup, event: s.StreamsEpochStored, now_ms: int) -> None:
    group.group_epoch, group.metadata_hash = event.epoch, event.metadata_hash
    group.validated_topology_epoch = event.validated_topology_epoch
    group.assignment_configs = dict(event.assignment_configs)
    group.stored_description_epoch = event.stored_description_epoch
    group.failed_description_epoch = event.failed_description_epoch


def _group_removed(group: StreamsGroup, event: s.StreamsEpochRemoved, now_ms: int) -> None:
    assert not group.members, f"{group.group_id} still has members"
    assert group.assignment_epoch == NO_ASSIGNMENT_EPOCH, f"{group.group_id} still has an assignment epoch"
    group.is_dead = True


def _metadata(group: StreamsGroup, event: s.StreamsMetadataStored, now_ms: int) -> None:
    member = group.members.get(event.member_id) or StreamsGroupMember(event.member_id)
    earlier, instance_id = member.metadata.instance_id, event.metadata.instance_id
    if earlier is not None and earlier != instance_id and group.static_members.get(earlier) == event.member_id:
        del group.static_members[earlier]
    _put(group, replace(member, metadata=event.metadata))
    if instance_id is not None:
        group.static_members[instance_id] = event.member_id


def _metadata_removed(group: StreamsGroup, event: s.StreamsMetadataRemoved, now_ms: int) -> None:
    member = group.members.get(event.member_id)
    if member is None:
        return
    assert member.current.member_epoch == LEAVE_GROUP_EPOCH, f"{event.member_id} still has its tasks"
    assert event.member_id not in group.target, f"{event.member_id} still has a target assignment"
    _count(group, member, -1)
    del group.members[event.member_id]
    group.timers.pop(event.member_id, None)
    group.restored.pop(event.member_id, None)
    group.restores_since_ms.pop(event.member_id, None)
    instance_id = member.metadata.instance_id
    if instance_id is not None and group.static_members.get(instance_id) == event.member_id:
        del group.static_members[instance_id]
    if not group.members:
        group.shutdown_member_id = None


def _target_epoch(group: StreamsGroup, event: s.TaskTargetEpochStored, now_ms: int) -> None:
    group.assignment_epoch, group.assignment_timestamp_ms = event.epoch, event.timestamp_ms


def _target_epoch_removed(group: StreamsGroup, event: s.TaskTargetEpochRemoved, now_ms: int) -> None:
    assert not group.target, f"{group.group_id} still has a target assignment"
    group.assignment_epoch, group.assignment_timestamp_ms = NO_ASSIGNMENT_EPOCH, 0


def _target(group: StreamsGroup, event: s.TaskTargetStored, now_ms: int) -> None:
    group.target[event.member_id] = event.tasks


def _target_removed(group: StreamsGroup, event: s.TaskTargetRemoved, now_ms: int) -> None:
    group.target.pop(event.member_id, None)


def _current(group: StreamsGroup, event: s.CurrentTasksStored, now_ms: int) -> None:
    member = group.members.get(event.member_id) or StreamsGroupMember(event.member_id)
    _put(group, replace(member, current=event.current))
    timeout_ms = member.metadata.rebalance_timeout_ms
    group.timers[event.member_id].rebalance_ms = now_ms + timeout_ms if _revokes(event.current) else None


def _current_removed(group: StreamsGroup, event: s.CurrentTasksRemoved, now_ms: int) -> None:
    member = group.members.get(event.member_id)
    if member is not None:
        _put(group, replace(member, current=CurrentTasks(LEAVE_GROUP_EPOCH, LEAVE_GROUP_EPOCH, member.current.state)))


def _topology(group: StreamsGroup, event: s.TopologyStored, now_ms: int) -> None:
    group.topology = event.topology


def _topology_removed(group: StreamsGroup, event: s.TopologyRemoved, now_ms: int) -> None:
    group.topology = None


def _configured(group: StreamsGroup, event: s.TopologyConfigured, now_ms: int) -> None:
    group.configured, group.topics_version = event.configured, event.topics_version


def _restored(group: StreamsGroup, event: s.TasksRestored, now_ms: int) -> None:
    group.restored[event.member_id] = event.restored
    member, since_ms = group.members.get(event.member_id), group.restores_since_ms.get(event.member_id, {})
    lags = {} if member is None else event.restored.lags(member.current.awaited)
    group.restores_since_ms[event.member_id] = {task: since_ms.get(task, now_ms) for task in lags}


def _shutdown(group: StreamsGroup, event: s.ShutdownRequested, now_ms: int) -> None:
    group.shutdown_member_id = group.shutdown_member_id or event.member_id


def _endpoints(group: StreamsGroup, event: s.EndpointsChanged, now_ms: int) -> None:
    group.endpoint_epoch = event.epoch


def _initial_delay(group: StreamsGroup, event: s.InitialDelaySet, now_ms: int) -> None:
    group.initial_delay_until_ms = event.until_ms


def _expiry_delayed(group: StreamsGroup, event: s.StreamsExpiryDelayed, now_ms: int) -> None:
    timers, until_ms = group.timers[event.member_id], event.deadline_ms
    timers.session_ms = max(timers.session_ms, until_ms)
    timers.rebalance_ms = None if timers.rebalance_ms is None else max(timers.rebalance_ms, until_ms)


def _put(group: StreamsGroup, member: StreamsGroupMember) -> None:
    earlier = group.members.get(member.member_id)
    if earlier is None:
        group.timers[member.member_id] = MemberTimers()
    else:
        _count(group, earlier, -1)
    group.members[member.member_id] = member
    _count(group, member, 1)


def _count(group: StreamsGroup, member: StreamsGroupMember, by: int) -> None:
    """The process of the member has its tasks (1), or has them no more (-1)."""
    process_id = member.metadata.process_id
    for owned in (member.current.assigned, member.current.pending_revocation):
        if owned:
            _count_owned(group, owned, process_id, by)


def _count_owned(group: StreamsGroup, owned: OwnedTasks, process_id: str, by: int) -> None:
    for task in owned.active:
        if by > 0:
            group.owners.active[task] = process_id
        elif group.owners.active.get(task) == process_id:
            del group.owners.active[task]
    for tasks, owners in ((owned.standby, group.owners.standby), (owned.warmup, group.owners.warmup)):
        for task in tasks:
            _count_replica(owners, task, process_id, by)


def _count_replica(owners: dict[TaskId, Counter[str]], task: TaskId, process_id: str, by: int) -> None:
    counts = owners.setdefault(task, Counter())
    counts[process_id] += by
    if not counts[process_id]:
        del counts[process_id]
        if not counts:
            del owners[task]


_APPLY: dict[type, Callable[[StreamsGroup, Any, int], None]] = {
    s.StreamsEpochStored: _epoch,
    s.StreamsEpochRemoved: _group_removed,
    s.StreamsMetadataStored: _metadata,
    s.StreamsMetadataRemoved: _metadata_removed,
    s.TaskTargetEpochStored: _target_epoch,
    s.TaskTargetEpochRemoved: _target_epoch_removed,
    s.TaskTargetStored: _target,
    s.TaskTargetRemoved: _target_removed,
    s.CurrentTasksStored: _current,
    s.CurrentTasksRemoved: _current_removed,
    s.TopologyStored: _topology,
    s.TopologyRemoved: _topology_removed,
    s.TopologyConfigured: _configured,
    s.TasksRestored: _restored,
    s.ShutdownRequested: _shutdown,
    s.EndpointsChanged: _endpoints,
    s.InitialDelaySet: _initial_delay,
    s.StreamsExpiryDelayed: _expiry_delayed,
}
