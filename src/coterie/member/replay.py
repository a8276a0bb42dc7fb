"""The only way to a new state of a member: apply one event. Never refuses; an impossible event is a bug."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from coterie.member import events as e
from coterie.member.effects import TopicPartition
from coterie.member.state import (
    IN_A_ROUND,
    LEGAL_SUCCESSORS,
    NO_GENERATION,
    SETTLED,
    UNKNOWN_MEMBER,
    CoordinatorState,
    HeartbeatState,
    MembershipState,
    MemberState,
    OwnershipState,
    RoundState,
    Stage,
)
from coterie.wire.declaration import Message


def replay(state: MemberState, event: e.Event) -> MemberState:
    """The state after ``event``."""
    return _APPLY[type(event)](state, event)


def _to(state: MemberState, stage: Stage) -> MemberState:
    before = state.stage
    assert stage in LEGAL_SUCCESSORS[before] or stage == before, f"{before.name} to {stage.name} is not a transition"
    return MemberState(stage, state.membership, state.coordinator, state.heartbeat, state.round, state.ownership)


# What comes with each heartbeat or round is written out: `replace` costs three times as much.
def _membership(state: MemberState, **changes: Any) -> MemberState:
    part = replace(state.membership, **changes)
    return MemberState(state.stage, part, state.coordinator, state.heartbeat, state.round, state.ownership)


def _coordinator(state: MemberState, part: CoordinatorState) -> MemberState:
    return MemberState(state.stage, state.membership, part, state.heartbeat, state.round, state.ownership)


def _without_failures(state: MemberState) -> MemberState:
    before = state.coordinator
    return _coordinator(state, CoordinatorState(before.known, before.lookup_in_flight, 0, before.retry_at_ms))


def _heartbeat(state: MemberState, part: HeartbeatState) -> MemberState:
    return MemberState(state.stage, state.membership, state.coordinator, part, state.round, state.ownership)


def _round(state: MemberState, **changes: Any) -> MemberState:
    part = replace(state.round, **changes)
    return MemberState(state.stage, state.membership, state.coordinator, state.heartbeat, part, state.ownership)


def _request(state: MemberState, request: Message | None, *, rejoin_after: bool) -> MemberState:
    r = state.round
    part = RoundState(request, rejoin_after, r.subscribers, r.metadata_snapshot, r.withholds, r.unassigned_check_due_ms)
    return MemberState(state.stage, state.membership, state.coordinator, state.heartbeat, part, state.ownership)


def _request_ended(state: MemberState) -> MemberState:
    return _request(state, None, rejoin_after=state.round.rejoin_after)


def _owning(state: MemberState, part: OwnershipState) -> MemberState:
    return MemberState(state.stage, state.membership, state.coordinator, state.heartbeat, state.round, part)


def _ownership(state: MemberState, **changes: Any) -> MemberState:
    return _owning(state, replace(state.ownership, **changes))


# -- the user ---------------------------------------------------------------------------------------------------------------


def _polled(state: MemberState, event: e.Polled) -> MemberState:
    before = state.heartbeat
    part = HeartbeatState(before.in_flight, before.due_ms, before.session_deadline_ms, event.now_ms)
    return _heartbeat(state, part)


def _subscription_changed(state: MemberState, event: e.SubscriptionChanged) -> MemberState:
    return _membership(state, topics=event.topics)


def _rejoin_requested(state: MemberState, event: e.RejoinRequested) -> MemberState:
    state = _membership(state, reason=event.reason)
    if state.stage in SETTLED:
        return _to(state, Stage.REJOIN_NEEDED)
    return _round(state, rejoin_after=True) if state.stage in IN_A_ROUND else state


def _out_of_the_group(state: MemberState) -> MemberState:
    former = state.membership.identity
    state = _membership(
        state, member_id=UNKNOWN_MEMBER, generation=NO_GENERATION, leader="", protocol=None, former=former
    )
    state = _round(state, request=None, rejoin_after=False, metadata_snapshot=None, unassigned_check_due_ms=None)
    return _to(state, Stage.UNJOINED)


def _group_left(state: MemberState, event: e.GroupLeft) -> MemberState:
    return _ownership(_membership(_out_of_the_group(state), topics=frozenset()), owned=(), lost=False, revoking=())


def _poll_interval_exceeded(state: MemberState, event: e.PollIntervalExceeded) -> MemberState:
    return _ownership(_out_of_the_group(state), lost=bool(state.ownership.owned))


# -- the coordinator --------------------------------------------------------------------------------------------------------


def _lookup_started(state: MemberState, event: e.CoordinatorLookupStarted) -> MemberState:
    before = state.coordinator
    return _coordinator(state, CoordinatorState(before.known, True, before.failures, before.retry_at_ms))


def _coordinator_found(state: MemberState, event: e.CoordinatorFound) -> MemberState:
    before = state.coordinator
    return _coordinator(state, CoordinatorState(True, False, before.failures, before.retry_at_ms))


def _lookup_failed(state: MemberState, event: e.CoordinatorLookupFailed) -> MemberState:
    before = state.coordinator
    return _coordinator(state, CoordinatorState(before.known, False, before.failures, before.retry_at_ms))


def _coordinator_lost(state: MemberState, event: e.CoordinatorLost) -> MemberState:
    before = state.coordinator
    return _coordinator(state, CoordinatorState(False, before.lookup_in_flight, before.failures, before.retry_at_ms))


def _retry_scheduled(state: MemberState, event: e.RetryScheduled) -> MemberState:
    before = state.coordinator
    part = CoordinatorState(before.known, before.lookup_in_flight, before.failures + 1, event.retry_at_ms)
    return _coordinator(state, part)


def _heartbeat_sent(state: MemberState, event: e.HeartbeatSent) -> MemberState:
    part = HeartbeatState(True, event.next_due_ms, event.session_deadline_ms, state.heartbeat.last_poll_ms)
    return _heartbeat(state, part)


def _heartbeat_ended(state: MemberState, event: e.HeartbeatEnded) -> MemberState:
    before = state.heartbeat
    part = HeartbeatState(False, before.due_ms, before.session_deadline_ms, before.last_poll_ms)
    state = _heartbeat(state, part)
    return _without_failures(state) if event.successful and state.coordinator.failures else state


# -- a round ----------------------------------------------------------------------------------------------------------------


def _prepare_completed(state: MemberState, event: e.PrepareCompleted) -> MemberState:
    return _to(state, Stage.READY)


def _join_sent(state: MemberState, event: e.JoinSent) -> MemberState:
    return _to(_request(state, event.request, rejoin_after=False), Stage.JOINING)


def _round_request_ended(state: MemberState, event: e.RoundRequestEnded) -> MemberState:
    return _request_ended(state)


def _member_id_assigned(state: MemberState, event: e.MemberIdAssigned) -> MemberState:
    return _to(_membership(state, member_id=event.member_id), Stage.READY)


def _generation_joined(state: MemberState, event: e.GenerationJoined) -> MemberState:
    m, h, r = state.membership, state.heartbeat, state.round
    membership = MembershipState(
        m.topics, event.member_id, event.generation, event.leader, event.protocol, reason=m.reason, former=m.former
    )
    heartbeat = HeartbeatState(h.in_flight, event.heartbeat_due_ms, h.session_deadline_ms, h.last_poll_ms)
    part = RoundState(r.request, r.rejoin_after, r.subscribers, withholds=event.withholds)
    return _without_failures(MemberState(state.stage, membership, state.coordinator, heartbeat, part, state.ownership))


def _subscribers_received(state: MemberState, event: e.SubscribersReceived) -> MemberState:
    return _round(state, subscribers=event.subscribers)


def _assignment_started(state: MemberState, event: e.AssignmentStarted) -> MemberState:
    return _to(state, Stage.ASSIGNING)


def _group_assigned(state: MemberState, event: e.GroupAssigned) -> MemberState:
    return _round(state, metadata_snapshot=event.topics, withholds=event.withholds)


def _sync_sent(state: MemberState, event: e.SyncSent) -> MemberState:
    return _to(_request(state, event.request, rejoin_after=state.round.rejoin_after), Stage.SYNCING)


def _assignment_received(state: MemberState, event: e.AssignmentReceived) -> MemberState:
    o = state.ownership
    return _without_failures(
        _owning(state, OwnershipState(o.owned, o.lost, o.revoking, event.partitions, o.last_assignment))
    )


def _revoking(state: MemberState, partitions: tuple[TopicPartition, ...]) -> MemberState:
    return _ownership(state, revoking=(*state.ownership.revoking, partitions))


def _revocation_started(state: MemberState, event: e.RevocationStarted) -> MemberState:
    return _to(_revoking(state, event.partitions), Stage.REVOKING)


def _revocation_awaited(state: MemberState, event: e.RevocationAwaited) -> MemberState:
    return _to(state, Stage.REVOKING)


def _release_started(state: MemberState, event: e.ReleaseStarted) -> MemberState:
    return _to(_revoking(_membership(state, reason=event.reason), event.partitions), Stage.RELEASING)


def _partitions_revoked(state: MemberState, event: e.PartitionsRevoked) -> MemberState:
    first, *others = state.ownership.revoking
    owned = tuple(tp for tp in state.ownership.owned if tp not in first)
    state = _ownership(state, owned=owned, revoking=tuple(others), lost=state.ownership.lost and bool(owned))
    # Back to where it is decided whether anything else must be revoked.
    return _to(state, Stage.REJOIN_NEEDED) if state.stage == Stage.REVOKING and not others else state


def _assignment_taken(state: MemberState, event: e.AssignmentTaken) -> MemberState:
    o = state.ownership
    owned = o.pending_assignment
    return _owning(state, OwnershipState(owned, o.lost, o.revoking, owned, (owned, state.membership.generation)))


def _round_completed(state: MemberState, event: e.RoundCompleted) -> MemberState:
    once_more = state.stage == Stage.RELEASING or state.round.rejoin_after
    return _to(state, Stage.REJOIN_NEEDED if once_more else Stage.STABLE)


def _round_abandoned(state: MemberState, event: e.RoundAbandoned) -> MemberState:
    state = _to(state, Stage.REJOIN_NEEDED)
    return state if event.reason is None else _membership(state, reason=event.reason)


def _generation_lost(state: MemberState, event: e.GenerationLost) -> MemberState:
    state = _ownership(state, lost=bool(state.ownership.owned))
    state = _membership(
        state,
        generation=NO_GENERATION,
        member_id=state.membership.member_id if event.member_id_kept else UNKNOWN_MEMBER,
        former=state.membership.identity,
    )
    return _to(_request_ended(state), Stage.REJOIN_NEEDED) if state.stage in IN_A_ROUND else state


def _membership_failed(state: MemberState, event: e.MembershipFailed) -> MemberState:
    state = _request_ended(state)
    if event.partitions:
        state = _revoking(state, event.partitions)
    return _to(_ownership(state, lost=bool(state.ownership.owned)), Stage.FAILED)


# -- the leader's watch -----------------------------------------------------------------------------------------------------


def _snapshot_taken(state: MemberState, event: e.MetadataSnapshotTaken) -> MemberState:
    return _round(state, metadata_snapshot=event.topics)


def _check_scheduled(state: MemberState, event: e.UnassignedCheckScheduled) -> MemberState:
    return _round(state, unassigned_check_due_ms=event.due_ms)


def _check_started(state: MemberState, event: e.UnassignedCheckStarted) -> MemberState:
    return _round(state, unassigned_check_due_ms=None)


_APPLY: dict[type, Callable[[MemberState, Any], MemberState]] = {
    e.Polled: _polled,
    e.SubscriptionChanged: _subscription_changed,
    e.RejoinRequested: _rejoin_requested,
    e.GroupLeft: _group_left,
    e.PollIntervalExceeded: _poll_interval_exceeded,
    e.CoordinatorLookupStarted: _lookup_started,
    e.CoordinatorFound: _coordinator_found,
    e.CoordinatorLookupFailed: _lookup_failed,
    e.CoordinatorLost: _coordinator_lost,
    e.RetryScheduled: _retry_scheduled,
    e.HeartbeatSent: _heartbeat_sent,
    e.HeartbeatEnded: _heartbeat_ended,
    e.PrepareCompleted: _prepare_completed,
    e.JoinSent: _join_sent,
    e.RoundRequestEnded: _round_request_ended,
    e.MemberIdAssigned: _member_id_assigned,
    e.GenerationJoined: _generation_joined,
    e.SubscribersReceived: _subscribers_received,
    e.AssignmentStarted: _assignment_started,
    e.GroupAssigned: _group_assigned,
    e.SyncSent: _sync_sent,
    e.AssignmentReceived: _assignment_received,
    e.RevocationStarted: _revocation_started,
    e.RevocationAwaited: _revocation_awaited,
    e.ReleaseStarted: _release_started,
    e.PartitionsRevoked: _partitions_revoked,
    e.AssignmentTaken: _assignment_taken,
    e.RoundCompleted: _round_completed,
    e.RoundAbandoned: _round_abandoned,
    e.GenerationLost: _generation_lost,
    e.MembershipFailed: _membership_failed,
    e.MetadataSnapshotTaken: _snapshot_taken,
    e.UnassignedCheckScheduled: _check_scheduled,
    e.UnassignedCheckStarted: _check_started,
}
