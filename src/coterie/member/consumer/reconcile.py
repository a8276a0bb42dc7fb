"""Reconciliation: from the assignment in use to the coordinator's target, by the listener's callbacks, and acknowledged
(Kafka's AbstractMembershipManager.maybeReconcile; scenarios: tests/spec/consumer_member/reconcile.txt).

The target names topics by id; those without a name yet wait for their metadata, the others go ahead. What is to be
revoked is revoked first, with the automatic commit before it; then the rest is assigned, then the next heartbeat reports
it. A heartbeat reports everything that is or is about to be read: nothing of it is given up early. A target that
arrives meanwhile is reconciled after it."""

from __future__ import annotations

from collections.abc import Mapping

from coterie.member.consumer import events as e
from coterie.member.consumer.decision import ConsumerMemberDecision, LookUpTopics
from coterie.member.consumer.state import ConsumerMembershipState, ConsumerStage
from coterie.member.effects import Assigned, Revoke


def settle_topic_names(decision: ConsumerMemberDecision, now_ms: int) -> None:
    """Requests the missing names, one request at a time."""
    due_ms = topic_lookup_due_ms(decision.state)
    if due_ms is not None and now_ms >= due_ms:
        decision.record(e.TopicLookupStarted())
        decision.request(LookUpTopics(decision.state.unresolved()))


def topic_lookup_due_ms(state: ConsumerMembershipState) -> int | None:
    """None: no name is missing, or the request is in flight."""
    if state.stage != ConsumerStage.RECONCILING or state.topics.lookup_in_flight or not state.unresolved():
        return None
    return state.topics.lookup_retry_at_ms


def decide_topics_looked_up(decision: ConsumerMemberDecision, names: Mapping[bytes, str], now_ms: int) -> None:
    """A name that is still missing, such as that of a topic deleted meanwhile, is looked up again after a pause."""
    pause_ms = decision.backoff().pause_ms(decision.state.topics.lookup_failures)
    decision.record(e.TopicLookupEnded(names, now_ms + pause_ms))


def settle_reconciliation(decision: ConsumerMemberDecision) -> None:
    """Begins the reconciliation that is due; one at a time."""
    state, assignment = decision.state, decision.state.assignment
    if state.stage != ConsumerStage.RECONCILING or assignment.reconciling is not None or assignment.awaits_poll:
        return
    resolved, current = state.resolved(), assignment.current
    if resolved == current:
        return  # the rest waits for its names
    if resolved.partitions == current.partitions == assignment.owned and (current.number >= 0 or state.unresolved()):
        if current.number >= 0:
            decision.record(e.UnchangedAssignmentTaken())
        return
    revoked = assignment.owned - resolved.partitions
    decision.record(e.ReconciliationStarted(resolved, revoked))
    if revoked:
        decision.request(Revoke(state.named(revoked), lost=False))
    else:
        _assign(decision)


def _assign(decision: ConsumerMemberDecision) -> None:
    before = decision.state.assignment.owned
    decision.record(e.PartitionsAssigned())
    state = decision.state
    owned = state.assignment.owned
    decision.request(Assigned(state.named(owned), state.epochs.epoch, state.named(owned - before)))


def decide_listener_returned(decision: ConsumerMemberDecision, *, failed: bool) -> None:
    """From the first callback under way. A reconciliation goes on with its next step, unless the callback raised; one that
    the member was fenced or left from is over. Ignored where the member has left since."""
    if not decision.state.assignment.calls:
        return
    revoked = decision.state.assignment.calls[0].revoked
    is_reconciling = decision.state.assignment.reconciling is not None
    decision.record(e.ListenerReturned(keeps=failed and is_reconciling))
    if not is_reconciling:
        return
    if failed:
        decision.record(e.ReconciliationFailed())
    elif revoked is not None:
        _assign(decision)
    else:
        decision.record(e.ReconciliationEnded())
