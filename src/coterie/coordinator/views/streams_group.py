"""A streams group as others see it: why it stands where it stands (what its topology lacks, who has not released which task,
and what restores), and StreamsGroupDescribe (KIP-1071) with its epochs and topology, and of each member the tasks that it has
and is to have.

A pure look at the state. Times in ms; the explanation has the fields of `classic_group`, and the epochs beside them.
Descriptions of topologies are those of a plugin of Kafka's (KIP-1331): none is stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from coterie.coordinator.consumer.state import LEAVE_GROUP_STATIC_EPOCH
from coterie.coordinator.consumer.target import time_to_target_ms
from coterie.coordinator.outcome import CoordinatorConfig
from coterie.coordinator.state import GroupOffsets
from coterie.coordinator.streams.response import task_ids
from coterie.coordinator.streams.state import (
    RestoredOffsets,
    StreamsGroup,
    StreamsGroupMember,
    StreamsGroupState,
    StreamsMemberState,
)
from coterie.coordinator.streams.target import assignor_name
from coterie.coordinator.streams.tasks import (
    NO_TASKS,
    ConfiguredInternalTopic,
    ConfiguredSubtopology,
    TaskId,
    Tasks,
)
from coterie.coordinator.views.classic_group import empty_group
from coterie.coordinator.views.modern_explanation import (
    awaited_member,
    awaited_of_holders,
    computes_target,
    explained,
    freed,
    member_session,
    next_timeout,
    owed_release,
    reconciling,
    seconds,
)
from coterie.text.phrase import Phrase, phrase_fields, read_phrase
from coterie.wire.errors import ErrorCode, short_text
from coterie.wire.messages.streams.streams_group_describe import (
    DescribedStreamsGroup,
    DescribedSubtopology,
    DescribedTopology,
    StreamsMember,
    TaskAssignment,
)
from coterie.wire.messages.streams.streams_group_heartbeat import (
    Endpoint,
    InternalTopic,
    KeyValue,
    Subtopology,
    TaskOffset,
)

_NOT_STORED = 1  # the status of a topology's description that is requested


def explain_streams_group(group: StreamsGroup, now_ms: int, config: CoordinatorConfig) -> dict[str, Any]:
    """The group as JSON-ready values; ``generation`` is the group epoch, and a task is named as by Kafka, 1_3."""
    waiting_for = [w for m in group.members.values() if (w := _waits(group, m, now_ms)) is not None]
    return explained(group, now_ms, "streams", assignor_name(config), waiting_for) | {
        "next_timeout": next_timeout(group, now_ms, lambda member_id: _freed(group, member_id)),
        **phrase_fields("verdict", _verdict(group, waiting_for, now_ms, config)),
        "members": [_member(group, m, now_ms, config) for m in group.members.values()],
    }


def task_names(tasks: Iterable[TaskId]) -> list[str]:
    """Tasks in words, in order."""
    return [f"{subtopology_id}_{partition}" for subtopology_id, partition in sorted(tasks)]


def _waits(group: StreamsGroup, member: StreamsGroupMember, now_ms: int) -> dict[str, Any] | None:
    """What keeps a member from its target; None for one that has it."""
    current, target = member.current, group.target.get(member.member_id, NO_TASKS)
    if current.member_epoch == LEAVE_GROUP_STATIC_EPOCH:
        owes = Phrase("is_away", {})
    elif current.is_reconciled_to(group.assignment_epoch):
        return None
    elif current.state == StreamsMemberState.UNREVOKED_TASKS:
        pending = current.pending_revocation
        ends_ms = group.timers[member.member_id].rebalance_ms
        since_ms = None if ends_ms is None else ends_ms - member.metadata.rebalance_timeout_ms
        owes = owed_release(task_names([*pending.active, *pending.standby, *pending.warmup]), since_ms, now_ms)
    elif current.member_epoch != group.assignment_epoch:
        owes = Phrase("owes_heartbeat", {"epoch": group.assignment_epoch})
    else:
        owes = _awaits(group, member, target) or Phrase("gets_tasks", {})
    return awaited_member(member.member_id, member.metadata.client_id, owes)


def _awaits(group: StreamsGroup, member: StreamsGroupMember, target: Tasks) -> Phrase | None:
    """The tasks that the member waits for, with the members that have them; None where none has."""
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
    return awaited_of_holders(task_names(awaited), list(holders)) if holders else None


def _freed(group: StreamsGroup, member_id: str) -> Phrase:
    return freed("then_tasks_freed", len(group.members[member_id].current.assigned.active))


def _verdict(group: StreamsGroup, waiting_for: list[dict[str, Any]], now_ms: int, config: CoordinatorConfig) -> Phrase:
    """One sentence for a person."""
    delay_ms = group.initial_delay_until_ms
    match group.phase:
        case StreamsGroupState.NOT_READY if group.configured is not None and group.configured.problem is not None:
            return Phrase("no_tasks", {"problem": group.configured.problem.detail})
        case StreamsGroupState.NOT_READY:
            return Phrase("topology_awaits_heartbeat", {})
        case StreamsGroupState.ASSIGNING if delay_ms is not None:
            setting = "group.streams.initial.rebalance.delay.ms"
            return Phrase("computes_first_target", {"ms": max(delay_ms - now_ms, 0), "setting": setting})
        case StreamsGroupState.ASSIGNING:
            interval_ms = config.group_streams_assignment_interval_ms
            left_ms = time_to_target_ms(group.assignment_timestamp_ms, interval_ms, now_ms)
            return computes_target(group.group_epoch, left_ms, "group.streams.assignment.interval.ms")
        case StreamsGroupState.RECONCILING:
            late = [
                Phrase("late", {"member": w["member_id"], "owes": read_phrase(w["owes_phrase"])}) for w in waiting_for
            ]
            return _with_restoring(reconciling(late), group, now_ms)
        case StreamsGroupState.STABLE:
            values = {"members": len(group.members), "epoch": group.assignment_epoch}
            return _with_restoring(Phrase("stable_tasks", values), group, now_ms)
    return empty_group(group.offsets)


def _with_restoring(phrase: Phrase, group: StreamsGroup, now_ms: int) -> Phrase:
    restoring = tuple(restores for m in group.members.values() for restores in _restoring(group, m, now_ms))
    return Phrase("and_restoring", {"phrase": phrase, "restoring": restoring}) if restoring else phrase


def _restoring(group: StreamsGroup, member: StreamsGroupMember, now_ms: int) -> list[Phrase]:
    """The tasks that a member is to process and restores, by what it last reported."""
    lags = group.restored.get(member.member_id, RestoredOffsets()).lags(member.current.awaited)
    since_ms = group.restores_since_ms.get(member.member_id, {})
    return [
        Phrase(
            "restores",
            {
                "task": task_names([task])[0],
                "member": member.metadata.client_id or member.member_id,
                "seconds": seconds(now_ms - since_ms.get(task, now_ms)),
                "records": lag,
            },
        )
        for task, lag in lags.items()
    ]


def _member(group: StreamsGroup, member: StreamsGroupMember, now_ms: int, config: CoordinatorConfig) -> dict[str, Any]:
    metadata, current, timers = member.metadata, member.current, group.timers[member.member_id]
    session_ms, target = config.group_streams_session_timeout_ms, group.target.get(member.member_id, NO_TASKS)
    restoring = _restoring(group, member, now_ms)
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
        "restoring": list(map(str, restoring)),
        "restoring_phrases": list(map(asdict, restoring)),
    }


def describe_streams_group(
    group: GroupOffsets | None, group_id: str, config: CoordinatorConfig, *, with_topology_description: bool = False
) -> DescribedStreamsGroup:
    """GROUP_ID_NOT_FOUND where there is none, or one of another kind."""
    if not isinstance(group, StreamsGroup):
        missing = f"Group {group_id} not found." if group is None else f"Group {group_id} is not a streams group."
        return DescribedStreamsGroup(ErrorCode.GROUP_ID_NOT_FOUND, short_text(missing), group_id)
    return DescribedStreamsGroup(
        ErrorCode.NONE,
        None,
        group_id,
        group_state=group.phase.value,
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        topology=_topology(group),
        members=[_member_described(group, member) for member in group.members.values()],
        topology_description_status=_NOT_STORED if with_topology_description else 0,
        assignor_name=assignor_name(config),
    )


def _topology(group: StreamsGroup) -> DescribedTopology | None:
    """Over the topics that exist where they are as it needs them, else as the members sent it."""
    configured, sent = group.configured, group.topology
    if configured is not None and configured.is_ready and configured.subtopologies is not None:
        subtopologies = [_configured(sub_id, sub) for sub_id, sub in configured.subtopologies.items()]
        return DescribedTopology(configured.epoch, subtopologies)
    if sent is None:
        return None
    in_order = sorted(sent.subtopologies, key=lambda sub: sub.subtopology_id)
    return DescribedTopology(sent.epoch, [_sent(sub) for sub in in_order])


def _configured(subtopology_id: str, subtopology: ConfiguredSubtopology) -> DescribedSubtopology:
    return DescribedSubtopology(
        subtopology_id,
        sorted(subtopology.source_topics),
        sorted(subtopology.repartition_sinks),
        _configured_topics(subtopology.changelogs),
        _configured_topics(subtopology.repartition_sources),
    )


def _configured_topics(topics: Mapping[str, ConfiguredInternalTopic]) -> list[InternalTopic]:
    return [
        InternalTopic(t.name, t.partitions, t.replication_factor, [KeyValue(key, value) for key, value in t.configs])
        for _, t in sorted(topics.items())
    ]


def _sent(subtopology: Subtopology) -> DescribedSubtopology:
    return DescribedSubtopology(
        subtopology.subtopology_id,
        sorted(subtopology.source_topics),
        sorted(subtopology.repartition_sink_topics),
        sorted(subtopology.state_changelog_topics, key=lambda topic: topic.name),
        sorted(subtopology.repartition_source_topics, key=lambda topic: topic.name),
    )


def _member_described(group: StreamsGroup, member: StreamsGroupMember) -> StreamsMember:
    metadata, current = member.metadata, member.current
    restored = group.restored.get(member.member_id, RestoredOffsets())
    return StreamsMember(
        member.member_id,
        current.member_epoch,
        metadata.instance_id,
        metadata.rack_id,
        client_id=metadata.client_id,
        client_host=metadata.client_host,
        topology_epoch=metadata.topology_epoch,
        process_id=metadata.process_id,
        user_endpoint=None if metadata.user_endpoint is None else Endpoint(*metadata.user_endpoint),
        client_tags=[KeyValue(key, value) for key, value in metadata.client_tags],
        task_offsets=_offsets(restored.offsets.items()),
        task_end_offsets=_offsets(restored.end_offsets.items()),
        assignment=_assignment(current.assigned.tasks),
        target_assignment=_assignment(group.target.get(member.member_id, NO_TASKS)),
    )


def _offsets(offsets: Iterable[tuple[TaskId, int]]) -> list[TaskOffset]:
    return [TaskOffset(*task, offset) for task, offset in sorted(offsets)]


def _assignment(tasks: Tasks) -> TaskAssignment:
    return TaskAssignment(task_ids(tasks.active), task_ids(tasks.standby), task_ids(tasks.warmup))
