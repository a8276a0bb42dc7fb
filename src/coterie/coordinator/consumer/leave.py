"""Members that go: they leave, are removed by an admin, or are fenced at the end of a timeout."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import replace

from coterie.coordinator.consumer import events as e
from coterie.coordinator.consumer.convert import downgrade, may_downgrade
from coterie.coordinator.consumer.member_checks import known_member, known_static_member
from coterie.coordinator.consumer.state import (
    LEAVE_GROUP_STATIC_EPOCH,
    ConsumerGroup,
    ConsumerMember,
    MemberTimers,
)
from coterie.coordinator.consumer.target import subscribed_with
from coterie.coordinator.outcome import Context, CoordinatorConfig, Outcome, Reply
from coterie.coordinator.state import Cause
from coterie.wire.errors import ErrorCode, Refusal
from coterie.wire.messages.groups.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from coterie.wire.messages.groups.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)

LEAVE_BATCH_FROM = 3
EXPIRY_RETRY_MS = 500  # as Kafka's timer does
NEVER_COMPUTED_MS = 0


def decide_consumer_leave(
    group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest, ctx: Context, config: CoordinatorConfig
) -> Outcome:
    """Epoch -1: the member goes; -2: a static member goes for a while and keeps its partitions until its session ends.
    Raises Refusal."""
    instance_id, epoch = request.instance_id, request.member_epoch
    if instance_id is None:
        member = known_member(group, request.member_id)
    else:
        member = known_static_member(group, request.member_id, instance_id)
    response = ConsumerGroupHeartbeatResponse(member_id=member.member_id, member_epoch=epoch)
    if instance_id is not None and epoch == LEAVE_GROUP_STATIC_EPOCH:
        away = replace(
            member.current,
            member_epoch=LEAVE_GROUP_STATIC_EPOCH,
            # Its successor gets the partitions with a new id, in whose epochs they are then assigned.
            assigned=dict.fromkeys(member.current.assigned, 0),
            pending_revocation={},
        )
        return Outcome([e.CurrentStored(member.member_id, away)], [Reply(ctx.token, response)])
    outcome = fence([member], group, "member_left", ctx, config)
    outcome.replies.append(Reply(ctx.token, response))
    return outcome


def decide_group_leave(
    group: ConsumerGroup, request: LeaveGroupRequest, ctx: Context, config: CoordinatorConfig
) -> Outcome:
    """LeaveGroup of a member of the classic protocol, or of an admin for any: each by its id, or by its instance id with its
    member id or none. Raises Refusal in a version before 3, which has one member."""
    leaving: dict[str, ConsumerMember] = {}
    results = []
    single = ctx.api_version < LEAVE_BATCH_FROM
    for identity in [MemberIdentity(request.member_id)] if single else request.members:
        member_id = identity.member_id
        if identity.group_instance_id is not None:
            present = group.static_members.get(identity.group_instance_id)
            code = ErrorCode.NONE if present is not None else ErrorCode.UNKNOWN_MEMBER_ID
            if present is not None and member_id not in ("", present):
                code = ErrorCode.FENCED_INSTANCE_ID
            member_id = present if present is not None and not code else member_id
        else:
            code = ErrorCode.NONE if member_id in group.members else ErrorCode.UNKNOWN_MEMBER_ID
        if not code:
            leaving[member_id] = group.members[member_id]
        elif single:
            raise Refusal(code)
        results.append(MemberResponse(identity.member_id, identity.group_instance_id, code))
    outcome = fence(leaving.values(), group, "member_left", ctx, config) if leaving else Outcome()
    outcome.replies.append(
        Reply(ctx.token, LeaveGroupResponse(error_code=ErrorCode.NONE, members=[] if single else results))
    )
    return outcome


def decide_consumer_expired(
    group: ConsumerGroup, member_id: str, ctx: Context, config: CoordinatorConfig, *, at_once: bool = False
) -> Outcome:
    """The end of a member's session, or of the time that it had to revoke partitions, or, by the classic protocol, to join or
    sync. ``at_once``: as if its session were over."""
    member, kind = group.members.get(member_id), passed_timeout(group.timers.get(member_id), ctx.now_ms, at_once)
    if member is None or kind is None:
        return Outcome()
    outcome = fence([member], group, kind, ctx, config)
    again = e.ExpiryDelayed(member_id, ctx.now_ms + EXPIRY_RETRY_MS)
    outcome.on_append_error = lambda code: Outcome([again])
    return outcome


def passed_timeout(timers: MemberTimers | None, now_ms: int, at_once: bool) -> str | None:
    """The timeout of a member that has passed, as the kind of a cause."""
    if timers is None:
        return None
    if at_once:
        return "session_timeout"
    ends = {
        "session_timeout": timers.session_ms,
        "rebalance_timeout": timers.rebalance_ms,
        "join_timeout": timers.join_ms,
        "sync_timeout": timers.sync_ms,
    }
    return next((kind for kind, ends_ms in ends.items() if ends_ms is not None and ends_ms <= now_ms), None)


def cause_of(kind: str, member: ConsumerMember) -> Cause:
    """The cause of an event by one member."""
    return Cause(kind, member.member_id, member.subscription.client_id, member.subscription.instance_id)


def removal(member: ConsumerMember, cause: Cause | None) -> list[e.ConsumerEvent]:
    """A member's three tombstones, in the order in which they must be read."""
    member_id = member.member_id
    return [e.CurrentRemoved(member_id), e.TargetRemoved(member_id), e.SubscriptionRemoved(member_id, cause)]


def fence(
    members: Collection[ConsumerMember], group: ConsumerGroup, kind: str, ctx: Context, config: CoordinatorConfig
) -> Outcome:
    """Removes the members, and the regular expressions that nobody else has, and raises the group epoch; a group that
    has only members of the classic protocol left becomes a classic one, and of one without members the target assignment is
    of the new epoch too (Kafka 4.4). ``kind`` is that of the cause."""
    gone = {m.member_id for m in members}
    if may_downgrade((m for member_id, m in group.members.items() if member_id not in gone), config):
        left = [m for member_id, m in group.members.items() if member_id not in gone]
        return downgrade(group, left, cause_of(kind, next(iter(members))), ctx.topics, ctx.now_ms)
    outcome = Outcome()
    for member in members:
        outcome.events += removal(member, cause_of(kind, member))
    leaving = Counter(m.subscription.topic_regex for m in members if m.subscription.topic_regex)
    outcome.events += [
        e.RegexRemoved(regex) for regex, count in leaving.items() if count == group.regex_subscribers[regex]
    ]
    names = subscribed_with(group, gone, None, group.regexes)
    cause = cause_of(kind, next(iter(members)))
    epoch = group.group_epoch + 1
    outcome.events.append(e.GroupEpochStored(epoch, ctx.topics.metadata_hash(names), cause))
    if len(gone) == len(group.members):
        outcome.events.append(e.TargetEpochStored(epoch, NEVER_COMPUTED_MS))
    return outcome
