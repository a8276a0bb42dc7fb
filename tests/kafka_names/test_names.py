"""Kafka's own scenarios, by name: each row of these tables is a scenario or test of ours that holds the name, or the reason
why coterie has nothing that it could be asked of."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TABLES = sorted(Path(__file__).parent.rglob("*.txt"))
HEADING = re.compile(r"# (\w+) of Apache Kafka [\d.]+: .+; (\d+) names")
ROW = re.compile(r"(\w+): (?:(tests/\S+)|not here: (\S.{10,}))")


def rows(table: Path) -> Iterator[tuple[str, str]]:
    for line in table.read_text().splitlines()[1:]:
        name, _, rest = line.partition(": ")
        yield name, rest


@cache
def words_of(path: str) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", (ROOT / path).read_text()))


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.stem)
def test_each_name_is_a_scenario_or_has_a_reason(table: Path) -> None:
    heading = HEADING.fullmatch(table.read_text().splitlines()[0])
    assert heading is not None, table.name
    assert heading[1] == table.stem
    names = [name for name, _ in rows(table)]
    assert len(names) == len(set(names)) == int(heading[2])
    for name, rest in rows(table):
        row = ROW.fullmatch(f"{name}: {rest}")
        assert row is not None, f"{table.name}: {name}: neither a file of tests/ nor a reason"
        assert row[2] is None or name in words_of(row[2]), f"{row[2]} does not name {name}"
