"""Heartbeats: responses, and a session without any (scenarios: tests/spec/member/heartbeat.txt)."""

from __future__ import annotations

from coterie.member import events as e
from coterie.member.decision import MemberDecision
from coterie.member.decisions.remedies import apply_remedy, lose_coordinator
from coterie.member.effects import Send
from coterie.member.requests import heartbeat_request
from coterie.wire.errors import error_of
from coterie.wire.messages.groups.heartbeat import HeartbeatRequest, HeartbeatResponse


def decide_heartbeat_response(
    decision: MemberDecision, request: HeartbeatRequest, response: HeartbeatResponse, now_ms: int
) -> None:
    """An error counts only where the heartbeat was of the present generation
    (testHeartbeatIllegalGenerationResponseWithOldGeneration)."""
    code = error_of(response.error_code)
    decision.record(e.HeartbeatEnded(successful=not code))
    membership = decision.state.membership
    current = (request.member_id, request.generation_id) == (membership.member_id, membership.generation)
    if code and current and decision.state.owes_heartbeats:
        apply_remedy(decision, request, code, now_ms)


def settle_session(decision: MemberDecision, now_ms: int) -> None:
    """A coordinator that has not responded within the session timeout counts as lost."""
    heartbeat = decision.state.heartbeat
    if heartbeat.in_flight and now_ms >= heartbeat.session_deadline_ms and decision.state.owes_heartbeats:
        decision.record(e.HeartbeatEnded(successful=False))
        lose_coordinator(decision, now_ms)


def settle_heartbeat(decision: MemberDecision, now_ms: int) -> None:
    """Sends the heartbeat that is due; one at a time."""
    config, heartbeat, membership = decision.config, decision.state.heartbeat, decision.state.membership
    if heartbeat.in_flight or now_ms < heartbeat.due_ms or not decision.state.owes_heartbeats:
        return
    decision.record(e.HeartbeatSent(now_ms + config.heartbeat_interval_ms, now_ms + config.session_timeout_ms))
    decision.request(Send(heartbeat_request(config, membership.member_id, membership.generation)))
