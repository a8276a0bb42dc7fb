"""Kafka's own scenarios, by name: each row of these tables is a scenario or test of ours that holds the name, or the reason
why coterie has nothing that it could be asked of.

`not yet` is a row of share groups or streams groups that nobody has done. To do it, write Kafka's name of the test into the
scenario, docstring or table of ours, in a file of tests/ whose path names the kind (`share` or `streams`), and run
`python -m tests.kafka_names.test_names`: it turns every such row over. A name of two tables counts where the file names
Kafka's class too (`TasksTupleTest`). A row that cannot be done takes `not here: ` and its reason, by hand.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TABLES = sorted(Path(__file__).parent.rglob("*.txt"))
HEADING = re.compile(r"# (\w+) of Apache Kafka [\d.]+: .+; (\d+) names")
ROW = re.compile(r"(\w+): (?:(tests/\S+)|not here: (\S.{10,})|not yet)")
KINDS = ("share", "streams")


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
    kind = table.relative_to(Path(__file__).parent).parts[0]
    assert kind in KINDS or "not yet" not in {rest for _, rest in rows(table)}
    assert len(names) == len(set(names)) == int(heading[2])
    for name, rest in rows(table):
        row = ROW.fullmatch(f"{name}: {rest}")
        assert row is not None, f"{table.name}: {name}: neither a file of tests/, nor a reason, nor not yet"
        assert row[2] is None or name in words_of(row[2]), f"{row[2]} does not name {name}"


def turn_over(kind: str) -> int:
    """Gives the rows of the kind that are `not yet` the files that name them; returns how many."""
    tables = [table for table in TABLES if table.is_relative_to(Path(__file__).parent / kind)]
    shared = Counter(name for table in tables for name, _ in rows(table))
    files = [
        f.relative_to(ROOT).as_posix() for f in sorted((ROOT / "tests").rglob("*.*")) if f.suffix in {".py", ".txt"}
    ]
    files = [f for f in files if kind in f and not f.startswith("tests/kafka_names/")]
    count = 0
    for table in tables:
        lines = table.read_text().splitlines()
        for n, line in enumerate(lines):
            name, _, rest = line.partition(": ")
            wanted = {name} if shared[name] == 1 else {name, table.stem}
            file = next((f for f in files if wanted <= words_of(f)), None)
            if rest == "not yet" and file is not None:
                lines[n] = f"{name}: {file}"
                count += 1
        table.write_text("\n".join(lines) + "\n")
    return count


if __name__ == "__main__":
    for each in KINDS:
        print(f"{each}: {turn_over(each)} rows turned over")
