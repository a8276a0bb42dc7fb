"""ConsumerGroupHeartbeat (scenarios: tests/spec/consumer): join, subscribe, report, and be reconciled, in one request.

Four steps, whose events are appended together: the member and its subscription; the target assignment, where the group
epoch is ahead of it; this member's reconciliation; its session. Kafka's GroupMetadataManager.consumerGroupHeartbeat.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from coterie.coordinator.classic.group_record import group_store_error
from coterie.coordinator.consumer import events as e
from coterie.coordinator.consumer.leave import cause_of, decide_consumer_leave, removal
from coterie.coordinator.consumer.member_checks import (
    check_epoch,
    check_request,
    known_member,
    known_static_member,
    refuse_full,
)
from coterie.coordinator.consumer.reconcile import Reconciliation, reconcile
from coterie.coordinator.consumer.regexes import RegexChange, change_regex
from coterie.coordinator.consumer.state import (
    JOIN_GROUP_EPOCH,
    LEAVE_GROUP_EPOCH,
    LEAVE_GROUP_STATIC_EPOCH,
    ConsumerGroup,
    ConsumerMember,
    ConsumerSubscription,
    TopicIdPartition,
)
from coterie.coordinator.consumer.stored import partitions_by_topic
from coterie.coordinator.consumer.target import (
    NO_PARTITIONS,
    Target,
    compute_target,
    may_compute,
    subscribed_names,
    target_of,
)
from coterie.coordinator.outcome import Context, CoordinatorConfig, Outcome, Reply
from coterie.coordinator.state import Cause
from coterie.wire.errors import ErrorCode, Refusal
from coterie.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)


def decide_consumer_heartbeat(
    group: ConsumerGroup, exists: bool, request: ConsumerGroupHeartbeatRequest, ctx: Context, config: CoordinatorConfig
) -> Outcome:
    """Everything that one heartbeat does. Raises Refusal."""
    outcome = _decide(group, exists, request, ctx, config)

    def failed(code: ErrorCode) -> Outcome:
        stored = group_store_error(code)
        response = ConsumerGroupHeartbeatResponse(error_code=stored, error_message=stored.text)
        return Outcome(replies=[Reply(ctx.token, response)])

    outcome.on_append_error = failed
    return outcome


def _decide(
    group: ConsumerGroup, exists: bool, request: ConsumerGroupHeartbeatRequest, ctx: Context, config: CoordinatorConfig
) -> Outcome:
    check_request(request, ctx.api_version, config.consumer_group_assignors)
    if not exists and request.member_epoch != JOIN_GROUP_EPOCH:
        raise Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"Consumer group {group.group_id} not found.")
    if request.member_epoch in (LEAVE_GROUP_EPOCH, LEAVE_GROUP_STATIC_EPOCH):
        return decide_consumer_leave(group, request, ctx)
    refuse_full(group, request.member_id, config.consumer_group_max_size)
    owned = None if request.topic_partitions is None else _pairs(request.topic_partitions)
    outcome = Outcome()
    before, replaced = _sender(group, request, request.member_id or ctx.fresh_id, owned, outcome)
    after = replace(before, subscription=_updated(before.subscription, request, ctx))
    changed, epoch = _update_member(group, before, after, replaced, ctx, config, outcome)
    members = {m: member for m, member in group.members.items() if m != replaced} | {after.member_id: after}
    target_epoch, target = _update_target(group, members, after, epoch, ctx, config, outcome)
    current = after.current
    if changed or not current.is_reconciled_to(target_epoch):
        subscribed = ctx.topics.topic_ids(subscribed_names(after.subscription, group.regexes))
        given = Reconciliation(target_epoch, target, subscribed, group.owners, owned, changed)
        current = reconcile(current, given)
        if current != after.current:
            outcome.events.append(e.CurrentStored(after.member_id, current))
    outcome.deadlines.append((after.member_id, ctx.now_ms + config.consumer_group_session_timeout_ms))
    response = ConsumerGroupHeartbeatResponse(
        member_id=after.member_id,
        member_epoch=current.member_epoch,
        heartbeat_interval_ms=config.consumer_group_heartbeat_interval_ms,
    )
    if request.member_epoch == JOIN_GROUP_EPOCH or _is_full(request) or current.assigned != before.current.assigned:
        response.assignment = Assignment(
            [TopicPartitions(topic_id, numbers) for topic_id, numbers in partitions_by_topic(current.assigned)]
        )
    outcome.replies.append(Reply(ctx.token, response))
    return outcome


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
        return _replaced(group, present, member_id, outcome), present.member_id
    if joins:
        return group.members.get(member_id) or ConsumerMember(member_id), None
    if instance_id is None:
        member = known_member(group, member_id)
    else:
        member = known_static_member(group, member_id, instance_id)
    check_epoch(member.current, request.member_epoch, owned)
    return member, None


def _replaced(group: ConsumerGroup, present: ConsumerMember, member_id: str, outcome: Outcome) -> ConsumerMember:
    """A static member that comes back takes what its earlier self had. One that has not left is not replaced, unless it
    used the classic protocol. Raises Refusal UNRELEASED_INSTANCE_ID."""
    instance_id = present.subscription.instance_id
    if present.current.member_epoch != LEAVE_GROUP_STATIC_EPOCH and present.subscription.classic is None:
        text = (
            f"Static member {member_id} with instance id {instance_id} cannot join the group because the instance id is "
            f"owned by {present.member_id} member."
        )
        raise Refusal(ErrorCode.UNRELEASED_INSTANCE_ID, text)
    current = replace(present.current, member_epoch=JOIN_GROUP_EPOCH, previous_member_epoch=JOIN_GROUP_EPOCH)
    target = group.target.get(present.member_id, NO_PARTITIONS)
    outcome.events += [
        *removal(present, cause_of("member_replaced", present)),
        e.SubscriptionStored(member_id, present.subscription),
        e.TargetStored(member_id, target),
        e.CurrentStored(member_id, current),
    ]
    return ConsumerMember(member_id, present.subscription, current)


def _updated(
    subscription: ConsumerSubscription, request: ConsumerGroupHeartbeatRequest, ctx: Context
) -> ConsumerSubscription:
    """The subscription with what the request names; null, or -1, leaves a field as it is."""
    names, regex = request.subscribed_topic_names, request.subscribed_topic_regex
    timeout_ms, assignor = request.rebalance_timeout_ms, request.server_assignor
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


def _update_member(
    group: ConsumerGroup,
    before: ConsumerMember,
    after: ConsumerMember,
    replaced: str | None,
    ctx: Context,
    config: CoordinatorConfig,
    outcome: Outcome,
) -> tuple[bool, int]:
    """Whether the subscription changed, and the group epoch: one more where the topics of the group, or their partitions,
    are not what it stands for."""
    if after.subscription != before.subscription:
        outcome.events.append(e.SubscriptionStored(after.member_id, after.subscription))
    names_changed = after.subscription.topic_names != before.subscription.topic_names
    regex = change_regex(group, before.subscription, after.subscription, ctx, config)
    outcome.events += regex.events
    outcome.resolve = regex.resolve
    bump = names_changed or regex.change is RegexChange.UPDATED_AND_RESOLVED
    epoch = group.group_epoch
    if bump or group.topics_version != ctx.topics.version:
        others = (m for m in group.members.values() if m.member_id not in (before.member_id, replaced))
        removed = {event.regex for event in regex.events if isinstance(event, e.RegexRemoved)}
        regexes = {r: resolved for r, resolved in group.regexes.items() if r not in removed}
        names = {n for m in (*others, after) for n in subscribed_names(m.subscription, regexes)}
        metadata_hash = ctx.topics.metadata_hash(names)
        outcome.events.append(e.TopicsChecked(ctx.topics.version))
        if bump or metadata_hash != group.metadata_hash:
            epoch += 1
            cause = _epoch_cause(group, before, bump, after)
            outcome.events.append(e.GroupEpochStored(epoch, metadata_hash, cause))
        if group.partition_metadata_recorded:
            outcome.events.append(e.PartitionMetadataRemoved())
    changed = names_changed or regex.change is not RegexChange.NONE
    return changed, epoch


def _epoch_cause(group: ConsumerGroup, before: ConsumerMember, bump: bool, after: ConsumerMember) -> Cause:
    if not bump:
        return Cause("topic_metadata_changed")
    return cause_of("subscription_changed" if before.member_id in group.members else "member_joined", after)


def _update_target(
    group: ConsumerGroup,
    members: Mapping[str, ConsumerMember],
    sender: ConsumerMember,
    epoch: int,
    ctx: Context,
    config: CoordinatorConfig,
    outcome: Outcome,
) -> tuple[int, Target]:
    """The epoch of the target assignment, new or not, and the sender's part of it. Within the interval the last one
    stays, and the next heartbeat after it computes the new one: there is no timer."""
    interval_ms = config.consumer_group_assignment_interval_ms
    if group.assignment_epoch >= epoch or not may_compute(group, interval_ms, ctx.now_ms):
        last = target_of(group, sender.member_id, sender.subscription.instance_id)
        return group.assignment_epoch, last
    target, events = compute_target(group, members, epoch, ctx.topics, config.consumer_group_assignors, ctx.now_ms)
    outcome.events += events
    return epoch, target[sender.member_id]
