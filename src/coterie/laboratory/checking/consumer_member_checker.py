"""The invariants of a member of the consumer protocol after every input. A violation is an AssertionError."""

from __future__ import annotations

from coterie.laboratory.checking.member_checker import LoneMemberChecker
from coterie.member.consumer.machine import ConsumerMemberMachine
from coterie.member.consumer.replay import replay_member
from coterie.member.consumer.state import ConsumerMembershipState, ConsumerStage

_OUTSIDE = frozenset({ConsumerStage.UNSUBSCRIBED, ConsumerStage.FENCED, ConsumerStage.STALE, ConsumerStage.FATAL})


class ConsumerMemberChecker(LoneMemberChecker[ConsumerMemberMachine]):
    """What must hold of a member of the consumer protocol."""

    def __init__(self) -> None:
        super().__init__(ConsumerMembershipState(), replay_member)

    def check_parts(self, machine: ConsumerMemberMachine) -> None:
        _check_membership(machine.state)
        _check_ownership(machine.state)


def _check_membership(state: ConsumerMembershipState) -> None:
    stage, epoch, assignment = state.stage, state.epochs.epoch, state.assignment
    if stage in (ConsumerStage.RECONCILING, ConsumerStage.ACKNOWLEDGING, ConsumerStage.STABLE):
        assert epoch > 0, f"{stage.name} in epoch {epoch}"
        assert assignment.target.number >= 0, f"{stage.name} without a target"
    if stage in _OUTSIDE:
        assert epoch <= 0, f"{stage.name} in epoch {epoch}"
        assert state.heartbeat.request is None, f"{stage.name} with a heartbeat in flight"
    if stage == ConsumerStage.STABLE:
        assert assignment.current == assignment.target, f"stable with {assignment.current} of {assignment.target}"
    if stage == ConsumerStage.JOINING:
        assert not assignment.owned, f"joins and owns {assignment.owned}"
    if stage != ConsumerStage.RECONCILING:
        assert assignment.reconciling is None, f"{stage.name} while it reconciles {assignment.reconciling}"
    if assignment.reconciling is not None:
        assert assignment.calls, "a reconciliation without a callback under way"


def _check_ownership(state: ConsumerMembershipState) -> None:
    """What is read is owned by the newest report, or about to be reported: nothing is read that the coordinator may give to
    others."""
    assignment = state.assignment
    revoking = [p for call in assignment.calls if call.revoked is not None for p in call.revoked]
    assert len(revoking) == len(set(revoking)), f"revoked twice: {assignment.calls}"
    assert set(revoking) <= assignment.owned, f"revokes {assignment.calls} of {assignment.owned}"
    if assignment.owned and state.epochs.epoch <= 0 and state.stage in _OUTSIDE:
        assert assignment.lost, f"owns {assignment.owned} outside the group"
    assert assignment.owned or not assignment.lost, "nothing is owned, and yet lost"
    in_stage = state.stage in (ConsumerStage.ACKNOWLEDGING, ConsumerStage.STABLE)
    if in_stage:
        assert assignment.current.partitions == assignment.owned, (
            f"reports {assignment.current} and reads {assignment.owned}"
        )
    unnamed = {topic for topic, _ in assignment.owned} - state.topics.names.keys()
    assert not unnamed, f"owns partitions of topics without a name: {unnamed}"
