"""What the user of a member of the consumer protocol does: subscribe, poll, leave (scenarios:
tests/spec/consumer_member/leave.txt and poll.txt)."""

from __future__ import annotations

from coterie.member.config import GroupMembershipOperation
from coterie.member.consumer import events as e
from coterie.member.consumer.decision import ConsumerMemberDecision
from coterie.member.consumer.heartbeat import leave_epoch, leave_heartbeat
from coterie.member.consumer.state import TAKES_TARGETS, ConsumerMembershipState, ConsumerStage
from coterie.member.effects import Revoke, Send
from coterie.member.events import Polled

_LEFT = frozenset({ConsumerStage.FENCED, ConsumerStage.STALE})


def decide_subscribed(decision: ConsumerMemberDecision, topics: frozenset[str], regex: str | None, now_ms: int) -> None:
    """Joins; a member notifies the coordinator at once. Counts as a poll. A failed membership stays failed."""
    decision.record(Polled(now_ms))
    before = decision.state.epochs
    if regex is None and before.regex is not None:
        regex = ""
    if (topics, regex) != (before.topics, before.regex):
        decision.record(e.TopicsSubscribed(topics, regex, now_ms))
    if decision.state.stage == ConsumerStage.UNSUBSCRIBED:
        decision.record(e.JoinStarted())


def poll_due_ms(state: ConsumerMembershipState, max_poll_interval_ms: int) -> int:
    """The last moment of the next poll."""
    return state.heartbeat.last_poll_ms + max_poll_interval_ms


def settle_poll_interval(decision: ConsumerMemberDecision, now_ms: int) -> None:
    """A member whose user no longer polls leaves, and loses what it owns; it joins again with the next poll, a fenced one at
    once, after the listener has returned. The response to the last heartbeat is not waited for."""
    is_late = now_ms > poll_due_ms(decision.state, decision.config.max_poll_interval_ms)
    stage = decision.state.stage
    if not decision.state.assignment.calls and (
        stage == ConsumerStage.FENCED or (stage == ConsumerStage.STALE and not is_late)
    ):
        decision.record(e.JoinStarted())
    if not is_late or decision.state.stage not in TAKES_TARGETS:
        return
    decision.record(e.LeavePrepared())
    _start_leave(decision, GroupMembershipOperation.DEFAULT)
    lost = decision.state.assignment.kept()
    decision.record(e.MemberStale(lost))
    if lost:
        decision.request(Revoke(decision.state.named(lost), lost=True))


def decide_leave_prepared(decision: ConsumerMemberDecision) -> None:
    """The user's callback for what is revoked follows; until it returns, heartbeats go on."""
    if decision.state.stage in TAKES_TARGETS:
        decision.record(e.LeavePrepared())


def decide_left(decision: ConsumerMemberDecision, operation: GroupMembershipOperation) -> None:
    """Sends the last heartbeat, if the coordinator is known and expects one. A failed membership stays failed."""
    decide_leave_prepared(decision)
    if decision.state.stage == ConsumerStage.PREPARE_LEAVING:
        _start_leave(decision, operation)
        decision.record(e.LeaveEnded())
    elif decision.state.stage in _LEFT:
        decision.record(e.LeaveEnded())


def _start_leave(decision: ConsumerMemberDecision, operation: GroupMembershipOperation) -> None:
    """A dynamic member that remains is silent: the protocol has an epoch of leaving for a while for static ones alone."""
    config = decision.config
    epoch = leave_epoch(config, operation)
    decision.record(e.LeaveStarted(epoch))
    is_silent = operation is GroupMembershipOperation.REMAIN_IN_GROUP and config.group_instance_id is None
    if decision.state.coordinator.known and not is_silent:
        decision.request(Send(leave_heartbeat(config, epoch)))
