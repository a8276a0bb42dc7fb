"""Which function decides a command for a share group, and what a share group refuses."""

from __future__ import annotations

from coterie.coordinator.commands import (
    Command,
    DeadlineExpired,
    DeleteGroup,
    StatesDeleted,
    StatesDeleting,
    StatesInitialized,
    TopicsDeleted,
)
from coterie.coordinator.consumer.member_checks import check_request
from coterie.coordinator.consumer.offsets import check_deletable
from coterie.coordinator.outcome import Context, CoordinatorConfig, Outcome, Reply
from coterie.coordinator.share.heartbeat import (
    check_share_request,
    decide_share_expired,
    decide_share_heartbeat,
    share_tombstones,
)
from coterie.coordinator.share.state import ShareGroup
from coterie.coordinator.share.states import (
    decide_alter_offsets,
    decide_delete_offsets,
    decide_states_deleted,
    decide_states_deleting,
    decide_states_initialized,
    decide_states_of_deleted_topics,
)
from coterie.coordinator.state import Cause
from coterie.wire.errors import ErrorCode, Refusal
from coterie.wire.messages.groups.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from coterie.wire.messages.groups.delete_groups import DeletableGroupResult, DeleteGroupsResponse
from coterie.wire.messages.groups.heartbeat import HeartbeatRequest
from coterie.wire.messages.groups.join_group import JoinGroupRequest
from coterie.wire.messages.groups.leave_group import LeaveGroupRequest
from coterie.wire.messages.groups.offset_commit import OffsetCommitRequest
from coterie.wire.messages.groups.offset_delete import OffsetDeleteRequest
from coterie.wire.messages.groups.sync_group import SyncGroupRequest
from coterie.wire.messages.share.alter_share_group_offsets import AlterShareGroupOffsetsRequest
from coterie.wire.messages.share.delete_share_group_offsets import DeleteShareGroupOffsetsRequest
from coterie.wire.messages.share.share_group_heartbeat import ShareGroupHeartbeatRequest
from coterie.wire.messages.streams.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from coterie.wire.messages.transactions.txn_offset_commit import TxnOffsetCommitRequest

SHARE_COMMANDS = (
    ShareGroupHeartbeatRequest,
    AlterShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequest,
    StatesInitialized,
    StatesDeleting,
    StatesDeleted,
)


def decide_share(group: ShareGroup, exists: bool, command: Command, ctx: Context, config: CoordinatorConfig) -> Outcome:
    """The outcome of a command. Raises Refusal."""
    match command:
        case ShareGroupHeartbeatRequest():
            return decide_share_heartbeat(group, exists, command, ctx, config)
        case DeadlineExpired() if command.member_id:
            return decide_share_expired(group, command.member_id, ctx, at_once=command.at_once)
        case AlterShareGroupOffsetsRequest():
            return decide_alter_offsets(group, command, ctx)
        case DeleteShareGroupOffsetsRequest():
            if not exists:
                raise Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group.group_id} not found.")
            return decide_delete_offsets(group, command, ctx)
        case StatesInitialized() if exists:
            return decide_states_initialized(group, command, ctx)
        case StatesDeleting():
            return decide_states_deleting(group, command, ctx)
        case StatesDeleted() if exists:
            return decide_states_deleted(group, command, ctx)
        case TopicsDeleted():
            return decide_states_of_deleted_topics(group, frozenset(topic_id for _, topic_id in command.topics))
        case DeleteGroup():
            check_deletable(exists and not group.is_dead, bool(group.members))
            response = DeleteGroupsResponse(results=[DeletableGroupResult(command.group_id, ErrorCode.NONE)])
            return Outcome(share_tombstones(group, Cause("deleted")), [Reply(ctx.token, response)])
        case _:
            return _refused(group, command, ctx, config)


def _refused(group: ShareGroup, command: Command, ctx: Context, config: CoordinatorConfig) -> Outcome:
    """Requests of groups of other kinds. Raises Refusal."""
    match command:
        case JoinGroupRequest():
            raise Refusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        case HeartbeatRequest() | SyncGroupRequest() | LeaveGroupRequest():
            raise Refusal(ErrorCode.UNKNOWN_MEMBER_ID)
        case ConsumerGroupHeartbeatRequest():
            check_request(command, ctx.api_version, config.consumer_group_assignors)
            raise Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group.group_id} is not a consumer group.")
        case StreamsGroupHeartbeatRequest():
            raise Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group.group_id} is not a streams group.")
        case OffsetCommitRequest() | TxnOffsetCommitRequest() | OffsetDeleteRequest():
            raise Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group.group_id} is not a consumer group.")
        case _:
            return Outcome()


def refuse_share_command(group_id: str, command: Command) -> Outcome:
    """A command of share groups for a group of another kind. Raises Refusal GROUP_ID_NOT_FOUND."""
    if isinstance(command, ShareGroupHeartbeatRequest):
        check_share_request(command)
    raise Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a share group.")
