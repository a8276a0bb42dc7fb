"""StreamsGroupHeartbeat: join with a topology, report tasks, and be reconciled, in one request.

Its steps' events are appended together: the member and the topology; the group epoch, where something of that changed or the
topics did; the target assignment, where the epoch is ahead of it; this member's reconciliation; its session. Kafka's
GroupMetadataManager.streamsGroupHeartbeat.
"""

from __future__ import annotations

from dataclasses import replace

from coterie.coordinator.consumer.member_checks import (
    known_member,
    known_static_member,
    refuse_full,
    refuse_unreleased,
)
from coterie.coordinator.consumer.state import JOIN_GROUP_EPOCH, LEAVE_GROUP_EPOCH, LEAVE_GROUP_STATIC_EPOCH
from coterie.coordinator.outcome import Context, CoordinatorConfig, Outcome, Reply
from coterie.coordinator.streams import events as s
from coterie.coordinator.streams.leave import cause_of, decide_streams_leave, removal
from coterie.coordinator.streams.member_checks import (
    check_streams_epoch,
    check_streams_request,
    reported_tasks,
)
from coterie.coordinator.streams.response import heartbeat_response, plain_response
from coterie.coordinator.streams.state import (
    RestoredOffsets,
    StreamsGroup,
    StreamsGroupMember,
    StreamsMemberState,
    StreamsMetadata,
)
from coterie.coordinator.streams.steps import StreamsHeartbeat, reconciled, update_epoch, update_target
from coterie.coordinator.streams.target import assignment_configs
from coterie.coordinator.streams.tasks import NO_TASKS, TaskId, Tasks
from coterie.wire.errors import ErrorCode, Refusal
from coterie.wire.messages.streams.streams_group_heartbeat import StreamsGroupHeartbeatRequest, TaskOffset

_NOTHING = (None,) * 6
_STABLE = StreamsMemberState.STABLE  # looked up in its class it takes five times as long in Python 3.11


def decide_streams_heartbeat(
    group: StreamsGroup, exists: bool, request: StreamsGroupHeartbeatRequest, ctx: Context, config: CoordinatorConfig
) -> Outcome:
    """Everything that one heartbeat does. Raises Refusal."""
    session = request.member_id, ctx.now_ms + config.group_streams_session_timeout_ms
    if _changes_nothing(group, request, ctx, config):
        response = plain_response(request.member_id, request.member_epoch, config)
        response.status, response.endpoint_information_epoch = [], group.endpoint_epoch
        return Outcome([], [Reply(ctx.token, response)], [session])
    check_streams_request(request)
    joins = request.member_epoch == JOIN_GROUP_EPOCH
    if not exists and not joins:
        kind = "Group" if request.member_epoch < JOIN_GROUP_EPOCH else "Streams group"
        raise Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"{kind} {group.group_id} not found.")
    if request.member_epoch in (LEAVE_GROUP_EPOCH, LEAVE_GROUP_STATIC_EPOCH):
        return decide_streams_leave(group, request, ctx)
    if joins:
        refuse_full(group, request.member_id, request.instance_id, config.group_streams_max_size, "streams")
    outcome, reported = Outcome(), reported_tasks(request)
    before, replaced = _sender(group, request, reported, outcome)
    metadata = _updated(before.metadata, request, ctx)
    after = before if metadata is before.metadata else replace(before, metadata=metadata)
    beat = StreamsHeartbeat(group, exists, before, after, replaced, reported, request, ctx, config)
    epoch, topology = update_epoch(beat, outcome)
    _note_restored(beat, outcome)
    target_epoch, target = update_target(beat, epoch, topology, outcome)
    current = reconciled(beat, target_epoch, target, outcome)
    member = after if current is after.current else replace(after, current=current)
    response = heartbeat_response(beat, member, topology, outcome)
    response.status = beat.statuses
    outcome.replies.append(Reply(ctx.token, response))
    outcome.deadlines.append(session)
    outcome.internal_topics = topology.missing
    return outcome


def _changes_nothing(
    group: StreamsGroup, request: StreamsGroupHeartbeatRequest, ctx: Context, config: CoordinatorConfig
) -> bool:
    """Whether the steps only extend the session, without a status: almost every heartbeat, for which they cost three times as
    much. The request names a member that has all of the target assignment and nothing else; the group epoch stands for
    the topics, the topology and the settings as they are."""
    member, topology, configured = group.members.get(request.member_id), group.topology, group.configured
    return (
        member is not None
        and topology is not None
        and configured is not None
        and JOIN_GROUP_EPOCH < request.member_epoch == member.current.member_epoch == group.assignment_epoch
        and member.current.state == _STABLE
        and group.assignment_epoch >= group.group_epoch
        and group.topics_version == ctx.topics.version
        and configured.problem is None
        and not configured.missing
        and topology.epoch == group.validated_topology_epoch == member.metadata.topology_epoch
        and group.shutdown_member_id is None
        and not request.shutdown_application
        and request.endpoint_information_epoch == group.endpoint_epoch
        and request.active_tasks is request.standby_tasks is request.warmup_tasks is None
        and request.task_offsets is request.task_end_offsets is None
        and not config.group_streams_rack_aware_assignment_tags
        and group.assignment_configs == assignment_configs(config)
        and _updated(member.metadata, request, ctx) is member.metadata
    )


def _sender(
    group: StreamsGroup, request: StreamsGroupHeartbeatRequest, reported: Tasks | None, outcome: Outcome
) -> tuple[StreamsGroupMember, str | None]:
    """The member as it is before this heartbeat, and the member id that it replaces. Raises Refusal."""
    instance_id, joins, member_id = request.instance_id, request.member_epoch == JOIN_GROUP_EPOCH, request.member_id
    present = None if instance_id is None else group.static_member(instance_id)
    if joins and present is not None:
        if present.current.member_epoch != LEAVE_GROUP_STATIC_EPOCH:
            raise refuse_unreleased(member_id, instance_id, present.member_id)
        current = replace(present.current, member_epoch=JOIN_GROUP_EPOCH, previous_member_epoch=JOIN_GROUP_EPOCH)
        outcome.events += [
            *removal(present, cause_of("member_replaced", present)),
            s.StreamsMetadataStored(member_id, present.metadata),
            s.TaskTargetStored(member_id, group.target.get(present.member_id, NO_TASKS)),
            s.CurrentTasksStored(member_id, current),
        ]
        return StreamsGroupMember(member_id, present.metadata, current), present.member_id
    if joins:
        return group.members.get(member_id) or StreamsGroupMember(member_id), None
    if instance_id is None:
        member = known_member(group, member_id)
    else:
        member = known_static_member(group, member_id, instance_id)
    check_streams_epoch(member.current, request.member_epoch, reported)
    return member, None


def _updated(before: StreamsMetadata, request: StreamsGroupHeartbeatRequest, ctx: Context) -> StreamsMetadata:
    """The metadata with what the request names; null, or -1, leaves a field as it is, but for the endpoint of one who joins.
    The same object where the request names nothing, as most heartbeats do."""
    given = request.instance_id, request.rack_id, request.topology, request.process_id, request.user_endpoint
    if (*given, request.client_tags) == _NOTHING and request.rebalance_timeout_ms == -1:
        is_same_client = before.client_id == ctx.client_id and before.client_host == ctx.client_host
        if is_same_client and request.member_epoch != JOIN_GROUP_EPOCH:
            return before
    endpoint = None if request.user_endpoint is None else (request.user_endpoint.host, request.user_endpoint.port)
    if endpoint is None and request.member_epoch != JOIN_GROUP_EPOCH:
        endpoint = before.user_endpoint
    tags = before.client_tags
    if request.client_tags is not None:
        tags = tuple(sorted((tag.key, tag.value) for tag in request.client_tags))
    return StreamsMetadata(
        before.instance_id if request.instance_id is None else request.instance_id,
        before.rack_id if request.rack_id is None else request.rack_id,
        ctx.client_id,
        ctx.client_host,
        before.rebalance_timeout_ms if request.rebalance_timeout_ms == -1 else request.rebalance_timeout_ms,
        before.topology_epoch if request.topology is None else request.topology.epoch,
        before.process_id if request.process_id is None else request.process_id,
        endpoint,
        tags,
    )


def _note_restored(beat: StreamsHeartbeat, outcome: Outcome) -> None:
    """How far the member has restored its tasks, where it says so. Raises Refusal INVALID_REQUEST."""
    offsets, end_offsets = beat.request.task_offsets, beat.request.task_end_offsets
    if offsets is None and end_offsets is None:
        return
    known = beat.group.restored.get(beat.after.member_id, RestoredOffsets())
    restored = RestoredOffsets(
        known.offsets if offsets is None else _by_task(offsets),
        known.end_offsets if end_offsets is None else _by_task(end_offsets),
    )
    if beat.exists:
        outcome.events.append(s.TasksRestored(beat.after.member_id, restored))


def _by_task(offsets: list[TaskOffset]) -> dict[TaskId, int]:
    by_task: dict[TaskId, int] = {}
    for reported in offsets:
        task = (reported.subtopology_id, reported.partition)
        if task in by_task:
            text = f"Task offsets contain a duplicate entry for subtopology {task[0]} and partition {task[1]}."
            raise Refusal(ErrorCode.INVALID_REQUEST, text)
        by_task[task] = reported.offset
    return by_task
