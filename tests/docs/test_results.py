"""Figures of performance in the documentation are those of docs/results/*.json, which `./run bench --json` writes. The
table of clients in the stories of `certify-client` has the ten clients, and no finding without a cause.

A comment before a table names them: `<!-- results: FILE`, then a line for each row of the table. A line has the cells from the
second on, divided by ` | `; a cell has the names of its figures in their order, divided by ` / `. A name is that of a
benchmark's row, with `@PEER` where several have it; `:aim` or `:ratio` is another field than its value, and `*` stands for
any text: from the smallest to the largest of these rows. Figures outside of tables are in `SENTENCES`.

A table whose file is not there yet has a dash in each cell. `python -m tests.docs.test_results` writes the figures into the
tables of features/performance.md.
"""

from __future__ import annotations

import fnmatch
import json
import math
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from reference_pages import certified_clients

from coterie_conformance.bench import measure
from coterie_conformance.bench.measurement import Measurement
from coterie_conformance.certified_clients.programs import CERTIFIED_PROGRAMS
from coterie_conformance.cli import main

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs" / "results"
PERFORMANCE = ROOT / "docs/features/performance.md"
BENCHES = sorted(RESULTS.glob("bench*.json"))

# Page, pattern with a group for each figure, file, names of the figures.
SENTENCES = [
    ("README.md", r"starts in ([\d.]+) s, takes (\d+) MB", "start to first answered request / idle memory"),
    ("docs/zh/README.md", r"在 ([\d.]+) 秒内启动，占用 (\d+) MB", "start to first answered request / idle memory"),
    (
        "docs/how-to/run-it-for-a-team.md",
        r"takes about (\d+) MB. Each member with its connection takes about (\d+) KiB, and each committed offset about (\d+) ",
        "idle memory / memory per member with its connection / memory per committed offset",
    ),
    (
        "docs/decisions/records/columnar-decoding-twice.md",
        r"([\d.]+) to ([\d.]+) M records/s on one core instead of (\d+) to (\d+)",
        "columns, *(numpy) / columns, *(compiled)",
    ),
]

NOT_MEASURED = "–"
_MARK = re.compile(r"<!-- results: (\S+)\n((?:.*\n)*?)-->\n+((?:\|.*\n)+)")
_FIGURE = re.compile(r"(\d[\d,]*(?:\.\d+)?)(?: to (\d[\d,]*(?:\.\d+)?))?( M\b)?")
_UNIT = re.compile(r"\d (?:ms|s|MB|MiB|GiB|KiB|bytes|µs|[\w ]*/s)(?![\w-])")
TABLE = """<!-- results: bench.json
produce, 100-byte records / fetch, 100-byte records | produce, 100-byte records:aim
-->

| what | figure | aim |
|---|---|---|
| a | {} MB/s | 300 MB/s |
"""


def rows_of(file: str) -> list[dict[str, Any]]:
    loaded: list[dict[str, Any]] = json.loads((RESULTS / file).read_text())["rows"]
    return loaded


def figures(names: str, rows: list[dict[str, Any]]) -> list[float]:
    """The figures of a cell, from the results. Raises LookupError where a name is not there, or not unique."""
    out: list[float] = []
    for name in names.split(" / ") if names else []:
        stem, _, part = name.strip().partition(":")
        stem, _, peer = stem.partition("@")
        values = {
            row[part or "value"]
            for row in rows
            if fnmatch.fnmatchcase(row["name"], stem.replace("[", "[[]")) and peer in ("", row["peer"] or "")
        }
        if not values or (len(values) > 1 and "*" not in stem):
            raise LookupError(f"{len(values)} figures for {name!r}")
        out += [min(values), max(values)] if "*" in stem else values
    return out


def agrees(shown: str, value: float, scale: float = 1.0) -> bool:
    """Whether the figure is the value, rounded to the figure's last digit that counts; two digits count at least."""
    digits = shown.replace(",", "")
    whole, _, decimals = digits.partition(".")
    zeros = 0 if decimals else min(len(whole) - len(whole.rstrip("0")), max(len(whole) - 2, 0))
    unit = 10.0 ** (zeros - len(decimals)) * scale
    return abs(float(digits) * scale - value) <= unit / 2 * 1.000001


def shown_figures(cell: str) -> Iterator[tuple[str, float]]:
    """The figures of a cell of a page, and what each is multiplied by."""
    for first, second, million in _FIGURE.findall(cell):
        scale = 1e6 if million else 1.0
        yield first, scale
        if second:
            yield second, scale


def differences(cell: str, names: str, rows: list[dict[str, Any]]) -> list[str]:
    wanted, shown = figures(names, rows), list(shown_figures(cell))
    if len(wanted) != len(shown):
        return [f"{cell!r} has {len(shown)} figures, and {names!r} names {len(wanted)}"]
    pairs = zip(shown, wanted, strict=True)
    return [
        f"{text} of {cell!r}: {value:g} measured" for (text, scale), value in pairs if not agrees(text, value, scale)
    ]


def differences_of(page: str) -> list[str]:
    """What the marked tables of a page show and their results do not have."""
    out: list[str] = []
    for file, lines, table in _MARK.findall(page):
        shown, specifications = table.splitlines()[2:], lines.splitlines()
        if len(shown) != len(specifications):
            out.append(f"{file}: {len(specifications)} lines for {len(shown)} rows")
        rows = rows_of(file) if (RESULTS / file).exists() else None
        for line, names in zip(shown, specifications, strict=False):
            for cell, of_cell in cells_of(line, names):
                if rows is not None:
                    out += differences(cell, of_cell, rows)
                elif cell != NOT_MEASURED:
                    out.append(f"{cell!r} is shown, and {file} does not exist")
    return out


def cells_of(line: str, names: str) -> list[tuple[str, str]]:
    """The cells of a row after the first, each with the names of its figures."""
    cells, of_cells = [cell.strip() for cell in line.strip("|").split("|")][1:], names.split(" | ")
    of_cells += [""] * (len(cells) - len(of_cells))
    return [(cell, of_cell.strip()) for cell, of_cell in zip(cells, of_cells, strict=True)]


def filled(page: str) -> str:
    """The page with what was measured in each cell that shows something else. Words around figures are kept, where there are
    as many figures as before."""

    def fill(match: re.Match[str]) -> str:
        file, lines, table = match.groups()
        if not (RESULTS / file).exists():
            return match[0]
        rows, (heading, rule, *shown) = rows_of(file), table.splitlines()
        for number, (line, names) in enumerate(zip(shown, lines.splitlines(), strict=True)):
            cells = [new_cell(cell, of_cell, rows) for cell, of_cell in cells_of(line, names)]
            shown[number] = f"| {' | '.join([line.strip('|').split('|')[0].strip(), *cells])} |".replace("|  |", "| |")
        return match[0].replace(table, "\n".join([heading, rule, *shown]) + "\n")

    return _MARK.sub(fill, page)


def new_cell(cell: str, names: str, rows: list[dict[str, Any]]) -> str:
    """The cell, or one with the figures that were measured."""
    if not differences(cell, names, rows):
        return cell
    values, shown = figures(names, rows), list(shown_figures(cell))
    if len(values) != len(shown):
        return " / ".join(figure(value) for value in values)
    texts = iter(figure(value / scale) for value, (_, scale) in zip(values, shown, strict=True))
    return re.sub(r"\d[\d,]*(?:\.\d+)?", lambda _: next(texts), cell)


def figure(value: float) -> str:
    """Three digits that count, of small figures two."""
    if value >= 1000:
        return f"{round(value, 2 - int(math.log10(value))):,.0f}"
    return f"{value:.0f}" if value >= 10 or value == int(value) else f"{value:.2f}"


def test_the_tables_show_what_was_measured() -> None:
    text = PERFORMANCE.read_text("utf-8")
    assert len(_MARK.findall(text)) == len(re.findall(r"\n\|---", text)), "a table without results"
    assert differences_of(text) == []


def test_no_figure_stands_outside_of_the_tables() -> None:
    text = _MARK.sub("", PERFORMANCE.read_text("utf-8"))
    assert _UNIT.findall(text) == []


@pytest.mark.parametrize(("page", "pattern", "names"), SENTENCES, ids=[page for page, _, _ in SENTENCES])
def test_sentences_have_the_figures_that_were_measured(page: str, pattern: str, names: str) -> None:
    match = re.search(pattern, (ROOT / page).read_text("utf-8"))
    assert match, f"{page} has no such sentence any more: {pattern}"
    shown = match.groups()
    scale = 1e6 if " M " in match[0] else 1.0
    values = figures(names, rows_of("bench.json"))
    assert [text for text, value in zip(shown, values, strict=True) if not agrees(text, value, scale)] == []


def test_results_say_where_they_come_from() -> None:
    assert BENCHES
    for file in BENCHES:
        results = json.loads(file.read_text())
        assert re.match(r"\./run bench\b", results["command"]), file
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", results["date"]), file
        assert set(results["machine"]) == {"cores", "system", "python"}, file
        assert file.name in PERFORMANCE.read_text("utf-8"), f"no page shows {file.name}"


def test_the_command_writes_such_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [Measurement("beats", 70_000.1234, "1/s", 35_000), Measurement("idle", 30, "MB", lower_is_better=True)]
    monkeypatch.setattr(measure, "run_parts", lambda parts, tell: rows)
    printed = json.loads(CliRunner().invoke(main, ["bench", "--part", "groups", "--json"]).stdout)
    committed = json.loads(BENCHES[0].read_text())
    assert set(printed) == set(committed) - {"note"}
    assert printed["command"] == "./run bench --part groups --json"
    assert set(printed["rows"][0]) == set(committed["rows"][0])
    assert printed["rows"][0]["ratio"] == 2.0


@pytest.fixture
def own_results(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The folder of a bench.json with two figures."""
    rows = [
        {"name": "produce, 100-byte records", "value": 420, "unit": "MB/s", "aim": 300, "peer": ""},
        {"name": "fetch, 100-byte records", "value": 2_270, "unit": "MB/s", "aim": 1_000, "peer": ""},
    ]
    (tmp_path / "bench.json").write_text(json.dumps({"rows": rows}))
    monkeypatch.setattr(sys.modules[__name__], "RESULTS", tmp_path)
    return tmp_path


def test_another_figure_is_found(own_results: Path) -> None:
    assert differences_of(TABLE.format("420 / 2,270")) == []
    assert differences_of(TABLE.format("430 / 2,270")) == ["430 of '430 / 2,270 MB/s': 420 measured"]
    assert len(differences_of(TABLE.format("420"))) == 1
    with pytest.raises(LookupError, match="0 figures for 'nothing'"):
        figures("nothing", rows_of("bench.json"))


def test_a_table_waits_for_its_file(own_results: Path) -> None:
    page = TABLE.replace("bench.json", "bench-new.json")
    waiting = page.replace("{} MB/s", NOT_MEASURED).replace("300 MB/s", NOT_MEASURED)
    assert differences_of(waiting) == []
    assert filled(waiting) == waiting
    shown = "'420 / 2,270 MB/s' is shown, and bench-new.json does not exist"
    assert differences_of(page.format("420 / 2,270"))[0] == shown
    (own_results / "bench-new.json").write_text((own_results / "bench.json").read_text())
    assert differences_of(waiting) != []
    assert "| a | 420 / 2,270 | 300 |" in filled(waiting)
    assert differences_of(filled(waiting)) == []


def test_tables_are_filled_with_what_was_measured(own_results: Path) -> None:
    right = TABLE.format("420 / 2,270")
    assert filled(right) == right
    assert filled(TABLE.format("430 / 2,100")) == right
    written = {67_849: "67,800", 2_270: "2,270", 422.4: "422", 14.6: "15", 0.8761: "0.88", 3: "3", 1.1: "1.10"}
    assert {value: figure(value) for value in written} == written


@pytest.mark.parametrize(
    ("shown", "value", "right"),
    [("67,800", 67_849, True), ("67,800", 67_851, False), ("30", 30.4, True), ("30", 34, False), ("0.2", 0.17, True),
     ("0.17", 0.176, False), ("16,000", 16_499, True), ("16,000", 17_000, False), ("1.10", 1.104, True)],
)  # fmt: skip
def test_a_figure_is_rounded(shown: str, value: float, right: bool) -> None:
    assert agrees(shown, value) == right


def test_every_client_has_its_row() -> None:
    """Of Java one version is enough."""
    shown = certified_clients.certified_clients()
    clients = {program.name.split()[0].rstrip(",") for program in CERTIFIED_PROGRAMS}
    assert [client for client in sorted(clients) if f"\n| {client}" not in shown] == []
    assert len(clients) == 10


def test_every_wrong_story_has_a_cause() -> None:
    assert "not explained yet" not in certified_clients.certified_defects()


if __name__ == "__main__":
    PERFORMANCE.write_text(filled(PERFORMANCE.read_text("utf-8")), "utf-8")
