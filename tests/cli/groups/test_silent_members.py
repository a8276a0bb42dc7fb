"""Who is silent in `groups why`: a member that owes a heartbeat by its own interval, not by a third of its session."""

from __future__ import annotations

import pytest

from coterie.cli.groups.explanation import draw
from coterie.client import GroupExplanation
from coterie.client.admin.group_explanation import read_json
from coterie.console.terminal import drawing_console
from coterie.coordinator.views.explanation import explain_group
from coterie_conformance.scenarios.groups.scenario import ScenarioRun


def now_of_a(*steps: str) -> str:
    """The column NOW of the member a, after those steps of a scenario."""
    run = ScenarioRun()
    for step in steps:
        run.step(step)
    document = explain_group(run.shard.groups["g"], run.now_ms, run.config)
    for member in document["members"]:
        member |= {"last_fetch_ms": None, "client_software": None}
    document |= {"partitions": [], "lag": None, "stalled": []}
    console = drawing_console(200)
    with console.capture() as captured:
        console.print(draw(read_json(GroupExplanation, document, "the document"), None))
    (line,) = (line for line in captured.get().splitlines() if line.startswith("a-1"))
    return line.split()[-1]


def beats(interval_ms: int, session_ms: int) -> list[str]:
    first = f"join a version=3 session={session_ms}"
    return [first, "sync a assign=a:x", *(2 * [f"advance {interval_ms}", "heartbeat a"])]


@pytest.mark.parametrize(
    ("interval_ms", "session_ms", "since_ms", "now"),
    [
        (3_000, 6_000, 3_200, "heartbeating"),  # the tutorial's values: a heartbeat is under way
        (3_000, 6_000, 4_600, "silent"),
        (5_000, 6_000, 5_500, "heartbeating"),
        (3_000, 45_000, 3_900, "heartbeating"),  # Java's
        (3_000, 45_000, 5_000, "silent"),  # long before a third of the session
        (100, 6_000, 900, "heartbeating"),  # a busy machine
        (100, 6_000, 1_200, "silent"),
    ],
)
def test_a_member_is_silent_when_its_own_heartbeat_is_missing(
    interval_ms: int, session_ms: int, since_ms: int, now: str
) -> None:
    assert now_of_a(*beats(interval_ms, session_ms), f"advance {since_ms}") == now


@pytest.mark.parametrize(("since_ms", "now"), [(3_900, "heartbeating"), (4_100, "silent")])
def test_before_the_interval_is_known_two_heartbeats_of_three_must_be_missing(since_ms: int, now: str) -> None:
    assert now_of_a("join a version=3 session=6000", "sync a assign=a:x", f"advance {since_ms}") == now


def test_the_wait_in_a_rebalance_is_no_interval() -> None:
    steps = [*beats(3_000, 20_000), "join b version=3 session=100000", "advance 6000", "heartbeat a"]
    steps += ["join a session=20000", "sync a assign=a:x", "sync b", "advance 15000", "heartbeat a", "advance 5000"]
    assert now_of_a(*steps) == "heartbeating"
