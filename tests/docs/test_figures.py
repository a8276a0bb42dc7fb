"""Tables of figures in the documentation show the means in docs/results/study.json.

A comment before a table names its cells: `<!-- figures: QUESTION | SETTINGS | WORKLOADS | MEASURES -->`, lists divided by
semicolons, a workload with `@N` for groups of N members; one row for each workload and setting, one column for each measure.
`python -m tests.docs.test_figures` writes the figures into the tables; the sentences around them are for a person to read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from coterie.console.study_page import number

DOCS = Path(__file__).parent.parent.parent / "docs"
PAGES = sorted([*(DOCS / "concepts").glob("*.md"), *(DOCS / "zh").rglob("*.md")])
_MARK = re.compile(r"<!-- figures: (.*?) -->")


def cells() -> list[dict[str, Any]]:
    loaded: list[dict[str, Any]] = json.loads((DOCS / "results" / "study.json").read_text())["cells"]
    return loaded


def wanted(mark: str, results: list[dict[str, Any]]) -> list[list[str]]:
    """The figures of the rows that a mark names. Raises LookupError where a cell is not there, or not unique."""
    question, settings, workloads, measures = ([item.strip() for item in part.split(";")] for part in mark.split("|"))
    rows = []
    for workload in workloads:
        name, _, members = workload.partition("@")
        for setting in settings:
            mine = [
                cell["measures"]
                for cell in results
                if (cell["question"], cell["workload"], cell["setting"]) == (int(question[0]), name, setting)
                and members in ("", str(cell["members"]))
            ]
            if len(mine) != 1:
                raise LookupError(f"{len(mine)} cells for {question} {workload} {setting}")
            rows.append([number(mine[0][measure][0]) for measure in measures])
    return rows


def tables(text: str) -> Iterator[tuple[str, list[list[str]]]]:
    """Each mark, with the cells of the table after it from the third column on."""
    for match in _MARK.finditer(text):
        lines = text[match.end() :].lstrip("\n").splitlines()
        table = lines[: next((n for n, line in enumerate(lines) if not line), None)]
        yield match[1], [[cell.strip() for cell in line.strip("|").split("|")][2:] for line in table[2:]]


def filled(text: str, results: list[dict[str, Any]]) -> str:
    """The page with the figures of the study in its marked tables."""
    lines = text.splitlines()
    for at, line in enumerate(lines):
        mark = _MARK.match(line)
        if mark is None:
            continue
        first = next(n for n in range(at, len(lines)) if lines[n].startswith("|")) + 2
        for row, figures in enumerate(wanted(mark[1], results), first):
            names = [cell.strip() for cell in lines[row].strip("|").split("|")][:2]
            lines[row] = f"| {' | '.join([*names, *figures])} |"
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_figures_are_those_of_the_study(page: Path) -> None:
    results = cells()
    for mark, shown in tables(page.read_text()):
        assert shown == wanted(mark, results), mark


def test_the_check_can_fail() -> None:
    mark = "1 | eager | one joins | pause_s; moved"
    results = cells()
    ((_, wrong),) = tables(
        f"<!-- figures: {mark} -->\n| what | protocol | a | b |\n|---|---|---|---|\n| x | y | 1.30 | 6 |\n"
    )
    assert wrong != wanted(mark, results)
    page = f"<!-- figures: {mark} -->\n\n| what | protocol | a | b |\n|---|---|---|---|\n| x | y | 1.30 | 6 |\n\nmore\n"
    ((_, refilled),) = tables(filled(page, results))
    assert refilled == wanted(mark, results)
    with pytest.raises(LookupError, match="0 cells"):
        wanted("1 | eager | one sleeps | moved", results)


if __name__ == "__main__":
    for path in PAGES:
        path.write_text(filled(path.read_text(), cells()))
