"""A reader's own file in the playground: a journal of either protocol, a trace, and what is neither."""

from __future__ import annotations

import json

import pytest

from coterie.console.page import page as report_page
from coterie.console.timeline_page import timeline_section
from coterie.coordinator.journal.timeline import Band, BandPhase, Spell, Timeline
from coterie.laboratory.playground.dropped import DroppedGroup, UnfitFile, costs, dropped_groups
from coterie.laboratory.playground.playground import Playground
from coterie.laboratory.playground.session import PlaygroundSession
from coterie.laboratory.playground.settings import PROTOCOLS, read_setting
from coterie.laboratory.study.workload import Event

ACTIONS = (Event(20_000, "join", "m4"), Event(40_000, "leave", "m3"), Event(60_000, "kill", "m1"))


def journal(protocol: str) -> str:
    """What the coordinator of a playground writes, as `groups history --json` prints it."""
    playground = Playground(read_setting({"protocol": protocol, "partitions": 8}), ACTIONS)
    playground.run_until(150_000)
    return "[" + ",".join(line.explained_json() for line in playground.recording.lines) + "]"


@pytest.mark.parametrize("protocol", ["eager", "static", "cooperative", "consumer"])
def test_a_journal_has_the_changes_of_its_members(protocol: str) -> None:
    [group] = dropped_groups(journal(protocol))
    assert (group.group, group.partitions, group.members) == ("g", 8, 4)
    kinds = [(action.kind, action.member.partition("-")[0]) for action in group.actions]
    assert sorted(kinds[:3]) == [("join", "m1"), ("join", "m2"), ("join", "m3")]
    # A static member that closes keeps its membership until its session ends.
    left = ("kill" if protocol == "static" else "leave", "m3")
    assert kinds[3] == ("join", "m4")
    assert sorted(kinds[4:]) == sorted([left, ("kill", "m1")])


def test_lines_are_read_as_well_as_a_list_and_the_largest_group_comes_first() -> None:
    lines = [json.dumps(line) for line in json.loads(journal("eager"))]
    small = json.loads(lines[0]) | {"group": "small", "causes": [{"kind": "member_joined", "member_id": "x"}]}
    groups = dropped_groups("\n".join([json.dumps(small), *lines]))
    assert [group.group for group in groups] == ["g", "small"]


def test_members_that_a_journal_does_not_see_join_are_there_by_its_owners() -> None:
    stable = {
        "time_ms": 5_000,
        "group": "crew",
        "generation": 7,
        "event": "stable",
        "state_from": "CompletingRebalance",
        "state_to": "Stable",
        "owners": {"anna-0ca809dc-0d75-4e23-90cf-a59732782b1a": {"t": [0, 1]}, "ben": {"t": [2]}},
    }
    gone = stable | {"time_ms": 9_000, "event": "empty", "owners": {}}
    [group] = dropped_groups("\n".join(map(json.dumps, (stable, gone))))
    assert group.partitions == 3
    assert [(a.time_ms, a.kind, a.member) for a in group.actions] == [
        (0, "join", "anna"),
        (0, "join", "ben"),
        (4_000, "kill", "anna"),
        (4_000, "kill", "ben"),
    ]


def test_a_trace_is_read() -> None:
    [group] = dropped_groups("0,add,a\n1000,add,b\n500000,remove,a\n")
    assert [(a.time_ms, a.kind, a.member) for a in group.actions] == [
        (0, "join", "a"),
        (1_000, "join", "b"),
        (91_000, "kill", "a"),
    ], "a stretch without a change is cut"


def test_the_page_of_a_history_is_read() -> None:
    playground = Playground(read_setting({"protocol": "eager", "partitions": 8}), ACTIONS)
    playground.run_until(150_000)
    page = report_page("Group g", "", [timeline_section("Owners", "", playground.shown_timeline)])
    [group] = dropped_groups(page)
    assert (group.group, group.partitions, group.members) == ("g", 8, 4)
    kinds = [(action.kind, action.member.partition("-")[0]) for action in group.actions]
    assert sorted(kinds[:3]) == [("join", "m1"), ("join", "m2"), ("join", "m3")]
    assert kinds[3:] == [("join", "m4"), ("leave", "m3"), ("kill", "m1")]


def test_of_a_history_without_causes_the_owners_of_a_generation_are_its_members() -> None:
    timeline = Timeline("crew")
    anna, ben = timeline.owner("anna"), timeline.owner("ben")
    for lane, owner, from_ms, until_ms in ((0, anna, 1_000, None), (1, anna, 1_000, 9_000), (1, ben, 9_000, 20_000)):
        timeline.owned.append(Spell(timeline.lane(("t", lane)), owner, from_ms, until_ms))
    timeline.owned.append(Spell(1, anna, 20_000))
    for number, begin_ms in enumerate((500, 8_500, 19_500), 1):
        timeline.rebalances.append(Band(number, [BandPhase("PreparingRebalance", begin_ms, begin_ms + 499)], "stable"))
    timeline.reach(500, 30_000)
    [group] = dropped_groups(report_page("", "", [timeline_section("", "", timeline)]))
    assert [(a.time_ms, a.kind, a.member) for a in group.actions] == [
        (0, "join", "anna"),
        (8_000, "join", "ben"),
        (19_000, "kill", "ben"),
    ]


@pytest.mark.parametrize("text", ["<html>", "", "hello", "{}", "[1]", '{"a":', "[]", '{"time_ms":1}'])
def test_another_file_is_refused_with_what_it_must_be(text: str) -> None:
    with pytest.raises(UnfitFile, match="groups history GROUP --json"):
        dropped_groups(text)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_changes_cost_something_under_each_protocol(protocol: str) -> None:
    group = DroppedGroup("g", (Event(0, "join", "a"), Event(30_000, "join", "b")), 8, 2)
    setting = read_setting({"protocol": protocol, "partitions": 8})
    assert costs(group, setting.study, 8, 1).moved == 4


def test_a_page_drops_replays_and_compares() -> None:
    session = PlaygroundSession()
    assert "error" in json.loads(session.drop("hello"))
    [group] = json.loads(session.drop(journal("eager")))["groups"]
    assert (group["group"], group["members"], group["partitions"]) == ("g", 4, 8)
    settings = {"protocol": "cooperative", "members": 0, "partitions": group["partitions"]}
    request = json.dumps({"settings": settings, "dropped": 0})
    assert json.loads(session.start(request))["settings"]["protocol"] == "cooperative"
    view = json.loads(session.go(200_000))
    assert {member["name"].partition("-")[0] for member in view["members"]} == {"m1", "m2", "m3", "m4"}
    assert json.loads(session.costs(request))["rebalances"] > 0
