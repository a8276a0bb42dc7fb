"""What the answer to a commit means to a member (ConsumerCoordinator's OffsetCommitResponseHandler)."""

from __future__ import annotations

from enum import Enum

from coterie.member.machine import MemberMachine
from coterie.member.stages import IN_A_ROUND, NOT_TAKING_PART, Stage
from coterie.wire.errors import ErrorCode


class Verdict(Enum):
    """What to do after a commit, or instead of one that may not be sent. RETRIED lists the verdicts after which it is sent
    again; of the others all but DONE are errors of the call."""

    DONE = "committed"
    RETRY = "try the same again after a pause"
    FIND_COORDINATOR = "look the coordinator up, then try again"
    REBALANCING = "a rebalance is under way; commit after it"
    COMMIT_FAILED = "the group has moved on; the partitions may have new owners"
    GIVE_UP = "tell the caller"
    TIMED_OUT = "the time of the call is over"


RETRIED = frozenset({Verdict.RETRY, Verdict.FIND_COORDINATOR})
_RETRY = frozenset({ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})
_FIND = frozenset(
    {
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NETWORK_EXCEPTION,
    }
)
_NOT_A_MEMBER = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION})


def may_commit(machine: MemberMachine) -> Verdict:
    """DONE when a commit may be sent; else what to tell the caller without sending anything."""
    if machine.stage in IN_A_ROUND or machine.stage == Stage.READY:
        return Verdict.REBALANCING
    if machine.stage in NOT_TAKING_PART or machine.generation < 0:
        return Verdict.COMMIT_FAILED
    return Verdict.DONE


def verdict(machine: MemberMachine | None, code: ErrorCode, sent: tuple[str, int]) -> Verdict:
    """``sent``: member id and generation of the commit; ``machine`` None for a commit without membership."""
    if not code:
        return Verdict.DONE
    if code in _RETRY:
        return Verdict.RETRY
    if code in _FIND:
        return Verdict.FIND_COORDINATOR
    if machine is None:
        return Verdict.COMMIT_FAILED if code in _NOT_A_MEMBER else Verdict.GIVE_UP
    same = sent == (machine.member_id, machine.generation)
    rebalancing = machine.stage in IN_A_ROUND or machine.stage == Stage.READY
    if code == ErrorCode.REBALANCE_IN_PROGRESS:
        machine.rejoin("the group is rebalancing")
        return Verdict.REBALANCING
    if code in _NOT_A_MEMBER:
        if same:
            machine.membership_refused(code)
        return Verdict.REBALANCING if rebalancing and not same else Verdict.COMMIT_FAILED
    if code == ErrorCode.FENCED_INSTANCE_ID and not same:
        return Verdict.REBALANCING if rebalancing else Verdict.COMMIT_FAILED
    return Verdict.GIVE_UP
