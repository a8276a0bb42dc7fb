"""Refusals become responses in one function, whatever refuses: the shard, or the broker while a partition loads."""

from __future__ import annotations

from typing import Any

import pytest

from coterie.assignors.blobs import encode_subscription
from coterie.coordinator.commands import Command, DeleteGroup
from coterie.coordinator.consumer.image import TopicImage, TopicsImage
from coterie.coordinator.outcome import Context, CoordinatorConfig
from coterie.coordinator.refusals import refuse, response_with
from coterie.coordinator.shard import Shard
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.groups.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from coterie.wire.messages.groups.heartbeat import HeartbeatRequest
from coterie.wire.messages.groups.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from coterie.wire.messages.groups.leave_group import LeaveGroupRequest
from coterie.wire.messages.groups.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from coterie.wire.messages.groups.offset_delete import OffsetDeleteRequest
from coterie.wire.messages.groups.sync_group import SyncGroupRequest
from coterie.wire.messages.share.share_group_heartbeat import ShareGroupHeartbeatRequest
from coterie.wire.messages.streams.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from coterie.wire.messages.transactions.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

TOPICS = TopicsImage({"t": TopicImage("t", b"t" * 16, 1)}, 1, 1)
COMMANDS: list[Command] = [
    JoinGroupRequest("g"),
    SyncGroupRequest("g"),
    HeartbeatRequest("g"),
    LeaveGroupRequest("g"),
    OffsetCommitRequest("g", topics=[OffsetCommitRequestTopic("t", partitions=[OffsetCommitRequestPartition(0, 1)])]),
    TxnOffsetCommitRequest(
        group_id="g", topics=[TxnOffsetCommitRequestTopic("t", partitions=[TxnOffsetCommitRequestPartition(0, 1)])]
    ),
    OffsetDeleteRequest("g"),
    DeleteGroup("g"),
]
EXCEPTIONS = {
    HeartbeatRequest: ErrorCode.NONE,
    SyncGroupRequest: ErrorCode.REBALANCE_IN_PROGRESS,
}


def _code(response: Message) -> int:
    if hasattr(response, "error_code"):
        return int(response.error_code)
    if hasattr(response, "results"):
        return int(response.results[0].error_code)
    return int(response.topics[0].partitions[0].error_code)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "command", [ConsumerGroupHeartbeatRequest("g"), ShareGroupHeartbeatRequest("g"), StreamsGroupHeartbeatRequest("g")]
)
def test_an_unknown_error_has_no_text(command: Command) -> None:
    """Kafka's CoordinatorOperationExceptionHelper; statuses beside it are none, not null."""
    response: Any = response_with(command, ErrorCode.UNKNOWN_SERVER_ERROR, "why")
    assert (response.error_code, response.error_message) == (ErrorCode.UNKNOWN_SERVER_ERROR, None)
    assert getattr(response, "status", []) == []


@pytest.mark.parametrize("command", COMMANDS, ids=lambda c: type(c).__name__)
def test_every_code_is_the_response_but_while_a_partition_loads(command: Command) -> None:
    for code in ErrorCode:
        assert _code(response_with(command, code)) == code
        loading = code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert _code(refuse(command, code)) == (EXCEPTIONS.get(type(command), code) if loading else code)


def refused_join(shard: Shard, session_timeout_ms: int) -> tuple[int, str]:
    """The error code, and the member id, of the response to a member whose assignor no member of the group knows."""
    protocols = [JoinGroupRequestProtocol("unknown", b"")]
    request = JoinGroupRequest("g", session_timeout_ms, 10_000, "m", None, "other", protocols)
    (reply,) = shard.decide(request, Context(0, "token", "new", 4, "c", "/h", TOPICS)).outcome.replies
    assert isinstance(reply.response, JoinGroupResponse)
    return reply.response.error_code, reply.response.member_id


def test_a_group_of_the_consumer_protocol_names_no_member_that_it_refuses() -> None:
    shard = Shard(CoordinatorConfig())
    unknown = ErrorCode.UNKNOWN_MEMBER_ID
    assert refused_join(shard, 10_000) == (unknown, "m"), "a group that does not exist is a classic one"
    first = ConsumerGroupHeartbeatRequest("g", "k", 0, None, None, 10_000, ["t"], None, None, [])
    decision = shard.decide(first, Context(0, "token", "", 1, "c", "/h", TOPICS))
    shard.commit(decision)
    assert refused_join(shard, 10_000) == (ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "")
    assert refused_join(shard, 1) == (ErrorCode.INVALID_SESSION_TIMEOUT, "m"), "no group has refused it"


def test_a_join_whose_records_cannot_be_appended_names_no_member() -> None:
    """Kafka's GroupCoordinatorService.joinGroup answers a failed append with the error alone."""
    shard = Shard(CoordinatorConfig())
    first = ConsumerGroupHeartbeatRequest("g", "k", 0, None, None, 10_000, ["t"], None, None, [])
    shard.commit(shard.decide(first, Context(0, "token", "", 1, "c", "/h", TOPICS)))
    protocols = [JoinGroupRequestProtocol("range", encode_subscription(["t"]))]
    request = JoinGroupRequest("g", 10_000, 10_000, "m", None, "consumer", protocols)
    joining = shard.decide(request, Context(0, "token", "new", 4, "c", "/h", TOPICS))
    assert joining.records
    (reply,) = shard.append_failed(joining, ErrorCode.NOT_ENOUGH_REPLICAS).outcome.replies
    assert isinstance(reply.response, JoinGroupResponse)
    assert (reply.response.error_code, reply.response.member_id) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, "")
