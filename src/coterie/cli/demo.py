"""`coterie demo`: the main job. Exit code 0: every check held; 1: one did not, or it could not run; 130: Ctrl-C."""

from __future__ import annotations

import time
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING

import click

from coterie.cli.parts.invocation import FILE, run
from coterie.cli.parts.option_values import IntegerRange
from coterie.cli.pipeline.spark import check_master
from coterie.console.terminal import drawing_console, text_of, write_drawing, write_json, write_line, write_lines
from coterie.text.quantity import quantity

if TYPE_CHECKING:
    from coterie.cli.parts.json_figures import DemoCheck, DemoResult

MOST_BROKERS = 9
PIPED_WIDTH = 200  # columns of the checks where no terminal has its own


@click.command(
    epilog="""\b
Examples:
  coterie demo
  coterie demo --open
  coterie demo --brokers 3
  coterie demo --input orders.csv --key customer_id
  coterie demo --out /tmp/demo --json
"""
)
@click.option(
    "--input",
    "input_",
    type=FILE,
    help="A CSV or JSON-lines file instead of the flights.",
)
@click.option("--key", metavar="COLUMN", help="With --input: the column that is the record's key.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of the demo's files; by default a new folder in ./coterie-demo.",
)
@click.option("--master", default="local[*]", show_default=True, callback=check_master, help="The Spark master.")
@click.option(
    "--brokers",
    type=IntegerRange(1, MOST_BROKERS),
    default=1,
    show_default=True,
    help="With 3 or more: brokers that replicate; the one that coordinates the group is killed.",
)
@click.option(
    "--open", "opens", is_flag=True, help="Open the group's live page in a browser, and at the end the report."
)
@click.option("--json", "as_json", is_flag=True, help="Print the checks as JSON.")
def demo(
    input_: Path | None, key: str | None, out: Path | None, master: str, brokers: int, opens: bool, as_json: bool
) -> None:
    """Show coterie at work: a broker, a group that rebalances, Spark tables, checks, a report."""
    from coterie.runtime.extras import require

    if key is not None and input_ is None:
        raise click.UsageError("--key goes with --input; the flights are keyed by tail number.")
    if brokers == 2:
        raise click.UsageError("--brokers 2: of two brokers none may die; take 1, or 3 and more.")
    require("spark", "coterie demo")
    if opens:
        require("http", "coterie demo --open")
    if brokers > 1:
        require("zookeeper", f"coterie demo --brokers {brokers}")
    if input_ is None:
        require("demo", "coterie demo without --input FILE")
    from coterie.demo.processes import DemoError
    from coterie.demo.story import Demo, DemoOptions

    started = time.monotonic()
    out = (out or Path("coterie-demo") / time.strftime("%Y%m%d-%H%M%S")).absolute()
    if (out / "broker").exists():
        raise click.UsageError(f"{out} holds an earlier demo; choose another --out.")
    console = drawing_console(err=as_json)

    try:
        checks = run(Demo(DemoOptions(out, input_, key, master, brokers, opens), console).run(), patient=True)
    except DemoError as error:
        first, *more = str(error).split("\n")
        write_lines(more, err=True)  # of the log of what failed
        raise click.ClickException(first) from error
    except SystemExit:
        write_line("stopped; all processes of the demo have ended", err=as_json)
        raise
    if opens:
        webbrowser.open((out / "report.html").as_uri())
    _write_results(checks, out, time.monotonic() - started, as_json)


def _write_results(checks: list[object], out: Path, seconds: float, as_json: bool) -> None:
    from rich.table import Table

    from coterie.demo.checks import Check

    results = [c for c in checks if isinstance(c, Check)]
    right = all(c.right for c in results)
    report = out / "report.html"
    if as_json:
        rows: list[DemoCheck] = [{"check": c.name, "right": c.right, "detail": c.detail} for c in results]
        document: DemoResult = {
            "right": right,
            "seconds": round(seconds, 1),
            "report": str(report),
            "checks": rows,
        }
        write_json(document, indent=2)
    else:
        table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
        for c in results:
            table.add_row("[green]right[/]" if c.right else "[bold red]WRONG[/]", text_of(c.name), text_of(c.detail))
        write_drawing(table, PIPED_WIDTH)
        write_line(f"{quantity(len(results), 'check')}, {sum(c.right for c in results)} right, {seconds:.0f} s")
        write_line(f"data and tables: {out}")
        write_line(f"report: {report}")
    raise SystemExit(0 if right else 1)
