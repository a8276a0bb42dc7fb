"""The only road by which a group of the consumer protocol changes: apply one event.

The order of a log may lack records that compaction removed, so an event may name a partition that another member still
has in an older epoch: the newer epoch wins (scenario testReplayConsumerGroupCurrentMemberAssignmentWithCompaction).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from coterie.coordinator.consumer import events as e
from coterie.coordinator.consumer.state import (
    LEAVE_GROUP_EPOCH,
    LEAVE_GROUP_STATIC_EPOCH,
    NO_ASSIGNMENT_EPOCH,
    ConsumerGroup,
    ConsumerMember,
    ConsumerMemberState,
    ConsumerSubscription,
    CurrentAssignment,
    MemberTimers,
)


def replay_consumer(group: ConsumerGroup, event: e.ConsumerEvent, now_ms: int) -> None:
    """Applies ``event``, which happened at ``now_ms``."""
    before = group.phase
    _APPLY[type(event)](group, event, now_ms)
    if group.phase is not before:
        group.phase_since_ms = now_ms


def removals_before(group: ConsumerGroup, event: e.ConsumerEvent) -> list[e.ConsumerEvent]:
    """The removals that a whole log has before this event and that the group has not had: a damaged log may lack them."""
    match event:
        case e.SubscriptionRemoved(member_id):
            return [e.CurrentRemoved(member_id), e.TargetRemoved(member_id)]
        case e.TargetEpochRemoved():
            return [e.TargetRemoved(member_id) for member_id in group.target]
        case e.GroupEpochRemoved():
            targets = [*removals_before(group, e.TargetEpochRemoved()), e.TargetEpochRemoved()]
            currents = [e.CurrentRemoved(member_id) for member_id in group.members]
            return [*targets, *currents, *(e.SubscriptionRemoved(member_id) for member_id in group.members)]
        case e.CurrentStored(member_id, current):
            owners = dict.fromkeys(map(group.owners.get, (*current.assigned, *current.pending_revocation)))
            others = (group.members[owner] for owner in owners if owner is not None and owner != member_id)
            return [e.CurrentRemoved(m.member_id) for m in others if m.current.member_epoch >= current.member_epoch]
    return []


def restart_timers(group: ConsumerGroup, now_ms: int, session_timeout_ms: int) -> None:
    """A coordinator that has loaded the group starts each member's session again (Kafka's GroupMetadataManager.onLoaded)."""
    for member_id, timers in group.timers.items():
        member = group.members[member_id]
        timers.session_ms = now_ms + session_timeout_ms
        revokes = member.current.state == ConsumerMemberState.UNREVOKED_PARTITIONS
        timers.rebalance_ms = now_ms + member.subscription.rebalance_timeout_ms if revokes else None


def _group_epoch(group: ConsumerGroup, event: e.GroupEpochStored, now_ms: int) -> None:
    group.group_epoch, group.metadata_hash = event.epoch, event.metadata_hash


def _group_removed(group: ConsumerGroup, event: e.GroupEpochRemoved, now_ms: int) -> None:
    assert not group.members, f"{group.group_id} still has members"
    assert not group.target, f"{group.group_id} still has a target assignment"
    assert group.assignment_epoch == NO_ASSIGNMENT_EPOCH, f"{group.group_id} still has an assignment epoch"
    group.is_dead = True


def _partition_metadata(group: ConsumerGroup, event: e.PartitionMetadataStored, now_ms: int) -> None:
    group.partition_metadata_recorded = True


def _partition_metadata_removed(group: ConsumerGroup, event: e.PartitionMetadataRemoved, now_ms: int) -> None:
    group.partition_metadata_recorded = False


def _subscription(group: ConsumerGroup, event: e.SubscriptionStored, now_ms: int) -> None:
    member, instance_id = _member(group, event.member_id), event.subscription.instance_id
    earlier = member.subscription.instance_id
    if earlier is not None and earlier != instance_id and group.static_members.get(earlier) == event.member_id:
        del group.static_members[earlier]  # the member has another instance id since
    _put(group, replace(member, subscription=event.subscription))
    if instance_id is not None:
        group.static_members[instance_id] = event.member_id


def _subscription_removed(group: ConsumerGroup, event: e.SubscriptionRemoved, now_ms: int) -> None:
    member = group.members.get(event.member_id)
    if member is None:
        return
    assert member.current.member_epoch == LEAVE_GROUP_EPOCH, f"{event.member_id} still has a current assignment"
    assert event.member_id not in group.target, f"{event.member_id} still has a target assignment"
    _count(group, member.current, -1)
    _count_subscription(group, member.subscription, -1)
    del group.members[event.member_id]
    group.timers.pop(event.member_id, None)
    instance_id = member.subscription.instance_id
    if instance_id is not None and group.static_members.get(instance_id) == event.member_id:
        del group.static_members[instance_id]


def _target_epoch(group: ConsumerGroup, event: e.TargetEpochStored, now_ms: int) -> None:
    group.assignment_epoch, group.assignment_timestamp_ms = event.epoch, event.timestamp_ms


def _target_epoch_removed(group: ConsumerGroup, event: e.TargetEpochRemoved, now_ms: int) -> None:
    assert not group.target, f"{group.group_id} still has a target assignment"
    group.assignment_epoch, group.assignment_timestamp_ms = NO_ASSIGNMENT_EPOCH, 0


def _target(group: ConsumerGroup, event: e.TargetStored, now_ms: int) -> None:
    group.target[event.member_id] = event.partitions


def _target_removed(group: ConsumerGroup, event: e.TargetRemoved, now_ms: int) -> None:
    group.target.pop(event.member_id, None)


def _current(group: ConsumerGroup, event: e.CurrentStored, now_ms: int) -> None:
    member, current = _member(group, event.member_id), event.current
    if not current.has_partitions_of(member.current):
        _take_over(group, member, current)
    _put(group, ConsumerMember(member.member_id, member.subscription, current))
    revokes = (
        current.state == ConsumerMemberState.UNREVOKED_PARTITIONS and current.member_epoch != LEAVE_GROUP_STATIC_EPOCH
    )
    timeout_ms = member.subscription.rebalance_timeout_ms
    # A member of the classic protocol has the timeouts of its JoinGroup and SyncGroup instead.
    limited = revokes and member.subscription.classic is None
    group.timers[event.member_id].rebalance_ms = now_ms + timeout_ms if limited else None


def _take_over(group: ConsumerGroup, member: ConsumerMember, current: CurrentAssignment) -> None:
    """Owners, where a member has other partitions than before."""
    _release(group, member.member_id, member.current)
    for partition in (*current.assigned, *current.pending_revocation):
        owner = group.owners.get(partition)
        assert owner is None or group.members[owner].current.member_epoch < current.member_epoch, (
            f"{partition[0].hex()}-{partition[1]} still belongs to {owner}"
        )
        group.owners[partition] = member.member_id


def _current_removed(group: ConsumerGroup, event: e.CurrentRemoved, now_ms: int) -> None:
    member = group.members.get(event.member_id)
    if member is not None:
        _release(group, event.member_id, member.current)
        _put(group, replace(member, current=CurrentAssignment(LEAVE_GROUP_EPOCH, LEAVE_GROUP_EPOCH)))


def _regex(group: ConsumerGroup, event: e.RegexStored, now_ms: int) -> None:
    group.regexes[event.regex] = event.resolved


def _regex_removed(group: ConsumerGroup, event: e.RegexRemoved, now_ms: int) -> None:
    group.regexes.pop(event.regex, None)


def _topics_checked(group: ConsumerGroup, event: e.TopicsChecked, now_ms: int) -> None:
    group.topics_version = event.version


def _resolution_started(group: ConsumerGroup, event: e.RegexResolutionStarted, now_ms: int) -> None:
    group.resolving = True


def _resolution_ended(group: ConsumerGroup, event: e.RegexResolutionEnded, now_ms: int) -> None:
    group.resolving = False


def _classic_deadlines(group: ConsumerGroup, event: e.ClassicDeadlinesSet, now_ms: int) -> None:
    timers = group.timers[event.member_id]
    timers.join_ms, timers.sync_ms = event.join_ms, event.sync_ms


def _expiry_delayed(group: ConsumerGroup, event: e.ExpiryDelayed, now_ms: int) -> None:
    timers, until_ms = group.timers[event.member_id], event.deadline_ms
    timers.session_ms = max(timers.session_ms, until_ms)
    timers.rebalance_ms = None if timers.rebalance_ms is None else max(timers.rebalance_ms, until_ms)
    timers.join_ms = None if timers.join_ms is None else max(timers.join_ms, until_ms)
    timers.sync_ms = None if timers.sync_ms is None else max(timers.sync_ms, until_ms)


def _member(group: ConsumerGroup, member_id: str) -> ConsumerMember:
    return group.members.get(member_id) or ConsumerMember(member_id)


def _put(group: ConsumerGroup, member: ConsumerMember) -> None:
    earlier = group.members.get(member.member_id)
    if earlier is None:
        group.timers[member.member_id] = MemberTimers()
        _count_subscription(group, member.subscription, 1)
    else:
        _count(group, earlier.current, -1)
        if member.subscription is not earlier.subscription:
            _count_subscription(group, earlier.subscription, -1)
            _count_subscription(group, member.subscription, 1)
    _count(group, member.current, 1)
    group.members[member.member_id] = member


def _count(group: ConsumerGroup, current: CurrentAssignment, by: int) -> None:
    if current.state == ConsumerMemberState.STABLE:
        group.epochs[current.member_epoch] += by
        if not group.epochs[current.member_epoch]:
            del group.epochs[current.member_epoch]


def _count_subscription(group: ConsumerGroup, subscription: ConsumerSubscription, by: int) -> None:
    regexes = (subscription.topic_regex,) if subscription.topic_regex else ()
    for counter, keys in ((group.topic_subscribers, subscription.topic_names), (group.regex_subscribers, regexes)):
        for key in keys:
            counter[key] += by
            if not counter[key]:
                del counter[key]


def _release(group: ConsumerGroup, member_id: str, current: CurrentAssignment) -> None:
    for partition in (*current.assigned, *current.pending_revocation):
        if group.owners.get(partition) == member_id:
            del group.owners[partition]


_APPLY: dict[type, Callable[[ConsumerGroup, Any, int], None]] = {
    e.GroupEpochStored: _group_epoch,
    e.GroupEpochRemoved: _group_removed,
    e.PartitionMetadataStored: _partition_metadata,
    e.PartitionMetadataRemoved: _partition_metadata_removed,
    e.SubscriptionStored: _subscription,
    e.SubscriptionRemoved: _subscription_removed,
    e.TargetEpochStored: _target_epoch,
    e.TargetEpochRemoved: _target_epoch_removed,
    e.TargetStored: _target,
    e.TargetRemoved: _target_removed,
    e.CurrentStored: _current,
    e.CurrentRemoved: _current_removed,
    e.RegexStored: _regex,
    e.RegexRemoved: _regex_removed,
    e.TopicsChecked: _topics_checked,
    e.RegexResolutionStarted: _resolution_started,
    e.RegexResolutionEnded: _resolution_ended,
    e.ClassicDeadlinesSet: _classic_deadlines,
    e.ExpiryDelayed: _expiry_delayed,
}
