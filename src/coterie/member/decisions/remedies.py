"""What a member does about an error: the remedies of `errors` as decisions (scenarios: tests/spec/member/errors.txt)."""

from __future__ import annotations

from coterie.machines.backoff import Backoff
from coterie.member import events as e
from coterie.member.decision import MemberDecision
from coterie.member.effects import Failed, Revoke
from coterie.member.errors import Remedy, remedy_for
from coterie.member.stages import Stage
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.groups.heartbeat import HeartbeatRequest


def apply_remedy(decision: MemberDecision, request: Message, code: ErrorCode, now_ms: int) -> None:
    """``request``: the JoinGroup, SyncGroup or Heartbeat of the present generation that failed with ``code``."""
    remedy = remedy_for(code)
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
