"""The admin's requests where a broker is older than the request of today: the same result by what that broker serves.

Each function names the first Apache Kafka that does not need it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from coterie.client.admin_types import ConsumerGroupDescription
from coterie.client.connection.cluster import Cluster
from coterie.client.errors import KafkaError, check
from coterie.wire.errors import ErrorCode, error_of
from coterie.wire.messages.brokers.describe_cluster import DescribeClusterBroker, DescribeClusterResponse
from coterie.wire.messages.groups.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from coterie.wire.messages.groups.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)
from coterie.wire.messages.groups.list_groups import ListedGroup
from coterie.wire.messages.settings.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResponse,
    ReplacedResource,
    ReplacedResourceResponse,
    ReplacingConfig,
)
from coterie.wire.messages.settings.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from coterie.wire.messages.topics.create_topics import CreatableTopic, CreateTopicsRequest
from coterie.wire.messages.topics.metadata import MetadataRequest, MetadataResponse

TOPIC_RESOURCE, BROKER_RESOURCE = 2, 4
BATCHES_FROM = 3  # the version of LeaveGroup that takes several members (KIP-345)
SOURCES_FROM = 1  # the version of DescribeConfigs that has the source of a value (KIP-226)
OF_TOPIC = 1  # such a source: the topic itself
NO_CLUSTER_ID = ""


async def describe_cluster(cluster: Cluster) -> DescribeClusterResponse:
    """The brokers as Metadata names them (DescribeCluster: Kafka 2.8). Raises KafkaError."""
    response: MetadataResponse = await cluster.request(MetadataRequest([]))
    brokers = [DescribeClusterBroker(b.node_id, b.host, b.port, b.rack) for b in response.brokers]
    return DescribeClusterResponse(
        cluster_id=response.cluster_id or NO_CLUSTER_ID,
        controller_id=response.controller_id,
        brokers=brokers,
        cluster_authorized_operations=response.cluster_authorized_operations,
    )


async def with_broker_defaults(cluster: Cluster, topics: Sequence[CreatableTopic]) -> list[CreatableTopic]:
    """The topics with -1 partitions or replicas replaced by the broker's own settings (CreateTopics version 4: Kafka 2.4).
    Raises KafkaError."""
    connection = await cluster.any_connection()
    is_complete = all(t.assignments or (t.num_partitions >= 0 and t.replication_factor >= 0) for t in topics)
    if is_complete or connection.version_of(CreateTopicsRequest) >= 4:
        return list(topics)
    await cluster.refresh([])
    node = cluster.node_ids()[0]
    names = ["num.partitions", "default.replication.factor"]
    request = DescribeConfigsRequest([DescribeConfigsResource(BROKER_RESOURCE, str(node), names)])
    response: DescribeConfigsResponse = await cluster.request(request, node)
    (result,) = response.results
    check(result.error_code, result.error_message)
    values = {c.name: int(c.value) for c in result.configs if c.value}
    partitions, replicas = (values.get(name, 1) for name in names)
    return [
        t
        if t.assignments
        else replace(
            t,
            num_partitions=partitions if t.num_partitions < 0 else t.num_partitions,
            replication_factor=replicas if t.replication_factor < 0 else t.replication_factor,
        )
        for t in topics
    ]


async def replace_topic_configs(
    cluster: Cluster, changes: Mapping[str, Mapping[str, str | None]]
) -> AlterConfigsResponse:
    """Topic -> setting -> value, None for the default: single settings changed by writing all of a topic's own again
    (IncrementalAlterConfigs: Kafka 2.3). What somebody else changes between reading and writing is lost. Raises KafkaError.
    """
    connection = await cluster.any_connection()
    has_sources = connection.version_of(DescribeConfigsRequest) >= SOURCES_FROM
    request = DescribeConfigsRequest([DescribeConfigsResource(TOPIC_RESOURCE, name, None) for name in changes])
    described: DescribeConfigsResponse = await cluster.request(request)
    resources: list[ReplacedResource] = []
    refused: list[ReplacedResourceResponse] = []
    for result in described.results:
        name = result.resource_name
        if result.error_code:
            refused.append(ReplacedResourceResponse(result.error_code, result.error_message, TOPIC_RESOURCE, name))
            continue
        own = {
            c.name: c.value
            for c in result.configs
            if (c.config_source == OF_TOPIC if has_sources else not c.is_default)
        }
        kept = {k: v for k, v in {**own, **changes[name]}.items() if v is not None}
        resources.append(ReplacedResource(TOPIC_RESOURCE, name, [ReplacingConfig(k, v) for k, v in kept.items()]))
    response: AlterConfigsResponse = await cluster.request(AlterConfigsRequest(resources))
    return replace(response, responses=[*response.responses, *refused])


async def with_states(cluster: Cluster, node: int, groups: Sequence[ListedGroup]) -> list[ListedGroup]:
    """The groups of one broker with their states, which ListGroups does not tell before version 4 (Kafka 2.6). Raises
    KafkaError."""
    if not groups:
        return []
    request = DescribeGroupsRequest([g.group_id for g in groups])
    response: DescribeGroupsResponse = await cluster.request(request, node)
    states = {g.group_id: g.group_state for g in response.groups}
    return [replace(g, group_state=states[g.group_id]) for g in groups]


async def remove_members(
    cluster: Cluster, group: ConsumerGroupDescription, members: Sequence[str], reason: str | None
) -> dict[str, ErrorCode]:
    """By group.instance.id or by member id; a code for each. Raises KafkaError."""
    node, static = group.coordinator.id, {m.group_instance_id for m in group.members if m.group_instance_id}
    identities = [MemberIdentity("", m, reason) if m in static else MemberIdentity(m, None, reason) for m in members]
    response: LeaveGroupResponse
    if (await cluster.connection(node)).version_of(LeaveGroupRequest) < BATCHES_FROM:
        response = await _leave_one_by_one(cluster, node, group.group_id, identities)
    else:
        response = await cluster.request(LeaveGroupRequest(group.group_id, "", identities), node)
    check(response.error_code, subject=group.group_id)
    if len(response.members) != len(members):
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"the broker's response does not name each of {members}")
    return {m: error_of(r.error_code) for m, r in zip(members, response.members, strict=True)}


async def _leave_one_by_one(
    cluster: Cluster, node: int, group_id: str, members: Iterable[MemberIdentity]
) -> LeaveGroupResponse:
    """Removes members by member id, one request each (LeaveGroup version 3: Kafka 2.4). Raises KafkaError."""
    responses = []
    for member in members:
        response: LeaveGroupResponse = await cluster.request(LeaveGroupRequest(group_id, member.member_id), node)
        responses.append(MemberResponse(member.member_id, None, response.error_code))
    return LeaveGroupResponse(members=responses)
