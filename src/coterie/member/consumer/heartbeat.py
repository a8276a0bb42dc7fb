"""Heartbeats of the consumer protocol: when one is due, what it reports, and what a response means (Kafka's
AbstractHeartbeatRequestManager and HeartbeatState; scenarios: tests/spec/consumer_member/heartbeat.txt and errors.txt), also
those of a share group."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from coterie.member.config import ConsumerMemberConfig, GroupMembershipOperation
from coterie.member.consumer import events as e
from coterie.member.consumer.decision import Complain, ConsumerMemberDecision
from coterie.member.consumer.state import (
    HEARTBEATS,
    JOIN_EPOCH,
    LEAVE_EPOCH,
    LEAVE_STATIC_EPOCH,
    TAKES_TARGETS,
    ConsumerMembershipState,
    ConsumerStage,
    SentFields,
    TopicIdPartition,
)
from coterie.member.effects import Failed, Revoke, Send
from coterie.member.remedies import Remedy
from coterie.wire.errors import ErrorCode, error_of
from coterie.wire.messages.groups.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from coterie.wire.messages.share.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse

HeartbeatRequest: TypeAlias = ConsumerGroupHeartbeatRequest | ShareGroupHeartbeatRequest
HeartbeatResponse: TypeAlias = ConsumerGroupHeartbeatResponse | ShareGroupHeartbeatResponse
_REMEDIES = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: Remedy.RETRY,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: Remedy.RETRY,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: Remedy.FIND_COORDINATOR,
    ErrorCode.NOT_COORDINATOR: Remedy.FIND_COORDINATOR,
    ErrorCode.UNKNOWN_MEMBER_ID: Remedy.REJOIN_AS_NEW,
    ErrorCode.FENCED_MEMBER_EPOCH: Remedy.REJOIN_AS_NEW,
}
_ADVICE = {
    ErrorCode.UNSUPPORTED_ASSIGNOR: "set group.remote.assignor to one of the broker's group.consumer.assignors",
    ErrorCode.INVALID_REGULAR_EXPRESSION: "subscribe to a SubscriptionPattern in the syntax of RE2",
    ErrorCode.UNRELEASED_INSTANCE_ID: "another member has this group.instance.id; close it, or use another id",
    ErrorCode.FENCED_INSTANCE_ID: "another member has taken over this group.instance.id; use each id once",
    ErrorCode.GROUP_ID_NOT_FOUND: (
        "the group was deleted while in use, or is a classic one that the broker's group.consumer.migration.policy does "
        "not convert; see `coterie groups lint`, or set group.protocol=classic"
    ),
    ErrorCode.UNSUPPORTED_VERSION: (
        "group.protocol=consumer needs ConsumerGroupHeartbeat, which Apache Kafka serves from 4.0 on with the feature "
        "group.version 1; set group.protocol=classic for this broker"
    ),
}
_ADVICE_OF_SHARES = {
    ErrorCode.GROUP_ID_NOT_FOUND: (
        "the share group was deleted while in use, or the group of this name is of another kind; use another group.id"
    ),
    ErrorCode.UNSUPPORTED_VERSION: (
        "a share group needs ShareGroupHeartbeat, which Apache Kafka serves from 4.2 on with the feature share.version 1; use "
        "a Consumer with this broker"
    ),
}


def _sent_fields(state: ConsumerMembershipState) -> SentFields:
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


def heartbeat_due_ms(state: ConsumerMembershipState) -> int | None:
    """When the next one is to go out; None: one is in flight, or none is owed, or the coordinator is unknown. To join and to
    acknowledge it does not wait for the interval; after a failure every one waits for the pause."""
    if state.stage not in HEARTBEATS or state.heartbeat.request is not None or not state.coordinator.known:
        return None
    joins = state.stage == ConsumerStage.JOINING and state.epochs.epoch == JOIN_EPOCH
    is_urgent = joins or state.stage == ConsumerStage.ACKNOWLEDGING
    return max(state.coordinator.retry_at_ms, 0 if is_urgent else state.heartbeat.due_ms)


def settle_state_heartbeat(decision: ConsumerMemberDecision, now_ms: int) -> None:
    """Sends the heartbeat that is due; one at a time."""
    due_ms = heartbeat_due_ms(decision.state)
    if due_ms is not None and now_ms >= due_ms:
        request = state_request(decision.config, decision.state)
        decision.record(e.StateReported(request, _sent_fields(decision.state), now_ms))
        decision.request(Send(request))


def decide_state_response(decision: ConsumerMemberDecision, response: HeartbeatResponse, now_ms: int) -> None:
    """The response to the heartbeat in flight. A target that is the same as before changes nothing."""
    code = error_of(response.error_code)
    if code or response.member_epoch <= LEAVE_EPOCH:
        _decide_state_error(decision, code or ErrorCode.UNKNOWN_SERVER_ERROR, response.error_message, now_ms)
        return
    decision.record(e.StateAccepted(response.member_epoch, max(response.heartbeat_interval_ms, 1), now_ms))
    if response.assignment is None or decision.state.stage not in TAKES_TARGETS:
        return
    topics = response.assignment.topic_partitions
    partitions = frozenset((topic.topic_id, number) for topic in topics for number in topic.partitions)
    target = decision.state.assignment.target
    if target.number < 0 or target.partitions != partitions:
        decision.record(e.TargetReceived(partitions))


def _decide_state_error(decision: ConsumerMemberDecision, code: ErrorCode, message: str | None, now_ms: int) -> None:
    """The next heartbeat carries everything, unless none may follow."""
    decision.record(e.StateUnknown())
    remedy = _REMEDIES.get(code, Remedy.GIVE_UP)
    if remedy == Remedy.GIVE_UP:
        fail_membership(decision, code, message)
    elif remedy == Remedy.REJOIN_AS_NEW:
        fence(decision)
    elif remedy == Remedy.FIND_COORDINATOR:
        decision.lose_coordinator(now_ms)
    else:
        decision.back_off(now_ms)
    if code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        decision.request(Complain(code, message or code.text))


def fence(decision: ConsumerMemberDecision) -> None:
    """Gives everything up as lost, then joins again. A member that leaves has left by that."""
    if decision.state.stage == ConsumerStage.PREPARE_LEAVING:
        decision.record(e.LeaveStarted(LEAVE_EPOCH))
        decision.record(e.LeaveEnded())
        return
    lost = decision.state.assignment.kept()
    decision.record(e.EpochFenced(lost))
    if lost:
        decision.request(Revoke(decision.state.named(lost), lost=True))


def fail_membership(decision: ConsumerMemberDecision, code: ErrorCode, message: str | None) -> None:
    """Ends the membership; the owned partitions are lost."""
    lost = decision.state.assignment.kept()
    decision.record(e.MembershipEnded(lost))
    if lost:
        decision.request(Revoke(decision.state.named(lost), lost=True))
    advice = (_ADVICE_OF_SHARES if decision.config.shares else _ADVICE).get(code)
    decision.request(Failed(code, "; ".join(filter(None, (message or code.text, advice)))))
