"""ConsumerGroupHeartbeat (scenarios: tests/spec/consumer): join, subscribe, report, and be reconciled, in one request.

Four steps, whose events are appended together: the member and its subscription; the target assignment, where the group
epoch is ahead of it; this member's reconciliation; its session. Kafka's GroupMetadataManager.consumerGroupHeartbeat.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from coterie.coordinator.consumer.leave import decide_consumer_leave
from coterie.coordinator.consumer.member_checks import (
    check_epoch,
    check_request,
    known_member,
    known_static_member,
    refuse_full,
)
from coterie.coordinator.consumer.state import (
    JOIN_GROUP_EPOCH,
    LEAVE_GROUP_EPOCH,
    LEAVE_GROUP_STATIC_EPOCH,
    ConsumerGroup,
    ConsumerMember,
    ConsumerMemberState,
    ConsumerSubscription,
    TopicIdPartition,
)
from coterie.coordinator.consumer.steps import MemberRequest, carry_out, replace_static
from coterie.coordinator.consumer.stored import partitions_by_topic
from coterie.coordinator.outcome import Context, CoordinatorConfig, Outcome, Reply
from coterie.wire.errors import ErrorCode, Refusal
from coterie.wire.messages.groups.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

_STABLE = ConsumerMemberState.STABLE  # looked up in its class it takes five times as long in Python 3.11


def decide_consumer_heartbeat(
    group: ConsumerGroup, exists: bool, request: ConsumerGroupHeartbeatRequest, ctx: Context, config: CoordinatorConfig
) -> Outcome:
    """Everything that one heartbeat does. Raises Refusal."""
    if _changes_nothing(group, request, ctx):
        reply, deadline = _respond(request.member_id, request.member_epoch, ctx, config)
        return Outcome([], [reply], [deadline])
    check_request(request, ctx.api_version, config.consumer_group_assignors)
    if not exists and request.member_epoch != JOIN_GROUP_EPOCH:
        kind = "Group" if request.member_epoch < JOIN_GROUP_EPOCH else "Consumer group"
        raise Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"{kind} {group.group_id} not found.")
    if request.member_epoch in (LEAVE_GROUP_EPOCH, LEAVE_GROUP_STATIC_EPOCH):
        return decide_consumer_leave(group, request, ctx, config)
    refuse_full(group, request.member_id, request.instance_id, config.group_consumer_max_size)
    owned = None if request.topic_partitions is None else _pairs(request.topic_partitions)
    outcome = Outcome()
    before, replaced = _sender(group, request, request.member_id or ctx.fresh_id, owned, outcome)
    subscription = _updated(before.subscription, request, ctx)
    after = before if subscription is before.subscription else replace(before, subscription=subscription)
    current = carry_out(group, MemberRequest(before, after, replaced, owned), ctx, config, outcome)
    assignment = None
    if request.member_epoch == JOIN_GROUP_EPOCH or _is_full(request) or current.assigned != before.current.assigned:
        assignment = Assignment(
            [TopicPartitions(topic_id, numbers) for topic_id, numbers in partitions_by_topic(current.assigned)]
        )
    reply, deadline = _respond(after.member_id, current.member_epoch, ctx, config, assignment)
    outcome.replies.append(reply)
    outcome.deadlines.append(deadline)
    return outcome


def _changes_nothing(group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest, ctx: Context) -> bool:
    """Whether the four steps only extend the session: almost every heartbeat, for which they cost twice as much. The
    request names only a member that has all of the target assignment, and neither the topics nor the group have changed."""
    member = group.members.get(request.member_id)
    return (
        member is not None
        and member.current.member_epoch == request.member_epoch == group.assignment_epoch
        and member.current.state == _STABLE
        and group.assignment_epoch >= group.group_epoch
        and group.topics_version == ctx.topics.version
        and not group.regex_subscribers
        and request.topic_partitions is None
        and _updated(member.subscription, request, ctx) is member.subscription
    )


def _respond(
    member_id: str, member_epoch: int, ctx: Context, config: CoordinatorConfig, assignment: Assignment | None = None
) -> tuple[Reply, tuple[str, int]]:
    """The response, and the member's session from its start."""
    interval_ms = config.group_consumer_heartbeat_interval_ms
    response = ConsumerGroupHeartbeatResponse(0, ErrorCode.NONE, None, member_id, member_epoch, interval_ms, assignment)
    return Reply(ctx.token, response), (member_id, ctx.now_ms + config.group_consumer_session_timeout_ms)


def _pairs(topic_partitions: Iterable[TopicPartitions]) -> frozenset[TopicIdPartition]:
    return frozenset((t.topic_id, partition) for t in topic_partitions for partition in t.partitions)


def _is_full(request: ConsumerGroupHeartbeatRequest) -> bool:
    """A member that lost a response sends everything, and gets its assignment again."""
    subscribes = request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
    return request.rebalance_timeout_ms != -1 and subscribes and request.topic_partitions is not None


def _sender(
    group: ConsumerGroup,
    request: ConsumerGroupHeartbeatRequest,
    member_id: str,
    owned: frozenset[TopicIdPartition] | None,
    outcome: Outcome,
) -> tuple[ConsumerMember, str | None]:
    """The member as it is before this heartbeat, and the member id that it replaces. Raises Refusal."""
    instance_id, joins = request.instance_id, request.member_epoch == JOIN_GROUP_EPOCH
    present = None if instance_id is None else group.static_member(instance_id)
    if joins and present is not None:
        return replace_static(group, present, member_id, outcome), present.member_id
    if joins:
        return group.members.get(member_id) or ConsumerMember(member_id), None
    if instance_id is None:
        member = known_member(group, member_id)
    else:
        member = known_static_member(group, member_id, instance_id)
    check_epoch(member.current, request.member_epoch, owned)
    return member, None


def _updated(
    subscription: ConsumerSubscription, request: ConsumerGroupHeartbeatRequest, ctx: Context
) -> ConsumerSubscription:
    """The subscription with what the request names; null, or -1, leaves a field as it is. The same object for the usual
    heartbeat, which names nothing."""
    names, regex = request.subscribed_topic_names, request.subscribed_topic_regex
    timeout_ms, assignor = request.rebalance_timeout_ms, request.server_assignor
    if (
        names is None
        and regex is None
        and assignor is None
        and request.rack_id is None
        and timeout_ms == -1
        and request.instance_id in (None, subscription.instance_id)
        and ctx.client_id == subscription.client_id
        and ctx.client_host == subscription.client_host
    ):
        return subscription
    return ConsumerSubscription(
        subscription.topic_names if names is None else frozenset(names),
        subscription.topic_regex if regex is None else regex,
        subscription.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        subscription.server_assignor if assignor is None else assignor,
        subscription.instance_id if request.instance_id is None else request.instance_id,
        subscription.rack_id if request.rack_id is None else request.rack_id,
        ctx.client_id,
        ctx.client_host,
    )
