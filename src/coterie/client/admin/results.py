"""Responses of the admin's APIs as the types of `coterie.client.admin_types`."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping

from coterie.assignors.blobs import decode_assignment, decode_subscription
from coterie.client.admin_types import (
    ClusterDescription,
    ConfigEntry,
    ConfigSource,
    ConsumerGroupDescription,
    GroupListing,
    GroupState,
    GroupType,
    MemberAssignment,
    MemberDescription,
    MemberSubscription,
    MemberTasks,
    Node,
    PartitionReassignment,
    TopicDescription,
    TopicPartitionInfo,
)
from coterie.client.types import TopicPartition
from coterie.wire.errors import error_of
from coterie.wire.messages.brokers.describe_cluster import DescribeClusterResponse
from coterie.wire.messages.groups import consumer_group_describe
from coterie.wire.messages.groups.describe_groups import DescribedGroup, DescribedGroupMember
from coterie.wire.messages.groups.list_groups import ListedGroup
from coterie.wire.messages.settings.describe_configs import DescribeConfigsResourceResult, DescribeConfigsResult
from coterie.wire.messages.share.share_group_describe import DescribedShareGroup, ShareMember
from coterie.wire.messages.streams.streams_group_describe import (
    DescribedStreamsGroup,
    StreamsMember,
    TaskAssignment,
)
from coterie.wire.messages.topics.list_partition_reassignments import ListPartitionReassignmentsResponse
from coterie.wire.messages.topics.metadata import MetadataResponse
from coterie.wire.primitives import WireError

CONSUMER = "consumer"
CONSUMER_MEMBER = 1  # a member that uses the consumer protocol; 0: the classic one (KIP-1099)
NO_TOPIC_ID = bytes(16)


def cluster_description(response: DescribeClusterResponse) -> ClusterDescription:
    """The controller is None where the response names none of the brokers as it."""
    nodes = {b.broker_id: Node(b.broker_id, b.host, b.port, b.rack) for b in response.brokers}
    return ClusterDescription(response.cluster_id, nodes.get(response.controller_id), tuple(nodes.values()))


def topic_descriptions(response: MetadataResponse) -> dict[str, TopicDescription]:
    """The topics of a response, by name."""
    nodes = {b.node_id: Node(b.node_id, b.host, b.port, b.rack) for b in response.brokers}

    def named(ids: Iterable[int]) -> tuple[Node, ...]:
        return tuple(nodes.get(node_id) or Node(node_id) for node_id in ids)

    return {
        t.name or "": TopicDescription(
            t.name or "",
            None if t.topic_id == NO_TOPIC_ID else base64.urlsafe_b64encode(t.topic_id).decode().rstrip("="),
            tuple(
                TopicPartitionInfo(
                    p.partition_index,
                    nodes.get(p.leader_id),
                    named(p.replica_nodes),
                    named(p.isr_nodes),
                    p.leader_epoch,
                    named(p.offline_replicas),
                )
                for p in sorted(t.partitions, key=lambda p: p.partition_index)
            ),
            t.is_internal,
            error_of(t.error_code),
        )
        for t in response.topics
    }


def partition_reassignments(
    response: ListPartitionReassignmentsResponse,
) -> dict[TopicPartition, PartitionReassignment]:
    """The reassignments of a response, by partition."""
    listed = {
        TopicPartition(topic.name, p.partition_index): PartitionReassignment(
            tuple(p.replicas), tuple(p.adding_replicas), tuple(p.removing_replicas)
        )
        for topic in response.topics
        for p in topic.partitions
    }
    return dict(sorted(listed.items()))


def config_entries(result: DescribeConfigsResult) -> dict[str, ConfigEntry]:
    """The settings of one topic, by name."""
    return {
        c.name: ConfigEntry(c.name, c.value, _source(c), c.is_sensitive, c.read_only)
        for c in sorted(result.configs, key=lambda c: c.name)
    }


def _source(config: DescribeConfigsResourceResult) -> ConfigSource:
    """Version 0 reports only whether it is the default (Kafka: DescribeConfigsResponse)."""
    if config.config_source >= 0:
        return ConfigSource(config.config_source)
    return ConfigSource.DEFAULT_CONFIG if config.is_default else ConfigSource.DYNAMIC_TOPIC_CONFIG


def group_listing(group: ListedGroup) -> GroupListing:
    """A state or type that this version does not know becomes the enumeration's UNKNOWN."""
    return GroupListing(group.group_id, group.protocol_type, GroupState(group.group_state), GroupType(group.group_type))


def group_description(group: DescribedGroup, coordinator: Node) -> ConsumerGroupDescription:
    """A group of a DescribeGroups response. What members subscribe to and own is decoded where the group's protocol type is
    consumer."""
    is_consumer = group.protocol_type == CONSUMER
    return ConsumerGroupDescription(
        group.group_id,
        GroupState(group.group_state),
        group.protocol_type,
        group.protocol_data,
        tuple(_member(m, is_consumer=is_consumer) for m in group.members),
        coordinator,
    )


def consumer_group_description(
    group: consumer_group_describe.DescribedGroup, coordinator: Node
) -> ConsumerGroupDescription:
    """A group of the consumer protocol (KIP-848)."""
    return ConsumerGroupDescription(
        group.group_id,
        GroupState(group.group_state),
        protocol_type=CONSUMER,
        partition_assignor=group.assignor_name,
        members=tuple(_member_of_consumers(m) for m in group.members),
        coordinator=coordinator,
        type=GroupType.CONSUMER,
        group_epoch=group.group_epoch,
        target_assignment_epoch=group.assignment_epoch,
    )


def share_group_description(group: DescribedShareGroup, coordinator: Node) -> ConsumerGroupDescription:
    """A share group (KIP-932)."""
    return ConsumerGroupDescription(
        group.group_id,
        GroupState(group.group_state),
        protocol_type="share",
        partition_assignor=group.assignor_name,
        members=tuple(_member_of_share_group(m) for m in group.members),
        coordinator=coordinator,
        type=GroupType.SHARE,
        group_epoch=group.group_epoch,
        target_assignment_epoch=group.assignment_epoch,
    )


def streams_group_description(group: DescribedStreamsGroup, coordinator: Node) -> ConsumerGroupDescription:
    """A streams group (KIP-1071)."""
    subtopologies = (group.topology and group.topology.subtopologies) or []
    inputs = {
        s.subtopology_id: [*s.source_topics, *(topic.name for topic in s.repartition_source_topics)]
        for s in subtopologies
    }
    return ConsumerGroupDescription(
        group.group_id,
        GroupState(group.group_state),
        protocol_type="streams",
        partition_assignor=group.assignor_name or "",
        members=tuple(_member_of_streams_group(m, inputs) for m in group.members),
        coordinator=coordinator,
        type=GroupType.STREAMS,
        group_epoch=group.group_epoch,
        target_assignment_epoch=group.assignment_epoch,
    )


def _member_of_streams_group(member: StreamsMember, inputs: Mapping[str, list[str]]) -> MemberDescription:
    return MemberDescription(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        MemberAssignment(_inputs(member.assignment, inputs)),
        member_epoch=member.member_epoch,
        target_assignment=MemberAssignment(_inputs(member.target_assignment, inputs)),
        tasks=_tasks(member.assignment),
        target_tasks=_tasks(member.target_assignment),
        process_id=member.process_id,
    )


def _inputs(assignment: TaskAssignment, inputs: Mapping[str, list[str]]) -> frozenset[TopicPartition]:
    return frozenset(
        TopicPartition(topic, partition)
        for t in assignment.active_tasks
        for topic in inputs.get(t.subtopology_id, ())
        for partition in t.partitions
    )


def _tasks(assignment: TaskAssignment) -> MemberTasks:
    roles = (assignment.active_tasks, assignment.standby_tasks, assignment.warmup_tasks)
    return MemberTasks(*(frozenset(f"{t.subtopology_id}_{p}" for t in tasks for p in t.partitions) for tasks in roles))


def _member_of_share_group(member: ShareMember) -> MemberDescription:
    owned, topics = _partitions(member.assignment), frozenset(member.subscribed_topic_names)
    return MemberDescription(
        member.member_id,
        None,
        member.client_id,
        member.client_host,
        MemberAssignment(owned),
        MemberSubscription(topics, owned, member.member_epoch, member.rack_id, None, -1),
        member_epoch=member.member_epoch,
    )


def _member_of_consumers(member: consumer_group_describe.Member) -> MemberDescription:
    owned = _partitions(member.assignment)
    topics = frozenset(member.subscribed_topic_names)
    subscription = MemberSubscription(topics, owned, member.member_epoch, member.rack_id, None, -1)
    return MemberDescription(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        MemberAssignment(owned),
        subscription,
        member_epoch=member.member_epoch,
        target_assignment=MemberAssignment(_partitions(member.target_assignment)),
        upgraded=None if member.member_type < 0 else member.member_type == CONSUMER_MEMBER,
    )


def _partitions(assignment: consumer_group_describe.Assignment) -> frozenset[TopicPartition]:
    return frozenset(
        TopicPartition(t.topic_name, partition) for t in assignment.topic_partitions for partition in t.partitions
    )


def _member(member: DescribedGroupMember, *, is_consumer: bool) -> MemberDescription:
    return MemberDescription(
        member.member_id,
        member.group_instance_id,
        member.client_id,
        member.client_host,
        assignment=_assignment(member.member_assignment) if is_consumer else MemberAssignment(),
        subscription=_subscription(member.member_metadata) if is_consumer else None,
        member_metadata=member.member_metadata,
        member_assignment=member.member_assignment,
    )


def _assignment(data: bytes) -> MemberAssignment:
    """Empty for bytes that are no assignment: what a group's leader sends is checked by no broker."""
    try:
        return MemberAssignment(frozenset(TopicPartition(*tp) for tp in decode_assignment(data)))
    except WireError:
        return MemberAssignment()


def _subscription(data: bytes) -> MemberSubscription | None:
    """None for bytes that are no subscription."""
    try:
        subscriber = decode_subscription(data)
    except WireError:
        return None
    return MemberSubscription(
        subscriber.topics,
        frozenset(
            TopicPartition(topic, partition)
            for topic, partitions in subscriber.owned.items()
            for partition in partitions
        ),
        subscriber.generation,
        subscriber.rack,
        subscriber.user_data,
        int.from_bytes(data[:2], "big", signed=True),
    )
