"""Pictures and pages of any names and numbers: well-formed, every name in the picture, sizes as the values."""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from coterie.console import history_page
from coterie.console.growth_chart import Growth, growth_chart
from coterie.console.page import PHONE_WIDTH, STYLE, SVG_STYLE, WIDTH, Markup, Section, page, table
from coterie.console.report import Rebalance, Report, render
from coterie.console.svg import (
    LEFT,
    PALETTE,
    RIGHT,
    Line,
    Spread,
    bars,
    colours,
    line_chart,
    round_step,
    small_multiples,
)
from coterie.text.hidden import visible

NS = "{http://www.w3.org/2000/svg}"
HOSTILE = "<b>&\"'\x1b[2J\x00\u202e\ud800\ufffe"
texts = st.text(max_size=12) | st.just(HOSTILE)
names = st.lists(st.text(max_size=60), min_size=1, max_size=12, unique=True)
values = st.just(0.0) | st.floats(1e-6, 1e9)


def _elements(picture: str) -> Iterator[ET.Element]:
    """What is drawn: all but the ground."""
    picture.encode()
    yield from (e for e in ET.fromstring(picture).iter() if e.attrib.get("class") != "paper")


def _check_numbers(picture: str, whole: int = WIDTH) -> None:
    """Every coordinate is finite, no size negative, and what is drawn lies between the picture's left and right edge."""
    for element in _elements(picture):
        numbers = {
            k: float(v) for k, v in element.attrib.items() if k in ("x", "y", "x1", "x2", "y1", "y2", "width", "height")
        }
        assert all(math.isfinite(number) for number in numbers.values())
        assert numbers.get("width", 0) >= 0
        assert numbers.get("height", 0) >= 0
        for name in ("x", "x1", "x2"):
            assert -0.1 <= numbers.get(name, 0) <= whole, ET.tostring(element)
        assert numbers.get("x", 0) + numbers.get("width", 0) <= whole + 0.1, ET.tostring(element)


def _texts(picture: str) -> list[str]:
    return [element.text or "" for element in _elements(picture) if element.tag in (f"{NS}text", f"{NS}title")]


PICTURES: dict[str, Callable[[str], str]] = {
    "lines": lambda t: line_chart([Line(t, [(0, 1)])], 1, t, t),
    "bars": lambda t: bars([(t, 1)], t, t),
    "grid": lambda t: small_multiples([(t, t, [Spread(t, t, 1, 0, 2)])], t),
    "growth": lambda t: growth_chart([Growth(t, [(3, 1, 1, 2), (9, 2, 1, 3)])], t, t, [3, 9]),
}


@pytest.mark.parametrize("kind", PICTURES)
def test_a_picture_of_any_text_is_well_formed_and_shows_it(kind: str) -> None:
    @given(texts)
    def shown(text: str) -> None:
        picture = PICTURES[kind](text)
        shown = visible(text, breaks=True)
        assert any(shown == t or (shown and shown in t) for t in _texts(picture))
        assert ET.fromstring(picture).attrib["aria-label"].split() == shown.split()

    shown()


@given(names, st.lists(st.tuples(values, values), min_size=1, max_size=8))
@example(["ordinary"] * 1 + [f"topic {n}" for n in range(7)], [(0.0, 0.0), (10.0, 7.0)])
def test_a_line_chart_has_every_curve_and_its_name(lines: list[str], points: list[tuple[float, float]]) -> None:
    points = sorted(points)
    end_s = points[-1][0]
    picture = line_chart([Line(name, points) for name in lines], end_s, "t", "records")
    _check_numbers(picture)
    _check_numbers(picture.phone, PHONE_WIDTH)
    curves = [e for e in _elements(picture) if e.tag == f"{NS}polyline"]
    assert len(curves) == len(lines)
    drawn = [tuple(map(float, pair.split(","))) for pair in curves[0].attrib["points"].split()]
    assert len(drawn) == len(points)
    assert all(LEFT - 0.1 <= x <= WIDTH - RIGHT + 0.1 for x, _ in drawn)
    ys = [y for _, y in drawn]
    for (_, low), (_, high), y_low, y_high in zip(points, points[1:], ys, ys[1:], strict=False):
        assert (y_low >= y_high - 0.1) if low <= high else (y_low <= y_high + 0.1), "a larger value is higher"


@given(st.floats(0, 1e12))
@example(159_000.0)
@example(4.0)
def test_the_labels_of_an_axis_are_round(highest: float) -> None:
    """159,000 had labels at 39,750, 79,500 and 119,250."""
    step = round_step(highest)
    assert str(step).rstrip("0") in ("1", "2", "5")
    assert highest <= 4 * step
    assert step == 1 or 4 * step <= 2.51 * highest
    picture = line_chart([Line("a", [(0, 0), (1, highest)])], 1, "t", "records")
    assert {f"{step * n:,}" for n in range(math.ceil(highest / step) + 1)} <= {*_texts(picture)}


@given(st.dictionaries(st.text(max_size=200), values, max_size=10))
@example({"x" * 200: 5.0})
def test_bars_are_as_long_as_their_values(given_values: dict[str, float]) -> None:
    chart = bars(list(given_values.items()), "t", "records")
    for picture, whole in ((chart, WIDTH), (chart.phone, PHONE_WIDTH)):
        _check_numbers(picture, whole)
        drawn = [float(e.attrib["width"]) for e in _elements(picture) if e.tag == f"{NS}rect"]
        assert len(drawn) == len(given_values)
        highest = max(given_values.values(), default=0)
        for width, value in zip(drawn, given_values.values(), strict=True):
            assert highest == 0 or math.isclose(width, max(drawn) * value / highest, abs_tol=0.2)
        assert highest == 0 or max(drawn) >= 100


@given(st.lists(st.tuples(st.text(max_size=8), values, values, values), min_size=1, max_size=10), st.integers(1, 5))
def test_a_grid_has_a_bar_for_each_value_of_each_panel(
    rows: list[tuple[str, float, float, float]], panels: int
) -> None:
    spreads = []
    for group, *three in rows:
        low, mean, high = sorted(three)
        spreads.append(Spread("row", group, mean, low, high))
    picture = small_multiples([(f"panel {n}", "s", spreads) for n in range(panels)], "t")
    _check_numbers(picture)
    drawn = [e for e in _elements(picture) if e.tag == f"{NS}rect" and e.findall(f"{NS}title")]
    assert len(drawn) == panels * len(rows)
    height = float(ET.fromstring(picture).attrib["viewBox"].split()[3])
    assert all(float(e.attrib["y"]) + float(e.attrib["height"]) <= height for e in drawn)


@given(st.lists(st.text(), max_size=30))
def test_a_name_has_one_colour_and_the_twelfth_is_the_first(owners: list[str]) -> None:
    colour = colours(owners)
    assert list(colour) == list(dict.fromkeys(owners))
    assert len(set(colour.values())) == min(len(colour), len(PALETTE))


class _Cells(HTMLParser):
    """The texts of an HTML table's cells, and every tag."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.cells: list[str] = []
        self.tags: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.append(tag)
        if tag in ("td", "th"):
            self.cells.append("")

    def handle_data(self, data: str) -> None:
        if self.cells:
            self.cells[-1] += data


@given(st.lists(st.lists(texts, min_size=2, max_size=2), max_size=5))
def test_a_table_shows_every_cell_and_no_markup_of_a_name(rows: list[list[str]]) -> None:
    read = _Cells(table(["a", "b"], rows, frozenset({1})))
    assert read.cells == [visible(cell, breaks=True) for cell in ["a", "b", *(cell for row in rows for cell in row)]]
    assert set(read.tags) <= {"table", "tr", "th", "td"}


@given(texts, texts)
def test_a_page_has_no_markup_of_a_name_and_needs_no_network(name: str, note: str) -> None:
    report = Report(name, note, 1.0, [(name, True, note)], rebalances=[Rebalance(1, 0, 1, 1, 1, 1, note)])
    report.events.append((0.5, name))
    for text in (page(name, note, [Section(name, note, Markup())]), render(report)):
        text.encode()
        assert set(_Cells(text).tags).isdisjoint({"b", "script", "img", "link"})
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", text)
        assert not re.search(r"""(?:src|href)=["']""", text)


def test_the_result_of_a_check_is_not_broken_inside_the_word() -> None:
    """A cell breaks anywhere, for long names; in the demo's report a long figure broke `right`."""
    shown = page("t", "", [Section("Checks", "", table(["what", ""], [("records", "right")]))])
    assert "overflow-wrap: anywhere" in shown
    for css in ("right", "wrong"):
        rules = re.findall(rf"^[^\n{{]*\.{css}\b[^{{]*\{{([^}}]*)\}}", shown, re.MULTILINE)
        assert any("white-space: nowrap" in rule for rule in rules), css


def test_the_times_of_a_groups_history_are_not_broken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    numbers = dict.fromkeys(
        ("generation", "members", "join_ms", "sync_ms", "moved", "unowned_ms", "epoch", "offset"), 1
    )
    numbers |= dict.fromkeys(
        ("target_ms", "reconciled_ms", "log_offset", "from_ms", "pause_ms", "partition", "time_ms"), 2
    )
    row: dict[str, Any] = {**numbers, "cause": "member_left", "why": "why " * 99, "source": "journal", "topic": "t"}
    tables = {"rebalances": [row], "epochs": [row], "stalls": [row]}
    released = [{**row, "revoking": revoking, "member_id": "m", "client_id": "c"} for revoking in (["t-0"], [])]
    tables["reconciliations"] = released
    monkeypatch.setattr(history_page, "rows_of", lambda folder, group: tables.get(folder.name, []))
    shown = [section.body for section in history_page.sections(tmp_path, "g")]
    times = [cell for body in shown for cell in re.findall(r"<td[^>]*>1970-01-01[^<]*", body)]
    assert len(times) == 4
    assert all(cell.startswith('<td class="n">') for cell in times)


def test_a_picture_on_a_page_has_a_caption_and_is_scrolled_alone() -> None:
    shown = page("t", "", [Section("Causes", "", bars([("a", 1.0)], "rebalances by cause", "rebalances"))])
    assert shown.count("<svg") == 2
    assert '<figure><div class="phone"><svg' in shown
    assert '</svg></div><div class="wide"><svg' in shown
    assert "<figcaption>Rebalances by cause</figcaption></figure>" in shown
    assert "min-width: 820px" in shown, "on a phone its letters would be five pixels high"


LIGHT, DARK = SVG_STYLE.split("@media (prefers-color-scheme: dark)", 1)
RULE = re.compile(r"^(\S+) {.*?(?:fill|stroke): (#\w+)", re.M)
DOCS = Path(__file__).parents[2] / "docs"


def test_each_colour_of_a_picture_follows_the_readers_theme() -> None:
    light, dark = dict(RULE.findall(LIGHT)), dict(RULE.findall(DARK))
    assert set(light) == {name for name in dark if not name.startswith("[")}
    for rules in (light, dark):
        assert _contrast(rules["text"], rules[".paper"]) > 10
        assert _contrast(rules[".axis"], rules[".paper"]) > 4.5
    for colour in PALETTE:
        for part in ("fill", "stroke"):
            shown = dark.get(f'[{part}="{colour}"]', colour)
            assert _contrast(shown, dark[".paper"]) > 3, (part, colour)


def test_each_picture_of_the_documentation_follows_the_readers_theme() -> None:
    """All but the demo's terminal, which is dark in both, and the icon, which is shown without a ground."""
    drawn = {path: path.read_text() for path in DOCS.rglob("*.svg") if "_build" not in path.parts}
    ours = {path.name: text for path, text in drawn.items() if path.name not in {"demo.svg", "icon.svg"}}
    assert len(ours) > 30
    for name, text in ours.items():
        assert f"<style>{SVG_STYLE}</style>" in text, name
        assert set(re.findall(r'(?:fill|stroke)="(#\w+)"', text)) <= set(PALETTE), name


def _contrast(one: str, other: str) -> float:
    """WCAG 2.2's ratio of two colours' luminances."""
    darker, lighter = sorted((_luminance(one), _luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(colour: str) -> float:
    digits = colour[1:] if len(colour) == 7 else "".join(2 * digit for digit in colour[1:])
    shares = (int(digits[n : n + 2], 16) / 255 for n in (0, 2, 4))
    linear = [share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares]
    return sum(factor * share for factor, share in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def test_each_colour_of_a_page_has_one_in_the_dark() -> None:
    of_light, of_dark = (
        re.findall(r"--(\w+): #", part) for part in STYLE.split("@media (prefers-color-scheme: dark)", 1)
    )
    assert of_light == of_dark
