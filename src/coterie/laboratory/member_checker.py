"""The invariants of a member after every input. A violation is an AssertionError."""

from __future__ import annotations

from coterie.assignors import RebalanceProtocol
from coterie.member.events import Event
from coterie.member.machine import MemberMachine
from coterie.member.replay import replay
from coterie.member.stages import AWAITS_RESPONSE, IN_A_ROUND, Stage
from coterie.member.state import MemberState


class MemberChecker:
    """Follows a member by its events alone: `observe` is the machine's observer. ``stages``: those passed since they were
    last cleared, in order."""

    def __init__(self) -> None:
        self.state = MemberState()
        self.stages: list[Stage] = []

    def observe(self, event: Event) -> None:
        before = self.state.stage
        self.state = replay(self.state, event)
        if self.state.stage != before:
            self.stages.append(self.state.stage)

    def check(self, machine: MemberMachine) -> None:
        """The machine's state is what its events come to, and its parts agree with each other."""
        if self.state is machine.state:
            return  # the same that was checked before: states are immutable
        assert machine.state == self.state, f"the events come to {self.state}, the member is {machine.state}"
        self.state = machine.state  # equal, and what follows is compared part by part with what it has
        _check_parts(machine.state)
        if machine.rebalance_protocol == RebalanceProtocol.EAGER and machine.stage in IN_A_ROUND:
            assert not machine.owned, f"eager, and owns {machine.owned} in {machine.stage.name}"


def check_settled(machine: MemberMachine, now_ms: int) -> None:
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
    revoking = [tp for partitions in ownership.revoking for tp in partitions]
    assert len(revoking) == len(set(revoking)), f"revoked twice: {ownership.revoking}"
    assert set(revoking) <= set(ownership.owned), f"revokes {ownership.revoking} of {ownership.owned}"
    if ownership.owned and membership.generation < 0:
        assert ownership.lost, f"owns {ownership.owned} without a generation"
    assert ownership.owned or not ownership.lost, "nothing is owned, and yet lost"
    assert len(set(ownership.owned)) == len(ownership.owned), f"owned twice: {ownership.owned}"
