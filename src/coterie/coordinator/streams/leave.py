"""Members of a streams group that go: they leave, or are fenced at the end of a timeout; and the end of the group."""

from __future__ import annotations

from dataclasses import replace

from coterie.coordinator import events as e
from coterie.coordinator.consumer.leave import EXPIRY_RETRY_MS, NEVER_COMPUTED_MS, passed_timeout
from coterie.coordinator.consumer.member_checks import known_member, known_static_member
from coterie.coordinator.consumer.state import LEAVE_GROUP_STATIC_EPOCH
from coterie.coordinator.outcome import Context, Outcome, Reply
from coterie.coordinator.state import Cause, TopicPartition
from coterie.coordinator.streams import events as s
from coterie.coordinator.streams.state import NOTHING_OWNED, OwnedTasks, StreamsGroup, StreamsGroupMember
from coterie.wire.messages.streams.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)


def decide_streams_leave(group: StreamsGroup, request: StreamsGroupHeartbeatRequest, ctx: Context) -> Outcome:
    """Epoch -1: the member goes; -2: a static member goes for a while and keeps its tasks until its session ends. Raises
    Refusal."""
    instance_id = request.instance_id
    if instance_id is None:
        member = known_member(group, request.member_id)
    else:
        member = known_static_member(group, request.member_id, instance_id)
    response = StreamsGroupHeartbeatResponse(member_id=member.member_id, member_epoch=request.member_epoch, status=[])
    if instance_id is not None and request.member_epoch == LEAVE_GROUP_STATIC_EPOCH:
        owned = member.current.assigned
        away = replace(
            member.current,
            member_epoch=LEAVE_GROUP_STATIC_EPOCH,
            # Its successor gets the tasks with a new id, in whose epochs they are then assigned.
            assigned=OwnedTasks(dict.fromkeys(owned.active, 0), owned.standby, owned.warmup),
            pending_revocation=NOTHING_OWNED,
        )
        outcome = Outcome([s.CurrentTasksStored(member.member_id, away)])
    else:
        outcome = fence_streams_member(group, member, "member_left")
    if request.shutdown_application:
        outcome.events.insert(0, s.ShutdownRequested(request.member_id))
    outcome.replies.append(Reply(ctx.token, response))
    return outcome


def decide_streams_expired(group: StreamsGroup, member_id: str, ctx: Context, *, at_once: bool = False) -> Outcome:
    """The end of a member's session, or of the time that it had to revoke tasks. ``at_once``: as if its session were over."""
    member = group.members.get(member_id)
    kind = passed_timeout(group.timers.get(member_id), ctx.now_ms, at_once)
    if member is None or kind is None:
        return Outcome()
    outcome = fence_streams_member(group, member, kind)
    again = s.StreamsExpiryDelayed(member_id, ctx.now_ms + EXPIRY_RETRY_MS)
    outcome.on_append_error = lambda code: Outcome([again])
    return outcome


def cause_of(kind: str, member: StreamsGroupMember) -> Cause:
    """The cause of an event by one member."""
    return Cause(kind, member.member_id, member.metadata.client_id, member.metadata.instance_id)


def removal(member: StreamsGroupMember, cause: Cause) -> list[e.Event]:
    """A member's three tombstones, in the order in which they must be read."""
    member_id = member.member_id
    return [
        s.CurrentTasksRemoved(member_id),
        s.TaskTargetRemoved(member_id),
        s.StreamsMetadataRemoved(member_id, cause),
    ]


def fence_streams_member(group: StreamsGroup, member: StreamsGroupMember, kind: str) -> Outcome:
    """Removes the member and raises the group epoch; of a group without members the target assignment is of the new epoch too.
    ``kind`` is that of the cause."""
    cause = cause_of(kind, member)
    stored = s.StreamsEpochStored(
        group.group_epoch + 1,
        group.metadata_hash,
        group.validated_topology_epoch,
        tuple(group.assignment_configs.items()),
        group.stored_description_epoch,
        group.failed_description_epoch,
        cause,
    )
    events = [*removal(member, cause), stored]
    if len(group.members) == 1:
        events.append(s.TaskTargetEpochStored(stored.epoch, NEVER_COMPUTED_MS))
    return Outcome(events)


def streams_tombstones(cause: Cause) -> list[e.Event]:
    """All that removes the records of a group without members."""
    return [s.TaskTargetEpochRemoved(), s.StreamsEpochRemoved(cause), s.TopologyRemoved()]


def source_topics(group: StreamsGroup) -> dict[str, str]:
    """The topics that the topology reads, with the subtopology of each (Kafka's StreamsTopology.sourceTopicMap)."""
    subtopologies = [] if group.topology is None else group.topology.subtopologies
    sources = {name: sub.subtopology_id for sub in subtopologies for name in sub.source_topics}
    return sources | {t.name: sub.subtopology_id for sub in subtopologies for t in sub.repartition_source_topics}


def subscribed_by_streams(group: StreamsGroup) -> frozenset[str]:
    """The topics whose offsets are in use; those of a group without members are not."""
    return frozenset(source_topics(group)) if group.members else frozenset()


def task_owners(group: StreamsGroup) -> dict[TopicPartition, str]:
    """The member that reads each partition of the source topics, by the active tasks."""
    by_task = {task: member_id for member_id, m in group.members.items() for task in m.current.assigned.active}
    owners: dict[TopicPartition, str] = {}
    for topic, subtopology_id in source_topics(group).items():
        for (of_task, partition), member_id in by_task.items():
            if of_task == subtopology_id:
                owners[topic, partition] = member_id
    return owners
