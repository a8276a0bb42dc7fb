"""The language of the assignors' scenarios: what is no step is refused, and its checks can fail."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from coterie.assignors import ASSIGNORS, AssignableTopics, Assignment, AssignorSpec, RebalanceProtocol, Subscriber
from coterie_conformance.scenarios.assignor_scenario import AssignorScenario
from coterie_conformance.scenarios.groups.scenario import ScenarioError

BOTH = frozenset(RebalanceProtocol)


def run(*steps: str) -> None:
    scenario = AssignorScenario()
    for line in steps:
        scenario.step(line)


@pytest.mark.parametrize(
    ("step", "text"), [("sing", "'sing' is not a step"), ("assign fairly", "there is no assignor fairly")]
)
def test_what_is_no_step_is_refused(step: str, text: str) -> None:
    with pytest.raises(ScenarioError, match=text):
        run(step)


@pytest.mark.parametrize(
    ("shares", "text"),
    [
        ({"a": {"t": [0, 1]}}, "every member has a share"),
        ({"a": {"t": [0, 1]}, "b": {"t": [1]}}, "has two owners"),
        ({"a": {"t": [0]}, "b": {}}, "have no owner"),
        ({"a": {"t": [0, 1]}, "b": {"u": [0]}}, "b does not subscribe to"),
    ],
)
def test_a_wrong_assignment_is_seen(shares: Assignment, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ASSIGNORS, "range", AssignorSpec(lambda topics, members: shares))
    with pytest.raises(AssertionError, match=text):
        run("topics t:2 u:1", "member a t", "member b t", "assign range")


def test_a_move_in_one_step_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def assign(topics: AssignableTopics, members: Sequence[Subscriber]) -> Assignment:
        return {"a": {"t": [1]}, "b": {"t": [0]}}

    monkeypatch.setitem(ASSIGNORS, "cooperative-sticky", AssignorSpec(assign, BOTH))
    steps = "topics t:2", "member a t owned=t-0,t-1 generation=1", "member b t generation=1"
    with pytest.raises(AssertionError, match="moves in one step"):
        run(*steps, "assign cooperative-sticky")
