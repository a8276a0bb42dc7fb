"""The checks of ConsumerGroupHeartbeat, in Kafka's order (GroupCoordinatorService, GroupMetadataManager)."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol, TypeVar

from coterie.coordinator.consumer.state import (
    JOIN_GROUP_EPOCH,
    LEAVE_GROUP_EPOCH,
    LEAVE_GROUP_STATIC_EPOCH,
    CurrentAssignment,
    TopicIdPartition,
)
from coterie.wire.errors import ErrorCode, Refusal
from coterie.wire.messages.groups.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

MEMBER_ID_FROM = 1  # the version from which a member makes its id itself (KIP-1082)


M = TypeVar("M")


class EpochGroup(Protocol[M]):
    """A group whose members have epochs: of consumers, or of Kafka Streams."""

    group_id: str
    members: dict[str, M]
    static_members: dict[str, str]


def check_request(request: ConsumerGroupHeartbeatRequest, api_version: int, assignors: Collection[str]) -> None:
    """What the request alone shows. Raises Refusal INVALID_REQUEST or UNSUPPORTED_ASSIGNOR."""
    epoch = request.member_epoch
    if api_version >= MEMBER_ID_FROM or epoch > JOIN_GROUP_EPOCH or epoch == LEAVE_GROUP_EPOCH:
        require(request.member_id.strip(), "MemberId can't be empty.")
    require(request.group_id.strip(), "GroupId can't be empty.")
    require(request.instance_id is None or request.instance_id.strip(), "InstanceId can't be empty.")
    require(request.rack_id is None or request.rack_id.strip(), "RackId can't be empty.")
    if epoch == JOIN_GROUP_EPOCH:
        require(request.rebalance_timeout_ms != -1, "RebalanceTimeoutMs must be provided in first request.")
        require(request.topic_partitions == [], "TopicPartitions must be empty when (re-)joining.")
        named = request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
        text = "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."
        require(named, text)
    elif epoch == LEAVE_GROUP_STATIC_EPOCH:
        require(request.instance_id is not None, "InstanceId can't be null.")
    else:
        require(epoch > LEAVE_GROUP_STATIC_EPOCH, "MemberEpoch is invalid.")
    wanted = request.server_assignor
    if wanted is not None and wanted not in assignors:
        text = f"ServerAssignor {wanted} is not supported. Supported assignors: {', '.join(assignors)}."
        raise Refusal(ErrorCode.UNSUPPORTED_ASSIGNOR, text)


def require(holds: object, text: str) -> None:
    """Raises Refusal INVALID_REQUEST with the text unless it holds."""
    if not holds:
        raise Refusal(ErrorCode.INVALID_REQUEST, text)


def refuse_full(
    group: EpochGroup[M], member_id: str, instance_id: str | None, max_size: int, kind: str = "consumer"
) -> None:
    """Raises Refusal GROUP_MAX_SIZE_REACHED for a member that would be one too many; a static one that returns is not."""
    if len(group.members) >= max_size and member_id not in group.members and instance_id not in group.static_members:
        text = f"The {kind} group has reached its maximum capacity of {max_size} members."
        raise Refusal(ErrorCode.GROUP_MAX_SIZE_REACHED, text)


def known_member(group: EpochGroup[M], member_id: str) -> M:
    """Raises Refusal UNKNOWN_MEMBER_ID."""
    member = group.members.get(member_id)
    if member is None:
        text = f"Member {member_id} is not a member of group {group.group_id}."
        raise Refusal(ErrorCode.UNKNOWN_MEMBER_ID, text)
    return member


def known_static_member(group: EpochGroup[M], member_id: str, instance_id: str) -> M:
    """The member of that instance id. Raises Refusal UNKNOWN_MEMBER_ID, or FENCED_INSTANCE_ID where another member has it."""
    present = group.static_members.get(instance_id)
    if present is None:
        raise Refusal(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if present != member_id:
        text = f"Static member {member_id} with instance id {instance_id} was fenced by member {present}."
        raise Refusal(ErrorCode.FENCED_INSTANCE_ID, text)
    return group.members[present]


def refuse_unreleased(member_id: str, instance_id: str | None, present: str) -> Refusal:
    """The refusal of a new member whose instance id a member still has that has not left."""
    text = (
        f"Static member {member_id} with instance id {instance_id} cannot join the group because the instance id is "
        f"owned by {present} member."
    )
    return Refusal(ErrorCode.UNRELEASED_INSTANCE_ID, text)


def check_epoch(current: CurrentAssignment, epoch: int, owned: Collection[TopicIdPartition] | None) -> None:
    """The member's epoch, or its previous one with nothing owned beyond its assignment, as then the response with the new
    epoch was lost. Epoch 0 joins again and always passes. Raises Refusal FENCED_MEMBER_EPOCH."""
    if epoch in (JOIN_GROUP_EPOCH, current.member_epoch):
        return
    lost = epoch < current.member_epoch and epoch == current.previous_member_epoch
    if lost and owned is not None and all(partition in current.assigned for partition in owned):
        return
    raise fenced_epoch("consumer", epoch, current.member_epoch)


def fenced_epoch(kind: str, epoch: int, member_epoch: int) -> Refusal:
    """The refusal of a member's epoch that is not the coordinator's ``member_epoch``."""
    comparison = "greater" if epoch > member_epoch else "smaller"
    text = (
        f"The {kind} group member has a {comparison} member epoch ({epoch}) than the one known by the group coordinator "
        f"({member_epoch}). The member must abandon all its partitions and rejoin."
    )
    return Refusal(ErrorCode.FENCED_MEMBER_EPOCH, text)
