"""The errors of the group protocol, sorted by what a member must do (Kafka's AbstractCoordinator), and the decisions that do it
(scenarios: tests/spec/member/errors.txt)."""

from __future__ import annotations

from enum import Enum

from coterie.machines.backoff import Backoff
from coterie.member import events as e
from coterie.member.decision import MemberDecision
from coterie.member.effects import Failed, Revoke
from coterie.member.state import Stage
from coterie.wire.declaration import Message
from coterie.wire.errors import COORDINATOR_LOST, ErrorCode, error_of
from coterie.wire.messages.groups.heartbeat import HeartbeatRequest
from coterie.wire.messages.groups.leave_group import LeaveGroupResponse


class Remedy(Enum):
    """What a member does after an error."""

    RETRY = "try the same again after a pause"
    FIND_COORDINATOR = "look the coordinator up, then try again"
    REJOIN = "join again with the same member id"
    REJOIN_AS_NEW = "forget generation (and member id), join again; what was owned is lost"
    GIVE_UP = "tell the caller"


_REMEDIES = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: Remedy.RETRY,
    **dict.fromkeys(COORDINATOR_LOST, Remedy.FIND_COORDINATOR),
    ErrorCode.UNKNOWN_MEMBER_ID: Remedy.REJOIN_AS_NEW,
    ErrorCode.ILLEGAL_GENERATION: Remedy.REJOIN_AS_NEW,
    ErrorCode.REBALANCE_IN_PROGRESS: Remedy.REJOIN,
    ErrorCode.FENCED_INSTANCE_ID: Remedy.GIVE_UP,
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL: Remedy.GIVE_UP,
    ErrorCode.GROUP_AUTHORIZATION_FAILED: Remedy.GIVE_UP,
    ErrorCode.GROUP_MAX_SIZE_REACHED: Remedy.GIVE_UP,
}


def leave_refusal(response: LeaveGroupResponse) -> ErrorCode:
    """What went wrong with our leaving: the error of the whole, or of our one entry. A response that names several members
    is one that was not requested."""
    if response.error_code or not response.members:
        return error_of(response.error_code)
    if len(response.members) > 1:
        return ErrorCode.UNKNOWN_SERVER_ERROR
    return error_of(response.members[0].error_code)


def _remedy_for(code: ErrorCode) -> Remedy:
    """What that response to a join, sync or heartbeat calls for; an error listed nowhere is for the caller."""
    return _REMEDIES.get(code, Remedy.GIVE_UP)


def apply_remedy(decision: MemberDecision, request: Message, code: ErrorCode, now_ms: int) -> None:
    """``request``: the JoinGroup, SyncGroup or Heartbeat of the present generation that failed with ``code``."""
    remedy = _remedy_for(code)
    if remedy == Remedy.GIVE_UP:
        fail(decision, code, code.text)
        return
    if remedy == Remedy.REJOIN_AS_NEW:
        lose_generation(decision, code)
    if remedy == Remedy.FIND_COORDINATOR:
        lose_coordinator(decision, now_ms)
    elif remedy == Remedy.RETRY:
        back_off(decision, now_ms)
    if not isinstance(request, HeartbeatRequest):
        decision.record(e.RoundAbandoned())
    elif remedy == Remedy.REJOIN_AS_NEW:
        decision.record(e.RejoinRequested(f"a heartbeat failed with {code.name}"))
    elif remedy == Remedy.REJOIN and decision.state.stage == Stage.STABLE:
        decision.record(e.RejoinRequested("the group is rebalancing"))


def fail(decision: MemberDecision, code: ErrorCode, message: str) -> None:
    """Ends the membership; the owned partitions are lost."""
    partitions = decision.state.ownership.kept()
    decision.record(e.MembershipFailed(partitions))
    if partitions:
        decision.request(Revoke(partitions, lost=True))
    decision.request(Failed(code, message))


def lose_generation(decision: MemberDecision, code: ErrorCode) -> None:
    """The member id goes too where ``code`` is UNKNOWN_MEMBER_ID."""
    decision.record(e.GenerationLost(member_id_kept=code != ErrorCode.UNKNOWN_MEMBER_ID))


def lose_coordinator(decision: MemberDecision, now_ms: int) -> None:
    """It is looked up again after a pause."""
    decision.record(e.CoordinatorLost())
    back_off(decision, now_ms)


def back_off(decision: MemberDecision, now_ms: int) -> None:
    """Each failure in a row doubles the pause, up to retry.backoff.max.ms (KIP-580); without jitter, so that a trace of
    events depends on its inputs alone."""
    config, failures = decision.config, decision.state.coordinator.failures
    pause_ms = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms).pause_ms(failures)
    decision.record(e.RetryScheduled(now_ms + pause_ms))
