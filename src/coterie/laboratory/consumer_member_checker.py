"""The invariants of a member of the consumer protocol after every input. A violation is an AssertionError."""

from __future__ import annotations

from coterie.member.consumer.events import ConsumerMemberEvent
from coterie.member.consumer.machine import ConsumerMemberMachine
from coterie.member.consumer.replay import replay_member
from coterie.member.consumer.stages import ConsumerStage
from coterie.member.consumer.state import ConsumerMembershipState

_OUTSIDE = frozenset({ConsumerStage.UNSUBSCRIBED, ConsumerStage.FENCED, ConsumerStage.STALE, ConsumerStage.FATAL})


class ConsumerMemberChecker:
    """Follows a member by its events alone: `observe` is the machine's observer. ``stages``: those passed since they were
    last cleared, in order."""

    def __init__(self) -> None:
        self.state = ConsumerMembershipState()
        self.stages: list[ConsumerStage] = []
        self._checked: tuple[ConsumerMembershipState, ConsumerMembershipState] | None = None

    def observe(self, event: ConsumerMemberEvent) -> None:
        before = self.state.stage
        self.state = replay_member(self.state, event)
        if self.state.stage != before:
            self.stages.append(self.state.stage)

    def check(self, machine: ConsumerMemberMachine) -> None:
        """The machine's state is what its events come to, and its parts agree with each other."""
        if self._checked is not None and self._checked[0] is self.state and self._checked[1] is machine.state:
            return  # states are immutable
        self._checked = self.state, machine.state
        assert machine.state == self.state, f"the events come to {self.state}, the member is {machine.state}"
        _check_membership(machine.state)
        _check_ownership(machine.state)


def check_member_settled(machine: ConsumerMemberMachine, now_ms: int) -> None:
    """After `next`, nothing is due at the same time: neither an effect nor a deadline, which would be a busy loop."""
    effects, due_ms = machine.next(now_ms), machine.next_deadline_ms()
    assert not effects, f"due at {now_ms} after everything due at {now_ms}: {effects}"
    assert due_ms is None or due_ms > now_ms, f"a deadline of {due_ms} at {now_ms}"


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
