"""What coordinators describe of groups, of each of the four kinds, as one sight."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from coterie.assignors.blobs import encode_assignment, encode_subscription
from coterie.observer.machine.sights import Described
from coterie.wire.messages.groups import consumer_group_describe
from coterie.wire.messages.groups.consumer_group_describe import ConsumerGroupDescribeRequest, TopicPartitions
from coterie.wire.messages.groups.describe_groups import DescribedGroup
from coterie.wire.messages.share.share_group_describe import DescribedShareGroup, ShareGroupDescribeRequest
from coterie.wire.messages.stored.consumer_offsets import MemberMetadata
from coterie.wire.messages.streams.streams_group_describe import DescribedStreamsGroup, StreamsGroupDescribeRequest
from coterie.wire.messages.streams.streams_group_heartbeat import TaskIds

CONSUMER_TYPE, SHARE_TYPE, STREAMS_TYPE = "consumer", "share", "streams"
CoordinatorAndEpoch = tuple[int, int]


def now_ms() -> int:
    return int(time.time() * 1000)


def classic_group(group: DescribedGroup, coordinator: CoordinatorAndEpoch) -> Described:
    """A group of the classic protocol, of consumers or of others."""
    members = tuple(
        MemberMetadata(
            m.member_id, m.group_instance_id, m.client_id, m.client_host, 0, 0, m.member_metadata, m.member_assignment
        )
        for m in group.members
    )
    protocol = group.protocol_data
    return Described(
        now_ms(), group.group_id, group.group_state, group.protocol_type, protocol, members, None, coordinator
    )


def consumer_group(group: consumer_group_describe.DescribedGroup, coordinator: CoordinatorAndEpoch) -> Described:
    """A group of the consumer protocol (KIP-848)."""
    members = tuple(
        _member(m, m.instance_id, m.subscribed_topic_names, _by_topic(m.assignment.topic_partitions))
        for m in group.members
    )
    return _described(group, CONSUMER_TYPE, group.assignor_name, members, coordinator)


def share_group(group: DescribedShareGroup, coordinator: CoordinatorAndEpoch) -> Described:
    """A share group (KIP-932), whose members share each partition."""
    members = tuple(
        _member(m, None, m.subscribed_topic_names, _by_topic(m.assignment.topic_partitions)) for m in group.members
    )
    return _described(group, SHARE_TYPE, group.assignor_name, members, coordinator)


def streams_group(group: DescribedStreamsGroup, coordinator: CoordinatorAndEpoch) -> Described:
    """A streams group (KIP-1071). A member owns the inputs of its active tasks; of one with fewer partitions than its
    subtopology has tasks it may own one that is not there."""
    subtopologies = (group.topology and group.topology.subtopologies) or []
    inputs = {
        s.subtopology_id: [*s.source_topics, *(t.name for t in s.repartition_source_topics)] for s in subtopologies
    }
    every = sorted({name for names in inputs.values() for name in names})
    members = tuple(_member(m, m.instance_id, every, _inputs(m.assignment.active_tasks, inputs)) for m in group.members)
    return _described(group, STREAMS_TYPE, group.assignor_name or "", members, coordinator)


# How the groups of a type, as ListGroups names it, are described; any other by DescribeGroups.
DESCRIPTIONS: Mapping[str, tuple[type[Any], Callable[[Any, CoordinatorAndEpoch], Described]]] = {
    CONSUMER_TYPE: (ConsumerGroupDescribeRequest, consumer_group),
    SHARE_TYPE: (ShareGroupDescribeRequest, share_group),
    STREAMS_TYPE: (StreamsGroupDescribeRequest, streams_group),
}


def _described(
    group: Any, kind: str, assignor: str, members: tuple[MemberMetadata, ...], coordinator: CoordinatorAndEpoch
) -> Described:
    return Described(
        now_ms(), group.group_id, group.group_state, kind, assignor, members, group.group_epoch, coordinator
    )


def _member(member: Any, instance_id: str | None, topics: list[str], owned: dict[str, list[int]]) -> MemberMetadata:
    subscription, assignment = encode_subscription(topics), encode_assignment(owned)
    return MemberMetadata(
        member.member_id, instance_id, member.client_id, member.client_host, 0, 0, subscription, assignment
    )


def _by_topic(topics: Iterable[TopicPartitions]) -> dict[str, list[int]]:
    return {topic.topic_name: list(topic.partitions) for topic in topics}


def _inputs(tasks: Iterable[TaskIds], inputs: Mapping[str, list[str]]) -> dict[str, list[int]]:
    """The partitions that the tasks read, by topic."""
    owned: dict[str, list[int]] = {}
    for of_subtopology in tasks:
        for name in inputs.get(of_subtopology.subtopology_id, ()):
            owned[name] = sorted({*owned.get(name, ()), *of_subtopology.partitions})
    return owned
