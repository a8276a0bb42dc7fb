"""The end of a group of the consumer protocol, and offsets that go while it lives."""

from __future__ import annotations

from coterie.coordinator import events as e
from coterie.coordinator.consumer import events as c
from coterie.coordinator.consumer.state import ConsumerGroup, ConsumerGroupState
from coterie.coordinator.consumer.target import subscribed_with
from coterie.coordinator.outcome import CoordinatorConfig, Outcome
from coterie.coordinator.state import Cause
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
    if not exists or group.is_dead:
        raise Refusal(ErrorCode.GROUP_ID_NOT_FOUND)
    if group.phase != ConsumerGroupState.EMPTY:
        raise Refusal(ErrorCode.NON_EMPTY_GROUP)
    pending = (tp for offsets in group.pending_offsets.values() for tp in offsets)
    offsets = [e.OffsetRemoved(t, p) for t, p in dict.fromkeys([*group.offsets, *pending])]
    return Outcome([*offsets, *tombstones(group, Cause("deleted"))], divisible=True)


def decide_expire_consumer_offsets(group: ConsumerGroup, now_ms: int, config: CoordinatorConfig) -> Outcome:
    """Offsets of topics without a subscriber go when they are old, and with the last one an empty group."""
    subscribed = subscribed_topics_of(group)
    gone = [
        e.OffsetRemoved(topic, partition)
        for (topic, partition), committed in group.offsets.items()
        if topic not in subscribed
        and not group.has_pending_offset((topic, partition))
        and now_ms >= _expires_ms(committed.commit_timestamp_ms, committed.expire_timestamp_ms, config)
    ]
    outcome = Outcome([*gone], divisible=True)
    if not group.members and len(gone) == len(group.offsets) and not group.pending_offsets:
        outcome.events += tombstones(group, Cause("expired"))
    return outcome


def _expires_ms(committed_ms: int, expire_ms: int, config: CoordinatorConfig) -> int:
    return expire_ms if expire_ms >= 0 else committed_ms + config.offsets_retention_ms
