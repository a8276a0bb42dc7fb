"""Tables in a pipe and in a terminal: nothing of a cell is lost, columns stand under each other, wide characters
included. The timeline in a terminal: what its letters show, and that it stays within the columns."""

from __future__ import annotations

import io
import json
import re
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rich.cells import cell_len

from coterie.console import terminal
from coterie.console.lanes import LINES_BESIDE, lanes, owner_letters
from coterie.console.terminal import write_json, write_line, write_table, write_text, write_value
from coterie.coordinator.journal.timeline import Band, BandPhase, Spell, Timeline
from coterie.machines.ownership import UnownedSpell
from coterie.text.hidden import visible

# Letters, wide ones, emoji, combining marks, brackets that rich takes for markup, control characters, breaks.
cells = st.text(st.sampled_from("ab-[]/:漢字😀é\u0301\x1b\n\t\u202e"), max_size=14) | st.sampled_from(
    ["[bold]", ":smile:", "\\[x]"]
)
SECOND = 1000


def _written(write: Any, *values: Any, columns: int | None = None, **options: Any) -> str:
    """Standard output; ``columns``: that of a terminal of this width."""
    out = io.StringIO()
    environment = {"COLUMNS": str(columns or 80), "LINES": "25", "TERM": "dumb"}
    with (
        patch("sys.stdout", out),
        patch.object(terminal, "is_terminal", lambda: columns is not None),
        patch.dict("os.environ", environment),
    ):
        write(*values, **options)
    return out.getvalue()


@given(st.lists(st.tuples(cells, cells | st.none() | st.integers()), max_size=6))
@example([("x" * 600, "after"), ("漢" * 300, None)])
def test_in_a_pipe_every_cell_is_whole_and_stands_under_its_heading(rows: list[tuple[str, Any]]) -> None:
    lines = _written(write_table, ["FIRST", "SECOND"], rows).splitlines()
    assert len(lines) == 1 + len(rows)
    at = lines[0].index("SECOND")
    for line, row in zip(lines[1:], rows, strict=True):
        first, second = ("-" if cell is None else visible(str(cell)) for cell in row)
        assert line.startswith(first)
        rest = line[len(first) :]
        padding = at - cell_len(first)
        assert padding >= 1
        assert rest[:padding].strip() == ""
        assert rest[padding:].rstrip() == second.rstrip()


@given(st.lists(st.tuples(cells, cells), min_size=1, max_size=4), st.integers(20, 100))
@example([("a" * 90, "漢" * 50)], 20)
def test_in_a_terminal_no_line_is_wider_and_nothing_is_lost(rows: list[tuple[str, str]], columns: int) -> None:
    lines = _written(write_table, ["FIRST", "SECOND"], rows, columns=columns).splitlines()
    assert all(cell_len(line) <= columns for line in lines)
    kept = sorted(c for line in lines[1:] for c in line if not c.isspace())
    assert kept == sorted(c for row in rows for cell in row for c in visible(cell) if not c.isspace())


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
)


@given(json_values, st.none() | st.integers(0, 4))
@example({"name\x7f": "\x1b\u202e"}, None)
def test_json_is_the_value_in_printable_ascii(value: Any, indent: int | None) -> None:
    text = _written(write_json, value, indent)
    assert json.loads(text) == value
    assert all(" " <= c < "\x7f" for c in text.replace("\n", ""))


@given(st.text())
def test_a_line_is_one_line_and_a_text_keeps_its_breaks(text: str) -> None:
    line = _written(write_line, text)
    assert line == visible(text) + "\n"
    assert line.isprintable() or line[:-1] == visible(text)
    assert "\n" not in line[:-1]
    assert _written(write_text, text) == visible(text, breaks=True)
    assert _written(write_text, text).count("\n") == text.count("\n")


@given(st.binary(max_size=40))
def test_a_record_on_a_terminal_has_no_control_character(value: bytes) -> None:
    shown = _written(write_value, value, columns=80)
    assert shown == visible(value.decode(errors="replace"), breaks=True) + "\n"


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
