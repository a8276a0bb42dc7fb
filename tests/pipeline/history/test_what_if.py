"""The grid on Spark: the same table whatever the partitioning, the same as without Spark; a history as its input."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from coterie.cli import main
from coterie.cli.parts.json_figures import WhatIfMeasures
from coterie.console.what_if_page import sections
from coterie.laboratory.churn import MembershipChange
from coterie.laboratory.members.reading_member import Workload
from coterie.pipeline.history.job import Sources, run_history
from coterie.pipeline.what_if import GridError, changes_of_history, grid, run_row, run_what_if
from tests.cli.json_shapes import differing

CHANGES = [
    MembershipChange(0, True, "a"),
    MembershipChange(500, True, "b"),
    MembershipChange(90_000, True, "c"),
    MembershipChange(200_000, False, "a"),
]
LOAD = Workload(partitions=6)
AXES = {"partition.assignment.strategy": ["range", "cooperative-sticky"], "session.timeout.ms": ["6000", "30000"]}


@pytest.mark.slow
def test_the_same_table_whatever_the_partitioning(spark: Any, tmp_path: Path) -> None:
    settings = grid(AXES)
    seeds = range(3)
    few, totals = run_what_if(spark, CHANGES, LOAD, settings, seeds, tmp_path / "few", 1)
    many, _ = run_what_if(spark, CHANGES, LOAD, settings, seeds, tmp_path / "many", 7)
    alone = [run_row(CHANGES, LOAD, index, s, seed) for index, s in enumerate(settings) for seed in seeds]
    assert few == many == alone
    assert len(few) == 12
    assert [t["setting"] for t in totals] == [0, 1, 2, 3]
    assert totals[0]["rebalances_avoided"] == 0
    assert not [text for row in totals for text in differing(WhatIfMeasures, row, "row")]
    made = sections(totals)
    assert "cooperative-sticky" in made[0].body
    assert "session 30 s" in made[1].body


def test_a_grid_is_checked_and_what_cannot_be_is_left_out() -> None:
    assert len(grid({"session.timeout.ms": ["6000", "2000"], "heartbeat.interval.ms": ["3000"]})) == 1
    for axes, message in (
        ({"session.timeout": ["1"]}, "there is no setting session.timeout; did you mean session.timeout.ms"),
        ({"session.timeout.ms": ["soon"]}, "session.timeout.ms must be a whole number"),
        ({"static": ["maybe"]}, "static must be true or false"),
        ({"partition.assignment.strategy": ["best"]}, "must be one of range, .*, not 'best'"),
        ({"partition.assignment.strategy": ["range", "best"]}, "must be one of range, .*, not 'best'"),
        ({"session.timeout.ms": ["-1"]}, "session.timeout.ms must be at least 0, not -1"),
    ):
        with pytest.raises(GridError, match=message):
            grid(axes)


def test_a_history_is_a_trace_and_a_page(tmp_path: Path) -> None:
    kafka = Path(__file__).parents[1] / "server_logs" / "4.3.0"
    run_history(None, Sources(None, (kafka,), (kafka / "server.log",)), tmp_path / "history")
    changes = changes_of_history(tmp_path / "history", "crew")
    assert sum(c.joins for c in changes) == 5, "three, one more that is killed, and the static one's second life"
    assert changes[0].time_ms == 0
    with pytest.raises(GridError, match="knows no members of group nobody"):
        changes_of_history(tmp_path / "history", "nobody")
    arguments = ["pipeline", "report", "crew", "--history", str(tmp_path / "history"), "--out", str(tmp_path / "page")]
    done = CliRunner().invoke(main, arguments, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    text = (tmp_path / "page" / "report.html").read_text()
    for message in ("Owners of each partition", "a session timed out", "server log", "flights-7"):
        assert message in text
    assert (tmp_path / "page" / "pictures" / "causes.png").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give a trace with --churn"),
        (["--history", "HISTORY"], "--history needs --group"),
        (["--churn", "TRACE", "--group", "crew"], "--group goes with --history; a trace has one group"),
        (["--churn", "TRACE", "--set", "static"], "--set takes NAME=VALUE,VALUE"),
        (["--churn", "TRACE", "--set", "members="], "--set members needs at least one value"),
        (["--churn", "BAD"], "line 1: 0, jump is neither a change nor a date and a time"),
    ],
)
def test_mistakes_are_said_in_a_sentence(tmp_path: Path, arguments: list[str], message: str) -> None:
    (tmp_path / "TRACE").write_text("0,add,a\n")
    (tmp_path / "BAD").write_text("0;jump;a\n")
    (tmp_path / "HISTORY").mkdir()
    (tmp_path / "HISTORY" / "progress.json").write_text("{}")
    given = [str(tmp_path / a) if a in ("TRACE", "BAD", "HISTORY") else a for a in arguments]
    done = CliRunner().invoke(main, ["pipeline", "what-if", "--out", str(tmp_path), *given])
    assert done.exit_code == 2
    assert message in done.output
