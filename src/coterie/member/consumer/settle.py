"""What the state of a member of the consumer protocol itself calls for at a time."""

from __future__ import annotations

from coterie.member.consumer.config import ConsumerMemberConfig
from coterie.member.consumer.decision import ConsumerMemberDecision
from coterie.member.consumer.heartbeat import heartbeat_due_ms, settle_state_heartbeat
from coterie.member.consumer.reconcile import settle_reconciliation, settle_topic_names, topic_lookup_due_ms
from coterie.member.consumer.stages import HEARTBEATS, TAKES_TARGETS
from coterie.member.consumer.state import ConsumerMembershipState
from coterie.member.consumer.subscription import poll_due_ms, settle_poll_interval
from coterie.member.effects import FindCoordinator
from coterie.member.events import CoordinatorLookupStarted


def settle_member(decision: ConsumerMemberDecision, now_ms: int) -> None:
    """Everything that is due; a second time at once there is nothing."""
    settle_poll_interval(decision, now_ms)
    _settle_coordinator(decision, now_ms)
    settle_topic_names(decision, now_ms)
    settle_reconciliation(decision)
    settle_state_heartbeat(decision, now_ms)
    # An acknowledgement may lead to the target that arrived meanwhile.
    settle_topic_names(decision, now_ms)
    settle_reconciliation(decision)


def _settle_coordinator(decision: ConsumerMemberDecision, now_ms: int) -> None:
    coordinator = decision.state.coordinator
    wanted = not coordinator.known and not coordinator.lookup_in_flight and now_ms >= coordinator.retry_at_ms
    if wanted and decision.state.stage in HEARTBEATS:
        decision.record(CoordinatorLookupStarted())
        decision.request(FindCoordinator())


def member_deadline_ms(state: ConsumerMembershipState, config: ConsumerMemberConfig) -> int | None:
    """When to settle although no input came; None: only after an input."""
    times: list[int | None] = [heartbeat_due_ms(state), topic_lookup_due_ms(state)]
    if state.stage in TAKES_TARGETS:
        times.append(poll_due_ms(state, config.max_poll_interval_ms) + 1)
    if state.stage in HEARTBEATS and not state.coordinator.known and not state.coordinator.lookup_in_flight:
        times.append(state.coordinator.retry_at_ms)
    return min((time for time in times if time is not None), default=None)
