"""The end of a group of the consumer protocol, and offsets that go while it lives."""

from __future__ import annotations

from coterie.coordinator import events as e
from coterie.coordinator.consumer import events as c
from coterie.coordinator.consumer.state import ConsumerGroup
from coterie.coordinator.consumer.target import subscribed_with
from coterie.coordinator.outcome import CoordinatorConfig, Outcome
from coterie.coordinator.state import Cause, GroupOffsets
from coterie.wire.errors import ErrorCode, Refusal


def subscribed_topics_of(group: ConsumerGroup) -> frozenset[str]:
    """The topics that some member subscribes to, regular expressions resolved."""
    return frozenset(subscribed_with(group, (), None, group.regexes))


def tombstones(group: ConsumerGroup, cause: Cause) -> list[e.Event]:
    """All that removes the records of a group without members; the group's own tombstone is the last."""
    events: list[e.Event] = [c.TargetEpochRemoved()]
    events += [c.RegexRemoved(regex) for regex in group.regexes]
    return [*events, c.PartitionMetadataRemoved(), c.GroupEpochRemoved(cause)]


def decide_delete_consumer_group(group: ConsumerGroup, exists: bool) -> Outcome:
    """DeleteGroups: a group without members goes with its offsets. Raises Refusal."""
    check_deletable(exists and not group.is_dead, bool(group.members))
    return Outcome([*offset_tombstones(group), *tombstones(group, Cause("deleted"))], divisible=True)


def check_deletable(exists: bool, has_members: bool) -> None:
    """Raises Refusal GROUP_ID_NOT_FOUND or NON_EMPTY_GROUP."""
    if not exists:
        raise Refusal(ErrorCode.GROUP_ID_NOT_FOUND)
    if has_members:
        raise Refusal(ErrorCode.NON_EMPTY_GROUP)


def offset_tombstones(group: GroupOffsets) -> list[e.Event]:
    """The removal of every offset, pending ones too."""
    pending = (tp for offsets in group.pending_offsets.values() for tp in offsets)
    return [e.OffsetRemoved(t, p) for t, p in dict.fromkeys([*group.offsets, *pending])]


def decide_expire_consumer_offsets(group: ConsumerGroup, now_ms: int, config: CoordinatorConfig) -> Outcome:
    """Offsets of topics without a subscriber go when they are old, and with the last one an empty group."""
    gone = expired_offsets(group, subscribed_topics_of(group), now_ms, config)
    outcome = Outcome([*gone], divisible=True)
    if not group.members and len(gone) == len(group.offsets) and not group.pending_offsets:
        outcome.events += tombstones(group, Cause("expired"))
    return outcome


def expired_offsets(
    group: GroupOffsets, subscribed: frozenset[str], now_ms: int, config: CoordinatorConfig
) -> list[e.OffsetRemoved]:
    """The removal of the offsets of topics without a subscriber that are past their retention."""
    return [
        e.OffsetRemoved(topic, partition)
        for (topic, partition), committed in group.offsets.items()
        if topic not in subscribed
        and not group.has_pending_offset((topic, partition))
        and now_ms >= _expires_ms(committed.commit_timestamp_ms, committed.expire_timestamp_ms, config)
    ]


def _expires_ms(committed_ms: int, expire_ms: int, config: CoordinatorConfig) -> int:
    return expire_ms if expire_ms >= 0 else committed_ms + config.offsets_retention_ms
