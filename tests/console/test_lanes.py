"""The timeline in a terminal: what its letters show, and that it stays within the columns."""

from __future__ import annotations

import re

import pytest

from coterie.console.lanes import LINES_BESIDE, lanes, owner_letters
from coterie.coordinator.journal.timeline import Band, BandPhase, Spell, Timeline
from coterie.machines.ownership import UnownedSpell
from coterie.text.hidden import visible

SECOND = 1000


def moved_once(partitions: int = 4, owners: tuple[str, ...] = ("anna", "ben")) -> Timeline:
    """Ben dies at 20 s, which is noticed at 26 s; anna has his partitions at 30 s."""
    timeline = Timeline("crew")
    timeline.reach(0, 40 * SECOND)
    anna, ben = map(timeline.owner, owners)
    for number in range(partitions):
        partition = "flights", number
        of_ben = number >= partitions / 2
        timeline.owned.append(
            Spell(timeline.lane(partition), ben if of_ben else anna, 0, 20 * SECOND if of_ben else None)
        )
        dead_ms = 20 * SECOND if of_ben else 26 * SECOND
        timeline.add_unowned([UnownedSpell(partition, dead_ms, 26 * SECOND, 30 * SECOND)])
        if of_ben:
            timeline.owned.append(Spell(timeline.lane(partition), anna, 30 * SECOND))
    phases = [BandPhase("PreparingRebalance", 26_000, 29_000), BandPhase("CompletingRebalance", 29_000, 30_000)]
    timeline.rebalances.append(Band(7, phases, "stable", [], f"{owners[1]} was silent for its session timeout"))
    return timeline


def drawn(timeline: Timeline, width: int, rows: int = 20, by_member: bool | None = None) -> list[str]:
    return [line.plain.rstrip() for line in lanes(timeline, 40 * SECOND, width, rows, by_member=by_member)]


def test_a_lane_has_a_letter_for_each_owner_and_signs_for_unowned_time() -> None:
    assert drawn(moved_once(), 50)[1:-1] == [
        "                                    7",
        "                                    ▒▒▒▓",
        "flights-0 aaaaaaaaaaaaaaaaaaaaaaaaaa····aaaaaaaaaa",
        "flights-1 aaaaaaaaaaaaaaaaaaaaaaaaaa····aaaaaaaaaa",
        "flights-2 bbbbbbbbbbbbbbbbbbbb××××××····aaaaaaaaaa",
        "flights-3 bbbbbbbbbbbbbbbbbbbb××××××····aaaaaaaaaa",
        "a anna  b ben",
        "· unowned  × owner dead, not detected  ▒ members join  ▓ assignment"[:50],
    ]
    assert re.fullmatch(
        r"generation 7 at \d\d:\d\d:\d\d took 4\.0 s: ben was silent for its session timeout",
        drawn(moved_once(), 50)[-1],
    )


def test_by_member_a_lane_counts_partitions() -> None:
    assert drawn(moved_once(), 45, by_member=True)[3:5] == [
        "anna 2─────────────────────────────4─────────",
        " ben 2───────────────────",
    ]


def test_what_is_unowned_now_is_shown_until_now() -> None:
    timeline = moved_once()
    timeline.waiting = {("flights", 0): 35 * SECOND}
    assert drawn(timeline, 50)[3].endswith("····aaaaa·····")
    timeline.rebalances.append(Band(8, [BandPhase("PreparingRebalance", 35 * SECOND, None)]))
    assert drawn(timeline, 50)[2].endswith("▒▒▒▓     ▒▒▒▒▒")
    assert drawn(timeline, 50)[-1].endswith("takes 5.0 s: the cause is unknown")


@pytest.mark.parametrize("width", [20, 80, 100, 200])
@pytest.mark.parametrize("by_member", [True, False])
def test_a_lane_stays_within_the_columns_and_the_lanes_within_the_rows(width: int, by_member: bool) -> None:
    timeline = moved_once(1000, ("x" * 300 + "\x1b[2J", "\u202eevil<b>[red]"))
    shown = drawn(timeline, width, 12, by_member)
    assert max(map(len, shown[:-1])) <= max(width, 26)
    assert len(shown) <= 12 + LINES_BESIDE
    assert ("and 988 more" in "\n".join(shown)) is not by_member
    assert visible("".join(shown)) == "".join(shown)


def test_more_partitions_than_rows_are_shown_by_member() -> None:
    assert any(line.strip().startswith("anna 500") for line in drawn(moved_once(1000), 80, 12))
    assert any(line.strip().startswith("flights-0") for line in drawn(moved_once(12), 80, 12))


def test_letters_are_those_that_names_begin_with_as_far_as_they_are_free() -> None:
    assert owner_letters(["anna", "ben", "alex", "Cleo", "", "3f2c"]) == ["a", "b", "A", "c", "d", "e"]
    assert set(owner_letters([str(n) for n in range(60)])[52:]) == {"?"}
