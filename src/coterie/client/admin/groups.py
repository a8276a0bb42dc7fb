"""Groups listed, described and linted, by the requests that the brokers have; and for `protocol_lint` what a broker reports
about the consumer protocol (KIP-848): its APIs, features and settings."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from coterie.client.admin import older as admin_older
from coterie.client.admin.brokers import of_each_broker
from coterie.client.admin.calls import only, until_done
from coterie.client.admin.group_explanation import GroupExplanation, group_explanation
from coterie.client.admin.older import BROKER_RESOURCE
from coterie.client.admin.results import (
    consumer_group_description,
    group_description,
    group_listing,
    share_group_description,
    streams_group_description,
)
from coterie.client.admin_types import (
    ConsumerGroupDescription,
    GroupListing,
    GroupState,
    GroupType,
    MemberAssignment,
    MemberDescription,
    Node,
)
from coterie.client.connection.cluster import Cluster, Coordinator
from coterie.client.errors import KafkaError, check
from coterie.client.lint.lint import lint_group
from coterie.client.lint.rule import BROKER_SETTINGS, GROUP_SETTINGS, Advice, ObservedFacts, ProtocolSupport
from coterie.client.types import TopicPartition
from coterie.wire.errors import ErrorCode, error_of
from coterie.wire.messages.groups.consumer_group_describe import ConsumerGroupDescribeRequest
from coterie.wire.messages.groups.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from coterie.wire.messages.groups.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from coterie.wire.messages.groups.explain_group import ExplainGroupRequest, ExplainGroupResponse
from coterie.wire.messages.groups.join_group import JoinGroupRequest
from coterie.wire.messages.groups.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from coterie.wire.messages.groups.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from coterie.wire.messages.settings.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from coterie.wire.messages.share.share_group_describe import ShareGroupDescribeRequest
from coterie.wire.messages.streams.streams_group_describe import StreamsGroupDescribeRequest

_STATES_FROM = 4  # the version of ListGroups that has states (KIP-518)
_DESCRIPTIONS: Mapping[type[Any], Callable[[Any, Node], ConsumerGroupDescription]] = {
    ConsumerGroupDescribeRequest: consumer_group_description,
    ShareGroupDescribeRequest: share_group_description,
    StreamsGroupDescribeRequest: streams_group_description,
}
GROUP_RESOURCE = 32
GROUP_VERSION = "group.version"


async def list_groups(
    cluster: Cluster, wanted: frozenset[str], errors: dict[Node, KafkaError] | None
) -> list[GroupListing]:
    """Those in one of the states ``wanted``; empty for all. Raises KafkaError; ``errors`` receives that of a broker."""
    of_brokers = await of_each_broker(cluster, lambda node: _groups_of(cluster, wanted, node), errors)
    listed = [g for groups in of_brokers.values() for g in groups if not wanted or g.group_state in wanted]
    return [group_listing(g) for g in sorted(listed, key=lambda g: g.group_id)]


async def _groups_of(cluster: Cluster, wanted: frozenset[str], node: int) -> list[ListedGroup]:
    connection = await cluster.connection(node)
    response: ListGroupsResponse = await cluster.request(ListGroupsRequest(sorted(wanted)), node)
    check(response.error_code, subject=f"broker {node}")
    if connection.version_of(ListGroupsRequest) < _STATES_FROM:
        return await admin_older.with_states(cluster, node, response.groups)
    return response.groups


async def describe_group(cluster: Cluster, group_id: str) -> ConsumerGroupDescription:
    """Raises KafkaError."""
    node = await Coordinator(cluster, group_id).node()
    host, port = cluster.address(node) or ("", -1)
    coordinator = Node(node, host, port)
    response: DescribeGroupsResponse = await cluster.request(DescribeGroupsRequest([group_id]), node)
    group = only(response.groups, f"group {group_id}")
    missing = group.error_code == ErrorCode.GROUP_ID_NOT_FOUND or group.group_state == GroupState.DEAD
    if missing:
        connection = await cluster.connection(node)
        for request, description in _DESCRIPTIONS.items():
            if not connection.serves(request):
                continue
            of_kind = await cluster.request(request([group_id]), node)
            described = only(of_kind.groups, f"group {group_id}")
            if not described.error_code:
                return await _existing(cluster, description(described, coordinator))
            if error_of(described.error_code).retriable:  # whether there is such a group is unknown
                check(described.error_code, described.error_message)
    check(group.error_code, group.error_message)
    return group_description(group, coordinator)


async def _existing(cluster: Cluster, group: ConsumerGroupDescription) -> ConsumerGroupDescription:
    """A streams group without the partitions that a task has of none of its inputs: a subtopology has as many tasks as the
    largest of its topics has partitions."""
    if group.type is not GroupType.STREAMS:
        return group
    topics = await cluster.topics({tp.topic for m in group.members for tp in _every_partition(m)})

    def existing(assignment: MemberAssignment) -> MemberAssignment:
        return MemberAssignment(
            frozenset(
                tp
                for tp in assignment.topic_partitions
                if (info := topics.get(tp.topic)) is None or tp.partition in info.leaders
            )
        )

    members = tuple(
        replace(
            m,
            assignment=existing(m.assignment),
            target_assignment=existing(m.target_assignment or MemberAssignment()),
        )
        for m in group.members
    )
    return replace(group, members=members)


def _every_partition(member: MemberDescription) -> frozenset[TopicPartition]:
    target = member.target_assignment or MemberAssignment()
    return member.assignment.topic_partitions | target.topic_partitions


async def explain_group(cluster: Cluster, group_id: str) -> GroupExplanation:
    """Raises KafkaError."""
    node = await Coordinator(cluster, group_id).node()
    response = await cluster.request_unadvertised(ExplainGroupRequest(group_id), ExplainGroupResponse, node)
    check(response.error_code, subject=f"group {group_id}")
    try:
        return group_explanation(response.document)
    except (ValueError, RecursionError) as error:
        text = f"the broker's explanation of {group_id} cannot be read: {error}"
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, text) from error


async def linted(cluster: Cluster, group: ConsumerGroupDescription, facts: ObservedFacts | None = None) -> list[Advice]:
    """As `Admin.lint_group`. Raises KafkaError."""
    explanation: GroupExplanation | None = None
    with contextlib.suppress(KafkaError):  # only coterie reports which other assignors a member lists
        explanation = await until_done(cluster, lambda: explain_group(cluster, group.group_id))
    listed = None if explanation is None else {m.member_id: m.assignors for m in explanation.members}
    support = await protocol_support(cluster, group, explanation)
    support = support if facts is None else replace(support, facts=facts)
    connection = await cluster.connection(group.coordinator.id)
    return lint_group(group, listed, connection.version_of(JoinGroupRequest), support)


def offset_delete_request(group_id: str, partitions: Iterable[TopicPartition]) -> OffsetDeleteRequest:
    """One request for all."""
    topics: dict[str, OffsetDeleteRequestTopic] = {}
    for topic, partition in partitions:
        entry = topics.setdefault(topic, OffsetDeleteRequestTopic(topic))
        entry.partitions.append(OffsetDeleteRequestPartition(partition))
    return OffsetDeleteRequest(group_id, list(topics.values()))


def check_deleted(group_id: str, response: OffsetDeleteResponse) -> None:
    """Raises KafkaError for the group, or the first partition with an error."""
    check(response.error_code, subject=f"group {group_id}")
    for topic in response.topics:
        for partition in topic.partitions:
            check(partition.error_code, subject=f"{topic.name}-{partition.partition_index}")


async def protocol_support(
    cluster: Cluster, group: ConsumerGroupDescription, explanation: GroupExplanation | None
) -> ProtocolSupport:
    """What the group's coordinator supports. Settings that may not be read are left out. Raises KafkaError."""
    node = group.coordinator.id
    connection = await cluster.connection(node)
    assert connection.versions is not None
    features = connection.versions.features
    serves = connection.serves(ConsumerGroupHeartbeatRequest)
    members = () if explanation is None else explanation.members
    return ProtocolSupport(
        serves,
        features.get(GROUP_VERSION, 0) if features else None,
        await _settings(cluster, node, BROKER_RESOURCE, str(node), BROKER_SETTINGS),
        await _settings(cluster, node, GROUP_RESOURCE, group.group_id, GROUP_SETTINGS) if serves else {},
        {m.member_id: m.client_software for m in members if m.client_software is not None},
        {m.member_id: m.session_timeout_ms for m in members if m.session_timeout_ms is not None},
        {m.member_id: m.assignors for m in members},
    )


async def _settings(cluster: Cluster, node: int, kind: int, name: str, names: tuple[str, ...]) -> dict[str, str]:
    """The values of these settings; empty where they may not be described."""
    request = DescribeConfigsRequest([DescribeConfigsResource(kind, name, list(names))])
    with contextlib.suppress(KafkaError):
        response: DescribeConfigsResponse = await cluster.request(request, node)
        for result in response.results:
            check(result.error_code, result.error_message)
            return {c.name: c.value for c in result.configs if c.value is not None}
    return {}
