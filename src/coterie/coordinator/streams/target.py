"""The target assignment of a streams group: the tasks that each member is to have in the end (Kafka's streams
TargetAssignmentBuilder). Warm-up tasks are in none: the step that would hand them out changes nothing in Kafka 4.4."""

from __future__ import annotations

from collections.abc import Mapping

from coterie.coordinator import events as e
from coterie.coordinator.outcome import CoordinatorConfig
from coterie.coordinator.streams import events as s
from coterie.coordinator.streams.assignors.sticky_task_assignor import TASK_ASSIGNORS
from coterie.coordinator.streams.state import RestoredOffsets, StreamsGroup, StreamsGroupMember
from coterie.coordinator.streams.tasks import (
    NO_TASKS,
    AssignableSubtopology,
    ConfiguredTopology,
    TaskAssignmentConfig,
    TaskMember,
    Tasks,
)

STANDBY_REPLICAS, RACK_AWARE_TAGS = "num.standby.replicas", "rack.aware.assignment.tags"
_NOTHING_RESTORED = RestoredOffsets()


def assignment_configs(config: CoordinatorConfig) -> dict[str, str]:
    """The settings of a target assignment, as the group's record has them (KIP-1357)."""
    configs = {STANDBY_REPLICAS: str(config.group_streams_num_standby_replicas)}
    tags = config.group_streams_rack_aware_assignment_tags
    return configs | {RACK_AWARE_TAGS: ",".join(tags)} if tags else configs


def assignor_name(config: CoordinatorConfig) -> str:
    """The assignor of a group: the one that it names, if there is one, else the first of the broker's."""
    named = config.streams_assignor_name
    names = config.group_streams_assignors
    return named if named is not None and named in names else names[0]


def compute_task_target(
    group: StreamsGroup,
    members: Mapping[str, StreamsGroupMember],
    before: Mapping[str, Tasks],
    topology: ConfiguredTopology,
    epoch: int,
    config: CoordinatorConfig,
    configs: Mapping[str, str],
    now_ms: int,
) -> tuple[dict[str, Tasks], list[e.Event]]:
    """The tasks of every member, and the events that store what differs from ``before``; none while the topology is not
    ready."""
    assigned: Mapping[str, Tasks] = {}
    if topology.is_ready and topology.subtopologies is not None:
        seen = {member_id: _seen(group, member) for member_id, member in members.items()}
        subtopologies = {
            subtopology_id: AssignableSubtopology(sub.task_count, bool(sub.changelogs))
            for subtopology_id, sub in topology.subtopologies.items()
        }
        tags = configs.get(RACK_AWARE_TAGS, "")
        given = TaskAssignmentConfig(int(configs.get(STANDBY_REPLICAS, 0)), tuple(tags.split(",")) if tags else ())
        assigned = TASK_ASSIGNORS[assignor_name(config)](seen, subtopologies, given)
    target = {member_id: assigned.get(member_id, NO_TASKS) for member_id in members}
    events: list[e.Event] = [
        s.TaskTargetStored(member_id, tasks) for member_id, tasks in target.items() if before.get(member_id) != tasks
    ]
    events.append(s.TaskTargetEpochStored(epoch, now_ms))
    return target, events


def _seen(group: StreamsGroup, member: StreamsGroupMember) -> TaskMember:
    metadata, restored = member.metadata, group.restored.get(member.member_id, _NOTHING_RESTORED)
    return TaskMember(
        metadata.process_id,
        member.current.assigned.tasks,
        dict(metadata.client_tags),
        metadata.instance_id,
        metadata.rack_id,
        restored.offsets,
        restored.end_offsets,
    )
