"""The checks of StreamsGroupHeartbeat, in Kafka's order (GroupCoordinatorService, GroupMetadataManager)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from coterie.coordinator.consumer.member_checks import fenced_epoch, require
from coterie.coordinator.consumer.state import JOIN_GROUP_EPOCH, LEAVE_GROUP_STATIC_EPOCH
from coterie.coordinator.streams.state import CurrentTasks
from coterie.coordinator.streams.tasks import ConfiguredSubtopology, Tasks
from coterie.coordinator.streams.topology import check_topology
from coterie.wire.errors import ErrorCode, Refusal
from coterie.wire.messages.streams.streams_group_heartbeat import StreamsGroupHeartbeatRequest, TaskIds


def check_streams_request(request: StreamsGroupHeartbeatRequest) -> None:
    """What the request alone shows. Raises Refusal INVALID_REQUEST, or STREAMS_INVALID_TOPOLOGY."""
    epoch, topology = request.member_epoch, request.topology
    if topology is not None:
        text = "Regular expressions for source topics are not supported yet."
        require(not any(subtopology.source_topic_regex for subtopology in topology.subtopologies), text)
    require(request.member_id.strip(), "MemberId can't be empty.")
    require(request.group_id.strip(), "GroupId can't be empty.")
    require(request.instance_id is None or request.instance_id.strip(), "InstanceId can't be empty.")
    require(request.rack_id is None or request.rack_id.strip(), "RackId can't be empty.")
    roles = (("Active", request.active_tasks), ("Standby", request.standby_tasks), ("Warmup", request.warmup_tasks))
    if epoch == JOIN_GROUP_EPOCH:
        require(request.rebalance_timeout_ms != -1, "RebalanceTimeoutMs must be provided in first request.")
        for name, tasks in roles:
            require(not tasks, f"{name}Tasks must be empty when (re-)joining.")
        require(topology is not None, "Topology must be non-null when (re-)joining.")
        if topology is not None:
            check_topology(topology)
    elif epoch == LEAVE_GROUP_STATIC_EPOCH:
        require(request.instance_id is not None, "InstanceId can't be null.")
    else:
        text = f"MemberEpoch is {epoch}, but must be greater than or equal to -2."
        require(epoch > LEAVE_GROUP_STATIC_EPOCH, text)
    given = [tasks is not None for _, tasks in roles]
    require(all(given) or not any(given), "If one task-type is non-null, all must be non-null.")
    require(epoch == JOIN_GROUP_EPOCH or topology is None, "Topology can only be provided when (re-)joining.")


def reported_tasks(request: StreamsGroupHeartbeatRequest) -> Tasks | None:
    """The tasks that the member reports as its own; None where it reports nothing."""
    if request.active_tasks is None or request.standby_tasks is None or request.warmup_tasks is None:
        return None
    return Tasks(*(task_set(t) for t in (request.active_tasks, request.standby_tasks, request.warmup_tasks)))


def task_set(tasks: Iterable[TaskIds]) -> frozenset[tuple[str, int]]:
    """The tasks of a message."""
    return frozenset((t.subtopology_id, partition) for t in tasks for partition in t.partitions)


def check_tasks(reported: Tasks | None, subtopologies: Mapping[str, ConfiguredSubtopology]) -> None:
    """Raises Refusal INVALID_REQUEST for a task that the topology does not have."""
    if reported is None:
        return
    for role in (reported.active, reported.standby, reported.warmup):
        for subtopology_id, partition in sorted(role):
            subtopology = subtopologies.get(subtopology_id)
            if subtopology is None:
                text = f"Subtopology {subtopology_id} does not exist in the topology."
                raise Refusal(ErrorCode.INVALID_REQUEST, text)
            if not 0 <= partition < subtopology.task_count:
                text = (
                    f"Task {partition} for subtopology {subtopology_id} is invalid. Number of tasks for this "
                    f"subtopology: {subtopology.task_count}"
                )
                raise Refusal(ErrorCode.INVALID_REQUEST, text)


def check_streams_epoch(current: CurrentTasks, epoch: int, reported: Tasks | None) -> None:
    """The member's epoch, or its previous one with no task beyond its own, as then the response with the new epoch was lost.
    Epoch 0 joins again and always passes. Raises Refusal FENCED_MEMBER_EPOCH."""
    if epoch in (JOIN_GROUP_EPOCH, current.member_epoch):
        return
    if epoch < current.member_epoch and epoch == current.previous_member_epoch and reported is not None:
        owned = current.assigned
        if (
            reported.active <= owned.active.keys()
            and reported.standby <= owned.standby
            and reported.warmup <= owned.warmup
        ):
            return
    raise fenced_epoch("streams", epoch, current.member_epoch)
