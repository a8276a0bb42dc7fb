"""`coterie pipeline fleet`, `what-if`, `report` and `export`: tables and pages of a history, its churn under other settings."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from coterie.cli.parts.invocation import FILE, done, history_option, json_option, show, was_given
from coterie.cli.parts.option_values import IntegerRange, NumberRange
from coterie.cli.pipeline.spark import (
    as_sentence,
    is_for_spark,
    master_option,
    require_spark,
    run_on_spark,
    spark_above_option,
    spark_options,
)
from coterie.console.terminal import write_json, write_line
from coterie.runtime.extras import require
from coterie.text.quantity import quantity

if TYPE_CHECKING:
    from coterie.cli.parts.json_figures import FleetFigures
    from coterie.console.page import Section
    from coterie.laboratory.churn import MembershipChange

FLEET_FOLDER = "fleet"
CORES_UNKNOWN = 8
DEFAULT_GRID = (
    "partition.assignment.strategy=range,sticky,cooperative-sticky",
    "session.timeout.ms=10000,45000",
    "static=false,true",
)


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


@click.command("what-if")
@click.option(
    "--churn",
    type=FILE,
    help="CSV: time_ms,add|remove,name; or date,time,count.",
)
@history_option("A folder of `coterie pipeline history`, instead.")
@click.option("--group", "-g", help="Which group of the history.")
@click.option(
    "--set",
    "grid_texts",
    multiple=True,
    metavar="NAME=V1,V2",
    help="A setting and its values, by Kafka's name; also static, removal (kill, leave), members. May be given again.",
)
@click.option("--seeds", type=IntegerRange(1, 100_000), default=3, show_default=True, help="Runs of each setting.")
@click.option(
    "--partitions", type=IntegerRange(1, 100_000), default=24, show_default=True, help="The partitions of the topic."
)
@click.option(
    "--records-per-s",
    type=IntegerRange(0),
    default=100,
    show_default=True,
    help="The records that arrive in each partition.",
)
@click.option(
    "--listener-ms",
    type=IntegerRange(0),
    default=100,
    show_default=True,
    help="How long a listener takes to release its partitions.",
)
@click.option(
    "--auto-commit-interval-ms",
    type=IntegerRange(100),
    default=5000,
    show_default=True,
    help="auto.commit.interval.ms.",
)
@click.option(
    "--slow-polls-per-hour",
    type=NumberRange(0),
    default=0.0,
    show_default=True,
    help="Late polls of each member; its heartbeats continue.",
)
@click.option("--slow-poll-ms", type=IntegerRange(1), default=400_000, show_default=True, help="Their mean length.")
@click.option(
    "--pauses-per-hour",
    type=NumberRange(0),
    default=0.0,
    show_default=True,
    help="Pauses of each member's whole process.",
)
@click.option("--pause-ms", type=IntegerRange(1), default=8_000, show_default=True, help="Their mean length.")
@spark_options
@json_option
def what_if(
    churn: Path | None,
    history: Path | None,
    group: str | None,
    grid_texts: tuple[str, ...],
    seeds: int,
    master: str,
    out: Path,
    as_json: bool,
    **workload: Any,
) -> None:
    """Replay a group's churn under other settings.

    The coordinator and the members run in the laboratory's virtual time, once per seed and setting, on Spark. The table has
    rebalances, unowned time, moved partitions, duplicates and the time until a killed member is detected. The same seeds
    give the same table on any cluster."""
    require_spark()
    from coterie.laboratory.members.reading_member import Workload
    from coterie.pipeline.what_if import GridError, grid, run_what_if

    try:
        changes = _changes(churn, history, group)
        settings = grid(_axes(grid_texts or DEFAULT_GRID))
    except GridError as error:
        raise click.UsageError(str(error)) from error
    load = Workload(**workload)

    def work(spark: Any) -> Any:
        slices = max(1, min(len(settings) * seeds, 4 * _cores(spark)))
        return run_what_if(spark, changes, load, settings, seeds=range(seeds), out=out, slices=slices)

    runs, rows = run_on_spark(master, work)
    _write_page(
        out,
        "What if",
        f"{quantity(len(changes), 'change')}, {quantity(len(settings), 'setting')}, {quantity(seeds, 'seed')} each.",
        _what_if_sections(rows),
    )
    if as_json:
        write_json({"runs": len(runs), "settings": rows})
        return
    _show_settings(rows)
    write_line(f"{quantity(len(runs), 'run')} in {out / 'runs'}; the page is {out / 'report.html'}")


def _cores(spark: Any) -> int:
    """The cores of the cluster; Spark Connect has no context and raises an error of its own."""
    try:
        return int(spark.sparkContext.defaultParallelism)
    except Exception:
        return CORES_UNKNOWN


def _changes(churn: Path | None, history: Path | None, group: str | None) -> list[MembershipChange]:
    from coterie.laboratory.churn import TraceError, trace_of
    from coterie.pipeline.what_if import GridError, changes_of_history

    if (churn is None) == (history is None):
        raise GridError("give a trace with --churn, or a history with --history and --group")
    if history is not None:
        if group is None:
            raise GridError("--history needs --group")
        return changes_of_history(history, group)
    assert churn is not None
    if group is not None:
        raise GridError("--group goes with --history; a trace has one group")
    try:
        return trace_of(churn.read_bytes())
    except TraceError as error:
        raise GridError(f"{churn}: {error}") from error


def _axes(texts: tuple[str, ...]) -> dict[str, list[str]]:
    from coterie.pipeline.what_if import GridError

    axes: dict[str, list[str]] = {}
    for text in texts:
        name, equals, values = text.partition("=")
        if not (equals and name.strip()):
            raise GridError(f"--set takes NAME=VALUE,VALUE, not {text!r}")
        axes[name.strip()] = [value.strip() for value in values.split(",") if value.strip()]
        if not axes[name.strip()]:
            raise GridError(f"--set {name.strip()} needs at least one value")
    return axes


def _what_if_sections(rows: list[dict[str, Any]]) -> list[Section]:
    from coterie.console.what_if_page import sections

    return sections(rows)


def _show_settings(rows: list[dict[str, Any]]) -> None:
    from coterie.console.what_if_page import figures

    headers, cells, _ = figures(rows)
    show(rows, False, [header.upper() for header in headers], cells)


@click.command()
@click.argument("group", required=False)
@click.option("--all", "everything", is_flag=True, help="All groups on one page, of the tables of `pipeline fleet`.")
@history_option(required=True)
@click.option(
    "--out", type=click.Path(file_okay=False, path_type=Path), required=True, help="Folder for the page and pictures."
)
@json_option
def report(group: str | None, everything: bool, history: Path, out: Path, as_json: bool) -> None:
    """Write a page about one group's history, or all.

    Of one group it shows owners, causes, moves, lag and stalls; of all the time without an owner by group, by cause and by
    deploy. Its pictures are also written as SVG and PNG."""
    if (group is None) is not everything:
        raise click.UsageError("Give a group, or --all.")
    if group is None:
        _report_all(history, out, as_json)
        return
    from coterie.console.history_page import sections, summary

    parts = sections(history, group)
    if not parts:
        raise click.ClickException(f"the history in {history} has no group {group}.")
    path = _write_page(out, f"Group {group}", summary(history, group), parts)
    done(f"the page is {path}", as_json, page=str(path))


def _report_all(history: Path, out: Path, as_json: bool) -> None:
    from coterie.console.fleet_page import ranked, sections, summary

    folder = history / FLEET_FOLDER
    if not ranked(folder):
        text = (
            f"there are no rebalances in {folder}; make its tables with `coterie pipeline fleet --history {history}`."
        )
        raise click.ClickException(text)
    path = _write_page(out, "All groups", summary(folder), sections(folder))
    done(f"the page is {path}", as_json, page=str(path))


def _write_page(out: Path, title: str, text: str, parts: list[Section]) -> Path:
    from coterie.console.page import page, write_pictures

    out.mkdir(parents=True, exist_ok=True)
    path = out / "report.html"
    path.write_text(page(title, text, parts))
    write_pictures(parts, out / "pictures")
    return path


@click.command()
@history_option(required=True)
@click.option("--format", "form", type=click.Choice(("delta", "iceberg")), required=True, help="The table format.")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), required=True, help="Folder of the tables.")
@json_option
def export(history: Path, form: str, out: Path, as_json: bool) -> None:
    """Write a history's tables as Delta or Iceberg.

    Needs the extra `delta` or `iceberg`; existing tables are replaced, each in one commit."""
    from coterie.pipeline.export import ExportError
    from coterie.pipeline.export import export as write_all

    try:
        counts = write_all(history, form, out)
    except ExportError as error:
        raise click.ClickException(str(error)) from error
    done(f"{quantity(len(counts), 'table')}, {quantity(sum(counts.values()), 'row')}, in {out}", as_json, **counts)
