"""A group is of the classic, the consumer or the share protocol, or of Kafka Streams: which function decides a command for it,
and what turns one kind into another."""

from __future__ import annotations

from coterie.coordinator import events as e
from coterie.coordinator.classic.join import decide_join, join_refused
from coterie.coordinator.classic.leave import decide_leave, decide_member_expired
from coterie.coordinator.classic.member_checks import decide_heartbeat
from coterie.coordinator.classic.sync import decide_sync, group_store_error
from coterie.coordinator.commands import (
    Command,
    DeadlineExpired,
    DeleteGroup,
    ExpireOffsets,
    RegexesResolved,
    TopicsDeleted,
)
from coterie.coordinator.consumer.classic_members import (
    decide_classic_heartbeat,
    decide_classic_join,
    decide_classic_sync,
)
from coterie.coordinator.consumer.convert import upgrade
from coterie.coordinator.consumer.events import ConsumerEvent
from coterie.coordinator.consumer.heartbeat import decide_consumer_heartbeat
from coterie.coordinator.consumer.leave import decide_consumer_expired, decide_group_leave
from coterie.coordinator.consumer.member_checks import check_request
from coterie.coordinator.consumer.offsets import (
    decide_delete_consumer_group,
    decide_expire_consumer_offsets,
    tombstones,
)
from coterie.coordinator.consumer.regexes import decide_regexes_resolved
from coterie.coordinator.consumer.replay import replay_consumer
from coterie.coordinator.consumer.state import JOIN_GROUP_EPOCH, ConsumerGroup
from coterie.coordinator.offsets.commit import decide_commit
from coterie.coordinator.offsets.delete import (
    decide_delete_group,
    decide_expire_offsets,
    decide_offset_delete,
    decide_topics_deleted,
)
from coterie.coordinator.offsets.transactional import decide_txn_commit
from coterie.coordinator.outcome import Context, CoordinatorConfig, Outcome, Reply
from coterie.coordinator.refusals import response_with
from coterie.coordinator.replay import AnyGroup
from coterie.coordinator.share.decide import SHARE_COMMANDS, decide_share, refuse_share_command
from coterie.coordinator.share.state import ShareGroup
from coterie.coordinator.state import UNKNOWN_MEMBER, Cause, Group, Phase
from coterie.coordinator.streams.heartbeat import decide_streams_heartbeat
from coterie.coordinator.streams.leave import decide_streams_expired, streams_tombstones
from coterie.coordinator.streams.member_checks import check_streams_request
from coterie.coordinator.streams.offsets import decide_delete_streams_group, decide_expire_streams_offsets
from coterie.coordinator.streams.state import StreamsGroup
from coterie.coordinator.streams.steps import decide_initial_target
from coterie.wire.errors import ErrorCode, Refusal
from coterie.wire.messages.groups.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from coterie.wire.messages.groups.delete_groups import DeletableGroupResult, DeleteGroupsResponse
from coterie.wire.messages.groups.heartbeat import HeartbeatRequest
from coterie.wire.messages.groups.join_group import JoinGroupRequest
from coterie.wire.messages.groups.leave_group import LeaveGroupRequest
from coterie.wire.messages.groups.offset_commit import OffsetCommitRequest
from coterie.wire.messages.groups.offset_delete import OffsetDeleteRequest
from coterie.wire.messages.groups.sync_group import SyncGroupRequest
from coterie.wire.messages.share.share_group_heartbeat import ShareGroupHeartbeatRequest
from coterie.wire.messages.streams.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from coterie.wire.messages.transactions.txn_offset_commit import TxnOffsetCommitRequest

_OF_MEMBERS = (
    ConsumerGroupHeartbeatRequest,
    ShareGroupHeartbeatRequest,
    StreamsGroupHeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
)


def decide(group: AnyGroup, exists: bool, command: Command, ctx: Context, config: CoordinatorConfig) -> Outcome:
    """The outcome of a command. Raises Refusal."""
    match command:
        case HeartbeatRequest() if isinstance(group, Group):  # by far the most frequent one
            return decide_heartbeat(group, command, ctx)
        case ConsumerGroupHeartbeatRequest() if isinstance(group, ConsumerGroup):
            outcome = decide_consumer_heartbeat(group, exists, command, ctx, config)
            return _mapping_store_errors(outcome, command, ctx) if outcome.events else outcome
        case StreamsGroupHeartbeatRequest() if isinstance(group, StreamsGroup):
            outcome = decide_streams_heartbeat(group, exists, command, ctx, config)
            return _mapping_store_errors(outcome, command, ctx) if outcome.events else outcome
        case JoinGroupRequest() | LeaveGroupRequest() if isinstance(group, Group):
            return _decide_classic(group, exists, command, ctx, config)
        case _ if isinstance(group, ShareGroup):
            return _mapping_store_errors(decide_share(group, exists, command, ctx, config), command, ctx)
        case _ if isinstance(command, SHARE_COMMANDS):
            return refuse_share_command(group.group_id, command)
        case OffsetCommitRequest():
            return decide_commit(group, exists, command, ctx, config)
        case TxnOffsetCommitRequest():
            return decide_txn_commit(group, exists, command, ctx, config)
        case OffsetDeleteRequest():
            return decide_offset_delete(group, exists, command, ctx)
        case TopicsDeleted():
            return decide_topics_deleted(group, command.topics)
        case DeleteGroup():
            if isinstance(group, Group):
                outcome = decide_delete_group(group, exists)
            elif isinstance(group, ConsumerGroup):
                outcome = decide_delete_consumer_group(group, exists)
            else:
                outcome = decide_delete_streams_group(group, exists)
            response = DeleteGroupsResponse(results=[DeletableGroupResult(command.group_id, ErrorCode.NONE)])
            outcome.replies.append(Reply(ctx.token, response))
            return outcome
        case _ if isinstance(group, ConsumerGroup):
            return _mapping_store_errors(_decide_consumer(group, exists, command, ctx, config), command, ctx)
        case StreamsGroupHeartbeatRequest() if isinstance(group, Group):
            return _mapping_store_errors(_become_streams(group, exists, command, ctx, config), command, ctx)
        case _ if isinstance(group, StreamsGroup):
            return _mapping_store_errors(_decide_streams(group, command, ctx, config), command, ctx)
        case ConsumerGroupHeartbeatRequest():
            return _mapping_store_errors(_become_consumer(group, exists, command, ctx, config), command, ctx)
        case _:
            return _decide_classic(group, exists, command, ctx, config)


def _mapping_store_errors(outcome: Outcome, command: Command, ctx: Context) -> Outcome:
    """The response of a member whose records could not be appended has Kafka's error for that; of a JoinGroup it has that
    alone (GroupCoordinatorService.joinGroup)."""
    if outcome.on_append_error is None and isinstance(command, _OF_MEMBERS):

        def failed(code: ErrorCode) -> Outcome:
            error = group_store_error(code)
            if isinstance(command, JoinGroupRequest):
                return Outcome(replies=[Reply(ctx.token, join_refused(command, error, UNKNOWN_MEMBER))])
            return Outcome(replies=[Reply(ctx.token, response_with(command, error))])

        outcome.on_append_error = failed
    return outcome


def _decide_classic(group: Group, exists: bool, command: Command, ctx: Context, config: CoordinatorConfig) -> Outcome:
    match command:
        case JoinGroupRequest():
            return decide_join(group, exists, command, ctx, config)
        case SyncGroupRequest():
            return decide_sync(group, command, ctx)
        case LeaveGroupRequest():
            return decide_leave(group, command, ctx, config)
        case DeadlineExpired() if command.member_id:
            return decide_member_expired(group, command.member_id, ctx, at_once=command.at_once)
        case ExpireOffsets():
            return decide_expire_offsets(group, ctx.now_ms, config) if exists else Outcome()
        case _:
            return Outcome()


def _decide_consumer(
    group: ConsumerGroup, exists: bool, command: Command, ctx: Context, config: CoordinatorConfig
) -> Outcome:
    match command:
        case JoinGroupRequest() if group.members:
            return decide_classic_join(group, command, ctx, config)
        case JoinGroupRequest():
            return _become_classic(group, command, ctx, config)
        case HeartbeatRequest():
            return decide_classic_heartbeat(group, command, ctx)
        case SyncGroupRequest():
            return decide_classic_sync(group, command, ctx)
        case LeaveGroupRequest():
            return decide_group_leave(group, command, ctx, config)
        case DeadlineExpired() if command.member_id:
            return decide_consumer_expired(group, command.member_id, ctx, config, at_once=command.at_once)
        case RegexesResolved():
            return decide_regexes_resolved(group, command, ctx)
        case ExpireOffsets():
            return decide_expire_consumer_offsets(group, ctx.now_ms, config)
        case StreamsGroupHeartbeatRequest():
            check_streams_request(command)
            raise Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group.group_id} is not a streams group.")
        case _:
            return Outcome()


def _decide_streams(group: StreamsGroup, command: Command, ctx: Context, config: CoordinatorConfig) -> Outcome:
    match command:
        case DeadlineExpired() if command.member_id:
            return decide_streams_expired(group, command.member_id, ctx, at_once=command.at_once)
        case DeadlineExpired():
            return decide_initial_target(group, ctx, config)
        case ExpireOffsets():
            return decide_expire_streams_offsets(group, ctx.now_ms, config)
        case JoinGroupRequest() if not group.members:
            return _become_classic(group, command, ctx, config)
        case JoinGroupRequest():
            raise Refusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        case ConsumerGroupHeartbeatRequest():
            check_request(command, ctx.api_version, config.consumer_group_assignors)
            raise Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group.group_id} is not a consumer group.")
        case HeartbeatRequest() | SyncGroupRequest() | LeaveGroupRequest():
            raise Refusal(ErrorCode.UNKNOWN_MEMBER_ID)
        case _:
            return Outcome()


def _become_consumer(
    group: Group, exists: bool, request: ConsumerGroupHeartbeatRequest, ctx: Context, config: CoordinatorConfig
) -> Outcome:
    """A member of the consumer protocol joins: a group without members is replaced, one with members is converted. Raises
    Refusal."""
    check_request(request, ctx.api_version, config.consumer_group_assignors)
    if exists and request.member_epoch != JOIN_GROUP_EPOCH:
        raise Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group.group_id} is not a consumer group.")
    if group.phase != Phase.EMPTY:
        converted = upgrade(group, config, ctx.topics, ctx.now_ms)
    else:
        recorded = group.protocol_type is not None
        converted = Outcome([e.GroupRemoved(Cause("upgraded"), recorded)] if exists else [])
    after = ConsumerGroup(group.group_id)
    for event in converted.events:
        if isinstance(event, ConsumerEvent):
            replay_consumer(after, event, ctx.now_ms)
    outcome = decide_consumer_heartbeat(after, bool(after.members), request, ctx, config)
    outcome.events[:0], outcome.replies[:0] = converted.events, converted.replies
    outcome.deadlines[:0] = converted.deadlines
    return outcome


def _become_streams(
    group: Group, exists: bool, request: StreamsGroupHeartbeatRequest, ctx: Context, config: CoordinatorConfig
) -> Outcome:
    """A member of Kafka Streams joins: a group without members is replaced, one with members is not. Raises Refusal."""
    check_streams_request(request)
    if exists and (request.member_epoch != JOIN_GROUP_EPOCH or group.phase != Phase.EMPTY):
        raise Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group.group_id} is not a streams group.")
    outcome = decide_streams_heartbeat(StreamsGroup(group.group_id), False, request, ctx, config)
    if exists:
        outcome.events.insert(0, e.GroupRemoved(Cause("became_streams"), group.protocol_type is not None))
    return outcome


def _become_classic(
    group: ConsumerGroup | StreamsGroup, request: JoinGroupRequest, ctx: Context, config: CoordinatorConfig
) -> Outcome:
    """A group without members becomes one of the classic protocol and keeps its offsets. Raises Refusal."""
    outcome = decide_join(Group(group.group_id), False, request, ctx, config)
    cause = Cause("downgraded")
    outcome.events[:0] = tombstones(group, cause) if isinstance(group, ConsumerGroup) else streams_tombstones(cause)
    return outcome
