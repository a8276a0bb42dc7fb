"""What the state itself calls for at a time: a lookup, the next step of a round, a heartbeat, a departure; and what a
heartbeat's response means (scenarios: tests/spec/member/heartbeat.txt)."""

from __future__ import annotations

from coterie.assignors import RebalanceProtocol
from coterie.member import events as e
from coterie.member.config import MemberConfig
from coterie.member.decision import MemberDecision
from coterie.member.effects import FindCoordinator, LookForUnassigned, Revoke, Send, TopicPartition
from coterie.member.remedies import apply_remedy, lose_coordinator
from coterie.member.requests import heartbeat_request, join_request
from coterie.member.rounds import topics_of
from coterie.member.state import NOT_TAKING_PART, MemberState, Stage
from coterie.member.subscription import decide_poll_interval_exceeded
from coterie.wire.errors import error_of
from coterie.wire.messages.groups.heartbeat import HeartbeatRequest, HeartbeatResponse


def settle(decision: MemberDecision, now_ms: int) -> None:
    """Everything that is due; a second time at once there is nothing."""
    late = now_ms > poll_deadline_ms(decision.state, decision.config)
    if late and decision.state.stage not in NOT_TAKING_PART:
        decide_poll_interval_exceeded(decision)
    _settle_session(decision, now_ms)
    _settle_lookup(decision, now_ms)
    if decision.state.coordinator.known:
        _settle_prepare(decision)
        _settle_join(decision, now_ms)
        _settle_heartbeat(decision, now_ms)
        _settle_unassigned_check(decision, now_ms)


def poll_deadline_ms(state: MemberState, config: MemberConfig) -> int:
    """The last moment of the next poll (max.poll.interval.ms)."""
    return state.heartbeat.last_poll_ms + config.max_poll_interval_ms


def next_deadline_ms(state: MemberState, config: MemberConfig) -> int | None:
    """When to settle although nothing was heard; None: only after an input."""
    if state.stage in NOT_TAKING_PART:
        return None
    coordinator, heartbeat = state.coordinator, state.heartbeat
    due_ms = poll_deadline_ms(state, config) + 1
    if not coordinator.known:
        # Heartbeats wait for the coordinator: a deadline of theirs that cannot be met would wake for nothing.
        if not coordinator.lookup_in_flight:
            due_ms = min(due_ms, coordinator.retry_at_ms)
    elif state.stage == Stage.READY:
        due_ms = min(due_ms, coordinator.retry_at_ms)
    elif state.owes_heartbeats:
        due_ms = min(due_ms, heartbeat.session_deadline_ms if heartbeat.in_flight else heartbeat.due_ms)
        if state.round.unassigned_check_due_ms is not None and state.stage == Stage.STABLE:
            due_ms = min(due_ms, state.round.unassigned_check_due_ms)
    return due_ms


def _settle_lookup(decision: MemberDecision, now_ms: int) -> None:
    coordinator = decision.state.coordinator
    wanted = not coordinator.known and not coordinator.lookup_in_flight and now_ms >= coordinator.retry_at_ms
    if wanted and decision.state.stage not in NOT_TAKING_PART:
        decision.record(e.CoordinatorLookupStarted())
        decision.request(FindCoordinator())


def _settle_prepare(decision: MemberDecision) -> None:
    """ConsumerCoordinator.onJoinPrepare."""
    if decision.state.stage != Stage.REJOIN_NEEDED:
        return
    partitions = _to_revoke(decision.state, decision.config)
    if partitions:
        decision.record(e.RevocationStarted(partitions))
        decision.request(Revoke(partitions, decision.state.ownership.lost))
    elif decision.state.ownership.revoking:
        decision.record(e.RevocationAwaited())
    else:
        decision.record(e.PrepareCompleted())


def _to_revoke(state: MemberState, config: MemberConfig) -> tuple[TopicPartition, ...]:
    """Before a rebalance: everything where it is eager or lost, else what is no longer subscribed to (KIP-429)."""
    if state.ownership.lost or config.protocol == RebalanceProtocol.EAGER:
        return state.ownership.kept()
    return tuple(tp for tp in state.ownership.kept() if tp[0] not in state.membership.topics)


def _settle_join(decision: MemberDecision, now_ms: int) -> None:
    state = decision.state
    if state.stage == Stage.READY and now_ms >= state.coordinator.retry_at_ms:
        request = join_request(decision.config, state.membership, state.ownership)
        decision.record(e.JoinSent(request))
        decision.request(Send(request))


def _settle_unassigned_check(decision: MemberDecision, now_ms: int) -> None:
    due_ms = decision.state.round.unassigned_check_due_ms
    if due_ms is not None and now_ms >= due_ms and decision.state.stage == Stage.STABLE:
        decision.record(e.UnassignedCheckStarted())
        decision.request(LookForUnassigned(topics_of(decision.state.round.subscribers)))


def _settle_session(decision: MemberDecision, now_ms: int) -> None:
    """A coordinator that has not responded within the session timeout counts as lost."""
    heartbeat = decision.state.heartbeat
    if heartbeat.in_flight and now_ms >= heartbeat.session_deadline_ms and decision.state.owes_heartbeats:
        decision.record(e.HeartbeatEnded(successful=False))
        lose_coordinator(decision, now_ms)


def _settle_heartbeat(decision: MemberDecision, now_ms: int) -> None:
    """Sends the heartbeat that is due; one at a time."""
    config, heartbeat, membership = decision.config, decision.state.heartbeat, decision.state.membership
    if heartbeat.in_flight or now_ms < heartbeat.due_ms or not decision.state.owes_heartbeats:
        return
    decision.record(e.HeartbeatSent(now_ms + config.heartbeat_interval_ms, now_ms + config.session_timeout_ms))
    decision.request(Send(heartbeat_request(config, membership.member_id, membership.generation)))


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
