"""A group in state Dead: reached only while something else still holds it, so it is built here by hand. The offsets of a
topic that is deleted, by the topic's id; Kafka's OffsetMetadataManagerTest by name. Apache Kafka 4.3 stores an id with
each offset, older brokers and this one store none.

testJoinGroupUnknownConsumerNewDeadGroup, staticMemberRejoinWithLeaderIdAndUnexpectedDeadGroup, testSyncDeadGroup,
testheartbeatDeadGroup, testHeartbeatDeadGroup, testSingleLeaveDeadGroup, testBatchLeaveDeadGroup,
testOffsetCommitDeadGroup, testGenericGroupOffsetCommitWithDeadGroup, testExistingMemberJoinDeadGroup,
testStaticMemberRejoinWithLeaderIdAndUnexpectedDeadGroup: COORDINATOR_NOT_AVAILABLE each.
"""

from __future__ import annotations

from typing import Any

import pytest

from coterie.coordinator import events as e
from coterie.coordinator.commands import Command, DeleteGroup
from coterie.coordinator.consumer.state import ConsumerGroup
from coterie.coordinator.offsets.delete import decide_topics_deleted
from coterie.coordinator.offsets.replay import replay_offset
from coterie.coordinator.outcome import Context, CoordinatorConfig
from coterie.coordinator.shard import Shard
from coterie.coordinator.state import CommittedOffset, Group, Phase
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.groups.delete_groups import DeleteGroupsResponse
from coterie.wire.messages.groups.heartbeat import HeartbeatRequest
from coterie.wire.messages.groups.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from coterie.wire.messages.groups.leave_group import LeaveGroupRequest, MemberIdentity
from coterie.wire.messages.groups.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from coterie.wire.messages.groups.sync_group import SyncGroupRequest

JOIN: dict[str, Any] = {
    "group_id": "g",
    "session_timeout_ms": 10_000,
    "protocol_type": "consumer",
    "protocols": [JoinGroupRequestProtocol("range", b"")],
}
NONE, OLD, NEW = bytes(16), b"o" * 16, b"n" * 16


def shard_with_dead_group() -> Shard:
    shard = Shard(CoordinatorConfig())
    shard.groups["g"] = Group("g", phase=Phase.DEAD)
    return shard


@pytest.mark.parametrize(
    ("command", "version"),
    [
        (JoinGroupRequest(**JOIN), 4),
        (JoinGroupRequest(member_id="m", group_instance_id="i", **JOIN), 5),
        (SyncGroupRequest("g", 1, "m"), 3),
        (HeartbeatRequest("g", 1, "m"), 3),
        (LeaveGroupRequest("g", "m"), 2),
        (LeaveGroupRequest("g", members=[MemberIdentity("m"), MemberIdentity("n")]), 3),
    ],
    ids=lambda x: type(x).__name__ if not isinstance(x, int) else str(x),
)
def test_a_dead_group_is_not_available(command: Command, version: int) -> None:
    decision = shard_with_dead_group().decide(command, Context(0, token="t", api_version=version))
    (reply,) = decision.outcome.replies
    assert reply.response.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE  # type: ignore[attr-defined]
    assert not decision.outcome.events


def test_a_dead_group_takes_no_commit() -> None:
    partitions = [OffsetCommitRequestPartition(0, 5)]
    request = OffsetCommitRequest("g", 1, "m", topics=[OffsetCommitRequestTopic("t", partitions=partitions)])
    (reply,) = shard_with_dead_group().decide(request, Context(0, token="t", api_version=8)).outcome.replies
    assert isinstance(reply.response, OffsetCommitResponse)
    assert reply.response.topics[0].partitions[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_a_dead_group_cannot_be_deleted_again() -> None:
    (reply,) = shard_with_dead_group().decide(DeleteGroup("g"), Context(0, token="t")).outcome.replies
    assert isinstance(reply.response, DeleteGroupsResponse)
    assert reply.response.results[0].error_code == ErrorCode.GROUP_ID_NOT_FOUND


def committed(topic_id: bytes) -> CommittedOffset:
    return CommittedOffset(100, 1, "", 0, topic_id=topic_id)


@pytest.mark.parametrize("kind", [Group, ConsumerGroup])
@pytest.mark.parametrize("is_pending", [False, True])
@pytest.mark.parametrize(
    ("ids", "gone"),
    [
        pytest.param((NONE, NONE, NONE), [1, 2, 3], id="testOnTopicsDeletedWithZeroTopicId"),
        pytest.param((OLD, OLD), [1, 2], id="testOnTopicsDeletedWithMatchingTopicId"),
        pytest.param((NEW, NEW), [], id="testOnTopicsDeletedWithMismatchedTopicId"),
        pytest.param((OLD, NONE, NEW), [1, 2], id="testOnTopicsDeletedWithMixedTopicIds"),
    ],
)
def test_offsets_of_a_deleted_topic(
    kind: type[Group | ConsumerGroup], is_pending: bool, ids: tuple[bytes, ...], gone: list[int]
) -> None:
    """The topic foo is deleted whose id is OLD; bar is not."""
    group = kind("g")
    for partition, topic_id in enumerate(ids, 1):
        for topic in ("foo", "bar"):
            offset = committed(topic_id)
            if is_pending:
                replay_offset(group, e.TransactionalOffsetStored(topic, partition, offset, 7))
            else:
                replay_offset(group, e.OffsetStored(topic, partition, offset))
    outcome = decide_topics_deleted(group, [("foo", OLD)])
    assert outcome.events == [e.OffsetRemoved("foo", partition) for partition in gone]
