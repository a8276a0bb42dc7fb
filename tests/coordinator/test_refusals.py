"""Refusals become responses in one function, whatever refuses: the shard, or the broker while a partition loads."""

from __future__ import annotations

import pytest

from coterie.coordinator.commands import Command, DeleteGroup
from coterie.coordinator.refusals import refuse, response_with
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.heartbeat import HeartbeatRequest
from coterie.wire.messages.join_group import JoinGroupRequest
from coterie.wire.messages.leave_group import LeaveGroupRequest
from coterie.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from coterie.wire.messages.offset_delete import OffsetDeleteRequest
from coterie.wire.messages.sync_group import SyncGroupRequest
from coterie.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

COMMANDS: list[Command] = [
    JoinGroupRequest("g"),
    SyncGroupRequest("g"),
    HeartbeatRequest("g"),
    LeaveGroupRequest("g"),
    OffsetCommitRequest("g", topics=[OffsetCommitRequestTopic("t", partitions=[OffsetCommitRequestPartition(0, 1)])]),
    TxnOffsetCommitRequest(
        group_id="g", topics=[TxnOffsetCommitRequestTopic("t", [TxnOffsetCommitRequestPartition(0, 1)])]
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


@pytest.mark.parametrize("command", COMMANDS, ids=lambda c: type(c).__name__)
def test_every_code_is_the_response_but_while_a_partition_loads(command: Command) -> None:
    for code in ErrorCode:
        assert _code(response_with(command, code)) == code
        loading = code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert _code(refuse(command, code)) == (EXCEPTIONS.get(type(command), code) if loading else code)
