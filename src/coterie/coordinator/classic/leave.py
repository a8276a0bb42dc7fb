"""Members that go: by LeaveGroup (scenarios: tests/spec/leave.txt), one up to v2, a batch from v3, each with its own error; and
at the end of their session, reservation or rebalance deadline (tests/spec/timers.txt)."""

from __future__ import annotations

from coterie.coordinator import events as e
from coterie.coordinator.classic.join import join_refused
from coterie.coordinator.classic.member_checks import refuse_dead, refuse_unnamed
from coterie.coordinator.classic.sync import sync_refused
from coterie.coordinator.outcome import Context, CoordinatorConfig, Outcome, Reply
from coterie.coordinator.state import COMPLETING, STABLE, UNKNOWN_MEMBER, Cause, Group
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.groups.join_group import JoinGroupRequest
from coterie.wire.messages.groups.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)

BATCH_FROM = 3
# Since Kafka 4 every departure from one of these phases begins a rebalance, a pending id's too (`./run conformance` shows it).
_REBALANCED_BY_PENDING_LEAVE = (STABLE, COMPLETING)


def decide_leave(group: Group, request: LeaveGroupRequest, ctx: Context, config: CoordinatorConfig) -> Outcome:
    """Removes the members named. Raises Refusal for a Dead group only."""
    refuse_unnamed(group)
    refuse_dead(group)
    batch = ctx.api_version >= BATCH_FROM
    identities = request.members if batch else [MemberIdentity(request.member_id)]
    outcome, results, gone = Outcome(), list[MemberResponse](), set[str]()
    for identity in identities:
        code = _leave_one(group, identity, gone, outcome, config)
        results.append(MemberResponse(identity.member_id, identity.group_instance_id, code))
    if batch:
        response = LeaveGroupResponse(error_code=ErrorCode.NONE, members=results)
    else:
        response = LeaveGroupResponse(error_code=results[0].error_code)
    outcome.replies.append(Reply(ctx.token, response))
    return outcome


def _leave_one(
    group: Group, identity: MemberIdentity, gone: set[str], outcome: Outcome, config: CoordinatorConfig
) -> ErrorCode:
    member_id, static = identity.member_id, identity.group_instance_id
    if member_id in group.reservations and member_id not in gone:
        gone.add(member_id)
        cause = Cause("member_left", member_id, reason=identity.reason)
        outcome.events.append(e.ReservationDropped(member_id, cause))
        if group.phase in _REBALANCED_BY_PENDING_LEAVE and config.pending_leave_rebalances:
            outcome.events.append(e.RebalanceWanted(cause))
        return ErrorCode.NONE
    if static is not None:
        current = group.static_members.get(static)
        if current is None or current in gone:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if member_id not in (UNKNOWN_MEMBER, current):
            return ErrorCode.FENCED_INSTANCE_ID
        member_id = current
    member = group.members.get(member_id)
    if member is None or member_id in gone:
        return ErrorCode.UNKNOWN_MEMBER_ID
    gone.add(member_id)
    cause = Cause("member_left", member_id, member.client_id, member.group_instance_id, identity.reason)
    remove_member(group, member_id, cause, outcome)
    return ErrorCode.NONE


def remove_member(group: Group, member_id: str, cause: Cause, outcome: Outcome) -> None:
    """Adds a member's removal to an outcome; its waiting requests receive UNKNOWN_MEMBER_ID."""
    unknown = ErrorCode.UNKNOWN_MEMBER_ID
    if member_id in group.waiting_joins:
        outcome.replies.append(
            Reply(group.waiting_joins[member_id], join_refused(JoinGroupRequest(), unknown, UNKNOWN_MEMBER))
        )
    if member_id in group.waiting_syncs:
        outcome.replies.append(Reply(group.waiting_syncs[member_id], sync_refused(unknown)))
    outcome.events.append(e.MemberRemoved(member_id, cause))


def decide_member_expired(group: Group, member_id: str, ctx: Context, *, at_once: bool = False) -> Outcome:
    """Removes a silent member or an unused id. A member that waits for a response of ours is not silent. ``at_once``: as if
    its time were up."""
    reservation = group.reservations.get(member_id)
    if reservation is not None:
        if reservation.deadline_ms > ctx.now_ms and not at_once:
            return Outcome()
        return Outcome([e.ReservationDropped(member_id, Cause("session_timeout", member_id))])
    member = group.members.get(member_id)
    if member is None or (member.deadline_ms > ctx.now_ms and not at_once):
        return Outcome()
    if group.is_waiting(member_id) and not member.is_new and not at_once:
        return Outcome(deadlines=[(member_id, ctx.now_ms + member.session_timeout_ms)])
    kind = "join_timeout" if member.is_new else "session_timeout"
    outcome = Outcome()
    remove_member(group, member_id, Cause(kind, member_id, member.client_id, member.group_instance_id), outcome)
    return outcome
