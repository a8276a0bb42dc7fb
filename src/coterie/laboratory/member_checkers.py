"""The invariants of a member after every input, of the classic protocol and of the consumer protocol. A violation is an
AssertionError."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from coterie.assignors import RebalanceProtocol
from coterie.consuming.commits.verdicts import GroupMachine
from coterie.member.consumer.machine import ConsumerMemberMachine
from coterie.member.consumer.replay import replay_member
from coterie.member.consumer.state import ConsumerMembershipState, ConsumerStage
from coterie.member.machine import MemberMachine
from coterie.member.replay import replay
from coterie.member.state import AWAITS_RESPONSE, IN_A_ROUND, MemberState, OwnershipState, Stage

M = TypeVar("M", bound=GroupMachine)
_OUTSIDE = frozenset({ConsumerStage.UNSUBSCRIBED, ConsumerStage.FENCED, ConsumerStage.STALE, ConsumerStage.FATAL})


class LoneMemberChecker(ABC, Generic[M]):
    """Follows a member by its events alone, from ``state`` on: `observe` is the machine's observer, ``replay`` makes the next
    state. ``stages``: the first, and each that followed; a driver may drop what it has shown."""

    def __init__(self, state: Any, replay: Callable[[Any, Any], Any]) -> None:
        self.state, self._replay = state, replay
        self.stages: list[Any] = [state.stage]

    def observe(self, event: object) -> None:
        """Applies the event to a state of its own, and notes each new stage."""
        before = self.state.stage
        self.state = self._replay(self.state, event)
        if self.state.stage != before:
            self.stages.append(self.state.stage)

    def check(self, machine: M) -> None:
        """The machine's state is that of its events alone, and its parts agree with each other."""
        if self.state is machine.state:
            return  # the same that was checked before: states are immutable
        assert machine.state == self.state, f"by its events it is {self.state}, the member is {machine.state}"
        self.state = machine.state  # equal, and what follows is compared part by part with what it has
        self.check_parts(machine)

    @abstractmethod
    def check_parts(self, machine: M) -> None:
        """Checks the parts of the state by the protocol's rules."""


class MemberChecker(LoneMemberChecker[MemberMachine]):
    """What must hold of a member of the classic protocol."""

    def __init__(self) -> None:
        super().__init__(MemberState(), replay)
        self._ownership: OwnershipState | None = None  # that was checked last

    def check_parts(self, machine: MemberMachine) -> None:
        """The parts of the state fit together; an eager member owns nothing during a round."""
        _check_parts(machine.state)
        if machine.state.ownership is not self._ownership:
            self._ownership = machine.state.ownership
            _check_ownership(self._ownership)
        if machine.stage in IN_A_ROUND and machine.rebalance_protocol == RebalanceProtocol.EAGER:
            assert not machine.owned, f"eager, and owns {machine.owned} in {machine.stage.name}"


def check_settled(machine: GroupMachine, now_ms: int) -> None:
    """After `next`, nothing is due at the same time: neither an effect nor a deadline, which would be a busy loop."""
    effects, due_ms = machine.next(now_ms), machine.next_deadline_ms()
    assert not effects, f"due at {now_ms} after everything due at {now_ms}: {effects}"
    assert due_ms is None or due_ms > now_ms, f"a deadline of {due_ms} at {now_ms}"


def _check_parts(state: MemberState) -> None:
    stage, membership, ownership = state.stage, state.membership, state.ownership
    waiting = state.round.request is not None
    assert waiting == (stage in AWAITS_RESPONSE), f"{stage.name} with the request {state.round.request}"
    if stage in (Stage.ASSIGNING, Stage.SYNCING, Stage.STABLE):
        assert membership.generation >= 0, f"{stage.name} without a generation"
        assert membership.member_id, f"{stage.name} without a member id"
    if stage == Stage.UNJOINED:
        assert (membership.member_id, membership.generation) == ("", -1), f"out of the group as {membership}"
    if stage in (Stage.REVOKING, Stage.RELEASING):
        assert ownership.revoking, f"{stage.name} of nothing"
    elif stage not in (Stage.UNJOINED, Stage.REJOIN_NEEDED, Stage.FAILED):
        assert not ownership.revoking, f"{stage.name} while the listener revokes {ownership.revoking}"
    if ownership.owned and membership.generation < 0:
        assert ownership.lost, f"owns {ownership.owned} without a generation"


def _check_ownership(ownership: OwnershipState) -> None:
    revoking = [tp for partitions in ownership.revoking for tp in partitions]
    assert len(revoking) == len(set(revoking)), f"revoked twice: {ownership.revoking}"
    assert set(revoking) <= set(ownership.owned), f"revokes {ownership.revoking} of {ownership.owned}"
    assert ownership.owned or not ownership.lost, "nothing is owned, and yet lost"
    assert len(set(ownership.owned)) == len(ownership.owned), f"owned twice: {ownership.owned}"


class ConsumerMemberChecker(LoneMemberChecker[ConsumerMemberMachine]):
    """What must hold of a member of the consumer protocol."""

    def __init__(self) -> None:
        super().__init__(ConsumerMembershipState(), replay_member)

    def check_parts(self, machine: ConsumerMemberMachine) -> None:
        _check_membership(machine.state)
        _check_consumer_ownership(machine.state)


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


def _check_consumer_ownership(state: ConsumerMembershipState) -> None:
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
