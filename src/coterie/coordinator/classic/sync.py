"""SyncGroup (scenarios: tests/spec/sync.txt), and the record that stores a group: who is in it, and what each was assigned."""

from __future__ import annotations

from collections.abc import Mapping

from coterie.coordinator import events as e
from coterie.coordinator.classic.member_checks import known_member, refuse_dead, refuse_unnamed, same_generation
from coterie.coordinator.events import GroupStored
from coterie.coordinator.outcome import Context, Outcome, Reply
from coterie.coordinator.state import EMPTY, PREPARING, STABLE, Cause, Group
from coterie.wire.errors import ErrorCode, Refusal
from coterie.wire.messages.groups.sync_group import SyncGroupRequest, SyncGroupResponse
from coterie.wire.messages.stored.consumer_offsets import GroupMetadataValue, MemberMetadata

_STORE_ERRORS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.UNKNOWN_SERVER_ERROR,
}


def group_stored(group: Group, assignments: Mapping[str, bytes], now_ms: int) -> GroupStored:
    """The group as it stands, with these assignments; a member left out gets empty bytes."""
    assert group.protocol is not None
    return GroupStored(
        GroupMetadataValue(
            group.protocol_type or "",
            group.generation,
            group.protocol,
            group.leader,
            now_ms,
            [
                MemberMetadata(
                    m.member_id,
                    m.group_instance_id,
                    m.client_id,
                    m.client_host,
                    rebalance_timeout=m.rebalance_timeout_ms,
                    session_timeout=m.session_timeout_ms,
                    subscription=m.metadata(group.protocol),
                    assignment=assignments.get(m.member_id, b""),
                )
                for m in group.members.values()
            ],
        )
    )


def group_store_error(code: ErrorCode) -> ErrorCode:
    """The error in a member's response where the append of a group's record failed (scenario testStoreGroupErrorMapping)."""
    return _STORE_ERRORS.get(code, code)


def empty_group_stored(group: Group, generation: int, now_ms: int) -> GroupStored:
    """The record of a generation without members."""
    return GroupStored(GroupMetadataValue(group.protocol_type or "", generation, None, None, now_ms, []))


def sync_refused(code: ErrorCode) -> SyncGroupResponse:
    """A SyncGroup response with an error and no assignment."""
    return SyncGroupResponse(error_code=code)


def decide_sync(group: Group, request: SyncGroupRequest, ctx: Context) -> Outcome:
    """Has a follower wait, keeps a leader's assignment, or responds with the assigned partitions. Raises Refusal."""
    refuse_unnamed(group)
    refuse_dead(group)
    member = known_member(group, request.member_id, request.group_instance_id)
    same_generation(group, request.generation_id)
    if request.protocol_type is not None and request.protocol_type != group.protocol_type:
        raise Refusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if request.protocol_name is not None and request.protocol_name != group.protocol:
        raise Refusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if group.phase == EMPTY:
        raise Refusal(ErrorCode.UNKNOWN_MEMBER_ID)
    if group.phase == PREPARING:
        raise Refusal(ErrorCode.REBALANCE_IN_PROGRESS)
    if group.phase == STABLE:
        owed = [e.SyncReceived(member.member_id)] if member.member_id in group.pending_sync else []
        deadline = (member.member_id, ctx.now_ms + member.session_timeout_ms)
        return Outcome([*owed], [Reply(ctx.token, _share(group, member.assignment))], [deadline])
    superseded = [
        Reply(group.waiting_syncs[m], sync_refused(ErrorCode.REBALANCE_IN_PROGRESS))
        for m in (member.member_id,)
        if m in group.waiting_syncs
    ]
    if member.member_id != group.leader:
        return Outcome([e.SyncReceived(member.member_id, ctx.token)], superseded)
    return _keep_assignment(group, request, ctx, superseded)


def _share(group: Group, assignment: bytes) -> SyncGroupResponse:
    return SyncGroupResponse(protocol_type=group.protocol_type, protocol_name=group.protocol, assignment=assignment)


def _keep_assignment(group: Group, request: SyncGroupRequest, ctx: Context, superseded: list[Reply]) -> Outcome:
    assignments = {a.member_id: a.assignment for a in request.assignments}
    waiting = {**group.waiting_syncs, request.member_id: ctx.token}
    replies = [Reply(token, _share(group, assignments.get(m, b""))) for m, token in waiting.items()]
    deadlines = [(m, ctx.now_ms + group.members[m].session_timeout_ms) for m in waiting]
    cause = Cause("assignment_not_stored", request.member_id, ctx.client_id, request.group_instance_id)

    def failed(code: ErrorCode) -> Outcome:
        response = sync_refused(group_store_error(code))
        replies = [*superseded, *(Reply(token, response) for token in waiting.values())]
        return Outcome([e.AssignmentLost(cause)], replies, deadlines)

    return Outcome(
        [e.SyncReceived(request.member_id), group_stored(group, assignments, ctx.now_ms)],
        [*superseded, *replies],
        deadlines,
        on_append_error=failed,
    )
