"""Why a streams group stands where it stands: what its topology lacks, who has not released which task, and what restores.

A pure look at the state. Times in ms; the document has the fields of `coordinator.explain`, and the epochs beside them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from coterie.coordinator.consumer.state import LEAVE_GROUP_STATIC_EPOCH
from coterie.coordinator.consumer.target import time_to_target_ms
from coterie.coordinator.outcome import CoordinatorConfig
from coterie.coordinator.streams.state import (
    RestoredOffsets,
    StreamsGroup,
    StreamsGroupMember,
    StreamsGroupState,
    StreamsMemberState,
)
from coterie.coordinator.streams.target import assignor_name
from coterie.coordinator.streams.tasks import NO_TASKS, TaskId, Tasks
from coterie.coordinator.views.modern_explanation import (
    NAMED,
    explained,
    freed,
    member_session,
    next_timeout,
    seconds,
)
from coterie.text.quantity import listed, quantity


def explain_streams_group(group: StreamsGroup, now_ms: int, config: CoordinatorConfig) -> dict[str, Any]:
    """The group as JSON-ready values; ``generation`` is the group epoch, and a task is named as by Kafka, 1_3."""
    waiting_for = [w for m in group.members.values() if (w := _waits(group, m, now_ms)) is not None]
    return explained(group, now_ms, "streams", assignor_name(config), waiting_for) | {
        "next_timeout": next_timeout(group, now_ms, lambda member_id: _freed(group, member_id)),
        "verdict": _verdict(group, waiting_for, now_ms, config),
        "members": [_member(group, m, now_ms, config) for m in group.members.values()],
    }


def task_names(tasks: Iterable[TaskId]) -> list[str]:
    """Tasks in words, in order."""
    return [f"{subtopology_id}_{partition}" for subtopology_id, partition in sorted(tasks)]


def _waits(group: StreamsGroup, member: StreamsGroupMember, now_ms: int) -> dict[str, Any] | None:
    """What keeps a member from its target; None for one that has it."""
    current, target = member.current, group.target.get(member.member_id, NO_TASKS)
    if current.member_epoch == LEAVE_GROUP_STATIC_EPOCH:
        owes = "is away, and its instance id has not come back"
    elif current.is_reconciled_to(group.assignment_epoch):
        return None
    elif current.state == StreamsMemberState.UNREVOKED_TASKS:
        pending = current.pending_revocation
        ends_ms = group.timers[member.member_id].rebalance_ms
        since_ms = None if ends_ms is None else ends_ms - member.metadata.rebalance_timeout_ms
        long = f" for {seconds(now_ms - since_ms)}" if since_ms is not None else ""
        owes = f"has not released {_some([*pending.active, *pending.standby, *pending.warmup])}{long}"
    elif current.member_epoch != group.assignment_epoch:
        owes = f"has not sent a heartbeat since the target of epoch {group.assignment_epoch} was computed"
    else:
        owes = _awaits(group, member, target) or "gets its tasks with its next heartbeat"
    return {"member_id": member.member_id, "client_id": member.metadata.client_id, "owes": owes}


def _awaits(group: StreamsGroup, member: StreamsGroupMember, target: Tasks) -> str:
    """The tasks that the member waits for, with the members that have them; "" where none has."""
    current = member.current
    missing = (target.active - current.assigned.active.keys()) | (target.standby - current.assigned.standby)
    holders: dict[str, None] = {}
    awaited: set[TaskId] = set()
    for other in group.members.values():
        same_process = other.metadata.process_id == member.metadata.process_id
        for held in (other.current.assigned, other.current.pending_revocation):
            tasks = held.active.keys() & target.active
            tasks |= (held.active.keys() | held.standby | held.warmup) if same_process else set()
            if other.member_id != member.member_id and tasks & missing:
                holders[other.member_id] = None
                awaited |= tasks & missing
    if not holders:
        return ""
    return f"waits for {_some(awaited)}, which {listed(list(holders), NAMED)} {'has' if len(holders) == 1 else 'have'}"


def _some(tasks: Iterable[TaskId]) -> str:
    return listed(task_names(tasks), NAMED)


def _freed(group: StreamsGroup, member_id: str) -> str:
    return freed(len(group.members[member_id].current.assigned.active), "task")


def _verdict(group: StreamsGroup, waiting_for: list[dict[str, Any]], now_ms: int, config: CoordinatorConfig) -> str:
    """One sentence for a person."""
    delay_ms = group.initial_delay_until_ms
    restoring = [text for m in group.members.values() for text in _restoring(group, m, now_ms)]
    match group.phase:
        case StreamsGroupState.NOT_READY if group.configured is not None and group.configured.problem is not None:
            return f"no member gets a task: {group.configured.problem.detail}"
        case StreamsGroupState.NOT_READY:
            return "the next heartbeat of a member looks at the topics of the topology"
        case StreamsGroupState.ASSIGNING if delay_ms is not None:
            left = f"{max(delay_ms - now_ms, 0)} ms (group.streams.initial.rebalance.delay.ms)"
            return f"the first target assignment is computed after {left}, so that more members may join"
        case StreamsGroupState.ASSIGNING:
            interval_ms = config.group_streams_assignment_interval_ms
            left_ms = time_to_target_ms(group.assignment_timestamp_ms, interval_ms, now_ms)
            when = f" after {left_ms} ms (group.streams.assignment.interval.ms)" if left_ms else ""
            return f"the next heartbeat of a member{when} computes the target assignment of epoch {group.group_epoch}"
        case StreamsGroupState.RECONCILING:
            late = [f"{w['member_id']} {w['owes']}" for w in waiting_for]
            more = f"; and {len(late) - NAMED} more" if len(late) > NAMED else ""
            text = "; ".join(late[:NAMED]) + more
            return f"{text}; {listed(restoring, NAMED)}" if restoring else text
        case StreamsGroupState.STABLE:
            members = quantity(len(group.members), "member")
            text = f"no rebalance is under way: each of {members} has its tasks of epoch {group.assignment_epoch}"
            return f"{text}; {listed(restoring, NAMED)}" if restoring else text
    kept = quantity(len(group.offsets), "committed offset") if group.offsets else "no committed offsets"
    return f"the group has no members and {kept}"


def _restoring(group: StreamsGroup, member: StreamsGroupMember, now_ms: int) -> list[str]:
    """The tasks that a member is to process and restores, by what it last reported."""
    lags = group.restored.get(member.member_id, RestoredOffsets()).lags(member.current.awaited)
    since_ms = group.restores_since_ms.get(member.member_id, {})
    return [
        f"task {task_names([task])[0]} restores on {member.metadata.client_id or member.member_id} "
        f"for {seconds(now_ms - since_ms.get(task, now_ms))}, {quantity(lag, 'record')} behind"
        for task, lag in lags.items()
    ]


def _member(group: StreamsGroup, member: StreamsGroupMember, now_ms: int, config: CoordinatorConfig) -> dict[str, Any]:
    metadata, current, timers = member.metadata, member.current, group.timers[member.member_id]
    session_ms, target = config.group_streams_session_timeout_ms, group.target.get(member.member_id, NO_TASKS)
    return {
        "member_id": member.member_id,
        "group_instance_id": metadata.instance_id,
        "client_id": metadata.client_id,
        "assignors": [],
        "host": metadata.client_host,
        **member_session(timers.session_ms, session_ms, now_ms),
        "heartbeat_interval_ms": config.group_streams_heartbeat_interval_ms,
        "rebalance_timeout_ms": metadata.rebalance_timeout_ms,
        "member_epoch": current.member_epoch,
        "state": current.state.name,
        "process_id": metadata.process_id,
        "active": task_names(current.assigned.active),
        "standby": task_names(current.assigned.standby),
        "warmup": task_names(current.assigned.warmup),
        "revokes": task_names(current.pending_revocation.active),
        "target": task_names(target.active),
        "restoring": _restoring(group, member, now_ms),
    }
