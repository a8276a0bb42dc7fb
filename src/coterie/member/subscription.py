"""What the user does: subscribe, poll, request a rebalance, leave (scenarios: tests/spec/member/leave.txt)."""

from __future__ import annotations

from coterie.member import events as e
from coterie.member.config import GroupMembershipOperation
from coterie.member.decision import MemberDecision
from coterie.member.effects import Send
from coterie.member.remedies import lose_generation
from coterie.member.requests import leave_request
from coterie.member.state import IN_A_ROUND, NOT_TAKING_PART, Stage
from coterie.wire.errors import ErrorCode

_DEFAULT = GroupMembershipOperation.DEFAULT


def decide_subscribe(decision: MemberDecision, topics: frozenset[str], now_ms: int) -> None:
    """Joins, or joins again if the topics changed. A subscription counts as a poll."""
    decision.record(e.Polled(now_ms))
    membership = decision.state.membership
    if topics == membership.topics and decision.state.stage not in NOT_TAKING_PART:
        return
    known = membership.member_id or decision.state.stage in IN_A_ROUND
    decision.record(e.SubscriptionChanged(topics))
    decision.record(e.RejoinRequested("the subscription changed" if known else membership.reason))


def decide_polled(decision: MemberDecision, now_ms: int) -> None:
    """A member that had left for want of polls joins again."""
    decision.record(e.Polled(now_ms))
    membership = decision.state.membership
    if decision.state.stage == Stage.UNJOINED and membership.topics:
        decision.record(e.RejoinRequested(membership.reason))


def decide_rejoin(decision: MemberDecision, reason: str) -> None:
    """Ignored of a member that takes no part: only a subscription or a poll joins."""
    if decision.state.stage not in NOT_TAKING_PART:
        decision.record(e.RejoinRequested(reason))


def decide_enforced_rebalance(decision: MemberDecision, reason: str) -> None:
    """Ignored during a round, which is the rebalance requested, and of a member that takes no part."""
    if decision.state.stage == Stage.STABLE:
        decision.record(e.RejoinRequested(reason))


def decide_membership_refused(decision: MemberDecision, code: ErrorCode) -> None:
    """Ignored of a member that takes no part: one that was fenced must not take the other's place."""
    if decision.state.stage not in NOT_TAKING_PART:
        lose_generation(decision, code)
        decision.record(e.RejoinRequested(f"a commit failed with {code.name}"))


def decide_leave(decision: MemberDecision, reason: str, operation: GroupMembershipOperation) -> None:
    """``operation`` says whether a LeaveGroup is sent (KIP-1092); the membership ends in any case."""
    _request_leave(decision, reason, operation)
    decision.record(e.GroupLeft())


def decide_poll_interval_exceeded(decision: MemberDecision) -> None:
    """The member leaves with a LeaveGroup, a static one without, and joins again when it is polled."""
    interval_ms = decision.config.max_poll_interval_ms
    _request_leave(decision, f"poll was not called for {interval_ms} ms (max.poll.interval.ms)", _DEFAULT)
    decision.record(e.PollIntervalExceeded())


def _request_leave(decision: MemberDecision, reason: str, operation: GroupMembershipOperation) -> None:
    """A member that remains is kept until its session ends; a coordinator that is unknown is not looked up for this."""
    member_id = decision.state.membership.member_id
    if operation.leaves(decision.config.group_instance_id) and member_id and decision.state.coordinator.known:
        decision.request(Send(leave_request(decision.config, member_id, reason)))
