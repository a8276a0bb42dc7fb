"""The only way to a new state of a member of the consumer protocol: apply one event. Never refuses; an impossible event is a
bug."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from coterie.member import events as shared
from coterie.member.consumer import events as e
from coterie.member.consumer.state import (
    CONSUMER_SUCCESSORS,
    JOIN_EPOCH,
    LEAVE_EPOCH,
    NO_ASSIGNMENT,
    AssignmentState,
    ConsumerMembershipState,
    ConsumerStage,
    EpochState,
    ListenerCall,
    LocalAssignment,
    TopicIdPartition,
)

State = ConsumerMembershipState


def replay_member(state: State, event: e.ConsumerMemberEvent) -> State:
    """The state after ``event``."""
    return _APPLY[type(event)](state, event)


def _to(state: State, stage: ConsumerStage) -> State:
    before = state.stage
    assert stage in CONSUMER_SUCCESSORS[before] or stage == before, f"{before.name} to {stage.name} is not a transition"
    return replace(state, stage=stage)


def _epochs(state: State, **changes: Any) -> State:
    if state.epochs.epoch > 0 and changes.get("epoch", state.epochs.epoch) <= 0:
        changes["former"] = state.epochs.epoch
    return replace(state, epochs=replace(state.epochs, **changes))


def _coordinator(state: State, **changes: Any) -> State:
    return replace(state, coordinator=replace(state.coordinator, **changes))


# Written out, as in `member/replay`: every poll and every heartbeat comes through here.
def _heartbeat(state: State, **changes: Any) -> State:
    part = replace(state.heartbeat, **changes)
    return State(state.stage, state.epochs, state.coordinator, part, state.topics, state.assignment)


def _assignment(state: State, **changes: Any) -> State:
    return replace(state, assignment=replace(state.assignment, **changes))


# -- the user ---------------------------------------------------------------------------------------------------------------


def _polled(state: State, event: shared.Polled) -> State:
    state = _heartbeat(state, last_poll_ms=event.now_ms)
    return _assignment(state, awaits_poll=False) if state.assignment.awaits_poll else state


def _topics_subscribed(state: State, event: e.TopicsSubscribed) -> State:
    return _heartbeat(_epochs(state, topics=event.topics, regex=event.regex), due_ms=event.now_ms)


def _join_started(state: State, event: e.JoinStarted) -> State:
    state = _assignment(state, target=NO_ASSIGNMENT, current=NO_ASSIGNMENT, lost=False)
    state = _epochs(state, epoch=JOIN_EPOCH, joins=state.epochs.joins + 1)
    return _to(_unheard(state), ConsumerStage.JOINING)


# -- the coordinator --------------------------------------------------------------------------------------------------------


def _lookup_started(state: State, event: shared.CoordinatorLookupStarted) -> State:
    return _coordinator(state, lookup_in_flight=True)


def _coordinator_found(state: State, event: shared.CoordinatorFound) -> State:
    return _coordinator(state, known=True, lookup_in_flight=False)


def _lookup_failed(state: State, event: shared.CoordinatorLookupFailed) -> State:
    return _coordinator(state, lookup_in_flight=False)


def _coordinator_lost(state: State, event: shared.CoordinatorLost) -> State:
    return _coordinator(state, known=False)


def _retry_scheduled(state: State, event: shared.RetryScheduled) -> State:
    return _coordinator(state, retry_at_ms=event.retry_at_ms, failures=state.coordinator.failures + 1)


def _unheard(state: State) -> State:
    return _heartbeat(state, request=None, sent=None, due_ms=0)


def _state_reported(state: State, event: e.StateReported) -> State:
    due_ms = event.now_ms + state.heartbeat.interval_ms
    state = _heartbeat(state, request=event.request, sent=event.sent, due_ms=due_ms)
    if state.stage != ConsumerStage.ACKNOWLEDGING:
        return state
    is_reconciled = state.assignment.current == state.assignment.target
    return _to(state, ConsumerStage.STABLE if is_reconciled else ConsumerStage.RECONCILING)


def _state_accepted(state: State, event: e.StateAccepted) -> State:
    due_ms, interval_ms = state.heartbeat.due_ms, event.interval_ms
    if interval_ms != state.heartbeat.interval_ms:
        due_ms = event.now_ms + interval_ms
    state = _heartbeat(state, request=None, interval_ms=interval_ms, due_ms=due_ms)
    return _coordinator(_epochs(state, epoch=event.epoch), failures=0)


def _state_unknown(state: State, event: e.StateUnknown) -> State:
    return _unheard(state)


def _sent_fields_forgotten(state: State, event: e.SentFieldsForgotten) -> State:
    return _heartbeat(state, sent=None)


# -- reconciliation ---------------------------------------------------------------------------------------------------------


def _target_received(state: State, event: e.TargetReceived) -> State:
    target = LocalAssignment(state.assignment.target.number + 1, event.partitions)
    return _to(_assignment(state, target=target), ConsumerStage.RECONCILING)


def _topic_lookup_started(state: State, event: e.TopicLookupStarted) -> State:
    return replace(state, topics=replace(state.topics, lookup_in_flight=True))


def _topic_lookup_ended(state: State, event: e.TopicLookupEnded) -> State:
    topics = replace(state.topics, names={**state.topics.names, **event.names}, lookup_in_flight=False)
    failures, retry_at_ms = topics.lookup_failures + 1, event.retry_at_ms
    if not replace(state, topics=topics).unresolved():
        failures = retry_at_ms = 0
    return replace(state, topics=replace(topics, lookup_failures=failures, lookup_retry_at_ms=retry_at_ms))


def _calling(state: State, revoked: frozenset[TopicIdPartition] | None) -> State:
    return _assignment(state, calls=(*state.assignment.calls, ListenerCall(revoked)))


def _reconciliation_started(state: State, event: e.ReconciliationStarted) -> State:
    state = _assignment(state, reconciling=event.assignment)
    return _calling(state, event.revoked) if event.revoked else state


def _reconciling(state: State) -> LocalAssignment:
    assert state.assignment.reconciling is not None, "no reconciliation is under way"
    return state.assignment.reconciling


def _partitions_assigned(state: State, event: e.PartitionsAssigned) -> State:
    return _calling(_assignment(state, owned=_reconciling(state).partitions), None)


def _reconciliation_ended(state: State, event: e.ReconciliationEnded) -> State:
    state = _assignment(state, current=_reconciling(state), reconciling=None)
    used = {topic for topic, _ in state.assignment.target.partitions | state.assignment.owned}
    names = {topic: name for topic, name in state.topics.names.items() if topic in used}
    return _to(replace(state, topics=replace(state.topics, names=names)), ConsumerStage.ACKNOWLEDGING)


def _reconciliation_failed(state: State, event: e.ReconciliationFailed) -> State:
    return _assignment(state, reconciling=None, awaits_poll=True)


def _unchanged_assignment_taken(state: State, event: e.UnchangedAssignmentTaken) -> State:
    return _to(_assignment(state, current=state.resolved()), ConsumerStage.ACKNOWLEDGING)


def _listener_returned(state: State, event: e.ListenerReturned) -> State:
    call, *others = state.assignment.calls
    owned = state.assignment.owned
    if call.revoked is not None and not event.keeps:
        owned -= call.revoked
    return _assignment(state, calls=tuple(others), owned=owned, lost=state.assignment.lost and bool(owned))


# -- the end ----------------------------------------------------------------------------------------------------------------


def _lost(state: State, partitions: frozenset[TopicIdPartition]) -> State:
    """Everything owned, of which the listener's next callback has these partitions."""
    state = _assignment(state, reconciling=None, awaits_poll=False, lost=bool(state.assignment.owned))
    return _calling(state, partitions) if partitions else state


def _epoch_fenced(state: State, event: e.EpochFenced) -> State:
    return _to(_lost(_unheard(_epochs(state, epoch=JOIN_EPOCH)), event.lost), ConsumerStage.FENCED)


def _leave_prepared(state: State, event: e.LeavePrepared) -> State:
    return _to(_assignment(state, reconciling=None, awaits_poll=False), ConsumerStage.PREPARE_LEAVING)


def _leave_started(state: State, event: e.LeaveStarted) -> State:
    return _to(_assignment(_epochs(state, epoch=event.epoch), current=NO_ASSIGNMENT), ConsumerStage.LEAVING)


def _leave_ended(state: State, event: e.LeaveEnded) -> State:
    before = state.epochs
    regex = None if before.regex is None else ""
    epochs = EpochState(regex=regex, epoch=LEAVE_EPOCH, joins=before.joins, former=before.former)
    state = replace(state, epochs=epochs, assignment=AssignmentState())
    return _to(_unheard(state), ConsumerStage.UNSUBSCRIBED)


def _member_stale(state: State, event: e.MemberStale) -> State:
    return _to(_lost(_unheard(state), event.lost), ConsumerStage.STALE)


def _membership_ended(state: State, event: e.MembershipEnded) -> State:
    return _to(_lost(_unheard(_epochs(state, epoch=LEAVE_EPOCH)), event.lost), ConsumerStage.FATAL)


_APPLY: dict[type, Callable[[State, Any], State]] = {
    shared.Polled: _polled,
    shared.CoordinatorLookupStarted: _lookup_started,
    shared.CoordinatorFound: _coordinator_found,
    shared.CoordinatorLookupFailed: _lookup_failed,
    shared.CoordinatorLost: _coordinator_lost,
    shared.RetryScheduled: _retry_scheduled,
    e.TopicsSubscribed: _topics_subscribed,
    e.JoinStarted: _join_started,
    e.StateReported: _state_reported,
    e.StateAccepted: _state_accepted,
    e.StateUnknown: _state_unknown,
    e.SentFieldsForgotten: _sent_fields_forgotten,
    e.TargetReceived: _target_received,
    e.TopicLookupStarted: _topic_lookup_started,
    e.TopicLookupEnded: _topic_lookup_ended,
    e.ReconciliationStarted: _reconciliation_started,
    e.PartitionsAssigned: _partitions_assigned,
    e.ReconciliationEnded: _reconciliation_ended,
    e.ReconciliationFailed: _reconciliation_failed,
    e.UnchangedAssignmentTaken: _unchanged_assignment_taken,
    e.ListenerReturned: _listener_returned,
    e.EpochFenced: _epoch_fenced,
    e.LeavePrepared: _leave_prepared,
    e.LeaveStarted: _leave_started,
    e.LeaveEnded: _leave_ended,
    e.MemberStale: _member_stale,
    e.MembershipEnded: _membership_ended,
}
