"""A story of the laboratory as a scenario: it runs there as it ran here, and a failing one becomes short."""

from __future__ import annotations

import pytest

from coterie.coordinator.classic import settle as settle_module
from coterie.coordinator.outcome import Outcome
from coterie_conformance.group_stories.members import _Story, run_seed, shrunk_scenario
from coterie_conformance.group_stories.recording import failure_of, shrink
from coterie_conformance.group_stories.seed import FuzzFailure
from coterie_conformance.scenarios.groups.scenario import ScenarioRun


def test_a_recorded_story_runs_as_a_scenario_to_the_same_end() -> None:
    story = _Story(3, record=True)
    story.run(60_000)
    assert story.recorder is not None
    run = ScenarioRun()
    for line in story.recorder.lines:
        run.step(line)
    here, there = run.shard.groups["g"], story.broker.shard.groups["g"]
    assert here.generation == there.generation
    assert sorted(m.session_timeout_ms for m in here.members.values()) == sorted(
        m.session_timeout_ms for m in there.members.values()
    )
    assert set(here.offsets) == set(there.offsets)


def test_shrinking_leaves_what_is_needed() -> None:
    lines = [f"line {n}" for n in range(40)] + ["boom", "after"]
    shortest = shrink(lines, lambda tried: "broken" if "line 7" in tried and "boom" in tried else "")
    assert shortest == ["line 7", "boom"]


def test_a_broken_rule_is_told_as_a_short_scenario(monkeypatch: pytest.MonkeyPatch) -> None:
    """A coordinator that forgets to answer those who wait for assignments when a rebalance begins."""
    real = settle_module._start_rebalance

    def forgetful(*args: object) -> Outcome:
        outcome = real(*args)  # type: ignore[arg-type]
        return Outcome(outcome.events, outcome.replies[1:], outcome.deadlines)

    monkeypatch.setattr(settle_module, "_start_rebalance", forgetful)
    lines, failures = list[str](), list[str]()
    for seed in range(20):
        try:
            run_seed(seed, 3)
        except FuzzFailure as failure:
            failures.append(str(failure))
            lines, breaks_there = shrunk_scenario(seed, 3)
            # A story whose rule is broken by a member's part, or at its end, breaks none as a scenario.
            if breaks_there:
                break
    assert failures, "no seed notices it"
    assert all("no response will come" in failure for failure in failures)
    assert "no response will come" in failure_of(lines)
    assert len(lines) <= 30, "of a story of 900 lines"


def test_a_shrunk_story_breaks_the_rule_that_it_broke() -> None:
    """The same words with other names and numbers, not just any rule."""

    def failure(tried: list[str]) -> str:
        if "line 3" in tried and "line 7" in tried:
            return f"no response will come for [{len(tried)}]\nassert not {tried}"
        return "generation 0 after 1" if "line 7" in tried else ""

    assert shrink([f"line {n}" for n in range(20)], failure) == ["line 3", "line 7"]
