"""The response to a heartbeat of a streams group: the member's tasks where they changed, the statuses, and where the member
does not know them the endpoints for interactive queries, each with its partitions (Kafka's EndpointToPartitionsManager)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from coterie.coordinator.consumer.image import TopicsImage
from coterie.coordinator.consumer.state import JOIN_GROUP_EPOCH
from coterie.coordinator.outcome import CoordinatorConfig, Outcome
from coterie.coordinator.streams import events as s
from coterie.coordinator.streams.state import StreamsGroupMember
from coterie.coordinator.streams.steps import StreamsHeartbeat
from coterie.coordinator.streams.target import RACK_AWARE_TAGS, assignment_configs
from coterie.coordinator.streams.tasks import ConfiguredSubtopology, ConfiguredTopology, TaskId, Tasks
from coterie.wire.errors import ErrorCode, Refusal
from coterie.wire.messages.streams.streams_group_heartbeat import (
    Endpoint,
    EndpointToPartitions,
    EndpointTopic,
    GroupStatus,
    StreamsGroupHeartbeatResponse,
    TaskIds,
)

Subtopologies = Mapping[str, ConfiguredSubtopology]
_SHUTDOWN_APPLICATION, _MISSING_CLIENT_TAGS = 4, 6
_MISSING_CLIENT_TAGS_FROM = 1  # the version whose members know that status


def task_ids(tasks: Iterable[TaskId]) -> list[TaskIds]:
    """Subtopologies with their partitions, both in order."""
    by_subtopology: dict[str, list[int]] = {}
    for subtopology_id, partition in sorted(tasks):
        by_subtopology.setdefault(subtopology_id, []).append(partition)
    return [TaskIds(subtopology_id, partitions) for subtopology_id, partitions in by_subtopology.items()]


def plain_response(member_id: str, member_epoch: int, config: CoordinatorConfig) -> StreamsGroupHeartbeatResponse:
    """With the settings of the group, and no tasks."""
    return StreamsGroupHeartbeatResponse(
        member_id=member_id,
        member_epoch=member_epoch,
        heartbeat_interval_ms=config.group_streams_heartbeat_interval_ms,
        task_offset_interval_ms=config.group_streams_task_offset_interval_ms,
        acceptable_recovery_lag=config.group_streams_acceptable_recovery_lag,
    )


def heartbeat_response(
    beat: StreamsHeartbeat, member: StreamsGroupMember, topology: ConfiguredTopology, outcome: Outcome
) -> StreamsGroupHeartbeatResponse:
    """The response for the member as it is after the heartbeat; the statuses are the heartbeat's. Raises Refusal."""
    current = member.current
    response = plain_response(member.member_id, current.member_epoch, beat.config)
    tasks_changed = current.assigned != beat.before.current.assigned
    if beat.request.member_epoch == JOIN_GROUP_EPOCH or tasks_changed:
        response.active_tasks = task_ids(current.assigned.active)
        response.standby_tasks = task_ids(current.assigned.standby)
        response.warmup_tasks = task_ids(current.assigned.warmup)
    _put_endpoints(beat, member, tasks_changed, topology, response, outcome)
    if topology.problem is not None:
        beat.statuses.append(GroupStatus(topology.problem.status_code, topology.problem.detail))
    _put_shutdown(beat, outcome)
    _put_missing_tags(beat, member)
    return response


def endpoint_partitions(
    endpoint: Endpoint, tasks: Tasks, subtopologies: Subtopologies, topics: TopicsImage
) -> EndpointToPartitions:
    """Warm-up tasks count as standbys. Raises Refusal where a source topic was deleted."""
    active = _partitions(tasks.active, subtopologies, topics)
    return EndpointToPartitions(endpoint, active, _partitions(tasks.standby | tasks.warmup, subtopologies, topics))


def _partitions(tasks: Iterable[TaskId], subtopologies: Subtopologies, topics: TopicsImage) -> list[EndpointTopic]:
    by_subtopology: dict[str, list[int]] = {}
    for subtopology_id, partition in sorted(tasks):
        by_subtopology.setdefault(subtopology_id, []).append(partition)
    served: list[EndpointTopic] = []
    for subtopology_id, partitions in by_subtopology.items():
        subtopology = subtopologies[subtopology_id]
        for name in sorted(subtopology.source_topics | subtopology.repartition_sources.keys()):
            topic = topics.topics.get(name)
            if topic is None:
                raise Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, f"Topic {name} not found in metadata image")
            # A source with fewer partitions than its subtopology has tasks has none for the last of them.
            present = [partition for partition in partitions if partition < topic.partitions]
            if present:
                served.append(EndpointTopic(name, present))
    return served


def _put_endpoints(
    beat: StreamsHeartbeat,
    member: StreamsGroupMember,
    tasks_changed: bool,
    topology: ConfiguredTopology,
    response: StreamsGroupHeartbeatResponse,
    outcome: Outcome,
) -> None:
    """A group that this heartbeat makes has no epoch of endpoints yet."""
    endpoint, epoch = member.metadata.user_endpoint, beat.group.endpoint_epoch
    if endpoint != beat.before.metadata.user_endpoint or (tasks_changed and endpoint is not None):
        epoch += 1
        if beat.exists:
            outcome.events.append(s.EndpointsChanged(epoch))
    if epoch != beat.request.endpoint_information_epoch:
        others = [
            m
            for m in beat.group.members.values()
            if m.metadata.user_endpoint is not None and m.member_id not in (member.member_id, beat.replaced)
        ]
        response.partitions_by_user_endpoint = [
            of_member for other in (*others, member) for of_member in _endpoints_of(other, topology, beat)
        ]
    response.endpoint_information_epoch = epoch if beat.exists else 0


def _endpoints_of(
    member: StreamsGroupMember, topology: ConfiguredTopology, beat: StreamsHeartbeat
) -> list[EndpointToPartitions]:
    if member.metadata.user_endpoint is None:
        return []
    endpoint = Endpoint(*member.metadata.user_endpoint)
    if topology.subtopologies is None:
        return [EndpointToPartitions(endpoint)]
    return [endpoint_partitions(endpoint, member.current.assigned.tasks, topology.subtopologies, beat.ctx.topics)]


def _put_shutdown(beat: StreamsHeartbeat, outcome: Outcome) -> None:
    requested_by = beat.group.shutdown_member_id
    if beat.request.shutdown_application and requested_by is None:
        requested_by = beat.after.member_id
        if beat.exists:
            outcome.events.append(s.ShutdownRequested(requested_by))
    if requested_by is not None:
        text = (
            f"Streams group member {requested_by} encountered a fatal error and requested a shutdown for the entire "
            "application."
        )
        beat.statuses.append(GroupStatus(_SHUTDOWN_APPLICATION, text))


def _put_missing_tags(beat: StreamsHeartbeat, member: StreamsGroupMember) -> None:
    required = assignment_configs(beat.config).get(RACK_AWARE_TAGS, "").strip()
    if beat.ctx.api_version < _MISSING_CLIENT_TAGS_FROM or not required:
        return
    known = {key for key, _ in member.metadata.client_tags}
    missing = [tag.strip() for tag in required.split(",") if tag.strip() not in known]
    if missing:
        text = (
            f"Missing required client tags for rack-aware standby assignment: [{', '.join(missing)}]. Configure them via "
            "'client.tag.<tagKey>' in your Streams config."
        )
        beat.statuses.append(GroupStatus(_MISSING_CLIENT_TAGS, text))
