"""What a broker reports about the consumer protocol (KIP-848): its APIs, features and settings, for `protocol_lint`."""

from __future__ import annotations

import contextlib

from coterie.client.admin.group_explanation import GroupExplanation
from coterie.client.admin.older import BROKER_RESOURCE
from coterie.client.admin_types import ConsumerGroupDescription
from coterie.client.connection.cluster import Cluster
from coterie.client.errors import KafkaError, check
from coterie.client.lint.rule import BROKER_SETTINGS, GROUP_SETTINGS, ProtocolSupport
from coterie.wire.messages.groups.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from coterie.wire.messages.settings.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)

GROUP_RESOURCE = 32
GROUP_VERSION = "group.version"


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
