"""The one way from a refusal to a response, in the shape of the request's API: whatever refuses a request of a group, the core
or its driver, has the response made here (`tests/test_house.py` knows where refusals are caught)."""

from __future__ import annotations

from coterie.coordinator.classic.join import join_refused
from coterie.coordinator.classic.sync import sync_refused
from coterie.coordinator.commands import Command, DeleteGroup, StatesDeleted, StatesDeleting, StatesInitialized
from coterie.coordinator.consumer.state import ConsumerGroup
from coterie.coordinator.offsets.commit import commit_refused
from coterie.coordinator.offsets.transactional import txn_commit_refused
from coterie.coordinator.state import UNKNOWN_MEMBER, GroupOffsets
from coterie.coordinator.streams.state import StreamsGroup
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.groups.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from coterie.wire.messages.groups.delete_groups import DeletableGroupResult, DeleteGroupsResponse
from coterie.wire.messages.groups.heartbeat import HeartbeatRequest, HeartbeatResponse
from coterie.wire.messages.groups.join_group import JoinGroupRequest
from coterie.wire.messages.groups.leave_group import LeaveGroupRequest, LeaveGroupResponse
from coterie.wire.messages.groups.offset_commit import OffsetCommitRequest
from coterie.wire.messages.groups.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from coterie.wire.messages.groups.sync_group import SyncGroupRequest
from coterie.wire.messages.share.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
)
from coterie.wire.messages.share.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
)
from coterie.wire.messages.share.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from coterie.wire.messages.streams.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)
from coterie.wire.messages.transactions.txn_offset_commit import TxnOffsetCommitRequest

# A member keeps its membership while the partition loads (scenario testRequestHandlingWhileLoadingInProgress).
_WHILE_LOADING = {HeartbeatRequest: ErrorCode.NONE, SyncGroupRequest: ErrorCode.REBALANCE_IN_PROGRESS}
# What a JoinGroup is refused with before its group is looked at (`classic/join.py:check_join`).
_WITHOUT_A_GROUP = (ErrorCode.INVALID_GROUP_ID, ErrorCode.INVALID_SESSION_TIMEOUT)


def refuse(command: Command, code: ErrorCode, message: str | None = None, group: GroupOffsets | None = None) -> Message:
    """The response to a command that is refused with ``code``, by ``group`` where it was that. COORDINATOR_LOAD_IN_PROGRESS is
    returned to a Heartbeat as NONE and to a SyncGroup as REBALANCE_IN_PROGRESS, as Kafka's GroupCoordinatorService does. To a
    JoinGroup a group of another kind with members names no member id, as Kafka's GroupMetadataManager, which throws
    there what it returns to others."""
    if code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        code = _WHILE_LOADING.get(type(command), code)
    if isinstance(command, JoinGroupRequest) and isinstance(group, ConsumerGroup | StreamsGroup) and group.members:
        member_id = command.member_id if code in _WITHOUT_A_GROUP else UNKNOWN_MEMBER
        return join_refused(command, code, member_id)
    return response_with(command, code, message)


def response_with(command: Command, code: ErrorCode, message: str | None = None) -> Message:
    """The response to a command that has exactly this error code, and the message where the response has one; an unknown error
    has none (Kafka's CoordinatorOperationExceptionHelper)."""
    text = None if code == ErrorCode.UNKNOWN_SERVER_ERROR else message or code.text
    match command:
        case JoinGroupRequest():
            return join_refused(command, code)
        case SyncGroupRequest():
            return sync_refused(code)
        case HeartbeatRequest():
            return HeartbeatResponse(error_code=code)
        case OffsetCommitRequest():
            return commit_refused(command, code)
        case TxnOffsetCommitRequest():
            return txn_commit_refused(command, code)
        case OffsetDeleteRequest():
            return OffsetDeleteResponse(error_code=code)
        case LeaveGroupRequest():
            return LeaveGroupResponse(error_code=code)
        case DeleteGroup():
            return DeleteGroupsResponse(results=[DeletableGroupResult(command.group_id, code)])
        case ConsumerGroupHeartbeatRequest():
            return ConsumerGroupHeartbeatResponse(error_code=code, error_message=text)
        case ShareGroupHeartbeatRequest():
            return ShareGroupHeartbeatResponse(error_code=code, error_message=text)
        case AlterShareGroupOffsetsRequest():
            return AlterShareGroupOffsetsResponse(error_code=code, error_message=text)
        case DeleteShareGroupOffsetsRequest():
            return DeleteShareGroupOffsetsResponse(error_code=code, error_message=text)
        case StatesDeleting():
            return DeleteGroupsResponse(results=[DeletableGroupResult(command.group_id, code)])
        case StatesInitialized() if command.response is not None:
            return command.response
        case StatesDeleted() if command.response is not None:
            return DeleteShareGroupOffsetsResponse(error_code=code, error_message=text)
        case StreamsGroupHeartbeatRequest():
            return StreamsGroupHeartbeatResponse(error_code=code, error_message=text)
        case _:
            raise AssertionError(f"{command} has no request to refuse")
