"""Hard events of consumer groups to their records and back. Topics, members and partitions stand in order in a record, so that
equal events make equal bytes; Kafka writes them in the order of its hash tables and reads any.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from typing import Any

from coterie.coordinator.consumer import events as e
from coterie.coordinator.consumer.state import (
    ClassicMetadata,
    ConsumerMemberState,
    ConsumerSubscription,
    CurrentAssignment,
    ResolvedRegex,
    TopicIdPartition,
)
from coterie.coordinator.stored_records.stored_kinds import GroupRecord
from coterie.wire.messages.stored import consumer_group_records as m
from coterie.wire.primitives import UNSIGNED_VARINTS

_CURRENT_KEY, _LENGTH, _CURRENT_VALUE = struct.Struct(">hh"), struct.Struct(">h"), struct.Struct(">hiib")
_ONE_TAG = b"\1\0"  # the epochs in which partitions were assigned are the only tagged field, number 0 (KIP-1251)


def record_of(group_id: str, event: e.ConsumerEvent) -> GroupRecord | None:
    """The record of a hard event, but for that of `current_record`; None for a soft one, and for key 4, of which only the
    tombstone is ever written."""
    make = _RECORDS.get(type(event))
    return None if make is None else GroupRecord(*make(group_id, event))


def event_of(record: GroupRecord) -> e.ConsumerEvent:
    """The event of a record, of any kind that these functions write."""
    stored, removed = _EVENTS[type(record.key)]
    return removed(record.key) if record.value is None else stored(record.key, record.value)


def _subscription_value(s: ConsumerSubscription) -> m.ConsumerGroupMemberMetadataValue:
    classic = None
    if s.classic is not None:
        protocols = [m.ClassicProtocol(name, metadata) for name, metadata in s.classic.protocols]
        classic = m.ClassicMemberMetadata(s.classic.session_timeout_ms, protocols)
    return m.ConsumerGroupMemberMetadataValue(
        s.instance_id,
        s.rack_id,
        s.client_id,
        s.client_host,
        subscribed_topic_names=sorted(s.topic_names),
        subscribed_topic_regex=s.topic_regex,
        rebalance_timeout_ms=s.rebalance_timeout_ms,
        server_assignor=s.server_assignor,
        classic_member_metadata=classic,
    )


def _subscription(value: m.ConsumerGroupMemberMetadataValue) -> ConsumerSubscription:
    classic = None
    if value.classic_member_metadata is not None:
        held = value.classic_member_metadata
        protocols = tuple((p.name, p.metadata) for p in held.supported_protocols)
        classic = ClassicMetadata(held.session_timeout_ms, protocols)
    return ConsumerSubscription(
        frozenset(value.subscribed_topic_names),
        value.subscribed_topic_regex or "",
        value.rebalance_timeout_ms,
        value.server_assignor,
        instance_id=value.instance_id,
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        classic=classic,
    )


def partitions_by_topic(partitions: Iterable[TopicIdPartition]) -> list[tuple[bytes, list[int]]]:
    """Topic ids with their partitions, both in order."""
    topics: dict[bytes, list[int]] = {}
    for topic, partition in sorted(partitions):
        if topic in topics:
            topics[topic].append(partition)
        else:
            topics[topic] = [partition]
    return list(topics.items())


def _target_value(partitions: Iterable[TopicIdPartition]) -> m.ConsumerGroupTargetAssignmentMemberValue:
    topics = [m.TargetPartitions(topic, numbers) for topic, numbers in partitions_by_topic(partitions)]
    return m.ConsumerGroupTargetAssignmentMemberValue(topics)


def _owned(topics: Iterable[m.OwnedPartitions], member_epoch: int) -> dict[TopicIdPartition, int]:
    """Without an epoch for each partition, as before Kafka 4.3, all count as assigned in the member's epoch, at least 0."""
    owned: dict[TopicIdPartition, int] = {}
    for topic in topics:
        epochs = topic.assignment_epochs
        if epochs is None or len(epochs) != len(topic.partitions):
            epochs = [max(member_epoch, 0)] * len(topic.partitions)
        owned |= {(topic.topic_id, partition): at for partition, at in zip(topic.partitions, epochs, strict=True)}
    return owned


def current_record(group_id: str, member_id: str, current: CurrentAssignment) -> tuple[bytes, bytes]:
    """Key and value of a member's current assignment as they stand in the log. Written without messages, in half of the time
    (3.5 us instead of 6.6): with each new target assignment every member has one."""
    group, member = group_id.encode(), member_id.encode()
    key = b"".join((_CURRENT_KEY.pack(8, len(group)), group, _LENGTH.pack(len(member)), member))
    pieces = [_CURRENT_VALUE.pack(0, current.member_epoch, current.previous_member_epoch, current.state)]
    for partitions in (current.assigned, current.pending_revocation):
        topics = partitions_by_topic(partitions) if partitions else []
        pieces.append(UNSIGNED_VARINTS[len(topics) + 1])
        for topic_id, numbers in topics:
            form, count = f">{len(numbers)}i", UNSIGNED_VARINTS[len(numbers) + 1]
            epochs = struct.pack(form, *[partitions[topic_id, number] for number in numbers])
            tagged = UNSIGNED_VARINTS[len(count) + len(epochs)]
            pieces += (topic_id, count, struct.pack(form, *numbers), _ONE_TAG, tagged, count, epochs)
    pieces.append(b"\0")
    return key, b"".join(pieces)


def _current(value: m.ConsumerGroupCurrentMemberAssignmentValue) -> CurrentAssignment:
    return CurrentAssignment(
        value.member_epoch,
        value.previous_member_epoch,
        ConsumerMemberState(value.state),
        _owned(value.assigned_partitions, value.member_epoch),
        _owned(value.partitions_pending_revocation, value.member_epoch),
    )


_RECORDS: dict[type, Callable[[str, Any], tuple[Any, Any]]] = {
    e.GroupEpochStored: lambda g, x: (
        m.ConsumerGroupMetadataKey(g),
        m.ConsumerGroupMetadataValue(x.epoch, x.metadata_hash),
    ),
    e.GroupEpochRemoved: lambda g, x: (m.ConsumerGroupMetadataKey(g), None),
    e.PartitionMetadataRemoved: lambda g, x: (m.ConsumerGroupPartitionMetadataKey(g), None),
    e.SubscriptionStored: lambda g, x: (
        m.ConsumerGroupMemberMetadataKey(g, x.member_id),
        _subscription_value(x.subscription),
    ),
    e.SubscriptionRemoved: lambda g, x: (m.ConsumerGroupMemberMetadataKey(g, x.member_id), None),
    e.TargetEpochStored: lambda g, x: (
        m.ConsumerGroupTargetAssignmentMetadataKey(g),
        m.ConsumerGroupTargetAssignmentMetadataValue(x.epoch, x.timestamp_ms),
    ),
    e.TargetEpochRemoved: lambda g, x: (m.ConsumerGroupTargetAssignmentMetadataKey(g), None),
    e.TargetStored: lambda g, x: (
        m.ConsumerGroupTargetAssignmentMemberKey(g, x.member_id),
        _target_value(x.partitions),
    ),
    e.TargetRemoved: lambda g, x: (m.ConsumerGroupTargetAssignmentMemberKey(g, x.member_id), None),
    e.CurrentRemoved: lambda g, x: (m.ConsumerGroupCurrentMemberAssignmentKey(g, x.member_id), None),
    e.RegexStored: lambda g, x: (
        m.ConsumerGroupRegularExpressionKey(g, x.regex),
        m.ConsumerGroupRegularExpressionValue(sorted(x.resolved.topics), x.resolved.version, x.resolved.timestamp_ms),
    ),
    e.RegexRemoved: lambda g, x: (m.ConsumerGroupRegularExpressionKey(g, x.regex), None),
}
# Of a key: the event of a value, and that of a tombstone.
_EVENTS: dict[type, tuple[Callable[[Any, Any], e.ConsumerEvent], Callable[[Any], e.ConsumerEvent]]] = {
    m.ConsumerGroupMetadataKey: (
        lambda key, value: e.GroupEpochStored(value.epoch, value.metadata_hash),
        lambda key: e.GroupEpochRemoved(),
    ),
    m.ConsumerGroupPartitionMetadataKey: (
        lambda key, value: e.PartitionMetadataStored(),
        lambda key: e.PartitionMetadataRemoved(),
    ),
    m.ConsumerGroupMemberMetadataKey: (
        lambda key, value: e.SubscriptionStored(key.member_id, _subscription(value)),
        lambda key: e.SubscriptionRemoved(key.member_id),
    ),
    m.ConsumerGroupTargetAssignmentMetadataKey: (
        lambda key, value: e.TargetEpochStored(value.assignment_epoch, value.assignment_timestamp),
        lambda key: e.TargetEpochRemoved(),
    ),
    m.ConsumerGroupTargetAssignmentMemberKey: (
        lambda key, value: e.TargetStored(
            key.member_id, frozenset((t.topic_id, p) for t in value.topic_partitions for p in t.partitions)
        ),
        lambda key: e.TargetRemoved(key.member_id),
    ),
    m.ConsumerGroupCurrentMemberAssignmentKey: (
        lambda key, value: e.CurrentStored(key.member_id, _current(value)),
        lambda key: e.CurrentRemoved(key.member_id),
    ),
    m.ConsumerGroupRegularExpressionKey: (
        lambda key, value: e.RegexStored(
            key.regular_expression, ResolvedRegex(frozenset(value.topics), value.version, value.timestamp)
        ),
        lambda key: e.RegexRemoved(key.regular_expression),
    ),
}
