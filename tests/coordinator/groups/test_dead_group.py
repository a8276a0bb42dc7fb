"""A group in state Dead: reached only while something else still holds it, so it is built here by hand.

testJoinGroupUnknownConsumerNewDeadGroup, staticMemberRejoinWithLeaderIdAndUnexpectedDeadGroup, testSyncDeadGroup,
testheartbeatDeadGroup, testHeartbeatDeadGroup, testSingleLeaveDeadGroup, testBatchLeaveDeadGroup,
testOffsetCommitDeadGroup, testGenericGroupOffsetCommitWithDeadGroup, testExistingMemberJoinDeadGroup,
testStaticMemberRejoinWithLeaderIdAndUnexpectedDeadGroup: COORDINATOR_NOT_AVAILABLE each.
"""

from __future__ import annotations

from typing import Any

import pytest

from coterie.coordinator.commands import Command, DeleteGroup
from coterie.coordinator.outcome import Context, CoordinatorConfig
from coterie.coordinator.shard import Shard
from coterie.coordinator.state import Group, Phase
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


def shard_with_dead_group() -> Shard:
    shard = Shard(CoordinatorConfig())
    shard.groups["g"] = Group("g", phase=Phase.DEAD)
    return shard


JOIN: dict[str, Any] = {
    "group_id": "g",
    "session_timeout_ms": 10_000,
    "protocol_type": "consumer",
    "protocols": [JoinGroupRequestProtocol("range", b"")],
}


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
