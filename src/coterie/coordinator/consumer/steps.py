"""What a heartbeat and a JoinGroup of the classic protocol have in common: the member and its subscription, the target
assignment where the group epoch is ahead of it, and this member's reconciliation; all appended together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from coterie.coordinator.consumer import events as e
from coterie.coordinator.consumer.leave import cause_of, removal
from coterie.coordinator.consumer.member_checks import refuse_unreleased
from coterie.coordinator.consumer.regexes import RegexChange, change_regex
from coterie.coordinator.consumer.state import (
    JOIN_GROUP_EPOCH,
    LEAVE_GROUP_STATIC_EPOCH,
    ConsumerGroup,
    ConsumerMember,
    CurrentAssignment,
    TopicIdPartition,
)
from coterie.coordinator.consumer.target import (
    NO_PARTITIONS,
    Reconciliation,
    Target,
    assignor_wishes,
    compute_target,
    preferred_assignor,
    reconcile,
    subscribed_names,
    subscribed_with,
    target_of,
    time_to_target_ms,
)
from coterie.coordinator.outcome import Context, CoordinatorConfig, Outcome
from coterie.coordinator.state import Cause
from coterie.machines.values import value


@value
class MemberRequest:
    """A member before its request and with what the request has, the member id that it replaces, and the partitions that
    it reports as its own (None: it reports nothing)."""

    before: ConsumerMember
    after: ConsumerMember
    replaced: str | None
    owned: frozenset[TopicIdPartition] | None


def carry_out(
    group: ConsumerGroup, sender: MemberRequest, ctx: Context, config: CoordinatorConfig, outcome: Outcome
) -> CurrentAssignment:
    """The three steps; returns what the member has after them. Raises Refusal."""
    before, after = sender.before, sender.after
    changed, epoch = update_member(group, before, after, sender.replaced, ctx, config, outcome)
    target_epoch, target = _update_target(group, sender, epoch, ctx, config, outcome)
    return reconciled(group, sender, target_epoch, target, changed, ctx, outcome)


def reconciled(
    group: ConsumerGroup,
    sender: MemberRequest,
    target_epoch: int,
    target: Target,
    changed: bool,
    ctx: Context,
    outcome: Outcome,
) -> CurrentAssignment:
    """The member's step towards the target, stored where it is one. ``changed``: the member's subscription did."""
    member = sender.after
    if not changed and member.current.is_reconciled_to(target_epoch):
        return member.current
    subscribed = ctx.topics.topic_ids(subscribed_names(member.subscription, group.regexes))
    given = Reconciliation(target_epoch, target, subscribed, group.owners, sender.owned, changed)
    current = reconcile(member.current, given)
    if current != member.current:
        outcome.events.append(e.CurrentStored(member.member_id, current))
    return current


def single_member_step(group: object, events: Sequence[object]) -> str | None:
    """The member id of a consumer whose step towards the target is all that happens, and which releases no partition by it: a
    decision for another member is the same before this one is kept as after it, unless that computes a new target. The parts
    of one target share no partition, so nobody waits for what the member takes."""
    if not isinstance(group, ConsumerGroup) or len(events) != 1:
        return None
    event = events[0]
    if not isinstance(event, e.CurrentStored):
        return None
    member = group.members.get(event.member_id)
    if member is None:
        return None
    before, after = member.current, event.current
    if after.member_epoch <= JOIN_GROUP_EPOCH:
        return None
    if after.has_partitions_of(before):
        return member.member_id
    is_released = any(after.assignment_epoch(p) is None for p in (*before.assigned, *before.pending_revocation))
    return None if is_released else member.member_id


def replace_static(
    group: ConsumerGroup, present: ConsumerMember, member_id: str, outcome: Outcome, *, classic: bool = False
) -> ConsumerMember:
    """A static member that comes back takes what its earlier self had. One that has not left is not replaced, unless one of
    the two uses the classic protocol (``classic``: the new one). Raises Refusal UNRELEASED_INSTANCE_ID."""
    instance_id, other = present.subscription.instance_id, classic or present.subscription.classic is not None
    if present.current.member_epoch != LEAVE_GROUP_STATIC_EPOCH and not other:
        raise refuse_unreleased(member_id, instance_id, present.member_id)
    current = replace(present.current, member_epoch=JOIN_GROUP_EPOCH, previous_member_epoch=JOIN_GROUP_EPOCH)
    target = group.target.get(present.member_id, NO_PARTITIONS)
    outcome.events += [
        *removal(present, cause_of("member_replaced", present)),
        e.SubscriptionStored(member_id, present.subscription),
        e.TargetStored(member_id, target),
        e.CurrentStored(member_id, current),
    ]
    return ConsumerMember(member_id, present.subscription, current)


def update_member(
    group: ConsumerGroup,
    before: ConsumerMember,
    after: ConsumerMember,
    replaced: str | None,
    ctx: Context,
    config: CoordinatorConfig,
    outcome: Outcome,
) -> tuple[bool, int]:
    """Whether the subscription changed, and the group epoch: one more where the topics of the group, their partitions, or the
    assignor that most members request are not what it stands for."""
    if after is not before and after.subscription != before.subscription:
        outcome.events.append(e.SubscriptionStored(after.member_id, after.subscription))
    names_changed = after.subscription.topic_names != before.subscription.topic_names
    regex = change_regex(group, before.subscription, after.subscription, ctx, config)
    outcome.events += regex.events
    outcome.resolve = regex.resolve
    bump = (
        names_changed
        or regex.change is RegexChange.UPDATED_AND_RESOLVED
        or _assignor_changes(group, before, after, config)
    )
    epoch = group.group_epoch
    if bump or group.topics_version != ctx.topics.version:
        gone = {before.member_id} if replaced is None else {before.member_id, replaced}
        removed = {event.regex for event in regex.events if isinstance(event, e.RegexRemoved)}
        regexes = {r: resolved for r, resolved in group.regexes.items() if r not in removed}
        metadata_hash = ctx.topics.metadata_hash(subscribed_with(group, gone, after.subscription, regexes))
        outcome.events.append(e.TopicsChecked(ctx.topics.version))
        if bump or metadata_hash != group.metadata_hash:
            epoch += 1
            cause = _epoch_cause(group, before, bump, after)
            outcome.events.append(e.GroupEpochStored(epoch, metadata_hash, cause))
        if group.partition_metadata_recorded:
            outcome.events.append(e.PartitionMetadataRemoved())
    changed = names_changed or regex.change is not RegexChange.NONE
    return changed, epoch


def _assignor_changes(
    group: ConsumerGroup, before: ConsumerMember, after: ConsumerMember, config: CoordinatorConfig
) -> bool:
    """Whether a heartbeat changes the group's preferred assignor (Kafka 4.4)."""
    old, new = before.subscription.server_assignor, after.subscription.server_assignor
    if old == new or after.subscription.classic is not None:
        return False
    names, wishes = list(config.consumer_group_assignors), assignor_wishes(group.members.values())
    preferred = preferred_assignor(wishes, names)
    wishes[old] -= 1
    wishes[new] += 1
    return preferred_assignor(wishes, names) != preferred


def _epoch_cause(group: ConsumerGroup, before: ConsumerMember, bump: bool, after: ConsumerMember) -> Cause:
    if not bump:
        return Cause("topic_metadata_changed")
    return cause_of("subscription_changed" if before.member_id in group.members else "member_joined", after)


def _update_target(
    group: ConsumerGroup,
    sender: MemberRequest,
    epoch: int,
    ctx: Context,
    config: CoordinatorConfig,
    outcome: Outcome,
) -> tuple[int, Target]:
    """The epoch of the target assignment, new or not, and the member's part of it. Within the interval the last one
    stays, and the next heartbeat after it computes the new one: there is no timer."""
    member, interval_ms = sender.after, config.group_consumer_assignment_interval_ms
    if group.assignment_epoch >= epoch or time_to_target_ms(group.assignment_timestamp_ms, interval_ms, ctx.now_ms):
        last = target_of(group, member.member_id, member.subscription.instance_id)
        return group.assignment_epoch, last
    members = {m: other for m, other in group.members.items() if m != sender.replaced} | {member.member_id: member}
    target, events = compute_target(group, members, epoch, ctx.topics, config.consumer_group_assignors, ctx.now_ms)
    outcome.events += events
    return epoch, target[member.member_id]
