"""Tables in a pipe and in a terminal: nothing of a cell is lost, columns stand under each other, wide characters included."""

from __future__ import annotations

import io
import json
from typing import Any
from unittest.mock import patch

from hypothesis import example, given
from hypothesis import strategies as st
from rich.cells import cell_len

from coterie.console import terminal
from coterie.console.terminal import write_json, write_line, write_table, write_text, write_value
from coterie.text.hidden import visible

# Letters, wide ones, emoji, combining marks, brackets that rich takes for markup, control characters, breaks.
cells = st.text(st.sampled_from("ab-[]/:漢字😀é\u0301\x1b\n\t\u202e"), max_size=14) | st.sampled_from(
    ["[bold]", ":smile:", "\\[x]"]
)


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
