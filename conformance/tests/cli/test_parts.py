"""The command that runs conformance's parts, with parts that need no JVM. The order of the parts: every part has its row,
none takes longer than half an hour, and all fit into a night."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from coterie_conformance.cli import compare as command
from coterie_conformance.cli.parts.options import PartOptions
from coterie_conformance.cli.parts.order import MOST_MINUTES, NIGHT_MINUTES, ORDER, in_order, rows, runs
from coterie_conformance.cli.parts.table import KAFKA_PARTS, OTHER_PARTS, KafkaPart
from coterie_conformance.servers.kafka import VERSIONS, CannotRun

PAGE = Path(__file__).parents[3] / "docs/contributing/conformance.md"
VERSIONS_OF = {name: part.versions for name, part in KAFKA_PARTS.items()}


def _part(failed: int, **figures: Any) -> KafkaPart:
    return KafkaPart(lambda _: figures | {"failed": failed}, lambda f: [f"  {', '.join(f)}"])


def _cannot_run(options: PartOptions) -> dict[str, Any]:
    raise CannotRun(f"no Kafka {options.version}")


def _run(monkeypatch: pytest.MonkeyPatch, parts: dict[str, KafkaPart], *args: str) -> tuple[int, str]:
    monkeypatch.setattr(command, "KAFKA_PARTS", parts)
    done = CliRunner().invoke(command.compare, args)
    return done.exit_code, done.stdout


def test_figures_of_a_versions_parts_are_one_result(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = {"format": _part(0, files=3), "client": _part(2, checks=7)}
    exit_code, out = _run(monkeypatch, parts, "--kafka", "4.3.0", "--part", "format", "--part", "client", "--json")
    assert (exit_code, json.loads(out)) == (1, [{"kafka": "4.3.0", "failed": 2, "files": 3, "checks": 7}])


def test_only_the_parts_and_versions_asked_for_are_run(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = {"format": _part(0, files=3), "client": KafkaPart(_cannot_run, lambda _: [], ("3.9.1",))}
    exit_code, out = _run(monkeypatch, parts, "--kafka", "4.3.0", "--part", "format", "--part", "client")
    assert (exit_code, out) == (0, "Apache Kafka 4.3.0:\n  files\n")
    exit_code, out = _run(monkeypatch, parts, "--kafka", "3.9.1", "--part", "client", "--json")
    assert (exit_code, json.loads(out)) == (3, [{"kafka": "3.9.1", "skipped": "no Kafka 3.9.1"}])


def test_a_part_that_no_version_runs_does_not_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "KAFKA_PARTS", {"client": KafkaPart(_cannot_run, lambda _: [], ("3.9.1",))})
    done = CliRunner().invoke(command.compare, ["--kafka", "4.3.0", "--part", "client"])
    assert done.exit_code == 2
    assert "nothing to run with --kafka 4.3.0: client runs on 3.9.1" in done.stderr


def test_every_part_has_its_row_and_its_time() -> None:
    assert ORDER.keys() == KAFKA_PARTS.keys() | OTHER_PARTS.keys()
    table = {name: float(minutes) for name, _, minutes, _ in rows(VERSIONS_OF)}
    total = table.pop("all")
    assert {name: minutes for name, minutes in table.items() if minutes > MOST_MINUTES} == {}
    assert total == pytest.approx(sum(table.values()))
    assert total <= NIGHT_MINUTES


def test_the_parts_are_listed_in_their_order() -> None:
    done = CliRunner().invoke(command.compare, ["--list"])
    assert done.exit_code == 0
    first_words = [line.split()[0] for line in done.stdout.splitlines()]
    assert first_words == ["PART", *ORDER, "all"]
    assert [*command.PARTS] == [*ORDER]


def test_the_page_has_the_table() -> None:
    """A row that changed is printed by its failure."""
    lines = [
        f"| `{name}` | {kafka} | {minutes} | {broken_by} |" for name, kafka, minutes, broken_by in rows(VERSIONS_OF)
    ]
    text = PAGE.read_text()
    assert [line for line in lines if line not in text] == []


def test_parts_run_one_after_another_beside_the_newest_kafka_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not version by version: what a change breaks is met before what it does not concern."""
    ran: list[tuple[str, str]] = []

    def part(name: str, versions: tuple[str, ...]) -> KafkaPart:
        def run(options: PartOptions) -> dict[str, int]:
            ran.append((name, options.version))
            return {name: 1, "failed": 0}

        return KafkaPart(run, lambda _: [], versions)

    monkeypatch.setattr(command, "KAFKA_PARTS", {n: part(n, VERSIONS) for n in ("format", "requests")})
    done = CliRunner().invoke(command.compare, ["--part", "format", "--part", "requests"])
    assert done.exit_code == 0
    assert ran == [(name, version) for name in ("requests", "format") for version in reversed(VERSIONS)]


def test_a_part_without_a_row_runs_last() -> None:
    assert in_order(["new", "rocketmq", "requests"]) == ["requests", "rocketmq", "new"]
    assert [*runs(["rocketmq", "requests"], {"requests": ("1", "2")})] == [
        ("requests", "2"),
        ("requests", "1"),
        ("rocketmq", ""),
    ]
