"""ShareGroupHeartbeat (scenarios: tests/spec/share_group): join, subscribe, stay and leave; and the end of a member's session.
Kafka's GroupMetadataManager.shareGroupHeartbeat.

As in a consumer group, but without reconciliation: a member takes its part of the target assignment at once.
"""

from __future__ import annotations

from dataclasses import replace

from coterie.assignors.server_side import assign_simply
from coterie.coordinator import events as e
from coterie.coordinator.consumer.leave import EXPIRY_RETRY_MS, NEVER_COMPUTED_MS, passed_timeout
from coterie.coordinator.consumer.member_checks import fenced_epoch, known_member, refuse_full, require
from coterie.coordinator.consumer.state import JOIN_GROUP_EPOCH, LEAVE_GROUP_EPOCH
from coterie.coordinator.consumer.stored import partitions_by_topic
from coterie.coordinator.consumer.target import NO_PARTITIONS, Target, time_to_target_ms
from coterie.coordinator.outcome import Context, CoordinatorConfig, Outcome, Reply
from coterie.coordinator.share import events as s
from coterie.coordinator.share.state import ShareAssignment, ShareGroup, ShareGroupMember, ShareSubscription
from coterie.coordinator.share.states import initialization, initializing, missing_states
from coterie.coordinator.state import Cause
from coterie.wire.errors import ErrorCode, Refusal
from coterie.wire.messages.groups.consumer_group_heartbeat import Assignment, TopicPartitions
from coterie.wire.messages.share.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse


def check_share_request(request: ShareGroupHeartbeatRequest) -> None:
    """Raises Refusal INVALID_REQUEST (GroupCoordinatorService.throwIfShareGroupHeartbeatRequestIsInvalid)."""
    require(request.member_id.strip(), "MemberId can't be empty.")
    require(request.group_id.strip(), "GroupId can't be empty.")
    require(request.rack_id is None or request.rack_id.strip(), "RackId can't be empty.")
    if request.member_epoch == JOIN_GROUP_EPOCH:
        require(request.subscribed_topic_names, "SubscribedTopicNames must be set in first request.")
    else:
        require(request.member_epoch >= LEAVE_GROUP_EPOCH, "MemberEpoch is invalid.")


def decide_share_heartbeat(
    group: ShareGroup, exists: bool, request: ShareGroupHeartbeatRequest, ctx: Context, config: CoordinatorConfig
) -> Outcome:
    """Everything that one heartbeat does. Raises Refusal."""
    check_share_request(request)
    if not exists and request.member_epoch != JOIN_GROUP_EPOCH:
        kind = "Group" if request.member_epoch == LEAVE_GROUP_EPOCH else "Share group"
        raise Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"{kind} {group.group_id} not found.")
    if request.member_epoch == LEAVE_GROUP_EPOCH:
        member = known_member(group, request.member_id)
        outcome = _fence(group, member, "member_left", ctx)
        left = ShareGroupHeartbeatResponse(member_id=member.member_id, member_epoch=LEAVE_GROUP_EPOCH)
        outcome.replies.append(Reply(ctx.token, left))
        return outcome
    refuse_full(group, request.member_id, None, config.group_share_max_size, "share")
    before = _sender(group, request)
    after = replace(before, subscription=_updated(before.subscription, request, ctx))
    outcome = Outcome()
    changed, epoch = _update_member(group, before, after, ctx, outcome)
    target_epoch, target = _update_target(group, after, epoch, ctx, config, outcome)
    current = _reconciled(after, target_epoch, target, changed, ctx, outcome)
    _initialize(group, after, epoch, ctx, outcome)
    assignment, interval_ms = None, config.group_share_heartbeat_interval_ms
    joins, is_full = request.member_epoch == JOIN_GROUP_EPOCH, request.subscribed_topic_names is not None
    if joins or is_full or current.assigned != before.current.assigned:
        topics = [TopicPartitions(topic_id, numbers) for topic_id, numbers in partitions_by_topic(current.assigned)]
        assignment = Assignment(topics)
    response = ShareGroupHeartbeatResponse(
        0, ErrorCode.NONE, None, after.member_id, current.member_epoch, interval_ms, assignment
    )
    outcome.replies.append(Reply(ctx.token, response))
    outcome.deadlines.append((after.member_id, ctx.now_ms + config.group_share_session_timeout_ms))
    return outcome


def decide_share_expired(group: ShareGroup, member_id: str, ctx: Context, *, at_once: bool = False) -> Outcome:
    """The end of a member's session. ``at_once``: as if it were over."""
    member = group.members.get(member_id)
    kind = passed_timeout(group.timers.get(member_id), ctx.now_ms, at_once)
    if member is None or kind is None:
        return Outcome()
    outcome = _fence(group, member, kind, ctx)
    again = s.ShareExpiryDelayed(member_id, ctx.now_ms + EXPIRY_RETRY_MS)
    outcome.on_append_error = lambda code: Outcome([again])
    return outcome


def share_tombstones(group: ShareGroup, cause: Cause) -> list[e.Event]:
    """All that removes the records of a group without members; the group's own tombstone is the last."""
    return [s.ShareTargetEpochRemoved(), s.StatePartitionsRemoved(), s.ShareEpochRemoved(cause)]


def _sender(group: ShareGroup, request: ShareGroupHeartbeatRequest) -> ShareGroupMember:
    """The member as it is before this heartbeat. Raises Refusal."""
    epoch = request.member_epoch
    if epoch == JOIN_GROUP_EPOCH:
        return group.members.get(request.member_id) or ShareGroupMember(request.member_id)
    member = known_member(group, request.member_id)
    current = member.current
    if epoch not in (current.member_epoch, current.previous_member_epoch):
        raise fenced_epoch("share", epoch, current.member_epoch)
    return member


def _updated(subscription: ShareSubscription, request: ShareGroupHeartbeatRequest, ctx: Context) -> ShareSubscription:
    names = request.subscribed_topic_names
    return ShareSubscription(
        subscription.topic_names if names is None else frozenset(names),
        subscription.rack_id if request.rack_id is None else request.rack_id,
        ctx.client_id,
        ctx.client_host,
    )


def _subscribed(group: ShareGroup, before: ShareGroupMember, after: ShareGroupMember | None) -> set[str]:
    """The topics of the group once the member is as ``after``, or gone."""
    counts = group.topic_subscribers
    own = group.members[before.member_id].subscription.topic_names if before.member_id in group.members else ()
    names = {name for name, count in counts.items() if count > (name in own)}
    return names if after is None else names | after.subscription.topic_names


def _update_member(
    group: ShareGroup, before: ShareGroupMember, after: ShareGroupMember, ctx: Context, outcome: Outcome
) -> tuple[bool, int]:
    """Whether the group epoch rose, and the group epoch: one more where the member requests other topics, the topics of the
    group have changed, or partitions have their state that nobody has."""
    if after.subscription != before.subscription or before.member_id not in group.members:
        outcome.events.append(s.ShareMemberStored(after.member_id, after.subscription))
    changed = after.subscription.topic_names != before.subscription.topic_names
    bump = changed or (group.assignment_epoch >= group.group_epoch and _has_unassigned(group))
    epoch = group.group_epoch
    if bump or group.topics_version != ctx.topics.version:
        metadata_hash = ctx.topics.metadata_hash(_subscribed(group, before, after))
        outcome.events.append(s.ShareTopicsChecked(ctx.topics.version))
        if bump or metadata_hash != group.metadata_hash:
            kind = "states_initialized" if bump else "topic_metadata_changed"
            bump, epoch = True, epoch + 1
            if changed:
                kind = "subscription_changed" if before.member_id in group.members else "member_joined"
            cause = _cause(kind, after) if changed else Cause(kind)
            outcome.events.append(s.ShareEpochStored(epoch, metadata_hash, cause))
    return bump, epoch


def _has_unassigned(group: ShareGroup) -> bool:
    """Whether a subscribed topic has other partitions with a state than are assigned (Kafka's initializedAssignmentPending)."""
    if not group.members or group.states is None:
        return False
    assigned: dict[bytes, set[int]] = {}
    for partitions in group.target.values():
        for topic_id, number in partitions:
            assigned.setdefault(topic_id, set()).add(number)
    return any(
        topic.name in group.topic_subscribers and assigned.get(topic_id, set()) != set(topic.partitions)
        for topic_id, topic in group.states.initialized.items()
    )


def _update_target(
    group: ShareGroup, after: ShareGroupMember, epoch: int, ctx: Context, config: CoordinatorConfig, outcome: Outcome
) -> tuple[int, Target]:
    """The epoch of the target assignment, new or not, and the member's part of it. Within the interval the last one stays."""
    interval_ms = config.group_share_assignment_interval_ms
    if group.assignment_epoch >= epoch or time_to_target_ms(group.assignment_timestamp_ms, interval_ms, ctx.now_ms):
        return group.assignment_epoch, group.target.get(after.member_id, NO_PARTITIONS)
    members = {**group.members, after.member_id: after}
    ready = {} if group.states is None else group.states.initialized
    assigned = assign_simply(
        {member_id: ctx.topics.topic_ids(m.subscription.topic_names) for member_id, m in members.items()},
        {topic_id: topic.partitions for topic_id, topic in ready.items()},
        group.target,
    )
    target = {member_id: frozenset(partitions) for member_id, partitions in assigned.items()}
    outcome.events += [
        s.ShareTargetStored(member_id, partitions)
        for member_id, partitions in target.items()
        if group.target.get(member_id) != partitions
    ]
    outcome.events.append(s.ShareTargetEpochStored(epoch, ctx.now_ms))
    return epoch, target[after.member_id]


def _reconciled(
    member: ShareGroupMember, target_epoch: int, target: Target, changed: bool, ctx: Context, outcome: Outcome
) -> ShareAssignment:
    """What the member has from now on, stored where that is new (Kafka's ShareGroupAssignmentBuilder)."""
    current = member.current
    if not changed and current.member_epoch == target_epoch:
        return current
    subscribed = ctx.topics.topic_ids(member.subscription.topic_names)
    has = frozenset(partition for partition in target if partition[0] in subscribed)
    if current.member_epoch == target_epoch:
        after = replace(current, assigned=has)
    else:
        after = ShareAssignment(target_epoch, current.member_epoch, has)
    if after != current:
        outcome.events.append(s.ShareCurrentStored(member.member_id, after))
    return after


def _initialize(group: ShareGroup, after: ShareGroupMember, epoch: int, ctx: Context, outcome: Outcome) -> None:
    """Subscribed partitions without a state are to get one."""
    present = group.members.get(after.member_id) or after
    missing = missing_states(group.states, _subscribed(group, present, after), ctx.topics, ctx.now_ms)
    if missing:
        outcome.events.append(s.StatePartitionsStored(initializing(group.states, missing)))
        outcome.initialize = initialization(group, epoch, missing)


def _cause(kind: str, member: ShareGroupMember) -> Cause:
    return Cause(kind, member.member_id, member.subscription.client_id)


def _fence(group: ShareGroup, member: ShareGroupMember, kind: str, ctx: Context) -> Outcome:
    """Removes the member and raises the group epoch; of a group without members the target assignment is of the new epoch
    too. ``kind`` is that of the cause."""
    cause, member_id, epoch = _cause(kind, member), member.member_id, group.group_epoch + 1
    events: list[e.Event] = [
        s.ShareCurrentRemoved(member_id),
        s.ShareTargetRemoved(member_id),
        s.ShareMemberRemoved(member_id, cause),
        s.ShareEpochStored(epoch, ctx.topics.metadata_hash(_subscribed(group, member, None)), cause),
    ]
    if len(group.members) == 1:
        events.append(s.ShareTargetEpochStored(epoch, NEVER_COMPUTED_MS))
    return Outcome(events)
