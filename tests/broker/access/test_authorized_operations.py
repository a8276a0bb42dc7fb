"""Authorized operations: named only where the request asks for them, and then all, as Kafka without an authorizer."""

from __future__ import annotations

import pytest

from coterie.wire.errors import ErrorCode
from coterie.wire.messages.brokers.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from coterie.wire.messages.groups.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from coterie.wire.messages.topics.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tests.broker.connections.test_server import broker, make_topic

CLUSTER, TOPIC, GROUP, NOT_ASKED = 8096, 3576, 3400, -(2**31)  # Apache Kafka 4.3.0; 3.9.1 gives groups 328


@pytest.mark.parametrize("version", range(8, 14))
async def test_metadata_names_what_may_be_done_with_cluster_and_topics(version: int) -> None:
    async with broker() as connect:
        client = await connect()
        await make_topic(client, "t", 1)
        topics = [MetadataRequestTopic(name="t"), MetadataRequestTopic(name="nobody-made-this")]
        for requested in (False, True):
            request = MetadataRequest(topics, False, requested, requested)
            response = await client.ask(request, MetadataResponse, version)
            in_cluster = CLUSTER if requested and version <= 10 else NOT_ASKED
            assert response.cluster_authorized_operations == in_cluster
            operations = {t.name: t.topic_authorized_operations for t in response.topics}
            # Kafka names them for a topic that does not exist as well.
            assert set(operations.values()) == {TOPIC if requested else NOT_ASKED}


@pytest.mark.parametrize("version", range(3, 7))
async def test_describe_groups_names_what_may_be_done_with_a_group(version: int) -> None:
    async with broker() as connect:
        client = await connect()
        for requested in (False, True):
            request = DescribeGroupsRequest(["nobody-made-this"], requested)
            (group,) = (await client.ask(request, DescribeGroupsResponse, version)).groups
            failed = version >= 6
            assert group.error_code == (ErrorCode.GROUP_ID_NOT_FOUND if failed else ErrorCode.NONE)
            assert group.authorized_operations == (GROUP if requested and not failed else NOT_ASKED)


@pytest.mark.parametrize("version", range(3))
async def test_describe_cluster_names_what_may_be_done_with_the_cluster(version: int) -> None:
    async with broker() as connect:
        client = await connect()
        for requested in (False, True):
            response = await client.ask(DescribeClusterRequest(requested), DescribeClusterResponse, version)
            assert response.cluster_authorized_operations == (CLUSTER if requested else NOT_ASKED)


@pytest.mark.parametrize(
    ("endpoint", "code"), [(2, ErrorCode.MISMATCHED_ENDPOINT_TYPE), (5, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE)]
)
async def test_a_broker_is_no_other_kind_of_endpoint(endpoint: int, code: ErrorCode) -> None:
    async with broker() as connect:
        request = DescribeClusterRequest(True, endpoint)
        response = await (await connect()).ask(request, DescribeClusterResponse, 1)
        assert (response.error_code, response.brokers, response.controller_id) == (code, [], -1)
        assert (response.cluster_authorized_operations, response.cluster_id) == (NOT_ASKED, "")
