"""Every interleaving of a small group; the search finds defects planted in the coordinator, an assignor and the members."""

from __future__ import annotations

from dataclasses import replace

import pytest

from coterie.assignors import ASSIGNORS
from coterie.coordinator.classic import join, sync
from coterie.member import settle
from coterie_conformance.interleavings.search import search
from coterie_conformance.interleavings.state import FaultBudget, SmallGroup, Transition, TransitionKind


@pytest.mark.parametrize(
    ("small", "least"),
    [
        (SmallGroup(2, 2, "range", FaultBudget(crashes=1)), 500),
        (SmallGroup(2, 2, "cooperative-sticky", FaultBudget(crashes=1)), 1_000),
        (SmallGroup(2, 2, "range", FaultBudget(broker_crashes=1)), 4_000),
        (SmallGroup(2, 2, "range", FaultBudget(slow=1)), 6_000),
        (SmallGroup(2, 2, "range", FaultBudget(crashes=1), static=True), 400),
        (SmallGroup(3, 2, "range"), 3_000),
    ],
    ids=str,
)
def test_every_interleaving_keeps_the_rules_and_comes_to_rest(small: SmallGroup, least: int) -> None:
    result = search(small)
    assert (result.failure, result.course) == ("", [])
    assert result.states >= least
    assert result.at_rest


def test_a_lost_response_is_among_the_interleavings() -> None:
    losses = search(SmallGroup(2, 2, "range", FaultBudget(losses=1)))
    assert not losses.failure
    assert losses.states > 10 * search(SmallGroup(2, 2, "range")).states


def test_a_sync_of_an_older_generation_that_is_accepted_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sync, "same_generation", lambda group, generation: None)
    result = search(SmallGroup(2, 2, "range", FaultBudget(losses=1)))
    assert result.failure == "the group never comes to rest from here"
    assert any(event.kind == TransitionKind.CONNECTION_IS_GIVEN_UP for event in result.course)


def test_a_superseded_join_without_a_response_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(join, "_respond_to_superseded", lambda *arguments: [])
    assert "no response will come" in search(SmallGroup(2, 2, "range", FaultBudget(losses=1))).failure


def test_a_cooperative_assignor_that_gives_at_once_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    hasty = replace(ASSIGNORS["cooperative-sticky"], assign=ASSIGNORS["sticky"].assign)
    monkeypatch.setitem(ASSIGNORS, "cooperative-sticky", hasty)
    assert "still has it" in search(SmallGroup(2, 2, "cooperative-sticky")).failure


def test_an_eager_member_that_revokes_nothing_is_found_by_the_shortest_course(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settle, "_to_revoke", lambda state, config: ())
    result = search(SmallGroup(2, 2, "range"))
    assert "eager, and owns" in result.failure
    assert Transition(TransitionKind.TIME_PASSES) in result.course


def test_a_search_that_is_too_large_is_refused() -> None:
    with pytest.raises(ValueError, match="search a smaller group"):
        search(SmallGroup(2, 2, "range"), most_states=100)
