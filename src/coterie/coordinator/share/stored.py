"""Hard events of share groups to their records and back, and a record as text. Topics and partitions stand in order in a
record, so that equal events make equal bytes; Kafka writes them in the order of its hash tables and reads any."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from coterie.coordinator.consumer.state import ConsumerMemberState, TopicIdPartition
from coterie.coordinator.consumer.stored import partitions_by_topic
from coterie.coordinator.share import events as s
from coterie.coordinator.share.state import ShareAssignment, ShareSubscription, StatePartitions, StateTopic
from coterie.coordinator.stored_records.stored_kinds import RecordKind, RecordTable
from coterie.wire.messages.stored import share_group_records as m
from coterie.wire.messages.stored.consumer_group_records import TargetPartitions


def _topics(partitions: Iterable[TopicIdPartition]) -> list[TargetPartitions]:
    return [TargetPartitions(topic, numbers) for topic, numbers in partitions_by_topic(partitions)]


def _pairs(topics: Iterable[TargetPartitions]) -> frozenset[TopicIdPartition]:
    return frozenset((topic.topic_id, partition) for topic in topics for partition in topic.partitions)


def _current_value(current: ShareAssignment) -> m.ShareGroupCurrentMemberAssignmentValue:
    epochs, state = (current.member_epoch, current.previous_member_epoch), ConsumerMemberState.STABLE
    return m.ShareGroupCurrentMemberAssignmentValue(*epochs, state, _topics(current.assigned))


def _infos(topics: Mapping[bytes, StateTopic]) -> list[m.TopicPartitionsInfo]:
    return [m.TopicPartitionsInfo(key, topic.name, sorted(topic.partitions)) for key, topic in sorted(topics.items())]


def _states_value(states: StatePartitions) -> m.ShareGroupStatePartitionMetadataValue:
    deleting = [m.DeletingTopic(topic_id, name) for topic_id, name in sorted(states.deleting.items())]
    return m.ShareGroupStatePartitionMetadataValue(_infos(states.initializing), _infos(states.initialized), deleting)


def _state_topics(infos: Iterable[m.TopicPartitionsInfo]) -> dict[bytes, StateTopic]:
    return {info.topic_id: StateTopic(info.topic_name, frozenset(info.partitions)) for info in infos}


def _states(value: m.ShareGroupStatePartitionMetadataValue) -> StatePartitions:
    deleting = {topic.topic_id: topic.topic_name for topic in value.deleting_topics}
    return StatePartitions(_state_topics(value.initializing_topics), _state_topics(value.initialized_topics), deleting)


_RECORDS: dict[type, Callable[[str, Any], tuple[Any, Any]]] = {
    s.ShareMemberStored: lambda g, x: (
        m.ShareGroupMemberMetadataKey(g, x.member_id),
        m.ShareGroupMemberMetadataValue(
            x.subscription.rack_id,
            x.subscription.client_id,
            x.subscription.client_host,
            sorted(x.subscription.topic_names),
        ),
    ),
    s.ShareMemberRemoved: lambda g, x: (m.ShareGroupMemberMetadataKey(g, x.member_id), None),
    s.ShareEpochStored: lambda g, x: (
        m.ShareGroupMetadataKey(g),
        m.ShareGroupMetadataValue(x.epoch, x.metadata_hash),
    ),
    s.ShareEpochRemoved: lambda g, x: (m.ShareGroupMetadataKey(g), None),
    s.ShareTargetEpochStored: lambda g, x: (
        m.ShareGroupTargetAssignmentMetadataKey(g),
        m.ShareGroupTargetAssignmentMetadataValue(x.epoch, x.timestamp_ms),
    ),
    s.ShareTargetEpochRemoved: lambda g, x: (m.ShareGroupTargetAssignmentMetadataKey(g), None),
    s.ShareTargetStored: lambda g, x: (
        m.ShareGroupTargetAssignmentMemberKey(g, x.member_id),
        m.ShareGroupTargetAssignmentMemberValue(_topics(x.partitions)),
    ),
    s.ShareTargetRemoved: lambda g, x: (m.ShareGroupTargetAssignmentMemberKey(g, x.member_id), None),
    s.ShareCurrentStored: lambda g, x: (
        m.ShareGroupCurrentMemberAssignmentKey(g, x.member_id),
        _current_value(x.current),
    ),
    s.ShareCurrentRemoved: lambda g, x: (m.ShareGroupCurrentMemberAssignmentKey(g, x.member_id), None),
    s.StatePartitionsStored: lambda g, x: (m.ShareGroupStatePartitionMetadataKey(g), _states_value(x.states)),
    s.StatePartitionsRemoved: lambda g, x: (m.ShareGroupStatePartitionMetadataKey(g), None),
}
# Of a key: the event of a value, and that of a tombstone.
_EVENTS: dict[type, tuple[Callable[[Any, Any], s.ShareEvent], Callable[[Any], s.ShareEvent]]] = {
    m.ShareGroupMemberMetadataKey: (
        lambda key, value: s.ShareMemberStored(
            key.member_id,
            ShareSubscription(
                frozenset(value.subscribed_topic_names), value.rack_id, value.client_id, value.client_host
            ),
        ),
        lambda key: s.ShareMemberRemoved(key.member_id),
    ),
    m.ShareGroupMetadataKey: (
        lambda key, value: s.ShareEpochStored(value.epoch, value.metadata_hash),
        lambda key: s.ShareEpochRemoved(),
    ),
    m.ShareGroupTargetAssignmentMetadataKey: (
        lambda key, value: s.ShareTargetEpochStored(value.assignment_epoch, value.assignment_timestamp),
        lambda key: s.ShareTargetEpochRemoved(),
    ),
    m.ShareGroupTargetAssignmentMemberKey: (
        lambda key, value: s.ShareTargetStored(key.member_id, _pairs(value.topic_partitions)),
        lambda key: s.ShareTargetRemoved(key.member_id),
    ),
    m.ShareGroupCurrentMemberAssignmentKey: (
        lambda key, value: s.ShareCurrentStored(
            key.member_id,
            ShareAssignment(value.member_epoch, value.previous_member_epoch, _pairs(value.assigned_partitions)),
        ),
        lambda key: s.ShareCurrentRemoved(key.member_id),
    ),
    m.ShareGroupStatePartitionMetadataKey: (
        lambda key, value: s.StatePartitionsStored(_states(value)),
        lambda key: s.StatePartitionsRemoved(),
    ),
}


def _id_text(topic_id: bytes) -> str:
    return base64.urlsafe_b64encode(topic_id).decode().rstrip("=")


def _partitions_text(topics: Iterable[TargetPartitions]) -> str:
    return " ".join(f"{_id_text(t.topic_id)}-{p}" for t in topics for p in t.partitions) or "nothing"


def _infos_text(infos: Iterable[m.TopicPartitionsInfo]) -> str:
    return " ".join(f"{info.topic_name}-{p}" for info in infos for p in info.partitions) or "nothing"


_KINDS: dict[int, RecordKind] = {
    kind.key.versions.first: kind
    for kind in (
        RecordKind(
            m.ShareGroupMemberMetadataKey,
            m.ShareGroupMemberMetadataValue,
            lambda key, value: (
                f"member {key.member_id} subscribes to {'+'.join(value.subscribed_topic_names) or 'nothing'}, "
                f"client {value.client_id} at {value.client_host}"
                + (f", rack {value.rack_id}" if value.rack_id is not None else "")
            ),
            lambda key: f"member {key.member_id}",
        ),
        RecordKind(
            m.ShareGroupMetadataKey,
            m.ShareGroupMetadataValue,
            lambda key, value: f"epoch {value.epoch}, metadata hash {value.metadata_hash}",
            lambda key: "its epoch",
        ),
        RecordKind(
            m.ShareGroupTargetAssignmentMetadataKey,
            m.ShareGroupTargetAssignmentMetadataValue,
            lambda key, value: (
                f"target assignment of epoch {value.assignment_epoch}, computed at {value.assignment_timestamp}"
            ),
            lambda key: "its target assignment",
        ),
        RecordKind(
            m.ShareGroupTargetAssignmentMemberKey,
            m.ShareGroupTargetAssignmentMemberValue,
            lambda key, value: f"target of {key.member_id}: {_partitions_text(value.topic_partitions)}",
            lambda key: f"the target of {key.member_id}",
        ),
        RecordKind(
            m.ShareGroupCurrentMemberAssignmentKey,
            m.ShareGroupCurrentMemberAssignmentValue,
            lambda key, value: (
                f"member {key.member_id} epoch {value.member_epoch} after {value.previous_member_epoch}, "
                f"has {_partitions_text(value.assigned_partitions)}"
            ),
            lambda key: f"what {key.member_id} has",
        ),
        RecordKind(
            m.ShareGroupStatePartitionMetadataKey,
            m.ShareGroupStatePartitionMetadataValue,
            lambda key, value: (
                f"states of {_infos_text(value.initialized_topics)}, being initialized: "
                f"{_infos_text(value.initializing_topics)}, being deleted: "
                f"{' '.join(t.topic_name for t in value.deleting_topics) or 'nothing'}"
            ),
            lambda key: "its states",
        ),
    )
}
SHARE_RECORDS = RecordTable("share", _RECORDS, _EVENTS, _KINDS)
