"""The heartbeats of a member of the consumer protocol (Kafka's ConsumerHeartbeatRequestManager.HeartbeatState), and of a share
group (ShareHeartbeatRequestManager.HeartbeatState): what has not changed since the last one is left out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from coterie.member.consumer.config import ConsumerMemberConfig
from coterie.member.consumer.stages import ConsumerStage
from coterie.member.consumer.state import (
    LEAVE_EPOCH,
    LEAVE_STATIC_EPOCH,
    ConsumerMembershipState,
    SentFields,
    TopicIdPartition,
)
from coterie.member.departure import GroupMembershipOperation
from coterie.wire.messages.groups.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from coterie.wire.messages.share.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse

HeartbeatRequest: TypeAlias = ConsumerGroupHeartbeatRequest | ShareGroupHeartbeatRequest
HeartbeatResponse: TypeAlias = ConsumerGroupHeartbeatResponse | ShareGroupHeartbeatResponse


def sent_fields(state: ConsumerMembershipState) -> SentFields:
    """What a heartbeat of this state, with those before it, reports to the coordinator."""
    return SentFields(state.epochs.topics, state.epochs.regex, state.assignment.current)


def state_request(
    config: ConsumerMemberConfig, state: ConsumerMembershipState, *, full: bool = False
) -> HeartbeatRequest:
    """The next heartbeat; ``full``: nothing is left out, as when joining and after one that failed."""
    epochs, assignment = state.epochs, state.assignment
    request = leave_heartbeat(config, epochs.epoch)
    sent = None if full or state.stage == ConsumerStage.JOINING else state.heartbeat.sent
    if sent is None:
        request.rack_id = config.rack
    if sent is None or epochs.topics != sent.topics:
        request.subscribed_topic_names = sorted(epochs.topics)
    if isinstance(request, ShareGroupHeartbeatRequest):
        return request
    if sent is None:
        request.server_assignor, request.rebalance_timeout_ms = config.remote_assignor, config.max_poll_interval_ms
    if sent is None or epochs.regex != sent.regex:
        request.subscribed_topic_regex = epochs.regex
    if sent is None or assignment.current != sent.assignment:
        request.topic_partitions = _by_topic(assignment.held())
    return request


def leave_heartbeat(config: ConsumerMemberConfig, epoch: int) -> HeartbeatRequest:
    """A heartbeat of this epoch and no further field; of a `leave_epoch` it is the last one."""
    if config.shares:
        return ShareGroupHeartbeatRequest(config.group_id, config.member_id, epoch)
    return ConsumerGroupHeartbeatRequest(config.group_id, config.member_id, epoch, config.group_instance_id)


def leave_epoch(config: ConsumerMemberConfig, operation: GroupMembershipOperation) -> int:
    """-2 of a static member that remains: it keeps its partitions until its session ends, and may come back for them."""
    is_static = config.group_instance_id is not None
    return LEAVE_STATIC_EPOCH if is_static and not operation.leaves(config.group_instance_id) else LEAVE_EPOCH


def _by_topic(partitions: Iterable[TopicIdPartition]) -> list[TopicPartitions]:
    grouped: dict[bytes, list[int]] = {}
    for topic, number in sorted(partitions):
        grouped.setdefault(topic, []).append(number)
    return [TopicPartitions(topic, numbers) for topic, numbers in grouped.items()]
