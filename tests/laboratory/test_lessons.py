"""The twelve lessons of the playground: each shows what its text states."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from coterie.laboratory.playground.lessons import LESSONS
from coterie.laboratory.playground.playground import Playground
from coterie.laboratory.playground.recording import PlayedEvent
from coterie.laboratory.playground.session import texts
from coterie.laboratory.playground.settings import read_setting

BY_NAME = {lesson.name: lesson for lesson in LESSONS}


@cache
def shown(name: str) -> Playground:
    lesson = BY_NAME[name]
    playground = Playground(read_setting(lesson.settings), lesson.actions)
    playground.run_until(lesson.end_ms)
    return playground


def bands(name: str) -> list[tuple[int, int, str]]:
    """Of each rebalance begin and end (ms since the beginning), and why."""
    document: dict[str, Any] = shown(name).timeline()
    begin_ms = document["begin_ms"]
    return [
        (r["phases"][0][1] - begin_ms, r["phases"][-1][2] - begin_ms, r["why"])
        for r in document["rebalances"]
        if r["phases"][-1][2] is not None
    ]


def events(name: str, kind: str, since_ms: int = 0) -> list[PlayedEvent]:
    return [e for e in shown(name).recording.events if e.kind == kind and e.time_ms >= since_ms]


def released(name: str, since_ms: int) -> int:
    return sum(int(event.name) for event in events(name, "releases", since_ms))


def test_there_are_twelve_each_with_title_and_text_in_both_languages() -> None:
    assert len(LESSONS) == 12
    for lesson in LESSONS:
        for part in ("title", "text"):
            assert all(texts()[f"lesson.{lesson.name}.{part}"][language] for language in ("en", "zh"))


@pytest.mark.parametrize("name", BY_NAME)
def test_at_the_end_of_each_every_partition_has_one_owner(name: str) -> None:
    owned = [partition for member in shown(name).members() for partition in member["owned"]]
    assert len(owned) == len(set(owned)) == 12


def test_eager_stops_everybody() -> None:
    assert released("eager", 20_000) == 12
    _, (begin_ms, end_ms, _) = bands("eager")
    assert begin_ms >= 20_000
    assert 1_000 < end_ms - begin_ms < 2_000
    assert shown("eager").costs()["moved"] == 6


def test_the_initial_delay_gathers_six_members_into_one_rebalance() -> None:
    [(_, _, why)] = bands("initial-delay")
    assert why.count("joined") == 6
    assert shown("initial-delay").costs()["moved"] == 0


def test_a_death_is_noticed_after_the_session_timeout() -> None:
    _, (begin_ms, end_ms, why) = bands("death")
    assert 20_000 + 42_000 <= begin_ms <= 20_000 + 45_000
    assert end_ms - begin_ms < 1_000
    assert "m2 was silent" in why
    assert shown("death").costs()["duplicates"] > 1_000


def test_a_rolling_restart_costs_two_rebalances_for_each_member() -> None:
    assert len(bands("rolling-restart")) == 1 + 6


def test_a_static_members_restart_is_not_noticed_within_its_session() -> None:
    _, timeout, returned = bands("static")
    assert "m3 was silent" in timeout[2]
    assert "m3 joined" in returned[2]
    assert [e.name for e in events("static", "takes", 40_000) if e.time_ms < 60_000] == ["4"]


def test_cooperative_members_release_only_what_moves() -> None:
    assert released("cooperative", 20_000) == shown("cooperative").costs()["moved"] == 3
    assert len(bands("cooperative")) == 1 + 2


def test_a_member_that_polls_too_slowly_leaves_and_comes_back() -> None:
    _, (_, _, left), (_, _, joined) = bands("slow-poll")
    assert "max.poll.interval.ms" in left
    assert "poll_interval" in {event.rule for event in events("slow-poll", "line", 40_000)}
    assert "m1 joined" in joined


def test_a_stalled_process_learns_that_it_was_removed() -> None:
    _, (_, _, removed), (_, _, joined) = bands("stalled")
    assert "m1 was silent" in removed
    assert "UNKNOWN_MEMBER_ID" in joined
    assert any(e.member == "m1" and e.detail == "UNKNOWN_MEMBER_ID" for e in events("stalled", "response", 45_000))


def test_zookeepers_consumers_all_rebalance_and_one_backs_off() -> None:
    released_by = {e.member for e in events("zookeeper", "releases", 15_000) if e.time_ms < 16_000}
    assert released_by == {"m1", "m2", "m3"}
    late = [e.time_ms for e in events("zookeeper", "takes", 15_000) if e.time_ms < 30_000]
    assert max(late) - min(late) > 2_000, "one backed off"
    assert 36_000 <= min(e.time_ms for e in events("zookeeper", "releases", 30_001)) <= 36_500


def test_rocketmq_is_fast_reads_twice_and_misses_a_machine_late() -> None:
    joined = [e.time_ms for e in events("rocketmq", "takes", 20_000) if e.time_ms < 40_000]
    assert max(joined) < 20_200
    assert shown("rocketmq").costs()["duplicates"] > 0
    assert min(e.time_ms for e in events("rocketmq", "takes", 40_000)) > 160_000


def test_an_orderly_clients_locks_outlive_it() -> None:
    taken = events("rocketmq-orderly", "takes", 31_000)
    assert len(taken) == 4
    assert min(e.time_ms for e in taken) > 80_000


def test_members_of_kip_848_move_by_their_own_heartbeats() -> None:
    moved = [e for e in events("consumer", "releases", 25_000) if e.time_ms < 50_000]
    assert [e.name for e in moved] == ["1", "1", "1"]
    [taken] = [e for e in events("consumer", "takes", 25_000) if e.time_ms < 50_000]
    assert (taken.member, taken.name) == ("m4", "3")
    assert min(e.time_ms for e in events("consumer", "takes", 50_000)) > 50_000 + 40_000
