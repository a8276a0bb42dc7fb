"""A whole share group: members that heartbeat, a coordinator that initializes the state, and the records that are shared."""

from __future__ import annotations

import asyncio
from typing import Any

from coterie.wire.errors import ErrorCode
from coterie.wire.messages.groups.consumer_group_describe import ConsumerGroupDescribeRequest
from coterie.wire.messages.share.initialize_share_group_state import (
    InitializedPartition,
    InitializedTopic,
    InitializeShareGroupStateRequest,
    InitializeShareGroupStateResponse,
)
from coterie.wire.messages.share.share_group_describe import ShareGroupDescribeRequest
from coterie.wire.messages.share.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from coterie_conformance.share_stories.raw_member import ACCEPT, LIMIT_S, RawShareMember, acknowledged
from tests.broker.share.framed_share import FramedShare
from tests.broker.share.share_world import GROUP, TOPIC, ShareWorld, in_share_world


async def assigned(member: RawShareMember) -> list[int]:
    """The partitions that the member has once its assignment comes."""
    epoch, partitions = 0, list[int]()
    for _ in range(10):
        request = ShareGroupHeartbeatRequest(GROUP, member.member_id, epoch, None, [TOPIC] if epoch == 0 else None)
        response = await member.connection.request(request, ShareGroupHeartbeatResponse, LIMIT_S)
        assert response.error_code == 0, response.error_message
        epoch = response.member_epoch
        if response.assignment is not None:
            partitions = [p for topic in response.assignment.topic_partitions for p in topic.partitions]
        if partitions:
            break
        await asyncio.sleep(1)
    return partitions


@in_share_world(records=6, start_offset=None)
async def test_two_members_share_a_partition(share: ShareWorld) -> None:
    """testShareGroupHeartbeatWithMultipleMembers: the state is initialized by the group's coordinator; each record goes to one
    of them"""
    share.broker.broker.share.configure(GROUP, {"share.auto.offset.reset": "earliest"})
    one, two = await share.member("one"), await share.member("two")
    assert await assigned(one) == [0]
    assert await assigned(two) == [0]
    assert await one.acquired([0], max_records=3, share_acquire_mode=1) == [(0, 0, 2, 1)]
    assert await two.acquired([0]) == [(0, 3, 5, 1)]
    for member, first, last in ((one, 0, 2), (two, 3, 5)):
        assert acknowledged(await member.acknowledge({0: [(first, last, ACCEPT)]}))[0].error_code == 0
    assert share.broker.broker.share.start_offsets(GROUP) == {0: 6}


@in_share_world(records=0, start_offset=None)
async def test_a_member_id_that_is_none_is_refused_without_a_text(share: ShareWorld) -> None:
    """As by Kafka's KafkaApis.isMemberIdValid, whose error response has no message."""
    member = await share.member("one")
    for member_id in ("", "m" * 37):
        request = ShareGroupHeartbeatRequest(GROUP, member_id, 0, None, [TOPIC])
        response = await member.connection.request(request, ShareGroupHeartbeatResponse, LIMIT_S)
        assert (response.error_code, response.error_message) == (ErrorCode.INVALID_REQUEST, None)


@in_share_world(records=0)
async def test_a_topic_without_partitions_is_no_part_of_what_is_initialized(share: ShareWorld) -> None:
    """Kafka's ShareCoordinatorService looks for such topics in the four other requests about states alone."""
    member = await share.member("one")
    topics = [InitializedTopic(share.topic_id, [InitializedPartition(0)]), InitializedTopic(bytes(16), [])]
    request = InitializeShareGroupStateRequest("other", topics)
    response = await member.connection.request(request, InitializeShareGroupStateResponse, LIMIT_S)
    assert [(r.topic_id, [p.error_code for p in r.partitions]) for r in response.results] == [(share.topic_id, [0])]
    request = InitializeShareGroupStateRequest("other", [InitializedTopic(share.topic_id, [])])
    assert (await member.connection.request(request, InitializeShareGroupStateResponse, LIMIT_S)).results == []


# -- at a broker in virtual time --------------------------------------------------------------------------------------


def described(broker: FramedShare, *groups: str) -> Any:
    return broker.ask(ShareGroupDescribeRequest([*groups]), 1).groups


def test_share_groups_are_served_by_the_feature() -> None:
    """testShareGroupHeartbeatIsInAccessibleWhenConfigsDisabled, testShareGroupHeartbeatIsAccessibleWhenShareGroupIsEnabled
    (ShareGroupHeartbeatRequestTest), testShareGroupDescribeIsInAccessibleWhenConfigsDisabled (ShareGroupDescribeRequestTest)"""
    broker = FramedShare()
    broker.features.replace({"share.version": "0"})
    assert broker.heartbeat("m", 0, [TOPIC]).error_code == ErrorCode.UNSUPPORTED_VERSION
    assert described(broker, "g")[0].error_code == ErrorCode.UNSUPPORTED_VERSION
    for level in ("1", "2"):
        broker.features.replace({"share.version": level})
        assert broker.heartbeat("m", 0, [TOPIC]).error_code == 0
        assert described(broker, "g")[0].error_code == 0


def test_members_are_described_with_what_they_sent_last() -> None:
    """testUpdateMember (ShareGroupMemberTest), testName (SimpleAssignorTest)"""
    broker = FramedShare()
    for epoch, rack, topics in ((0, "r", ["t", "u"]), (2, None, None)):
        broker.ask(ShareGroupHeartbeatRequest("g", "m", epoch, rack, topics), 1)
        (group,) = described(broker, "g")
        (member,) = group.members
        assert (group.assignor_name, member.rack_id, member.subscribed_topic_names) == ("simple", "r", ["t", "u"])
    broker.ask(ShareGroupHeartbeatRequest("g", "m", member.member_epoch, "other", ["u"]), 1)
    (member,) = described(broker, "g")[0].members
    assert (member.rack_id, member.subscribed_topic_names) == ("other", ["u"])


def test_each_group_that_is_named_is_described() -> None:
    """testShareGroupDescribe (GroupCoordinatorServiceTest, ShareGroupDescribeRequestTest),
    testConsumerGroupDescribeOnShareGroup"""
    broker = FramedShare()
    for group in ("g", "h"):
        broker.ask(ShareGroupHeartbeatRequest(group, "m", 0, None, [TOPIC]), 1)
    rows = [(group.group_id, group.error_code, group.group_state) for group in described(broker, "h", "none", "g")]
    assert rows == [("h", 0, "Stable"), ("none", ErrorCode.GROUP_ID_NOT_FOUND, ""), ("g", 0, "Stable")]
    (other,) = broker.ask(ConsumerGroupDescribeRequest(["g"])).groups
    assert (other.error_code, other.error_message) == (
        ErrorCode.GROUP_ID_NOT_FOUND,
        "Group g is not a consumer group.",
    )
