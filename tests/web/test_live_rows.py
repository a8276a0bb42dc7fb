"""What a reader of the rows gets: all, then what changed."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from coterie.text.quantity import STALLED_AFTER_MS
from coterie.web.group_memory import POINT_EVERY_MS, POINTS, GroupCourse, JournalMemory
from coterie.web.live_rows import FLAPS_WITHIN_MS, LiveRows, marks
from tests.web.feeds import line, row

STEPS = st.lists(
    st.tuples(st.sampled_from(["put", "remove", "read"]), st.sampled_from("abcd"), st.integers(0, 3)), max_size=40
)


@given(STEPS)
def test_a_reader_has_what_there_is_after_each_read(steps: list[tuple[str, str, int]]) -> None:
    rows, expected = LiveRows(), dict[str, Any]()
    seen, revision = dict[str, Any](), 0
    for step, group, lag in [*steps, ("read", "", 0)]:
        if step == "put":
            rows.put(row(group, lag=lag))
            expected[group] = row(group, lag=lag)
        elif step == "remove":
            rows.remove(group)
            expected.pop(group, None)
        else:
            text, revision = rows.changes(revision), rows.revision
            if text is not None:
                change = json.loads(text)
                seen = {} if change["reset"] else seen
                for name in change["removed"]:
                    seen.pop(name, None)
                seen |= {changed["group"]: changed for changed in change["rows"]}
            assert seen == expected


def test_what_did_not_change_is_not_sent() -> None:
    rows = LiveRows()
    for name in "abc":
        rows.put(row(name))
    revision = rows.revision
    rows.put(row("b"))
    assert rows.changes(revision) is None
    rows.put(row("b", lag=9))
    change = json.loads(rows.changes(revision) or "")
    assert [r["group"] for r in change["rows"]] == ["b"]


def test_the_memory_of_the_journal_is_bounded() -> None:
    memory = JournalMemory(most=10)
    for number in range(8):
        memory.add(line("quiet", time_ms=number))
    for number in range(8):
        memory.add(line("loud", time_ms=number))
    assert memory.of("quiet") == []
    assert [kept.time_ms for kept in memory.of("loud")] == list(range(8))


def test_the_course_of_a_group() -> None:
    course, partition = GroupCourse(), ("t", 0)
    for number in range(POINTS + 5):
        course.measured([(partition, 7, number)], (number - POINTS - 4) * POINT_EVERY_MS)
    assert course.lags == list(range(5, POINTS + 5))
    course.measured([(partition, 7, 50)], POINT_EVERY_MS - 1)
    assert course.lags[-2:] == [POINTS + 3, 50]
    course.measured([(partition, 9, 50)], 0)
    assert course.unmoved_ms(partition, 10_000) == 10_000
    assert not course.stalls(STALLED_AFTER_MS - 1)
    assert course.stalls(STALLED_AFTER_MS)
    course.measured([(partition, 8, 3)], STALLED_AFTER_MS)
    assert not course.stalls(STALLED_AFTER_MS)


def test_the_marks_of_a_group() -> None:
    def shown(state: str, in_state_ms: int, rebalances_ms: list[int], *, stalls: bool = False) -> list[str]:
        return marks(state, in_state_ms, rebalances_ms, FLAPS_WITHIN_MS, stalls=stalls, is_lost=False)

    assert shown("Stable", 10**6, []) == []
    assert shown("PreparingRebalance", 999, []) == []
    assert shown("PreparingRebalance", 1_000, []) == ["waits"]
    assert shown("Stable", 0, [0, 1, 2]) == []
    assert shown("Stable", 0, [1, 1, 2], stalls=True) == ["flaps", "stalls"]
