"""The only road by which a share group changes: apply one event (Kafka's GroupMetadataManager.replay)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from coterie.coordinator.consumer.state import NO_ASSIGNMENT_EPOCH, MemberTimers
from coterie.coordinator.share import events as s
from coterie.coordinator.share.state import ShareAssignment, ShareGroup, ShareGroupMember


def replay_share(group: ShareGroup, event: s.ShareEvent, now_ms: int) -> None:
    """Applies ``event``, which happened at ``now_ms``."""
    before = group.phase
    _APPLY[type(event)](group, event)
    if group.phase is not before:
        group.phase_since_ms = now_ms


def share_removals_before(group: ShareGroup, event: s.ShareEvent) -> list[s.ShareEvent]:
    """The removals that a whole log has before this event and that the group has not had: a damaged log may lack them."""
    match event:
        case s.ShareMemberRemoved(member_id):
            return [s.ShareCurrentRemoved(member_id), s.ShareTargetRemoved(member_id)]
        case s.ShareTargetEpochRemoved():
            return [s.ShareTargetRemoved(member_id) for member_id in group.target]
        case s.ShareEpochRemoved():
            targets = [s.ShareTargetRemoved(member_id) for member_id in group.target]
            currents = [s.ShareCurrentRemoved(member_id) for member_id in group.members]
            members = [s.ShareMemberRemoved(member_id) for member_id in group.members]
            return [*targets, s.ShareTargetEpochRemoved(), *currents, *members]
    return []


def restart_share_timers(group: ShareGroup, now_ms: int, session_timeout_ms: int) -> None:
    """A coordinator that has loaded the group starts each member's session again (Kafka's GroupMetadataManager.onLoaded)."""
    for timers in group.timers.values():
        timers.session_ms = now_ms + session_timeout_ms


def _member_stored(group: ShareGroup, event: s.ShareMemberStored) -> None:
    member = group.members.get(event.member_id) or ShareGroupMember(event.member_id)
    group.topic_subscribers.subtract(member.subscription.topic_names)
    group.topic_subscribers.update(event.subscription.topic_names)
    group.topic_subscribers = +group.topic_subscribers
    group.members[event.member_id] = replace(member, subscription=event.subscription)
    group.timers.setdefault(event.member_id, MemberTimers())


def _member_removed(group: ShareGroup, event: s.ShareMemberRemoved) -> None:
    member = group.members.pop(event.member_id, None)
    if member is not None:
        group.topic_subscribers.subtract(member.subscription.topic_names)
        group.topic_subscribers = +group.topic_subscribers
    group.timers.pop(event.member_id, None)


def _epoch_stored(group: ShareGroup, event: s.ShareEpochStored) -> None:
    group.group_epoch, group.metadata_hash = event.epoch, event.metadata_hash


def _epoch_removed(group: ShareGroup, event: s.ShareEpochRemoved) -> None:
    assert not group.members, f"{group.group_id} still has members"
    assert not group.target, f"{group.group_id} still has a target assignment"
    assert group.assignment_epoch == NO_ASSIGNMENT_EPOCH, f"{group.group_id} still has an assignment epoch"
    group.is_dead = True


def _target_epoch_stored(group: ShareGroup, event: s.ShareTargetEpochStored) -> None:
    group.assignment_epoch, group.assignment_timestamp_ms = event.epoch, event.timestamp_ms


def _target_epoch_removed(group: ShareGroup, event: s.ShareTargetEpochRemoved) -> None:
    group.assignment_epoch, group.assignment_timestamp_ms = NO_ASSIGNMENT_EPOCH, 0


def _target_stored(group: ShareGroup, event: s.ShareTargetStored) -> None:
    group.target[event.member_id] = event.partitions


def _target_removed(group: ShareGroup, event: s.ShareTargetRemoved) -> None:
    group.target.pop(event.member_id, None)


def _current_stored(group: ShareGroup, event: s.ShareCurrentStored) -> None:
    member = group.members.get(event.member_id) or ShareGroupMember(event.member_id)
    group.members[event.member_id] = replace(member, current=event.current)
    group.timers.setdefault(event.member_id, MemberTimers())


def _current_removed(group: ShareGroup, event: s.ShareCurrentRemoved) -> None:
    member = group.members.get(event.member_id)
    if member is not None:
        group.members[event.member_id] = replace(member, current=ShareAssignment(member_epoch=-1))


def _states_stored(group: ShareGroup, event: s.StatePartitionsStored) -> None:
    group.states = event.states


def _states_removed(group: ShareGroup, event: s.StatePartitionsRemoved) -> None:
    group.states = None


def _topics_checked(group: ShareGroup, event: s.ShareTopicsChecked) -> None:
    group.topics_version = event.version


def _expiry_delayed(group: ShareGroup, event: s.ShareExpiryDelayed) -> None:
    timers = group.timers.get(event.member_id)
    if timers is not None:
        timers.session_ms = event.deadline_ms


_APPLY: dict[type, Callable[[ShareGroup, Any], None]] = {
    s.ShareMemberStored: _member_stored,
    s.ShareMemberRemoved: _member_removed,
    s.ShareEpochStored: _epoch_stored,
    s.ShareEpochRemoved: _epoch_removed,
    s.ShareTargetEpochStored: _target_epoch_stored,
    s.ShareTargetEpochRemoved: _target_epoch_removed,
    s.ShareTargetStored: _target_stored,
    s.ShareTargetRemoved: _target_removed,
    s.ShareCurrentStored: _current_stored,
    s.ShareCurrentRemoved: _current_removed,
    s.StatePartitionsStored: _states_stored,
    s.StatePartitionsRemoved: _states_removed,
    s.ShareTopicsChecked: _topics_checked,
    s.ShareExpiryDelayed: _expiry_delayed,
}
