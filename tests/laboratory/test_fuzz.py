"""The laboratory's seeds: those that failed once stay for ever, and a few fresh ones beside them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from coterie.member import events, replay
from coterie.member.effects import FindCoordinator
from coterie.member.machine import MemberMachine
from coterie.member.state import MemberState
from coterie_conformance.group_stories.members import run_seed
from coterie_conformance.group_stories.seed import FuzzFailure, naming_seed

# Each found a bug of the core, the member machine or the laboratory; see the commit that added it.
ONCE_FAILED = (4, 10, 15, 17, 25, 35, 65, 91, 809, 24787, 27751)


@pytest.mark.parametrize("seed", ONCE_FAILED)
def test_a_seed_that_once_failed(seed: int) -> None:
    run_seed(seed)


def test_fresh_seeds() -> None:
    reports = [run_seed(seed, minutes=3) for seed in range(1000, 1040)]
    assert sum(r.broker_crashes for r in reports) > 20, "the seeds crash the broker too seldom to say anything"
    assert sum(r.rebalances for r in reports) > 200, "the seeds rebalance too seldom to say anything"


def test_the_same_seed_is_the_same_story() -> None:
    assert run_seed(7, minutes=2) == run_seed(7, minutes=2)


def past_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MemberMachine, "next_deadline_ms", lambda self: 0)


def endless_effects(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MemberMachine, "next", lambda self, now_ms: [FindCoordinator()])


def partitions_owned_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    take = replay._APPLY[events.AssignmentTaken]

    def take_twice(state: MemberState, event: events.Event) -> MemberState:
        state = take(state, event)
        return replace(state, ownership=replace(state.ownership, owned=state.ownership.owned * 2))

    monkeypatch.setitem(replay._APPLY, events.AssignmentTaken, take_twice)


@pytest.mark.parametrize(
    ("defect", "complaint"),
    [(past_deadline, "a busy loop"), (endless_effects, "is not at rest"), (partitions_owned_twice, "owned twice")],
)
def test_a_member_with_a_defect_fails(
    defect: Callable[[pytest.MonkeyPatch], None], complaint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    defect(monkeypatch)
    with pytest.raises(FuzzFailure, match=complaint):
        run_seed(7, minutes=2)


def test_an_error_of_the_code_under_test_is_the_seeds_failure() -> None:
    with pytest.raises(FuzzFailure, match="seed 5: ZeroDivisionError: a bug"), naming_seed(5):
        raise ZeroDivisionError("a bug")
