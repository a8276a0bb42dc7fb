"""Streams groups over the wire: members join and leave, internal topics are made, settings of the group count, and who is
refused. Names are those of Kafka 4.4's StreamsGroupHeartbeatRequestTest, StreamsGroupDescribeRequestTest,
StreamsGroupTopologyDescriptionNoPluginRequestTest, GroupCoordinatorServiceTest and GroupCoordinatorShardTest."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from coterie.client.connection.blocking_socket import BrokerSocket
from coterie.testing import ErrorCode, LocalBroker
from coterie.wire.messages.groups.find_coordinator import FindCoordinatorRequest
from coterie.wire.messages.settings.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from coterie.wire.messages.settings.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from coterie.wire.messages.settings.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from coterie.wire.messages.streams.streams_group_describe import StreamsGroupDescribeRequest, TopologyDescription
from coterie.wire.messages.streams.streams_group_heartbeat import Subtopology, Topology
from coterie.wire.messages.streams.streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateRequest,
)
from coterie.wire.messages.topics.metadata import MetadataRequest, MetadataRequestTopic
from tests.awaiting import until_in_thread
from tests.broker.groups.streams_members import AT_ONCE, StreamsThread, settle, streams_broker


@pytest.fixture
def socket() -> Iterator[BrokerSocket]:
    with streams_broker() as (_, opened):
        yield opened


def described(socket: BrokerSocket, group: str = "app", **fields: Any) -> Any:
    (group_of_response,) = socket.request(StreamsGroupDescribeRequest([group], **fields)).groups
    return group_of_response


def alter(socket: BrokerSocket, name: str, value: str) -> int:
    resource = AlterConfigsResource(32, "app", [AlterableConfig(name, 0, value)])  # 32: a group
    (result,) = socket.request(IncrementalAlterConfigsRequest([resource])).responses
    code: int = result.error_code
    return code


@pytest.mark.slow
def test_members_share_the_tasks(socket: BrokerSocket) -> None:
    """testStreamsGroupHeartbeatForMultipleMembers, testStreamsGroupDescribeGroupsWithNewGroupCoordinator,
    testStreamsGroupHeartbeatIsAccessibleWhenNewGroupCoordinatorIsEnabledTopicNotExistFirst, testStreamsGroupDescribe,
    testStreamsGroupHeartbeat, testStreamsGroupDescribeDelegatesAndReturnsBundledResult, testValidateStreamsGroupMemberDelegates
    """
    a, b = StreamsThread(socket, "a", "p"), StreamsThread(socket, "b", "q")
    settle(a, until=lambda: len(a.tasks["active"]) == 4)
    settle(a, b, until=lambda: len(a.tasks["active"]) == len(b.tasks["active"]) == 2)
    settle(a, b, until=lambda: True)
    group = described(socket)
    assert (group.error_code, group.group_state, [m.member_id for m in group.members]) == (0, "Stable", ["a", "b"])
    assert [s.subtopology_id for s in group.topology.subtopologies] == ["0", "1"]
    assert described(socket, "none").error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_internal_topics_are_made(socket: BrokerSocket) -> None:
    """testInternalTopicsCreation"""
    a = StreamsThread(socket, "a", "p")
    first = a.beat()
    assert [s.status_code for s in first.status] == [3]
    settle(a, until=lambda: bool(a.tasks["active"]))
    names = ["app-words-changelog", "app-words-repartition"]
    topics = socket.request(MetadataRequest([MetadataRequestTopic(name=name) for name in names])).topics
    assert [(t.error_code, len(t.partitions)) for t in topics] == [(0, 2), (0, 2)]
    assert a.beat().status == []


@pytest.mark.parametrize(
    ("group", "member", "epoch", "code"),
    [
        pytest.param("", "a", 0, ErrorCode.INVALID_REQUEST, id="testEmptyStreamsGroupId"),
        pytest.param("app", "a", -10, ErrorCode.INVALID_REQUEST, id="testInvalidMemberEpoch"),
        pytest.param("none", "a", 5, ErrorCode.GROUP_ID_NOT_FOUND, id="testStreamsGroupHeartbeatWithException"),
    ],
)
def test_refused_heartbeats(socket: BrokerSocket, group: str, member: str, epoch: int, code: ErrorCode) -> None:
    thread = StreamsThread(socket, member, "p", group)
    assert socket.request(thread.request(epoch)).error_code == code


def test_a_member_that_leaves(socket: BrokerSocket) -> None:
    """testMemberLeaveHeartbeat"""
    a = StreamsThread(socket, "a", "p")
    settle(a, until=lambda: bool(a.tasks["active"]))
    left = a.leave()
    assert (left.error_code, left.member_id, left.member_epoch) == (0, "a", -1)
    assert a.beat().error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert described(socket).group_state == "Empty"


def test_a_fenced_member_joins_again(socket: BrokerSocket) -> None:
    """testFencedMemberCanRejoinWithEpochZero"""
    a = StreamsThread(socket, "a", "p")
    settle(a, until=lambda: len(a.tasks["active"]) == 4)
    epoch, a.epoch = a.epoch, 999
    assert a.beat().error_code == ErrorCode.FENCED_MEMBER_EPOCH
    a.epoch = 0
    again = a.beat()
    assert (again.error_code, again.member_epoch, len(a.tasks["active"])) == (0, epoch, 4)


def test_settings_of_the_group(socket: BrokerSocket) -> None:
    """testDynamicGroupConfig, testAlterRackAwareAssignmentTagsGroupConfig, testAlterStreamsAssignorNameGroupConfig,
    testAlterStreamsAssignorNameGroupConfigWithCustomAssignor"""
    a = StreamsThread(socket, "a", "p")
    settle(a, until=lambda: bool(a.tasks["active"]))
    assert alter(socket, "streams.heartbeat.interval.ms", "7000") == 0
    assert a.beat().heartbeat_interval_ms == 7_000
    epoch = a.epoch
    assert alter(socket, "streams.num.standby.replicas", "1") == 0
    settle(a, until=lambda: a.epoch > epoch)
    assert alter(socket, "streams.rack.aware.assignment.tags", "zone") == 0
    settle(a, until=lambda: any(s.status_code == 6 for s in a.beat().status))
    assert alter(socket, "streams.assignor.name", "sticky") == 0
    assert described(socket).assignor_name == "sticky"
    assert alter(socket, "streams.assignor.name", "highlander") == ErrorCode.INVALID_CONFIG
    assert alter(socket, "streams.heartbeat.interval.ms", "1") == ErrorCode.INVALID_CONFIG


def test_nothing_is_asked_of_a_plugin(socket: BrokerSocket) -> None:
    """testHeartbeatDoesNotSolicitPushAndDescribeReturnsNotStoredWhenNoPluginConfigured"""
    a = StreamsThread(socket, "a", "p")
    assert a.beat().topology_description_required is False
    group = described(socket, include_topology_description=True)
    assert (group.topology_description, group.topology_description_status) == (None, 1)
    assert described(socket).topology_description_status == 0
    assert described(socket, "").error_code == ErrorCode.INVALID_GROUP_ID


def test_a_description_of_a_topology_has_no_plugin(socket: BrokerSocket) -> None:
    """testStreamsGroupTopologyDescriptionUpdateReturnsUnsupportedVersionWhenNoPluginConfigured"""
    request = StreamsGroupTopologyDescriptionUpdateRequest("app", "a", 0, TopologyDescription([], []))
    response = socket.request(request)
    text = "The broker has no streams group topology description plugin configured."
    assert (response.error_code, response.error_message) == (ErrorCode.UNSUPPORTED_VERSION, text)
    socket.request(UpdateFeaturesRequest(feature_updates=[FeatureUpdateKey("streams.version", 0, upgrade_type=2)]))
    response = socket.request(request)
    assert (response.error_code, response.error_message) == (ErrorCode.UNSUPPORTED_VERSION, None)


def test_an_empty_name_of_a_group_is_refused_in_a_description(socket: BrokerSocket) -> None:
    """testStreamsGroupDescribeInvalidGroupId"""
    groups = socket.request(StreamsGroupDescribeRequest(["", "app"])).groups
    assert [g.error_code for g in groups] == [ErrorCode.INVALID_GROUP_ID, ErrorCode.GROUP_ID_NOT_FOUND]


def test_an_assignor_that_nobody_set(socket: BrokerSocket) -> None:
    """testDescribeStreamsAssignorNameGroupConfigFallsBackToAssignorName"""
    resource = DescribeConfigsResource(32, "app", ["streams.assignor.name"])
    (result,) = socket.request(DescribeConfigsRequest([resource])).results
    assert [(c.name, c.value) for c in result.configs] == [("streams.assignor.name", "sticky")]


def test_a_broker_whose_feature_is_off(socket: BrokerSocket) -> None:
    """testStreamsGroupHeartbeatIsInaccessibleWhenDisabledByFeatureConfig"""
    off = UpdateFeaturesRequest(feature_updates=[FeatureUpdateKey("streams.version", 0, upgrade_type=3)])
    assert socket.request(off).error_code == 0
    assert StreamsThread(socket, "a", "p").beat().error_code == ErrorCode.UNSUPPORTED_VERSION


def test_a_broker_without_the_protocol() -> None:
    """testStreamsGroupHeartbeatIsInaccessibleWhenDisabledByStaticGroupCoordinatorProtocolConfig,
    testStreamsGroupHeartbeatFailsForUnsupportedFeatures, testStreamsGroupDescribeWhenFeatureFlagNotEnabled"""
    with streams_broker({"group.coordinator.rebalance.protocols": "classic,consumer"}) as (_, socket):
        assert StreamsThread(socket, "a", "p").beat().error_code == ErrorCode.UNSUPPORTED_VERSION
        assert described(socket).error_code == ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.parametrize("name", ["__consumer_offsets", "__transaction_state", "no/name"])
def test_names_that_no_topology_may_use(socket: BrokerSocket, name: str) -> None:
    thread = StreamsThread(socket, "a", "p", topology=Topology(0, [Subtopology("0", [name])]))
    assert thread.beat().error_code == ErrorCode.STREAMS_INVALID_TOPOLOGY


def test_members_expire_and_their_tasks_go_to_others() -> None:
    """testMemberJoiningAndExpiring"""
    quick = {"group.streams.min.session.timeout.ms": "45000"}
    with streams_broker(quick) as (broker, socket):
        a, b = StreamsThread(socket, "a", "p"), StreamsThread(socket, "b", "q")
        settle(a, until=lambda: len(a.tasks["active"]) == 4)
        settle(a, b, until=lambda: len(b.tasks["active"]) == 2)
        broker.jump(44_000)
        b.beat()
        broker.jump(44_000)
        settle(b, until=lambda: len(b.tasks["active"]) == 4)
        assert [m.member_id for m in described(socket).members] == ["b"]


@pytest.mark.slow
def test_another_coordinator_knows_the_group() -> None:
    """testGroupCoordinatorChange, testStreamsGroupDescribeCoordinatorLoadInProgress, testStreamsGroupHeartbeatWhenNotStarted,
    testStreamsGroupDescribeCoordinatorNotActive: of three brokers each knows who coordinates, and the next has loaded it."""
    settings = AT_ONCE | {"group.streams.num.standby.replicas": "1"}
    with LocalBroker(settings, brokers=3) as broker:
        broker.create_topic("lines", 2)
        members: dict[str, StreamsThread] = {}
        for name, process in (("a", "p"), ("b", "q")):
            members[name] = StreamsThread(coordinator_socket(broker), name, process)
            settle(*members.values(), until=lambda: all(m.tasks.get("active") for m in members.values()))
        settle(*members.values(), until=lambda: count(members, "active") == 4 and count(members, "standby") == 2)
        epochs, tasks = {m.epoch for m in members.values()}, {n: m.tasks for n, m in members.items()}
        broker.move_coordinator("app")
        moved: list[BrokerSocket] = []

        def beats() -> bool:
            for member in members.values():
                response = member.beat()
                if response.error_code:
                    assert response.error_code in MOVING, response
                    moved.append(coordinator_socket(broker))
                    member.socket = moved[-1]
                    return False
            return bool(moved)

        until_in_thread(beats, "the members are at the coordinator that moved")
        assert {m.epoch for m in members.values()} == epochs
        assert {n: m.tasks for n, m in members.items()} == tasks


MOVING = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE)


def count(members: dict[str, StreamsThread], role: str) -> int:
    return sum(len(m.tasks[role]) for m in members.values())


def coordinator_socket(broker: LocalBroker) -> BrokerSocket:
    """A connection to the coordinator of the group."""
    host, port = broker.bootstrap_servers.split(",")[0].rsplit(":", 1)
    known: list[tuple[str, int]] = []
    asked = BrokerSocket(host, int(port))

    def is_known() -> bool:
        (coordinator,) = asked.request(FindCoordinatorRequest(coordinator_keys=["app"])).coordinators
        if not coordinator.error_code:
            known.append((coordinator.host, coordinator.port))
        return bool(known)

    until_in_thread(is_known, "the group has a coordinator")
    asked.close()
    return BrokerSocket(*known[-1])
