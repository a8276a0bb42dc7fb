"""Groups of the consumer protocol over the wire. Names are those of ConsumerGroupHeartbeatRequestTest,
ConsumerGroupDescribeRequestTest and ConsumerProtocolMigrationTest of Apache Kafka 4.3.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from coterie.assignors.blobs import encode_subscription
from coterie.broker.broker import Broker
from coterie.broker.groups.explanation import explained
from coterie.broker.settings import BrokerSettings, SettingError
from coterie.broker.web.metrics import GroupMetrics
from coterie.client import KafkaError
from coterie.client.blocking import BlockingAdmin
from coterie.client.connection.blocking_socket import BrokerSocket
from coterie.testing import LocalBroker
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.groups.consumer_group_describe import ConsumerGroupDescribeRequest, DescribedGroup
from coterie.wire.messages.groups.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from coterie.wire.messages.groups.delete_groups import DeleteGroupsRequest
from coterie.wire.messages.groups.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from coterie.wire.messages.groups.leave_group import LeaveGroupRequest, MemberIdentity
from coterie.wire.messages.groups.list_groups import ListGroupsRequest
from coterie.wire.messages.groups.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from coterie.wire.messages.groups.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from coterie.wire.messages.groups.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from coterie.wire.messages.settings.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from coterie.wire.messages.settings.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from coterie.wire.messages.stored.consumer_protocol import ConsumerProtocolAssignment
from coterie.wire.messages.stored.consumer_protocol import TopicPartitions as AssignedPartitions
from coterie.wire.messages.topics.create_topics import CreatableTopic, CreateTopicsRequest

GROUP_RESOURCE = 32
AT_ONCE = {"group.consumer.assignment.interval.ms": "0"}
QUICK = AT_ONCE | {
    "group.consumer.heartbeat.interval.ms": "5000",  # Kafka's
    "group.consumer.min.session.timeout.ms": "1",
    "group.consumer.min.heartbeat.interval.ms": "1",
}


@pytest.fixture
def local() -> Iterator[LocalBroker]:
    with LocalBroker(QUICK) as broker:
        broker.create_topic("orders", 3)
        yield broker


@pytest.fixture
def socket(local: LocalBroker) -> Iterator[BrokerSocket]:
    connection = BrokerSocket(local.host, local.port)
    yield connection
    connection.close()


def heartbeat(socket: BrokerSocket, member_id: str, epoch: int, version: int = 1, **fields: Any) -> Any:
    request = ConsumerGroupHeartbeatRequest("g", member_id, epoch, **fields)
    return socket.request(request, highest=version)


def join(socket: BrokerSocket, member_id: str, **fields: Any) -> Any:
    given: dict[str, Any] = {
        "rebalance_timeout_ms": 60_000,
        "topic_partitions": [],
        "subscribed_topic_names": ["orders"],
    }
    return heartbeat(socket, member_id, 0, **given | fields)


def owned(response: Any) -> list[int]:
    return sorted(p for t in response.assignment.topic_partitions for p in t.partitions)


def describe(socket: BrokerSocket, group_id: str = "g") -> DescribedGroup:
    (group,) = socket.request(ConsumerGroupDescribeRequest([group_id], True)).groups
    assert isinstance(group, DescribedGroup)
    return group


def commit(socket: BrokerSocket, member_id: str, epoch: int, version: int = 9) -> int:
    partitions = [OffsetCommitRequestPartition(0, 5, committed_metadata="")]
    topics = [OffsetCommitRequestTopic("orders", partitions=partitions)]
    response = socket.request(OffsetCommitRequest("g", epoch, member_id, topics=topics), highest=version)
    return int(response.topics[0].partitions[0].error_code)


def fetch(socket: BrokerSocket, member_id: str | None, epoch: int) -> tuple[int, int]:
    topics = [OffsetFetchRequestTopics("orders", partition_indexes=[0])]
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup("g", member_id, epoch, topics)])
    (group,) = socket.request(request, highest=9).groups
    return group.error_code, -1 if group.error_code else group.topics[0].partitions[0].committed_offset


def test_a_partition_moves_once_its_owner_has_released_it(local: LocalBroker, socket: BrokerSocket) -> None:
    """testConsumerGroupHeartbeatRebalance, testConsumerGroupHeartbeatIsAccessibleWhenNewGroupCoordinatorIsEnabled"""
    topic = local.broker.topics.by_name["orders"].topic_id
    first = join(socket, "a")
    assert (first.error_code, first.member_epoch, first.heartbeat_interval_ms) == (0, 2, 5_000)
    assert owned(first) == [0, 1, 2]
    second = join(socket, "b")
    assert (second.member_epoch, owned(second)) == (3, [])
    revoked = heartbeat(socket, "a", 2)
    assert (revoked.member_epoch, len(owned(revoked))) == (2, 2)
    assert heartbeat(socket, "b", 3).assignment is None
    released = heartbeat(socket, "a", 2, topic_partitions=[TopicPartitions(topic, owned(revoked))])
    assert released.member_epoch == 3
    given = heartbeat(socket, "b", 3)
    assert sorted(owned(revoked) + owned(given)) == [0, 1, 2]
    assert describe(socket).group_state == "Stable"


def test_a_group_described(local: LocalBroker, socket: BrokerSocket) -> None:
    """testConsumerGroupDescribeWithNewGroupCoordinator, testConsumerGroupDescribeIncludesPartitionsPendingRevocation"""
    join(socket, "a", instance_id="i1", rack_id="r1")
    join(socket, "b")
    heartbeat(socket, "a", 2)
    group = describe(socket)
    assert (group.error_code, group.group_state, group.group_epoch, group.assignment_epoch) == (0, "Reconciling", 3, 3)
    assert group.assignor_name == "uniform"
    assert group.authorized_operations > 0
    a, b = sorted(group.members, key=lambda m: m.member_id)
    assert (a.instance_id, a.rack_id, a.client_id, a.client_host) == ("i1", "r1", "coterie", "/127.0.0.1")
    assert (a.member_epoch, a.subscribed_topic_names, a.member_type) == (2, ["orders"], 1)
    assert [(t.topic_name, sorted(t.partitions)) for t in a.assignment.topic_partitions] == [("orders", [0, 1, 2])]
    assert [len(t.partitions) for t in a.target_assignment.topic_partitions] == [2]
    assert b.assignment.topic_partitions == []
    assert [(g.group_id, g.protocol_type, g.group_state, g.group_type) for g in listed(socket)] == [
        ("g", "consumer", "Reconciling", "consumer")
    ]
    assert listed(socket, types_filter=["classic"]) == []
    assert "waits for a to release" in local.explain("g") or "has not released" in local.explain("g")


def listed(socket: BrokerSocket, **filters: list[str]) -> list[Any]:
    groups: list[Any] = socket.request(ListGroupsRequest(**filters)).groups
    return groups


@pytest.mark.parametrize(
    ("filters", "is_listed"),
    [
        ({"states_filter": ["stable"]}, True),
        ({"states_filter": ["STABLE", "dead"]}, True),
        ({"states_filter": ["empty"]}, False),
        ({"types_filter": ["Consumer"]}, True),
        ({"types_filter": ["Invalid"]}, False),
    ],
)
def test_filters_of_listed_groups(socket: BrokerSocket, filters: dict[str, list[str]], is_listed: bool) -> None:
    """testIsInStatesCaseInsensitive, testGroupTypeFromString"""
    join(socket, "a")
    assert [group.group_id for group in listed(socket, **filters)] == ["g"] * is_listed


def test_what_is_no_consumer_group(socket: BrokerSocket) -> None:
    missing = describe(socket, "missing")
    assert (missing.error_code, missing.error_message) == (69, "Group missing not found.")
    nameless = describe(socket, "")
    assert (nameless.error_code, nameless.error_message) == (ErrorCode.INVALID_GROUP_ID, None)
    assert socket.request(ConsumerGroupDescribeRequest([])).groups == []


def test_commits_and_fetches_have_the_member_epoch(socket: BrokerSocket) -> None:
    """testConsumerGroupOffsetFetchWithMemberIdAndEpoch, testConsumerGroupOffsetFetchWithStaleMemberEpoch,
    testConsumerGroupOffsetFetchWithUnknownMemberId, testConsumerGroupOffsetFetchFromAdminClient"""
    join(socket, "a")
    assert commit(socket, "a", 2) == 0
    assert commit(socket, "a", 3) == ErrorCode.STALE_MEMBER_EPOCH
    assert commit(socket, "b", 2) == ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(socket, "a", 2, version=8) == ErrorCode.UNSUPPORTED_VERSION
    assert fetch(socket, "a", 2) == (0, 5)
    assert fetch(socket, None, -1) == (0, 5)
    assert fetch(socket, "a", 3) == (ErrorCode.STALE_MEMBER_EPOCH, -1)
    assert fetch(socket, "b", 2) == (ErrorCode.UNKNOWN_MEMBER_ID, -1)


def test_a_session_ends(local: LocalBroker, socket: BrokerSocket) -> None:
    join(socket, "a")
    join(socket, "b")
    assert local.members("g") == {"a": "coterie", "b": "coterie"}
    local.expire("g", "b")
    assert list(local.members("g")) == ["a"]
    assert heartbeat(socket, "b", 2).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert heartbeat(socket, "a", 7).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert join(socket, "a").error_code == 0
    local.jump(45_001)
    assert local.members("g") == {}
    assert describe(socket).group_state == "Empty"
    assert [r.error_code for r in socket.request(DeleteGroupsRequest(["g"])).results] == [0]
    assert describe(socket).error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_version_0_gets_its_member_id_from_the_broker(socket: BrokerSocket) -> None:
    """testMemberIdGeneratedOnServerWhenApiVersionIs0, testConsumerGroupHeartbeatFailureIfMemberIdMissingForVersionsAbove0"""
    assert join(socket, "", version=0).member_id
    assert join(socket, "").error_code == ErrorCode.INVALID_REQUEST


def test_a_regular_expression(local: LocalBroker, socket: BrokerSocket) -> None:
    """Resolved after the heartbeat that brought it; again for a new topic."""
    local.create_topic("orders-eu", 1)
    local.create_topic("payments", 1)
    first = join(socket, "a", subscribed_topic_names=None, subscribed_topic_regex="orders.*")
    assert (first.member_epoch, owned(first)) == (1, [])
    resolved = heartbeat(socket, "a", 1)
    assert (resolved.member_epoch, owned(resolved)) == (2, [0, 0, 1, 2])
    assert describe(socket).members[0].subscribed_topic_regex == "orders.*"
    local.create_topic("orders-us", 1)
    local.jump(10_001)
    assert heartbeat(socket, "a", 2).error_code == 0  # which asks for the topics again
    again = heartbeat(socket, "a", 2)
    assert (again.member_epoch, owned(again)) == (3, [0, 0, 0, 1, 2])


@pytest.mark.parametrize("regex", ["[", "(a)\\1", "a(?=b)", "a**"])
def test_what_re2_lacks(socket: BrokerSocket, regex: str) -> None:
    """testConsumerGroupHeartbeatWithInvalidRegularExpression"""
    refused = join(socket, "a", subscribed_topic_names=None, subscribed_topic_regex=regex)
    assert refused.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert refused.error_message.startswith(f"SubscribedTopicRegex `{regex}` is not a valid regular expression: ")


def test_an_unknown_assignor(socket: BrokerSocket) -> None:
    assert join(socket, "a", server_assignor="sticky").error_code == ErrorCode.UNSUPPORTED_ASSIGNOR
    assert join(socket, "a", server_assignor="range").error_code == 0


def test_an_admin_removes_a_member(local: LocalBroker, socket: BrokerSocket) -> None:
    """A static member by its instance id."""
    join(socket, "a", instance_id="i1")
    request = LeaveGroupRequest("g", members=[MemberIdentity("", "i1")])
    assert socket.request(request, highest=5).error_code == 0
    assert local.members("g") == {}


def test_the_protocol_can_be_switched_off() -> None:
    """testConsumerGroupHeartbeatIsInaccessibleWhenDisabledByStaticConfig"""
    with LocalBroker({"group.coordinator.rebalance.protocols": "classic"}) as broker:
        connection = BrokerSocket(broker.host, broker.port)
        for refused in (join(connection, "a"), describe(connection)):
            assert (refused.error_code, refused.error_message) == (ErrorCode.UNSUPPORTED_VERSION, None)
        connection.close()


# -- settings ------------------------------------------------------------------------------------------------------------------


def alter(socket: BrokerSocket, group: str, **configs: str) -> tuple[int, str]:
    changes = [AlterableConfig(name.replace("_", "."), 0, value) for name, value in configs.items()]
    request = IncrementalAlterConfigsRequest([AlterConfigsResource(GROUP_RESOURCE, group, changes)])
    (result,) = socket.request(request).responses
    return result.error_code, result.error_message or ""


def test_a_group_has_settings_of_its_own(local: LocalBroker, socket: BrokerSocket) -> None:
    """testUpdateConsumerGroupHeartbeatConfigSuccessful"""
    join(socket, "a")
    assert alter(socket, "g", consumer_heartbeat_interval_ms="6000", consumer_session_timeout_ms="50000") == (0, "")
    assert heartbeat(socket, "a", 2).heartbeat_interval_ms == 6_000
    local.jump(45_001)
    assert list(local.members("g")) == ["a"]
    local.jump(5_000)
    assert local.members("g") == {}
    request = DescribeConfigsRequest([DescribeConfigsResource(GROUP_RESOURCE, "g")], include_documentation=True)
    (described,) = socket.request(request).results
    values = {c.name: c for c in described.configs}
    assert values["consumer.heartbeat.interval.ms"].value == "6000"
    assert values["consumer.session.timeout.ms"].config_source == 8
    assert values["consumer.assignment.interval.ms"].value == "0"
    assert "no effect" not in values["consumer.session.timeout.ms"].documentation


@pytest.mark.parametrize(
    ("configs", "text"),
    [
        ({"consumer_session_timeout_ms": "60001"}, "at most group.consumer.max.session.timeout.ms (60000)"),
        ({"consumer_heartbeat_interval_ms": "0"}, "at least group.consumer.min.heartbeat.interval.ms (1)"),
        ({"consumer_session_timeout_ms": "5000"}, "greater than consumer.heartbeat.interval.ms (5000)"),
        ({"consumer_sesion_timeout_ms": "5000"}, "consumer.session.timeout.ms"),
    ],
)
def test_group_settings_are_checked(socket: BrokerSocket, configs: dict[str, str], text: str) -> None:
    code, message = alter(socket, "g", **configs)
    assert code == ErrorCode.INVALID_CONFIG
    assert text in message


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"group.consumer.session.timeout.ms": "44999"}, "group.consumer.session.timeout.ms must be between"),
        ({"group.consumer.assignment.interval.ms": "15001"}, "group.consumer.assignment.interval.ms must be between"),
        (
            QUICK | {"group.consumer.session.timeout.ms": "5000"},
            "group.consumer.heartbeat.interval.ms must be less than group.consumer.session.timeout.ms",
        ),
        ({"group.consumer.assignors": "sticky"}, "group.consumer.assignors"),
        ({"group.consumer.assignors": ""}, "group.consumer.assignors must name at least one assignor"),
    ],
)
def test_settings_that_conflict_are_refused_at_the_start(given: dict[str, str], text: str) -> None:
    with pytest.raises(SettingError, match=text):
        BrokerSettings(given).coordinator()


def test_kafkas_class_names_are_assignors() -> None:
    package = "org.apache.kafka.coordinator.group.assignor"
    settings = BrokerSettings({"group.consumer.assignors": f"{package}.RangeAssignor,uniform"})
    assert list(settings.coordinator().consumer_group_assignors) == ["range", "uniform"]


# -- over a restart ----------------------------------------------------------------------------------------------------


async def test_a_group_and_its_settings_outlive_the_broker(tmp_path: Path) -> None:
    """The member keeps its epoch and its partitions; the group its settings, cut to bounds that the broker has since."""

    def before(connection: BrokerSocket) -> None:
        connection.request(CreateTopicsRequest([CreatableTopic("orders", 3, 1)]))
        assert join(connection, "a", instance_id="i1").member_epoch == 2
        assert commit(connection, "a", 2) == 0
        assert alter(connection, "g", consumer_heartbeat_interval_ms="9000") == (0, "")

    def after(connection: BrokerSocket) -> None:
        group = describe(connection)
        assert (group.group_state, group.group_epoch, group.members[0].member_epoch) == ("Stable", 2, 2)
        response = heartbeat(connection, "a", 2, instance_id="i1")
        assert (response.error_code, response.member_epoch, response.heartbeat_interval_ms) == (0, 2, 8_000)
        assert fetch(connection, "a", 2) == (0, 5)

    for given, story in (({}, before), ({"group.consumer.max.heartbeat.interval.ms": "8000"}, after)):
        broker = Broker(BrokerSettings(QUICK | given), tmp_path)
        address = await broker.start("127.0.0.1", 0)
        await broker.groups.loaded()
        connection = await asyncio.to_thread(BrokerSocket, *address)
        try:
            await asyncio.to_thread(story, connection)
        finally:
            connection.close()
            await broker.stop()


def test_a_broker_in_memory_has_the_settings() -> None:
    assert Broker(BrokerSettings({"group.consumer.max.size": "1"})).settings.coordinator().group_consumer_max_size == 1


# -- classic members ----------------------------------------------------------------------------------------------------


def classic_join(socket: BrokerSocket, member_id: str = "") -> Any:
    protocols = [JoinGroupRequestProtocol("range", encode_subscription(["orders"]))]
    return socket.request(JoinGroupRequest("g", 45_000, 60_000, member_id, None, "consumer", protocols), highest=9)


def classic_member(socket: BrokerSocket, user_data: bytes | None = None) -> str:
    """The id of a member that has joined and synced; its assignment holds the user data."""
    member_id: str = classic_join(socket).member_id
    joined = classic_join(socket, member_id)
    assert joined.error_code == 0
    blob = ConsumerProtocolAssignment([AssignedPartitions("orders", [0, 1, 2])], user_data).encode(0)
    share = [SyncGroupRequestAssignment(member_id, b"\0\0" + blob)]
    assignments = share if joined.leader == member_id else []
    synced = socket.request(SyncGroupRequest("g", joined.generation_id, member_id, assignments=assignments), highest=3)
    assert synced.error_code == 0
    return member_id


def test_a_group_changes_its_protocol_under_way(local: LocalBroker, socket: BrokerSocket) -> None:
    """Up with the first new member, down with the last."""
    member_id = classic_member(socket)
    assert [g.group_type for g in listed(socket)] == ["classic"]
    assert join(socket, "a").error_code == 0
    assert [g.group_type for g in listed(socket)] == ["consumer"]
    types = {m.member_id: m.member_type for m in describe(socket).members}
    assert types == {member_id: 0, "a": 1}
    assert heartbeat(socket, "a", -1).error_code == 0
    assert [g.group_type for g in listed(socket)] == ["classic"]
    assert list(local.members("g")) == [member_id]


def test_a_group_keeps_its_protocol_by_policy() -> None:
    """testUpgradeWithDisabledMigrationPolicy"""
    with LocalBroker({"group.consumer.migration.policy": "Disabled"}) as broker:
        broker.create_topic("orders", 3)
        connection = BrokerSocket(broker.host, broker.port)
        classic_member(connection)
        assert join(connection, "a").error_code == ErrorCode.GROUP_ID_NOT_FOUND
        connection.close()


# -- coterie's own clients and faces -------------------------------------------------------------------------------------------


def test_the_admin_client_describes_it(local: LocalBroker, socket: BrokerSocket) -> None:
    """Also with a partition committed; a member can be removed by its instance id."""
    join(socket, "a", instance_id="i1", rack_id="r1")
    assert commit(socket, "a", 2) == 0
    with BlockingAdmin({"bootstrap.servers": local.bootstrap_servers}) as admin:
        group = admin.describe_consumer_group("g")
        assert (group.state, group.protocol_type, group.partition_assignor) == ("Stable", "consumer", "uniform")
        (member,) = group.members
        assert (member.member_id, member.group_instance_id, member.client_id) == ("a", "i1", "coterie")
        assert member.assignment.topic_partitions == {("orders", n) for n in range(3)}
        assert member.subscription is not None
        assert (member.subscription.topics, member.subscription.generation) == ({"orders"}, 2)
        assert admin.lag("g")["orders", 0].committed_offset == 5
        assert admin.remove_members_from_consumer_group("g", ["i1"]) == {"i1": ErrorCode.NONE}
        assert admin.describe_consumer_group("g").members == ()
        with pytest.raises(KafkaError, match="GROUP_ID_NOT_FOUND"):
            admin.describe_consumer_group("missing")


def test_metrics_and_the_http_face_have_it(local: LocalBroker, socket: BrokerSocket) -> None:
    join(socket, "a")
    assert commit(socket, "a", 2) == 0
    text = GroupMetrics(local.broker).text().decode()
    assert 'coterie_group_state{group="g",state="Stable"} 1.0' in text
    assert 'coterie_group_state{group="g",state="Reconciling"} 0.0' in text
    assert 'coterie_group_members{group="g"} 1.0' in text
    group = local.broker.groups.group("g")
    assert group is not None
    document = explained(local.broker, group)
    owners = {p["partition"]: (p["owner"], p["committed"]) for p in document["partitions"]}
    assert owners == {0: ("a", 5), 1: ("a", None), 2: ("a", None)}
