"""Heartbeat (scenarios: tests/spec/heartbeat.txt). In a settled group it makes no event: it moves one deadline."""

from __future__ import annotations

from coterie.coordinator.classic.member_checks import known_member, refuse_dead, refuse_unnamed, same_generation
from coterie.coordinator.outcome import Context, Outcome, Reply
from coterie.coordinator.state import EMPTY, PREPARING, Group
from coterie.wire.errors import ErrorCode, Refusal
from coterie.wire.messages.groups.heartbeat import HeartbeatRequest, HeartbeatResponse


def decide_heartbeat(group: Group, request: HeartbeatRequest, ctx: Context) -> Outcome:
    """Restarts the session; the response carries REBALANCE_IN_PROGRESS during a rebalance. Raises Refusal."""
    refuse_unnamed(group)
    refuse_dead(group)
    member = known_member(group, request.member_id, request.group_instance_id)
    same_generation(group, request.generation_id)
    if group.phase == EMPTY:
        raise Refusal(ErrorCode.UNKNOWN_MEMBER_ID)
    code = ErrorCode.REBALANCE_IN_PROGRESS if group.phase == PREPARING else ErrorCode.NONE
    deadline = (member.member_id, ctx.now_ms + member.session_timeout_ms)
    return Outcome([], [Reply(ctx.token, HeartbeatResponse(0, code))], [deadline], is_heartbeat=True)
