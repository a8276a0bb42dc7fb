"""What a group waits for, phase by phase: the words and the numbers of `groups why`."""

from __future__ import annotations

from typing import Any

from coterie.coordinator.views.classic_group import explain_group
from coterie_conformance.scenarios.groups.scenario import ScenarioRun


def explain(*steps: str) -> dict[str, Any]:
    run = ScenarioRun()
    for step in steps:
        run.step(step)
    return explain_group(run.shard.groups["g"], run.now_ms, run.config)


STABLE = ("join a version=3", "sync a assign=a:x")


def test_a_rebalance_names_whom_it_waits_for_and_what_the_timeout_will_do() -> None:
    explanation = explain(*STABLE, "advance 1000", "join b version=3", "advance 2000")
    assert explanation["state"] == "PreparingRebalance"
    assert explanation["in_state_ms"] == 2000
    assert [(w["member_id"], w["owes"]) for w in explanation["waiting_for"]] == [
        ("a-1", "has not sent JoinGroup again")
    ]
    assert explanation["verdict"] == "a rebalance waits for a-1 to join again; 1 of 2 have"
    # a was last heard when it synced, at 0; its session is 10 s, the rebalance timeout 60 s.
    assert explanation["next_timeout"] == {
        "name": "session timeout",
        "member_id": "a-1",
        "left_ms": 7000,
        "then": "the member is removed, and the generation is formed with the others",
        "then_phrase": {"name": "then_removed_formed", "values": {}},
    }
    of = {"late": ("a-1",), "joined": 1, "members": 2}
    assert explanation["verdict_phrase"] == {"name": "waits_for_joins", "values": of}
    a, b = explanation["members"]
    assert (a["last_heard_ms"], a["waits_in"], b["waits_in"]) == (3000, None, "JoinGroup")


def test_the_time_between_heartbeats_leaves_out_a_wait_in_a_rebalance() -> None:
    beats = (*STABLE, "advance 1000", "heartbeat a", "advance 1000", "heartbeat a")
    assert explain(*beats)["members"][0]["heartbeat_interval_ms"] == 1000
    waits = ("advance 500", "join b version=3", "join a", "advance 4000", "sync a assign=a:x", "heartbeat a")
    assert explain(*beats, *waits)["members"][0]["heartbeat_interval_ms"] == 1000
    again = explain(*beats, *waits, "advance 1200", "heartbeat a")
    assert again["members"][0]["heartbeat_interval_ms"] == 1200


def test_a_late_leader_is_named() -> None:
    explanation = explain("join a version=3", "advance 500")
    assert explanation["verdict"] == "the members have joined; the leader a-1 has not sent the assignment yet"
    assert explanation["waiting_for"][0]["owes"] == "leads, and has not sent the assignment"
    assert explanation["next_timeout"]["name"] == "session timeout"


def test_a_late_follower_is_named() -> None:
    steps = [*STABLE, "join b version=3", "join a", "sync a assign=a:x,b:y"]
    explanation = explain(*steps)
    assert explanation["verdict"] == "no rebalance is under way: generation 2 has 2 members"
    explanation = explain(*steps[:-1])
    assert [w["member_id"] for w in explanation["waiting_for"]] == ["a-1", "b-1"]


def test_the_initial_delay_is_explained() -> None:
    explanation = explain("config group_initial_rebalance_delay_ms=3000", "join a version=3", "advance 1000")
    assert "is delayed" in explanation["verdict"]
    assert explanation["next_timeout"]["name"] == "group.initial.rebalance.delay.ms"
    assert explanation["next_timeout"]["left_ms"] == 2000


def test_an_id_that_was_only_given_is_told() -> None:
    explanation = explain(*STABLE, "join b")
    assert explanation["reserved_ids"] == [{"member_id": "b-1", "left_ms": 10_000}]
    explanation = explain(*STABLE, "join b", "join c version=3")
    assert ("b-1", "was given a member id and has not joined with it") in [
        (w["member_id"], w["owes"]) for w in explanation["waiting_for"]
    ]


def test_static_members_stay_when_the_rebalance_timeout_passes() -> None:
    explanation = explain(
        "join a version=3 session=100000",
        "sync a",
        "join b instance=i session=100000",
        "join a session=100000",
        "sync a",
        "join a session=100000",
    )
    assert explanation["next_timeout"]["name"] == "rebalance timeout"
    assert explanation["next_timeout"]["then"] == (
        "the generation is formed; static members that have not rejoined stay in it"
    )


def test_an_empty_group_tells_what_it_keeps() -> None:
    assert explain("commit s t-0=5")["verdict"] == "the group has no members and 1 committed offset"
    assert explain("commit s t-0=5")["next_timeout"] is None


def test_the_last_member_leaves_an_empty_group_and_no_rebalance() -> None:
    explanation = explain(*STABLE)
    assert explanation["verdict"] == "no rebalance is under way: generation 1 has 1 member"
    assert explanation["next_timeout"]["then"] == "the member is removed, and the group is empty"
    explanation = explain(*STABLE, "join b version=3")  # its rejoin is missing, and another member waits
    assert explanation["next_timeout"]["then"] == "the member is removed, and the generation is formed with the others"
