"""`coterie pipeline fleet`: which groups of a cluster were without an owner for longest, by which causes and deploys."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from coterie.cli.parts.invocation import history_option, json_option, show, was_given
from coterie.cli.parts.ranges import IntegerRange
from coterie.cli.pipeline.spark import (
    as_sentence,
    is_for_spark,
    master_option,
    require_spark,
    run_on_spark,
    spark_above_option,
)
from coterie.console.terminal import write_json, write_line
from coterie.runtime.extras import require
from coterie.text.quantity import quantity

if TYPE_CHECKING:
    from coterie.cli.parts.json_figures import FleetFigures

FLEET_FOLDER = "fleet"


@click.command()
@history_option(required=True)
@click.option(
    "--out", type=click.Path(file_okay=False, path_type=Path), help="The folder to write to; by default in the history."
)
@click.option("--top", type=IntegerRange(1), default=20, show_default=True, help="Show so many groups and deploys.")
@spark_above_option
@master_option
@json_option
def fleet(history: Path, out: Path | None, top: int, spark_above: int, master: str, as_json: bool) -> None:
    """Make tables of what all groups of a history cost.

    By group, by cause and by deploy, the time without an owner first. UNOWNED is summed over partitions. Reads the tables of
    `pipeline history`; on Spark where they are large. `pipeline report --all` makes a page of the result."""
    if was_given("master"):
        require_spark()
    require("history", "a fleet")
    from coterie.console import fleet_page
    from coterie.pipeline.history.fleet import input_bytes, run_fleet

    folder = history / FLEET_FOLDER if out is None else out
    if is_for_spark(input_bytes(history), spark_above):
        counts = run_on_spark(master, lambda spark: run_fleet(spark, history, folder))
    else:
        counts = as_sentence(lambda: run_fleet(None, history, folder))
    groups, causes, deploys = fleet_page.ranked(folder), fleet_page.causes(folder), fleet_page.deploys(folder)
    if as_json:
        document: FleetFigures = {"rows": counts, "groups": groups[:top], "causes": causes, "deploys": deploys[:top]}
        write_json(document, indent=2)
        return
    rows: list[tuple[Any, ...]] = [
        (
            r["group"],
            fleet_page.known_span(r["unowned_ms"]),
            r["rebalances"],
            r["moved"],
            r["deploys"],
            fleet_page.cause_title(r["cause"]),
        )
        for r in groups[:top]
    ]
    headers = ["GROUP", "UNOWNED", "REBALANCES", "MOVED", "DEPLOYS", "COSTLIEST CAUSE"]
    show(groups, False, headers, rows, "the history has no rebalance")
    show(
        causes,
        False,
        ["CAUSE", "UNOWNED", "REBALANCES", "GROUPS"],
        [
            (fleet_page.cause_title(r["cause"]), fleet_page.known_span(r["unowned_ms"]), r["rebalances"], r["groups"])
            for r in causes
        ],
        "no cause is known",
    )
    write_line(f"{quantity(len(groups), 'group')}, {quantity(len(deploys), 'deploy')}; the tables are in {folder}")
