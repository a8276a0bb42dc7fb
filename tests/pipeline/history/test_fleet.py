"""`coterie pipeline fleet` and `report --all`: all groups ranked by the time without an owner, by cause and by deploy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from coterie.cli import main
from coterie.coordinator.journal.line import JournalLine
from coterie.pipeline.history.fleet import deploy_rows, input_bytes, run_fleet
from coterie.pipeline.history.job import Sources, run_history
from coterie.pipeline.history.tables import FLEET_TABLES
from coterie.pipeline.tables.files import rows_of
from coterie.testing import simulate
from tests.cli.json_shapes import documented
from tests.observer import stories
from tests.pipeline.history.test_history import KAFKA
from tests.pipeline.history.test_history_engines import rows_of as sorted_rows
from tests.pipeline.history.test_observed_history import journal_of

DATA = KAFKA / "4.3.0"
MINUTE_MS = 60_000


def line_of(
    group: str, minute: float, generation: int, unowned_ms: int | None, *causes: tuple[str, str]
) -> JournalLine:
    """``causes``: kind and member id, CLIENT-LIFE."""
    time_ms = 10**12 + round(minute * MINUTE_MS)
    line = JournalLine(time_ms, group, generation, "stable", "CompletingRebalance", "Stable", members=3)
    for kind, member_id in causes:
        line.causes.append(
            {"kind": kind, "member_id": member_id, "client_id": member_id.split("-")[0], "evidence": "inferred"}
        )
    line.moved_count, line.unowned_ms = len(causes), unowned_ms
    return line


def deploy_of(group: str, minute: float, unowned_ms: int) -> list[JournalLine]:
    """Three members go and come, one after the other."""
    lines = []
    for number, client in enumerate(("anna", "ben", "cleo")):
        went, came = ("member_left", f"{client}-before-{minute}"), ("member_joined", f"{client}-after-{minute}")
        lines.append(line_of(group, minute + number, 2 * number, unowned_ms, went))
        lines.append(line_of(group, minute + number + 0.2, 2 * number + 1, 0, came))
    return lines


def history_of(lines: list[JournalLine], path: Path) -> Path:
    folder = journal_of(sorted(lines, key=lambda line: line.time_ms), path / "journal")
    run_history(None, Sources(observed=str(folder)), path / "history")
    return path / "history"


@pytest.fixture
def history(tmp_path: Path) -> Path:
    """A group with two deploys a day apart, one that lost a member, and one with a member that flaps."""
    lines = [*deploy_of("billing", 0, 5_000), *deploy_of("billing", 1440, 1_000)]
    lines += [line_of("audit", 3, 1, 45_000, ("session_timeout", "dora-1"))]
    for turn in range(4):
        lines.append(line_of("flaps", turn * 2, 2 * turn, 10, ("member_left", f"eve-{turn}")))
        lines.append(line_of("flaps", turn * 2 + 1, 2 * turn + 1, 0, ("member_joined", f"eve-{turn + 1}")))
    return history_of(lines, tmp_path)


def test_groups_are_ranked_with_their_causes_and_deploys(history: Path, tmp_path: Path) -> None:
    counts = run_fleet(None, history, tmp_path / "fleet")
    assert counts == {"fleet_groups": 3, "fleet_causes": 5, "fleet_deploys": 2}
    groups = {row["group"]: row for row in rows_of(tmp_path / "fleet" / "fleet_groups")}
    assert {name: row["unowned_ms"] for name, row in groups.items()} == {
        "billing": 18_000,
        "audit": 45_000,
        "flaps": 40,
    }
    assert (groups["billing"]["deploys"], groups["billing"]["deploy_unowned_ms"]) == (2, 18_000)
    assert groups["flaps"]["deploys"] == 0
    assert (groups["audit"]["cause"], groups["audit"]["cause_unowned_ms"]) == ("session_timeout", 45_000)
    assert (groups["audit"]["stated"], groups["audit"]["inferred"]) == (0, 1)
    first, second = sorted(rows_of(tmp_path / "fleet" / "fleet_deploys"), key=lambda row: row["from_ms"])
    assert (first["restarted"], first["members"], first["rebalances"], first["unowned_ms"]) == (3, 3, 6, 15_000)
    assert second["from_ms"] - first["from_ms"] == 1440 * MINUTE_MS


def test_a_deploy_of_a_simulated_group_is_one(tmp_path: Path) -> None:
    """By what the observer wrote of it."""
    with simulate(seed=1) as world:
        lines = stories.deploy(world).lines
    run_fleet(None, history_of(lines, tmp_path), tmp_path / "fleet")
    (deploy,) = rows_of(tmp_path / "fleet" / "fleet_deploys")
    assert (deploy["restarted"], deploy["members"]) == (3, 3)
    assert deploy["rebalances"] == 6


def test_members_that_leave_and_stay_away_are_no_deploy() -> None:
    rebalances = [{"group": "crew", "time_ms": 1_000, "members": 1, "unowned_ms": 5, "moved": 1}]
    lives = [
        {"time_ms": 1_000 + n, "member_id": f"m-{n}", "client_id": f"client-{n}", "has_come": n > 3} for n in range(8)
    ]
    assert deploy_rows(rebalances, lives) == []


def test_a_time_that_no_source_knows_is_not_zero(tmp_path: Path) -> None:
    history = history_of([line_of("crew", 0, 1, None, ("member_joined", "anna-1"))], tmp_path)
    done = CliRunner().invoke(main, ["pipeline", "fleet", "--history", str(history)], catch_exceptions=False)
    assert done.stdout.splitlines()[1].split()[:3] == ["crew", "-", "1"]
    page = ["pipeline", "report", "--all", "--history", str(history), "--out", str(tmp_path / "page")]
    assert CliRunner().invoke(main, page, catch_exceptions=False).exit_code == 0
    assert "for how long partitions were unowned is not known" in (tmp_path / "page" / "report.html").read_text()


def test_the_commands_show_the_ranking_and_write_the_page(history: Path, tmp_path: Path) -> None:
    def outcome(*words: str) -> str:
        done = CliRunner().invoke(main, ["pipeline", *words], catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return done.stdout

    shown = outcome("fleet", "--history", str(history))
    rows = [line.split()[0] for line in shown.splitlines()[1:4]]
    assert rows == ["audit", "billing", "flaps"]
    assert shown.endswith(f"3 groups, 2 deploys; the tables are in {history / 'fleet'}\n")
    figures = documented("pipeline fleet", outcome("fleet", "--history", str(history), "--top", "1", "--json"))
    assert ([row["group"] for row in figures["groups"]], len(figures["deploys"])) == (["audit"], 1)
    page = json.loads(outcome("report", "--all", "--history", str(history), "--out", str(tmp_path / "page"), "--json"))
    text = Path(page["page"]).read_text()
    assert "3 groups" in text
    for part in ("Time unowned by group", "Time unowned by cause", "Deploys", "billing", "3 of 3"):
        assert part in text


@pytest.mark.parametrize("words", [["report"], ["report", "crew", "--all"]])
def test_a_group_or_all(words: list[str], history: Path, tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["pipeline", *words, "--history", str(history), "--out", str(tmp_path / "p")])
    assert (done.exit_code, "Give a group, or --all." in done.stderr) == (2, True)


def test_without_its_tables_the_page_is_a_sentence(history: Path, tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["pipeline", "report", "--all", "--history", str(history), "--out", str(tmp_path)])
    assert (done.exit_code, done.stderr.count("\n")) == (1, 1)
    assert "make its tables with `coterie pipeline fleet --history" in done.stderr


@pytest.mark.slow
def test_a_large_cluster_in_this_process(tmp_path: Path) -> None:
    """Two thousand groups, of which each tenth is deployed."""
    lines = [line_of(f"group-{n:04}", 1, 1, n, ("member_left", "anna-1")) for n in range(2_000)]
    lines += [line for n in range(0, 2_000, 10) for line in deploy_of(f"group-{n:04}", 60, 1)]
    history = history_of(lines, tmp_path)
    assert input_bytes(history) > 0
    assert run_fleet(None, history, tmp_path / "fleet")["fleet_deploys"] == 200


@pytest.mark.slow
def test_spark_makes_the_same_tables(spark: Any, history: Path, tmp_path: Path) -> None:
    """Of journals, and of Kafka's own records."""
    run_history(None, Sources(None, (DATA,)), tmp_path / "kafka")
    for number, of in enumerate((history, tmp_path / "kafka")):
        here, there = tmp_path / f"here-{number}", tmp_path / f"there-{number}"
        assert run_fleet(None, of, here) == run_fleet(spark, of, there)
        for name in FLEET_TABLES:
            assert rows_of_fleet(here / name) == rows_of_fleet(there / name)
    assert sorted_rows(tmp_path / "kafka", "rebalances")


def rows_of_fleet(table: Path) -> list[str]:
    return sorted(map(repr, rows_of(table)))
