"""What is shown to a client without the right to see all: lists are filtered, operations named, names hidden (KafkaApis).
Authorized operations: named only where the request asks for them, and then all, as Kafka without an authorizer."""

from __future__ import annotations

import pytest

from coterie.authorizer.acls import CLUSTER_NAME, AclOperation, AclResourceType, PatternType
from coterie.coordinator.consumer.state import ConsumerGroup
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.brokers.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from coterie.wire.messages.groups.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from coterie.wire.messages.groups.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from coterie.wire.messages.groups.list_groups import ListGroupsRequest
from coterie.wire.messages.groups.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from coterie.wire.messages.groups.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from coterie.wire.messages.logs.fetch import FetchPartition, FetchRequest, FetchTopic
from coterie.wire.messages.topics.create_topics import CreatableTopic, CreateTopicsRequest
from coterie.wire.messages.topics.delete_topics import DeleteTopicsRequest, DeleteTopicState
from coterie.wire.messages.topics.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from coterie.wire.messages.transactions.init_producer_id import InitProducerIdRequest
from tests.broker.access.restricted_broker import RestrictedBroker
from tests.broker.connections.test_server import broker, make_topic

_O = AclOperation
TOPIC, GROUP, CLUSTER = AclResourceType.TOPIC, AclResourceType.GROUP, AclResourceType.CLUSTER
DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
CLUSTER_BITS, TOPIC_BITS, GROUP_BITS, NOT_ASKED = (
    8096,
    3576,
    3400,
    -(2**31),
)  # Apache Kafka 4.3.0; 3.9.1 gives groups 328


def commit(broker: RestrictedBroker, group: str, *topics: str) -> None:
    rows = [OffsetCommitRequestTopic(name, partitions=[OffsetCommitRequestPartition(0, 1)]) for name in topics]
    broker.ask("admin", OffsetCommitRequest(group, topics=rows), 2)


def test_metadata_of_all_topics_has_those_that_may_be_described() -> None:
    broker = RestrictedBroker()
    assert broker.ask("alice", MetadataRequest(None), 12).topics == []
    broker.allow("alice", _O.WRITE, TOPIC, "u")  # which implies DESCRIBE
    assert [topic.name for topic in broker.ask("alice", MetadataRequest(None), 12).topics] == ["u"]
    assert [topic.name for topic in broker.ask("alice", MetadataRequest([]), 0).topics] == ["u"]


def test_metadata_by_id_hides_the_name() -> None:
    broker = RestrictedBroker()
    topic_id = broker.topics.by_name["t"].topic_id
    (topic,) = broker.ask("alice", MetadataRequest([MetadataRequestTopic(topic_id)]), 12).topics
    assert (topic.error_code, topic.name, topic.topic_id) == (DENIED, None, topic_id)
    (topic,) = broker.ask("alice", MetadataRequest([MetadataRequestTopic(name="t")]), 0).topics
    assert (topic.error_code, topic.name, topic.partitions) == (DENIED, "t", [])


def test_metadata_creates_what_may_be_created() -> None:
    broker = RestrictedBroker()
    broker.allow("alice", _O.DESCRIBE, TOPIC, "new", pattern=PatternType.PREFIXED)
    request = MetadataRequest([MetadataRequestTopic(name="new1"), MetadataRequestTopic(name="new2")])
    broker.allow("alice", _O.CREATE, TOPIC, "new2")
    codes = {topic.name: topic.error_code for topic in broker.ask("alice", request, 8).topics}
    assert codes == {"new1": DENIED, "new2": ErrorCode.NONE}
    assert "new2" in broker.topics.by_name
    assert "new1" not in broker.topics.by_name


def test_operations_are_the_allowed_ones() -> None:
    broker = RestrictedBroker()
    request = MetadataRequest([MetadataRequestTopic(name="t")], False, True, True)
    broker.allow("alice", _O.READ, TOPIC, "t")
    response = broker.ask("alice", request, 10)
    assert response.topics[0].topic_authorized_operations == 1 << _O.READ | 1 << _O.DESCRIBE
    assert response.cluster_authorized_operations == 0
    broker.allow("alice", _O.DESCRIBE, CLUSTER, CLUSTER_NAME)
    assert broker.ask("alice", request, 10).cluster_authorized_operations == 1 << _O.DESCRIBE
    described = broker.ask("alice", DescribeClusterRequest(True), 0)
    assert described.cluster_authorized_operations == 1 << _O.DESCRIBE
    broker.allow("alice", _O.DELETE, GROUP, "g")
    (group,) = broker.ask("alice", DescribeGroupsRequest(["g"], True), 5).groups
    assert group.authorized_operations == 1 << _O.DELETE | 1 << _O.DESCRIBE


def test_groups_are_listed_that_may_be_described_and_all_by_who_may_describe_the_cluster() -> None:
    broker = RestrictedBroker()
    for group in ("g", "h"):
        commit(broker, group, "t")
    assert broker.ask("alice", ListGroupsRequest(), 4).groups == []
    broker.allow("alice", _O.READ, GROUP, "h")
    assert [group.group_id for group in broker.ask("alice", ListGroupsRequest(), 4).groups] == ["h"]
    broker.allow("alice", _O.DESCRIBE, CLUSTER, CLUSTER_NAME)
    assert {group.group_id for group in broker.ask("alice", ListGroupsRequest(), 4).groups} == {"g", "h"}


def test_offsets_of_all_topics_are_those_that_may_be_described() -> None:
    broker = RestrictedBroker()
    commit(broker, "g", "t", "u")
    broker.allow("alice", _O.DESCRIBE, GROUP, "g")
    broker.allow("alice", _O.DESCRIBE, TOPIC, "u")
    for version in (7, 9):
        request = OffsetFetchRequest("g", None, [OffsetFetchRequestGroup("g", topics=None)])
        response = broker.ask("alice", request, version)
        topics = response.groups[0].topics if version >= 8 else response.topics
        assert [topic.name for topic in topics] == ["u"]
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(name, topics=None) for name in ("h", "g")])
    codes = [(group.group_id, group.error_code) for group in broker.ask("alice", request, 9).groups]
    assert codes == [("h", ErrorCode.GROUP_AUTHORIZATION_FAILED), ("g", ErrorCode.NONE)]


def test_a_fetch_session_loses_a_topic_that_is_denied_meanwhile() -> None:
    broker = RestrictedBroker()
    allowed = broker.allow("alice", _O.READ, TOPIC, "t")
    topics = [FetchTopic("t", partitions=[FetchPartition(0, fetch_offset=0, partition_max_bytes=1_000)])]
    first = broker.ask("alice", FetchRequest(session_epoch=0, topics=topics, max_bytes=1_000), 12)
    assert [p.error_code for t in first.responses for p in t.partitions] == [ErrorCode.NONE]
    broker.acls.alter(removed=[allowed])
    again = FetchRequest(session_id=first.session_id, session_epoch=1, max_bytes=1_000)
    denied = broker.ask("alice", again, 12)
    assert [p.error_code for t in denied.responses for p in t.partitions] == [DENIED]


def test_created_topics_show_their_settings_to_who_may_describe_them() -> None:
    broker = RestrictedBroker()
    broker.allow("alice", _O.CREATE, CLUSTER, CLUSTER_NAME)
    (topic,) = broker.ask("alice", CreateTopicsRequest([CreatableTopic("new", 1, 1)]), 7).topics
    assert (topic.error_code, topic.topic_config_error_code) == (ErrorCode.NONE, DENIED)
    assert (topic.num_partitions, topic.replication_factor, topic.configs) == (-1, -1, [])


def test_a_deletion_by_id_hides_the_name_of_what_may_not_be_described() -> None:
    broker = RestrictedBroker()
    topic_id = broker.topics.by_name["t"].topic_id
    request = DeleteTopicsRequest([DeleteTopicState(None, topic_id)])
    (hidden,) = broker.ask("alice", request, 6).responses
    assert (hidden.name, hidden.error_code) == (None, DENIED)
    broker.allow("alice", _O.DESCRIBE, TOPIC, "t")
    (shown,) = broker.ask("alice", DeleteTopicsRequest([DeleteTopicState(None, topic_id)]), 6).responses
    assert (shown.name, shown.error_code) == ("t", DENIED)
    assert "t" in broker.topics.by_name


def test_an_idempotent_producer_needs_a_topic_that_it_may_write() -> None:
    broker = RestrictedBroker()
    request = InitProducerIdRequest(None, 60_000)
    assert broker.ask("alice", request, 4).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    acl = broker.allow("alice", _O.WRITE, TOPIC, "anything")
    assert broker.ask("alice", request, 4).error_code == ErrorCode.NONE
    broker.acls.alter(removed=[acl])
    broker.allow("alice", _O.IDEMPOTENT_WRITE, CLUSTER, CLUSTER_NAME)
    assert broker.ask("alice", request, 4).error_code == ErrorCode.NONE


def test_a_regular_expression_matches_what_its_member_may_describe() -> None:
    """testCreateTopicAuthorizationWithClusterCreate,
    testCreateTopicsResponseMetadataAndConfig.

    testCreatePermissionMetadataRequestAutoCreate.

    testOffsetFetchAllTopicPartitionsAuthorization, testOffsetFetchMultipleGroupsAuthorization.

    testListGroupApiWithAndWithoutListGroupAcls.

    testMetadataClusterAuthorizedOperationsWithoutDescribeCluster,
    testMetadataClusterAuthorizedOperationsWithDescribeAndAlterCluster,
    testDescribeClusterClusterAuthorizedOperationsWithoutDescribeCluster,
    testDescribeClusterClusterAuthorizedOperationsWithDescribeAndAlterCluster."""
    broker = RestrictedBroker()
    broker.allow("alice", _O.READ, GROUP, "g")
    broker.allow("alice", _O.DESCRIBE, TOPIC, "u")
    request = ConsumerGroupHeartbeatRequest(
        "g", "m", 0, rebalance_timeout_ms=60_000, subscribed_topic_regex=".*", topic_partitions=[]
    )
    assert broker.ask("alice", request, 1).error_code == ErrorCode.NONE
    broker.world.run_until(broker.world.now_ms + 1_000)
    group = broker.groups.group("g")
    assert isinstance(group, ConsumerGroup)
    assert [resolved.topics for resolved in group.regexes.values()] == [frozenset({"u"})]


@pytest.mark.parametrize("version", range(8, 14))
async def test_metadata_names_what_may_be_done_with_cluster_and_topics(version: int) -> None:
    async with broker() as connect:
        client = await connect()
        await make_topic(client, "t", 1)
        topics = [MetadataRequestTopic(name="t"), MetadataRequestTopic(name="nobody-made-this")]
        for requested in (False, True):
            request = MetadataRequest(topics, False, requested, requested)
            response = await client.ask(request, MetadataResponse, version)
            in_cluster = CLUSTER_BITS if requested and version <= 10 else NOT_ASKED
            assert response.cluster_authorized_operations == in_cluster
            operations = {t.name: t.topic_authorized_operations for t in response.topics}
            # Kafka names them for a topic that does not exist as well.
            assert set(operations.values()) == {TOPIC_BITS if requested else NOT_ASKED}


@pytest.mark.parametrize("version", range(3, 7))
async def test_describe_groups_names_what_may_be_done_with_a_group(version: int) -> None:
    async with broker() as connect:
        client = await connect()
        for requested in (False, True):
            request = DescribeGroupsRequest(["nobody-made-this"], requested)
            (group,) = (await client.ask(request, DescribeGroupsResponse, version)).groups
            failed = version >= 6
            assert group.error_code == (ErrorCode.GROUP_ID_NOT_FOUND if failed else ErrorCode.NONE)
            assert group.authorized_operations == (GROUP_BITS if requested and not failed else NOT_ASKED)


@pytest.mark.parametrize("version", range(3))
async def test_describe_cluster_names_what_may_be_done_with_the_cluster(version: int) -> None:
    async with broker() as connect:
        client = await connect()
        for requested in (False, True):
            response = await client.ask(DescribeClusterRequest(requested), DescribeClusterResponse, version)
            assert response.cluster_authorized_operations == (CLUSTER_BITS if requested else NOT_ASKED)


@pytest.mark.parametrize(
    ("endpoint", "code"), [(2, ErrorCode.MISMATCHED_ENDPOINT_TYPE), (5, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE)]
)
async def test_a_broker_is_no_other_kind_of_endpoint(endpoint: int, code: ErrorCode) -> None:
    async with broker() as connect:
        request = DescribeClusterRequest(True, endpoint)
        response = await (await connect()).ask(request, DescribeClusterResponse, 1)
        assert (response.error_code, response.brokers, response.controller_id) == (code, [], -1)
        assert (response.cluster_authorized_operations, response.cluster_id) == (NOT_ASKED, "")
