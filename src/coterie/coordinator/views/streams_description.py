"""StreamsGroupDescribe (KIP-1071): a group with its epochs and topology, and of each member the tasks that it has and is to
have. Descriptions of topologies are those of a plugin of Kafka's (KIP-1331): none is stored."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from coterie.coordinator.outcome import CoordinatorConfig
from coterie.coordinator.state import GroupOffsets
from coterie.coordinator.streams.response import task_ids
from coterie.coordinator.streams.state import RestoredOffsets, StreamsGroup, StreamsGroupMember
from coterie.coordinator.streams.target import assignor_name
from coterie.coordinator.streams.tasks import (
    NO_TASKS,
    ConfiguredInternalTopic,
    ConfiguredSubtopology,
    TaskId,
    Tasks,
)
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

NOT_STORED = 1  # the status of a topology's description that is requested


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
        members=[_member(group, member) for member in group.members.values()],
        topology_description_status=NOT_STORED if with_topology_description else 0,
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


def _member(group: StreamsGroup, member: StreamsGroupMember) -> StreamsMember:
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
