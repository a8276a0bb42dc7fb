"""Requests of the consumer protocol and their whole responses. Names are those of ConsumerGroupHeartbeatRequestTest,
ConsumerGroupDescribeRequestTest and ConsumerProtocolMigrationTest of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from coterie.assignors.blobs import decode_assignment
from coterie.client.connection.blocking_socket import BrokerSocket
from coterie.testing import LocalBroker
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.groups.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)
from coterie.wire.messages.groups.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from coterie.wire.messages.groups.leave_group import LeaveGroupRequest, MemberIdentity
from coterie.wire.messages.groups.sync_group import SyncGroupRequest
from coterie.wire.messages.settings.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from coterie.wire.messages.topics.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tests.broker.groups.test_consumer_groups import QUICK, classic_join, classic_member, heartbeat, join, listed, owned

SAFE_DOWNGRADE = 2


class Requests:
    """A broker with the topic orders, a connection, and the topic's id."""

    def __init__(self, local: LocalBroker, socket: BrokerSocket) -> None:
        self.local, self.socket = local, socket
        self.orders = self.create("orders")

    def create(self, topic: str) -> bytes:
        """The id of a new topic of three partitions."""
        self.local.create_topic(topic, 3)
        return self.local.broker.topics.by_name[topic].topic_id

    @property
    def kinds(self) -> list[tuple[str, str, str]]:
        """Of the groups: protocol type, state, group type."""
        return [(g.protocol_type, g.group_state, g.group_type) for g in listed(self.socket)]

    def response(self, member_id: str, epoch: int, *partitions: int) -> ConsumerGroupHeartbeatResponse:
        topics = [TopicPartitions(self.orders, list(partitions))] if partitions else []
        return ConsumerGroupHeartbeatResponse(0, 0, None, member_id, epoch, 5_000, Assignment(topics))

    def full(self, member_id: str, epoch: int, *partitions: int) -> Any:
        topics = [TopicPartitions(self.orders, list(partitions))] if partitions else []
        fields: dict[str, Any] = {
            "rebalance_timeout_ms": 60_000,
            "subscribed_topic_names": ["orders"],
            "topic_partitions": topics,
        }
        return heartbeat(self.socket, member_id, epoch, **fields)


@pytest.fixture
def requested(request: pytest.FixtureRequest) -> Iterator[Requests]:
    """The parameter is the migration policy."""
    policy = {"group.consumer.migration.policy": getattr(request, "param", "bidirectional")}
    with LocalBroker(QUICK | policy) as broker:
        socket = BrokerSocket(broker.host, broker.port)
        yield Requests(broker, socket)
        socket.close()


def test_a_cluster_without_the_feature(requested: Requests) -> None:
    """testConsumerGroupHeartbeatIsInaccessibleWhenFeatureFlagNotEnabled, testConsumerGroupDescribeWhenFeatureFlagNotEnabled"""
    update = FeatureUpdateKey("group.version", 0, True, SAFE_DOWNGRADE)
    assert requested.socket.request(UpdateFeaturesRequest(1_000, [update])).error_code == ErrorCode.NONE
    unsupported = ErrorCode.UNSUPPORTED_VERSION
    response = requested.socket.request(ConsumerGroupHeartbeatRequest())
    assert response == ConsumerGroupHeartbeatResponse(error_code=unsupported)
    described = requested.socket.request(ConsumerGroupDescribeRequest(["grp-1", "grp-2"]))
    groups = [DescribedGroup(unsupported, group_id="grp-1"), DescribedGroup(unsupported, group_id="grp-2")]
    assert described == ConsumerGroupDescribeResponse(groups=groups)


def test_a_group_has_a_name(requested: Requests) -> None:
    """testEmptyConsumerGroupId"""
    fields: dict[str, Any] = {
        "rebalance_timeout_ms": 300_000,
        "subscribed_topic_names": ["foo"],
        "topic_partitions": [],
    }
    response = requested.socket.request(ConsumerGroupHeartbeatRequest("", "m", 0, **fields))
    assert (response.error_code, response.error_message) == (ErrorCode.INVALID_REQUEST, "GroupId can't be empty.")


@pytest.mark.parametrize(
    "nothing",
    [
        {"subscribed_topic_names": None, "subscribed_topic_regex": ""},
        {"subscribed_topic_names": [], "subscribed_topic_regex": None},
    ],
)
def test_a_member_may_subscribe_to_nothing(requested: Requests, nothing: dict[str, Any]) -> None:
    """testConsumerGroupHeartbeatWithEmptySubscription"""
    assert join(requested.socket, "a", **nothing) == requested.response("a", 1)


def test_a_static_member_that_returns_has_its_partitions_again(requested: Requests) -> None:
    """testRejoiningStaticMemberGetsAssignmentsBackWhenNewGroupCoordinatorIsEnabled: the topic is created after the join."""
    with_a_late_topic(requested, "old", instance_id="i1")
    left = heartbeat(requested.socket, "old", -2, instance_id="i1")
    assert (left.error_code, left.member_epoch) == (0, -2)
    rejoined = join(requested.socket, "new", instance_id="i1", subscribed_topic_names=["late"])
    assert rejoined == requested.response("new", 3, 0, 1, 2)


def test_a_request_that_is_sent_again_has_the_same_response(requested: Requests) -> None:
    """testDuplicateFullHeartbeatWhileWaitingForPartitions, testDuplicateFullHeartbeatDuringRevocation"""
    assert join(requested.socket, "a") == requested.response("a", 2, 0, 1, 2)
    assert join(requested.socket, "b") == requested.response("b", 3)
    for _ in range(2):
        assert requested.full("b", 3) == requested.response("b", 3)
    revoking = requested.full("a", 2, 0, 1, 2)
    kept = owned(revoking)
    assert len(kept) == 2
    assert revoking == requested.response("a", 2, *kept)
    assert requested.full("a", 2, 0, 1, 2) == revoking


def with_a_late_topic(requested: Requests, member_id: str, **fields: Any) -> None:
    """The member joins, its topic of three partitions is created, and it has them in epoch 3."""
    assert join(requested.socket, member_id, subscribed_topic_names=["late"], **fields) == requested.response(
        member_id, 2
    )
    requested.orders = requested.create("late")
    assert heartbeat(requested.socket, member_id, 2, **fields) == requested.response(member_id, 3, 0, 1, 2)


def test_a_member_that_rejoins_keeps_its_epoch(requested: Requests) -> None:
    """testFencedMemberCanRejoinWithEpochZero"""
    with_a_late_topic(requested, "m")
    assert join(requested.socket, "m", subscribed_topic_names=["late"]) == requested.response("m", 3, 0, 1, 2)


def test_a_static_member_is_replaced_once_its_session_is_over(requested: Requests) -> None:
    """testStaticMemberRemovedAfterSessionTimeoutExpiryWhenNewGroupCoordinatorIsEnabled: one epoch more without it, one more
    with the other."""
    with_a_late_topic(requested, "old", instance_id="i1")
    fields = {"instance_id": "i1", "subscribed_topic_names": ["late"]}
    assert join(requested.socket, "new", **fields).error_code == ErrorCode.UNRELEASED_INSTANCE_ID
    requested.local.jump(45_000)
    assert join(requested.socket, "new", **fields) == requested.response("new", 5, 0, 1, 2)


def test_topics_of_a_regular_expression_come_and_go(requested: Requests) -> None:
    """testConsumerGroupHeartbeatWithRegularExpression"""
    fields = {"subscribed_topic_names": None, "subscribed_topic_regex": "foo*"}
    assert join(requested.socket, "m", **fields) == requested.response("m", 1)
    requested.orders = requested.create("foo")
    requested.local.jump(10_001)  # topics are looked up every 10 s
    assert heartbeat(requested.socket, "m", 1).assignment is None
    assert heartbeat(requested.socket, "m", 1) == requested.response("m", 2, 0, 1, 2)
    requested.socket.request(DeleteTopicsRequest([DeleteTopicState(topic_id=requested.orders)]))
    assert heartbeat(requested.socket, "m", 2) == requested.response("m", 2)


def member_types(requested: Requests) -> list[dict[str, int]]:
    """Of each version of ConsumerGroupDescribe."""
    responses = [requested.socket.request(ConsumerGroupDescribeRequest(["g"], True), highest=v) for v in (0, 1)]
    return [{m.member_id: m.member_type for m in response.groups[0].members} for response in responses]


def test_the_kinds_of_members_of_a_group_under_way(requested: Requests) -> None:
    """testConsumerGroupDescribeWithMigrationMember: -1 before version 1, then 0 of the classic protocol and 1 of the other."""
    classic = classic_member(requested.socket)
    assert join(requested.socket, "member-2").error_code == ErrorCode.NONE
    assert member_types(requested) == [{classic: -1, "member-2": -1}, {classic: 0, "member-2": 1}]
    left = requested.socket.request(LeaveGroupRequest("g", members=[MemberIdentity(classic)]), highest=5)
    assert [m.error_code for m in left.members] == [ErrorCode.NONE]
    assert join(requested.socket, classic).error_code == ErrorCode.NONE
    assert member_types(requested) == [{classic: -1, "member-2": -1}, {classic: 1, "member-2": 1}]


def test_a_custom_assignor_keeps_a_group_with_members_classic(requested: Requests) -> None:
    """testOnlineMigrationWithNonEmptyUserDataInAssignment"""
    member_id = classic_member(requested.socket, b"\0")
    refused = join(requested.socket, "a")
    assert refused.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert refused.error_message == (
        "Cannot upgrade classic group g to consumer group because an unsupported custom assignor is in use. Please refer to "
        "the documentation or switch to a default assignor before re-attempting the upgrade."
    )
    assert requested.kinds == [("consumer", "Stable", "classic")]
    requested.socket.request(LeaveGroupRequest("g", members=[MemberIdentity(member_id)]), highest=5)
    assert requested.kinds == [("consumer", "Empty", "classic")]
    assert join(requested.socket, "a") == requested.response("a", 2, 0, 1, 2)
    assert requested.kinds == [("consumer", "Stable", "consumer")]


@pytest.mark.parametrize("requested", ["upgrade"], indirect=True)
def test_a_policy_of_upgrades_alone(requested: Requests) -> None:
    """testUpgradeMigrationPolicy: the group stays one of the consumer protocol without its last member of it."""
    classic_member(requested.socket)
    assert join(requested.socket, "a").error_code == ErrorCode.NONE
    assert requested.kinds == [("consumer", "Reconciling", "consumer")]
    assert heartbeat(requested.socket, "a", -1).error_code == ErrorCode.NONE
    assert requested.kinds == [("consumer", "Assigning", "consumer")]


@pytest.mark.parametrize("requested", ["downgrade"], indirect=True)
def test_a_policy_of_downgrades_alone(requested: Requests) -> None:
    """testDowngradeMigrationPolicy: the member that left may not come back."""
    assert join(requested.socket, "a") == requested.response("a", 2, 0, 1, 2)
    joined = classic_join(requested.socket, classic_join(requested.socket).member_id)
    request = SyncGroupRequest("g", joined.generation_id, joined.member_id, None, "consumer", "range")
    synced = requested.socket.request(request, highest=5)
    assert (joined.generation_id, synced.error_code, decode_assignment(synced.assignment)) == (3, 0, [])
    assert heartbeat(requested.socket, "a", -1).error_code == ErrorCode.NONE
    assert requested.kinds == [("consumer", "PreparingRebalance", "classic")]
    assert join(requested.socket, "a").error_code == ErrorCode.GROUP_ID_NOT_FOUND
