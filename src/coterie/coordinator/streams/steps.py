"""The steps of a heartbeat of a streams group, whose events are appended together: the group epoch, the target assignment,
and the member's own step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from coterie.coordinator.consumer.target import time_to_target_ms
from coterie.coordinator.outcome import Context, CoordinatorConfig, Outcome
from coterie.coordinator.state import Cause
from coterie.coordinator.streams import events as s
from coterie.coordinator.streams.leave import cause_of
from coterie.coordinator.streams.member_checks import check_tasks
from coterie.coordinator.streams.state import (
    NO_TOPOLOGY_EPOCH,
    CurrentTasks,
    StreamsGroup,
    StreamsGroupMember,
    StreamsGroupState,
)
from coterie.coordinator.streams.target import TaskStep, assignment_configs, compute_task_target, reconcile_tasks
from coterie.coordinator.streams.tasks import NO_TASKS, ConfiguredTopology, Tasks
from coterie.coordinator.streams.topology import configure_topology, required_topics
from coterie.wire.errors import ErrorCode, Refusal
from coterie.wire.messages.stored.streams_group_records import StreamsGroupTopologyValue
from coterie.wire.messages.streams.streams_group_heartbeat import GroupStatus, StreamsGroupHeartbeatRequest, Topology

STALE_TOPOLOGY, ASSIGNMENT_DELAYED = 0, 5


@dataclass(frozen=True, slots=True)
class StreamsHeartbeat:
    """A heartbeat while it is decided: the member before it and with what it requests, the member id that it replaces, and the
    tasks that it reports. ``statuses`` go into the response."""

    group: StreamsGroup
    exists: bool
    before: StreamsGroupMember
    after: StreamsGroupMember
    replaced: str | None
    reported: Tasks | None
    request: StreamsGroupHeartbeatRequest
    ctx: Context
    config: CoordinatorConfig
    statuses: list[GroupStatus] = field(default_factory=list)


def update_epoch(beat: StreamsHeartbeat, outcome: Outcome) -> tuple[int, ConfiguredTopology]:
    """The group epoch, one more where the member, the topology, its topics or the assignor's settings are not what it stands
    for, and the topology over the topics. Raises Refusal."""
    group, ctx = beat.group, beat.ctx
    cause = _update_member(beat, outcome)
    topology = _update_topology(beat, outcome)
    metadata_hash, configured = group.metadata_hash, group.configured
    if group.topology is None or configured is None or group.topics_version != ctx.topics.version:
        metadata_hash = ctx.topics.metadata_hash(required_topics(topology))
        changed = metadata_hash != group.metadata_hash
        if changed and group.topology is not None:
            cause = cause or Cause("topic_metadata_changed")
        if changed or group.topology is None or configured is None:
            configured = configure_topology(topology, ctx.topics)
        if beat.exists:  # the group of a first heartbeat comes from its records alone
            outcome.events.append(s.TopologyConfigured(configured, ctx.topics.version))
    validated = NO_TOPOLOGY_EPOCH
    if configured.is_ready and configured.subtopologies is not None:
        validated = topology.epoch
        check_tasks(beat.reported, configured.subtopologies)
    if validated != group.validated_topology_epoch:
        cause = cause or Cause("topology_validated" if configured.is_ready else "topology_not_ready")
    configs = assignment_configs(beat.config)
    if configs != group.assignment_configs:
        cause = cause or Cause("assignment_configs_changed")
    if cause is None:
        return group.group_epoch, configured
    epoch = group.group_epoch + 1
    stored = (group.stored_description_epoch, group.failed_description_epoch)
    outcome.events.append(
        s.StreamsEpochStored(epoch, metadata_hash, validated, tuple(configs.items()), *stored, cause=cause)
    )
    return epoch, configured


def _update_member(beat: StreamsHeartbeat, outcome: Outcome) -> Cause | None:
    """Stores what the member changed of itself; the cause of a new epoch where that calls for one: of a static member, only
    what its tasks depend on."""
    old, new = beat.before.metadata, beat.after.metadata
    if beat.before.member_id in beat.group.members and (new is old or new == old):
        return None
    if beat.replaced is not None and new == old:
        return None
    outcome.events.append(s.StreamsMetadataStored(beat.after.member_id, new))
    same = (old.topology_epoch, old.rack_id, old.client_tags, old.process_id) == (
        new.topology_epoch,
        new.rack_id,
        new.client_tags,
        new.process_id,
    )
    if beat.request.instance_id is not None and same:
        return None
    known = beat.before.member_id in beat.group.members or beat.replaced is not None
    return cause_of("member_changed" if known else "member_joined", beat.after)


def _update_topology(beat: StreamsHeartbeat, outcome: Outcome) -> StreamsGroupTopologyValue:
    """The group's topology: the first member's, and then the same. Raises Refusal."""
    group, given = beat.group, beat.request.topology
    present, member_epoch = group.topology, beat.after.metadata.topology_epoch
    if present is not None and member_epoch < present.epoch:
        text = f"The member's topology epoch {member_epoch} is behind the group's topology epoch {present.epoch}."
        beat.statuses.append(GroupStatus(STALE_TOPOLOGY, text))
    if given is None:
        if present is None:
            raise Refusal(ErrorCode.UNKNOWN_SERVER_ERROR)
        return present
    if given.epoch < 0 or len({sub.subtopology_id for sub in given.subtopologies}) < len(given.subtopologies):
        raise Refusal(ErrorCode.UNKNOWN_SERVER_ERROR)  # Kafka's StreamsTopology cannot be made of it
    if present is None:
        topology = StreamsGroupTopologyValue(given.epoch, given.subtopologies)
        outcome.events.append(s.TopologyStored(topology))
        return topology
    if present.epoch <= given.epoch and not _is_same(present, given):
        raise Refusal(ErrorCode.INVALID_REQUEST, "Topology updates are not supported yet.")
    return present


def _is_same(present: StreamsGroupTopologyValue, given: Topology) -> bool:
    by_id = {sub.subtopology_id: sub for sub in given.subtopologies}
    return given.epoch == present.epoch and {sub.subtopology_id: sub for sub in present.subtopologies} == by_id


def update_target(
    beat: StreamsHeartbeat, epoch: int, topology: ConfiguredTopology, outcome: Outcome
) -> tuple[int, Tasks]:
    """The epoch of the target assignment, new or not, and the member's part of it. A group that was empty waits for its initial
    delay, and each target for the interval after the one before: the next heartbeat then computes it."""
    group, config, now_ms = beat.group, beat.config, beat.ctx.now_ms
    delay_ms = config.group_streams_initial_rebalance_delay_ms
    delayed = group.initial_delay_until_ms is not None
    if not group.members and group.phase == StreamsGroupState.EMPTY and delay_ms > 0 and not delayed:
        outcome.events.append(s.InitialDelaySet(now_ms + delay_ms))
        delayed = True
    if delayed:
        text = "Assignment delayed due to the configured initial rebalance delay."
        beat.statuses.append(GroupStatus(ASSIGNMENT_DELAYED, text))
        return group.assignment_epoch, NO_TASKS
    member_id, present = beat.after.member_id, beat.after.member_id if beat.replaced is None else beat.replaced
    tasks = group.target.get(present, NO_TASKS)
    if group.assignment_epoch >= epoch:  # as in most heartbeats
        return group.assignment_epoch, tasks
    if time_to_target_ms(group.assignment_timestamp_ms, config.group_streams_assignment_interval_ms, now_ms):
        text = "Assignment delayed due to the configured assignment interval."
        beat.statuses.append(GroupStatus(ASSIGNMENT_DELAYED, text))
        return group.assignment_epoch, tasks
    before: dict[str, Tasks] = dict(group.target)
    if beat.replaced is not None:
        before[member_id] = before.pop(beat.replaced, NO_TASKS)
    members = {m: other for m, other in group.members.items() if m != beat.replaced} | {member_id: beat.after}
    configs = assignment_configs(config)
    target, events = compute_task_target(group, members, before, topology, epoch, config, configs, now_ms)
    outcome.events += events
    return epoch, target[member_id]


def decide_initial_target(group: StreamsGroup, ctx: Context, config: CoordinatorConfig) -> Outcome:
    """The initial delay is over: the target assignment of the members that joined in it (Kafka's
    computeDelayedTargetAssignment)."""
    until_ms = group.initial_delay_until_ms
    if until_ms is None or ctx.now_ms < until_ms:
        return Outcome()
    outcome = Outcome([s.InitialDelaySet(None)])
    if not group.members or group.configured is None or group.group_epoch <= group.assignment_epoch:
        return outcome
    configs: Mapping[str, str] = group.assignment_configs
    _, events = compute_task_target(
        group, group.members, group.target, group.configured, group.group_epoch, config, configs, ctx.now_ms
    )
    outcome.events += events
    # Without its records the next heartbeat computes the target.
    outcome.on_append_error = lambda code: Outcome([s.InitialDelaySet(None)])
    return outcome


def reconciled(beat: StreamsHeartbeat, target_epoch: int, target: Tasks, outcome: Outcome) -> CurrentTasks:
    """The member's step towards the target, stored where it is one. Raises Refusal."""
    member = beat.after
    if member.current.is_reconciled_to(target_epoch):
        return member.current
    step = TaskStep(target_epoch, target, member.metadata.process_id, beat.group.owners, beat.reported)
    current = reconcile_tasks(member.current, step)
    if current != member.current:
        outcome.events.append(s.CurrentTasksStored(member.member_id, current))
    return current
