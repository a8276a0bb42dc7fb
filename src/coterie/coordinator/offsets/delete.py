"""Offsets that go: by OffsetDelete, with their topic, or because they are old (KIP-211, KIP-496)."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from coterie.coordinator import events as e
from coterie.coordinator.classic.member_checks import refuse_unnamed
from coterie.coordinator.consumer.offsets import subscribed_topics_of
from coterie.coordinator.consumer.state import ConsumerGroup
from coterie.coordinator.outcome import Context, CoordinatorConfig, Outcome, Reply
from coterie.coordinator.state import (
    CONSUMER,
    Cause,
    CommittedOffset,
    Group,
    GroupOffsets,
    Phase,
    TopicPartition,
    subscribed_topics,
)
from coterie.coordinator.streams.leave import subscribed_by_streams
from coterie.coordinator.streams.state import StreamsGroup
from coterie.wire.errors import ErrorCode, Refusal
from coterie.wire.messages.groups.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from coterie.wire.primitives import NULL_UUID


def decide_offset_delete(
    group: Group | ConsumerGroup | StreamsGroup, exists: bool, request: OffsetDeleteRequest, ctx: Context
) -> Outcome:
    """Deletes the offsets of topics without a subscriber. Raises Refusal for an unknown group, or a live one of another
    protocol type."""
    refuse_unnamed(group)
    if not exists or group.is_dead:
        raise Refusal(ErrorCode.GROUP_ID_NOT_FOUND)
    if isinstance(group, ConsumerGroup):
        subscribed: frozenset[str] | None = subscribed_topics_of(group)
    elif isinstance(group, StreamsGroup):
        subscribed = subscribed_by_streams(group)
    else:
        alive = group.phase != Phase.EMPTY
        if alive and group.protocol_type != CONSUMER:
            raise Refusal(ErrorCode.NON_EMPTY_GROUP)
        subscribed = subscribed_topics(group) if alive else frozenset()
    outcome, topics = Outcome(), list[OffsetDeleteResponseTopic]()
    for topic in request.topics:
        # A subscription that cannot be read counts as one to everything.
        taken = subscribed is None or topic.name in subscribed
        code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if taken else ErrorCode.NONE
        for p in topic.partitions:
            at = (topic.name, p.partition_index)
            if not taken and (at in group.offsets or group.has_pending_offset(at)):
                outcome.events.append(e.OffsetRemoved(topic.name, p.partition_index))
        results = [OffsetDeleteResponsePartition(p.partition_index, code) for p in topic.partitions]
        topics.append(OffsetDeleteResponseTopic(topic.name, results))
    outcome.replies.append(Reply(ctx.token, OffsetDeleteResponse(topics=topics)))
    return outcome


def decide_topics_deleted(group: GroupOffsets, deleted: Collection[tuple[str, bytes]]) -> Outcome:
    """Drops the offsets of deleted topics, by name and id; an offset with another id is of a newer topic of that name."""
    names, known = {name for name, _ in deleted}, set(deleted)
    gone = [
        e.OffsetRemoved(topic, partition)
        for topic, partition in _every_partition(group)
        if topic in names
        and any(o.topic_id == NULL_UUID or (topic, o.topic_id) in known for o in _kept(group, (topic, partition)))
    ]
    return Outcome([*gone], divisible=True)


def _kept(group: GroupOffsets, partition: TopicPartition) -> list[CommittedOffset]:
    """Its offset, and the pending ones."""
    pending = [offsets[partition].committed for offsets in group.pending_offsets.values() if partition in offsets]
    return [group.offsets[partition], *pending] if partition in group.offsets else pending


def has_offsets_of(group: GroupOffsets, topics: Collection[str]) -> bool:
    """Whether `decide_topics_deleted` has something to drop."""
    every: Iterable[Iterable[TopicPartition]] = (group.offsets, *group.pending_offsets.values())
    return any(topic in topics for offsets in every for topic, _ in offsets)


def _every_partition(group: GroupOffsets) -> list[TopicPartition]:
    """With an offset, or with one that is pending."""
    pending = (tp for offsets in group.pending_offsets.values() for tp in offsets)
    return list(dict.fromkeys([*group.offsets, *pending]))


def decide_delete_group(group: Group, exists: bool) -> Outcome:
    """DeleteGroups: an Empty group goes with its offsets. Raises Refusal."""
    if not exists or group.phase == Phase.DEAD:
        raise Refusal(ErrorCode.GROUP_ID_NOT_FOUND)
    if group.phase != Phase.EMPTY:
        raise Refusal(ErrorCode.NON_EMPTY_GROUP)
    tombstones = [e.OffsetRemoved(t, p) for t, p in _every_partition(group)]
    return Outcome([*tombstones, e.GroupRemoved(Cause("deleted"))], divisible=True)


def decide_expire_offsets(group: Group, now_ms: int, config: CoordinatorConfig) -> Outcome:
    """Old offsets go; an Empty group with nothing left goes with them."""
    gone = [
        e.OffsetRemoved(topic, partition)
        for (topic, partition), committed in group.offsets.items()
        if not group.has_pending_offset((topic, partition)) and _expired(group, topic, committed, now_ms, config)
    ]
    outcome = Outcome([*gone], divisible=True)
    if group.phase == Phase.EMPTY and len(gone) == len(group.offsets) and not _in_use(group):
        # A simple consumer's group has no record of its own, so it needs no tombstone.
        outcome.events.append(e.GroupRemoved(Cause("expired"), recorded=group.protocol_type is not None))
    return outcome


def _in_use(group: Group) -> bool:
    return bool(group.reservations or group.pending_offsets)


def _expired(group: Group, topic: str, committed: CommittedOffset, now_ms: int, config: CoordinatorConfig) -> bool:
    if group.protocol_type is None:
        since_ms = committed.commit_timestamp_ms
    elif group.phase == Phase.EMPTY:
        since_ms = group.phase_since_ms if group.phase_since_ms >= 0 else committed.commit_timestamp_ms
    elif group.protocol_type == CONSUMER and group.phase == Phase.STABLE:
        subscribed = subscribed_topics(group)
        if subscribed is None or topic in subscribed:
            return False
        since_ms = committed.commit_timestamp_ms
    else:
        return False
    if committed.expire_timestamp_ms >= 0:
        return now_ms >= committed.expire_timestamp_ms
    return now_ms - since_ms >= config.offsets_retention_ms
