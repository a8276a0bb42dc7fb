"""Members that use the classic protocol within a group of the consumer protocol: their JoinGroup is the heartbeat with which
they are reconciled, their SyncGroup fetches what they have, their Heartbeat learns that they must join again.

A generation is a member epoch; nobody leads (scenarios: tests/spec/consumer/classic_members.txt).
"""

from __future__ import annotations

from dataclasses import replace

from coterie.assignors.assignor import Subscriber
from coterie.assignors.blobs import decode_subscription
from coterie.coordinator.classic.join import check_join, join_refused, rebalance_timeout_ms
from coterie.coordinator.classic.sync import sync_refused
from coterie.coordinator.consumer import events as e
from coterie.coordinator.consumer.convert import assignment_blob, downgrade, may_downgrade, owned_partitions
from coterie.coordinator.consumer.member_checks import known_member, known_static_member, refuse_full
from coterie.coordinator.consumer.state import (
    ClassicMetadata,
    ConsumerGroup,
    ConsumerMember,
    ConsumerMemberState,
    MigrationPolicy,
)
from coterie.coordinator.consumer.steps import MemberRequest, carry_out, reconciled, replace_static, update_member
from coterie.coordinator.consumer.target import target_of
from coterie.coordinator.events import Event
from coterie.coordinator.outcome import Context, CoordinatorConfig, Outcome, Reply
from coterie.coordinator.state import CONSUMER, UNKNOWN_MEMBER, Cause
from coterie.wire.errors import ErrorCode, Refusal
from coterie.wire.messages.groups.heartbeat import HeartbeatRequest, HeartbeatResponse
from coterie.wire.messages.groups.join_group import JoinGroupRequest, JoinGroupResponse
from coterie.wire.messages.groups.sync_group import SyncGroupRequest, SyncGroupResponse
from coterie.wire.primitives import WireError

MEMBER_ID_REQUIRED_FROM = 4  # the version of JoinGroup from which a dynamic member must bring its id (KIP-394)


def decide_classic_join(
    group: ConsumerGroup, request: JoinGroupRequest, ctx: Context, config: CoordinatorConfig
) -> Outcome:
    """JoinGroup to a group with members. Raises Refusal."""
    check_join(request, config)
    member_id = request.member_id or ctx.fresh_id
    if config.consumer_group_migration_policy is MigrationPolicy.DISABLED:
        raise Refusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    refuse_full(group, member_id, request.group_instance_id, config.group_consumer_max_size)
    _check_protocols(group, request)
    if ctx.api_version >= MEMBER_ID_REQUIRED_FROM and request.group_instance_id is None and not request.member_id:
        code = ErrorCode.MEMBER_ID_REQUIRED
        return Outcome(replies=[Reply(ctx.token, join_refused(request, code, member_id))])
    try:
        subscriber = decode_subscription(request.protocols[0].metadata)
    except WireError:
        raise Refusal(ErrorCode.UNKNOWN_SERVER_ERROR) from None
    outcome = Outcome()
    sender = _sender(group, request, member_id, subscriber, ctx, outcome)
    after = sender.after
    left = [m for m in group.members.values() if m.member_id not in (sender.replaced, after.member_id)]
    present = None if request.group_instance_id is None else group.static_member(request.group_instance_id)
    of_consumer = present is not None and present.subscription.classic is None
    if of_consumer and may_downgrade([*left, after], config):
        epoch = _downgrade_with(group, sender, left, ctx, config, outcome)
    else:
        epoch = carry_out(group, sender, ctx, config, outcome).member_epoch
        sync_ms = ctx.now_ms + rebalance_timeout_ms(request)
        outcome.events.append(e.ClassicDeadlinesSet(after.member_id, None, sync_ms))
        outcome.deadlines.append((after.member_id, ctx.now_ms + request.session_timeout_ms))
    response = JoinGroupResponse(
        generation_id=epoch,
        protocol_type=CONSUMER,
        protocol_name=request.protocols[0].name or None,
        member_id=after.member_id,
    )
    outcome.replies.append(Reply(ctx.token, response))
    return outcome


def _check_protocols(group: ConsumerGroup, request: JoinGroupRequest) -> None:
    """The member shares a protocol with every other member of the classic protocol. Raises Refusal
    INCONSISTENT_GROUP_PROTOCOL."""
    offered = {protocol.name for protocol in request.protocols}
    for member in group.members.values():
        if member.subscription.classic is not None:
            offered &= {name for name, _ in member.subscription.classic.protocols}
    if request.protocol_type != CONSUMER or not offered:
        raise Refusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)


def _sender(
    group: ConsumerGroup,
    request: JoinGroupRequest,
    member_id: str,
    subscriber: Subscriber,
    ctx: Context,
    outcome: Outcome,
) -> MemberRequest:
    instance_id = request.group_instance_id
    present = None if instance_id is None else group.static_member(instance_id)
    replaced: str | None = None
    if present is not None and request.member_id == UNKNOWN_MEMBER:
        before, replaced = replace_static(group, present, member_id, outcome, classic=True), present.member_id
    elif instance_id is not None and request.member_id != UNKNOWN_MEMBER:
        before = known_static_member(group, member_id, instance_id)
    elif member_id not in group.members and request.member_id and _is_of_former_member(subscriber):
        raise Refusal(ErrorCode.UNKNOWN_MEMBER_ID)
    else:
        before = group.members.get(member_id) or ConsumerMember(member_id)
    protocols = tuple((protocol.name, protocol.metadata) for protocol in request.protocols)
    subscription = replace(
        before.subscription,
        topic_names=subscriber.topics,
        topic_regex="",
        rebalance_timeout_ms=rebalance_timeout_ms(request),
        instance_id=instance_id if instance_id is not None else before.subscription.instance_id,
        rack_id=subscriber.rack or before.subscription.rack_id,
        client_id=ctx.client_id,
        client_host=ctx.client_host,
        classic=ClassicMetadata(request.session_timeout_ms, protocols),
    )
    return MemberRequest(
        before, replace(before, subscription=subscription), replaced, owned_partitions(subscriber, ctx.topics)
    )


def _is_of_former_member(subscriber: Subscriber) -> bool:
    """Whether it was removed, does not know it, and still uses partitions that others may have. When its id is refused, as by a
    classic group, it gives them up; Apache Kafka 4.3 takes it back. A client that has been refused names no generation, and is
    taken even if it goes on to name partitions: it would be refused for ever. So are subscriptions before version 2."""
    return subscriber.generation >= 0 and any(subscriber.owned.values())


def _downgrade_with(
    group: ConsumerGroup,
    sender: MemberRequest,
    left: list[ConsumerMember],
    ctx: Context,
    config: CoordinatorConfig,
    outcome: Outcome,
) -> int:
    """The last member of the consumer protocol comes back as one of the classic protocol: the group becomes a classic one.
    Returns the generation of the response."""
    steps = Outcome()
    changed, epoch = update_member(
        group, sender.before, sender.after, sender.replaced, ctx=ctx, config=config, outcome=steps
    )
    stale = group.assignment_epoch < epoch
    current = sender.after.current
    if not stale:
        target = target_of(group, sender.after.member_id, sender.after.subscription.instance_id)
        current = reconciled(
            group, sender, target_epoch=group.assignment_epoch, target=target, changed=changed, ctx=ctx, outcome=steps
        )
    cause = Cause("downgraded", sender.after.member_id) if stale else None
    members = [*left, sender.after]
    converted = downgrade(group, members, cause, ctx.topics, ctx.now_ms)
    # The records of the replacement would be tombstoned again by those of the conversion.
    outcome.events = converted.events
    outcome.deadlines = converted.deadlines
    return current.member_epoch


def decide_classic_sync(group: ConsumerGroup, request: SyncGroupRequest, ctx: Context) -> Outcome:
    """SyncGroup: what was sent as assignments is ignored. Raises Refusal."""
    member, classic = _classic_member(group, request.member_id, request.group_instance_id, request.generation_id)
    name, metadata = classic.protocols[0]
    if request.protocol_type not in (None, CONSUMER) or request.protocol_name not in (None, name):
        raise Refusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    state = member.current.state
    if group.assignment_epoch > member.current.member_epoch and state != ConsumerMemberState.UNREVOKED_PARTITIONS:
        code = ErrorCode.REBALANCE_IN_PROGRESS
        return Outcome(_must_join(group, member, ctx), [Reply(ctx.token, sync_refused(code))])
    assignment = assignment_blob(metadata, member.current.assigned, ctx.topics)
    response = SyncGroupResponse(
        protocol_type=request.protocol_type, protocol_name=request.protocol_name, assignment=assignment
    )
    deadlines = [(member.member_id, ctx.now_ms + classic.session_timeout_ms)]
    join_ms = group.timers[member.member_id].join_ms
    return Outcome([e.ClassicDeadlinesSet(member.member_id, join_ms, None)], [Reply(ctx.token, response)], deadlines)


def decide_classic_heartbeat(group: ConsumerGroup, request: HeartbeatRequest, ctx: Context) -> Outcome:
    """Heartbeat: REBALANCE_IN_PROGRESS where a JoinGroup would bring the member further. Raises Refusal."""
    member, classic = _classic_member(group, request.member_id, request.group_instance_id, request.generation_id)
    current = member.current
    further = (
        current.member_epoch < group.assignment_epoch
        or current.state == ConsumerMemberState.UNREVOKED_PARTITIONS
        or (current.state == ConsumerMemberState.UNRELEASED_PARTITIONS and not _waits_for_others(group, member))
    )
    code = ErrorCode.REBALANCE_IN_PROGRESS if further else ErrorCode.NONE
    deadlines = [(member.member_id, ctx.now_ms + classic.session_timeout_ms)]
    events = _must_join(group, member, ctx) if further else []
    return Outcome(events, [Reply(ctx.token, HeartbeatResponse(0, code))], deadlines)


def _must_join(group: ConsumerGroup, member: ConsumerMember, ctx: Context) -> list[Event]:
    """The member has its rebalance timeout from the first such response on."""
    timers = group.timers[member.member_id]
    if timers.join_ms is not None:
        return []
    join_ms = ctx.now_ms + member.subscription.rebalance_timeout_ms
    return [e.ClassicDeadlinesSet(member.member_id, join_ms, timers.sync_ms)]


def _waits_for_others(group: ConsumerGroup, member: ConsumerMember) -> bool:
    target = target_of(group, member.member_id, member.subscription.instance_id)
    return any(partition in group.owners for partition in target if partition not in member.current.assigned)


def _classic_member(
    group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int
) -> tuple[ConsumerMember, ClassicMetadata]:
    if instance_id is None:
        member = known_member(group, member_id)
    else:
        member = known_static_member(group, member_id, instance_id)
    classic = member.subscription.classic
    if classic is None:
        raise Refusal(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} does not use the classic protocol.")
    if member.current.member_epoch != generation:
        raise Refusal(ErrorCode.ILLEGAL_GENERATION)
    return member, classic
