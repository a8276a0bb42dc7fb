"""Churn traces, and what a setting would have cost: small runs whose outcome can be reasoned about."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from coterie.assignors import ASSIGNORS
from coterie.laboratory.churn import MembershipChange, TraceError, at_most, read_trace, shortened
from coterie.laboratory.members.reading_member import HOUR_MS, Workload
from coterie.laboratory.what_if import WhatIfSetting, run

LOAD = Workload(partitions=12)
STEADY = [MembershipChange(0, True, "a"), MembershipChange(1000, True, "b"), MembershipChange(2000, True, "c")]


def test_traces_of_both_kinds() -> None:
    lines = ["480000,add,n1", "", "# a comment", "540000,remove,n1"]
    assert read_trace(lines) == [MembershipChange(0, True, "n1"), MembershipChange(60_000, False, "n1")]
    counts = read_trace(["2021-12-11, 11:11:30, 2", "2021-12-11, 11:13:10, 3", "2021-12-11, 11:14:50, 1"])
    assert [(c.time_ms, c.joins) for c in counts] == [
        (0, True),
        (0, True),
        (100_000, True),
        (200_000, False),
        (200_000, False),
    ]
    assert counts[3].member == counts[0].member, "who has been up longest goes first"


@pytest.mark.parametrize("end", ["", "\r"])
@pytest.mark.parametrize(
    "lines",
    [
        ["480000,add,n1", "540000.25,remove,n1"],
        ["540000,remove,n1", "480000,add,n1"],
        ["time,what,member", "480000,add,n1", "540000,remove,n1"],
        ['"time","what","member"', '"480000","add","n1"', '"540000","remove","n1"'],
        ["480000;add;n1", "540000;remove;n1"],
        ["480000\tADD\tn1", "540000\tREMOVE\tn1"],
    ],
)
def test_a_trace_is_any_csv(lines: list[str], end: str) -> None:
    changes = read_trace(line + end for line in lines)
    assert changes == [MembershipChange(0, True, "n1"), MembershipChange(60_000, False, "n1")]


@pytest.mark.parametrize(
    "lines",
    [
        ["2021-12-11,11:14:50,2", "2021-12-11,11:11:30,3", "2021-12-11,11:13:10,5"],
        ["date;time;count", "2021-12-11;11:14:50;2", "2021-12-11;11:11:30.0;3", "2021-12-11;11:13:10;5"],
        ["at\tup", "2021/12/11 11:14:50\t2", "2021-12-11T11:11:30Z\t3", "2021-12-11 11:13:10\t5"],
    ],
)
def test_counts_are_sorted_before_their_differences(lines: list[str]) -> None:
    changes, up = read_trace(lines), 0
    counts = {change.time_ms: (up := up + (1 if change.joins else -1)) for change in changes}
    assert counts == {0: 3, 100_000: 5, 200_000: 2}


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["1,add"], "line 1: 1 is neither a change nor a date and a time"),
        (["1,add,n,m"], "line 1: 4 cells"),
        (["0,add,m", "soon,add,n"], "line 2: 'soon' is not a time in ms"),
        (["2021-13-11, 11:11:30, 5"], "line 1: .* is neither a change nor a date"),
        (["2021-12-11, 11:11:30, many"], "line 1: the count 'many' is no whole number"),
        ([], "the trace is empty"),
    ],
)
def test_a_bad_trace_is_said_in_a_sentence(lines: list[str], message: str) -> None:
    with pytest.raises(TraceError, match=message):
        read_trace(lines)


def test_quiet_stretches_are_cut_and_groups_are_limited() -> None:
    changes = [
        MembershipChange(0, True, "a"),
        MembershipChange(10, True, "b"),
        MembershipChange(9_000, False, "a"),
        MembershipChange(9_010, True, "c"),
    ]
    assert [c.time_ms for c in shortened(changes, 100)] == [0, 10, 110, 120]
    assert [c.member for c in at_most(changes, 1)] == ["a", "a", "c"]


def test_the_same_seed_gives_the_same_costs() -> None:
    changes = [*STEADY, MembershipChange(100_000, False, "b")]
    load = Workload(partitions=12, slow_polls_per_hour=2, pauses_per_hour=2)
    runs = [asdict(run(changes, load, WhatIfSetting(session_timeout_ms=10_000), seed)) for seed in (1, 1, 2)]
    assert runs[0] == runs[1]
    assert runs[0] != runs[2]


def test_cooperative_members_go_on_reading() -> None:
    """In a group of some size; in a small one the second rebalance can cost more than it saves."""
    members = [MembershipChange(n * 1700, True, f"m{n}") for n in range(12)]
    load, one_more = Workload(partitions=48), [MembershipChange(100_000, True, "one more")]
    settings = [WhatIfSetting(assignor=a) for a in ("sticky", "cooperative-sticky")]
    formed = [run(members, load, setting, 3) for setting in settings]
    eager, cooperative = (run(members + one_more, load, setting, 3) for setting in settings)
    assert eager.moved == cooperative.moved
    unowned_ms = [more.unowned_ms - start.unowned_ms for more, start in zip((eager, cooperative), formed, strict=True)]
    assert unowned_ms[1] < unowned_ms[0] / 2
    assert cooperative.rebalances > eager.rebalances


def test_a_longer_session_is_a_later_detection() -> None:
    changes = [*STEADY, MembershipChange(100_000, False, "b")]
    short, long = (run(changes, LOAD, WhatIfSetting(session_timeout_ms=ms), 3) for ms in (10_000, 45_000))
    assert (short.kills, short.detected, long.detected) == (1, 1, 1)
    assert 5_000 < short.detection_ms <= 10_100
    assert 40_000 < long.detection_ms <= 45_100
    assert long.unowned_ms > short.unowned_ms
    assert short.duplicates > 0, "what was read after the last commit is read again"


def test_a_member_that_leaves_in_order_costs_no_duplicates() -> None:
    changes = [*STEADY, MembershipChange(100_000, False, "b")]
    static = run(changes, LOAD, WhatIfSetting(removal="leave", static=True), 3)
    left = run(changes, LOAD, WhatIfSetting(removal="leave"), 3)
    for costs in (left, static):
        assert (costs.kills, costs.detected, costs.false_alarms, costs.duplicates) == (0, 0, 0, 0)
    assert static.unowned_ms > left.unowned_ms, "a static member says nothing when it closes"
    formed = run(STEADY, LOAD, WhatIfSetting(removal="leave"), 3)
    assert 0 < formed.unowned_ms < left.unowned_ms < formed.unowned_ms + 60_000


def test_static_members_that_come_back_cause_no_rebalance() -> None:
    restarts = [*STEADY]
    for n, name in enumerate(("a", "b", "c")):
        restarts += [
            MembershipChange(100_000 + n * 60_000, False, name),
            MembershipChange(110_000 + n * 60_000, True, name),
        ]
    static, dynamic = (
        run(restarts, LOAD, WhatIfSetting(static=s, session_timeout_ms=45_000), 3) for s in (True, False)
    )
    assert static.rebalances == 1
    assert dynamic.rebalances >= 4
    assert static.moved <= 12


@pytest.mark.slow
def test_slow_polls_and_pauses_are_false_alarms() -> None:
    changes = [*STEADY, MembershipChange(4 * HOUR_MS, True, "d")]
    slow = Workload(partitions=12, slow_polls_per_hour=4, slow_poll_ms=400_000)
    paused = Workload(partitions=12, pauses_per_hour=10, pause_ms=12_000)
    strict, lax = (run(changes, slow, WhatIfSetting(max_poll_interval_ms=ms), 3) for ms in (60_000, 3_600_000))
    assert strict.false_alarms > 3 > lax.false_alarms
    short, long = (run(changes, paused, WhatIfSetting(session_timeout_ms=ms), 3) for ms in (6_000, 60_000))
    assert short.false_alarms > 5 > long.false_alarms


def test_settings_that_cannot_be() -> None:
    assert WhatIfSetting(assignor="best").problem() == (f"there is no assignor best; there are {', '.join(ASSIGNORS)}")
    assert WhatIfSetting(heartbeat_interval_ms=45_000).problem() is not None
    assert WhatIfSetting(removal="fade").problem() is not None
