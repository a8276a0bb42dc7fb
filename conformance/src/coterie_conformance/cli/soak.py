"""`coterie-conformance soak`: members of one group, Spark applications and consumers, killed; losses and duplicates counted."""

from __future__ import annotations

import shutil
import tempfile
import time
from dataclasses import asdict
from pathlib import Path

import click

from coterie.cli.parts.invocation import json_option
from coterie.cli.parts.option_values import NumberRange
from coterie.console.terminal import write_json, write_line
from coterie.text.quantity import quantity


@click.command()
@click.option(
    "--minutes", type=NumberRange(0), default=10.0, show_default=True, help="For how long members are killed."
)
@click.option("--seed", type=int, default=0, show_default=True, help="Decides which process is killed when.")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), help="Keep logs and tables there.")
@json_option
def soak(minutes: float, seed: int, out: Path | None, as_json: bool) -> None:
    """Kill members of a group for minutes, and count.

    Producers, two Spark applications and two consumers in one group; every minute one of each, and the broker, is killed.
    Exits 1 if a record was lost, or delivered twice without a kill that explains it."""
    from coterie.runtime.extras import require
    from coterie_conformance.servers.kafka import free_port
    from coterie_conformance.soak.run import run_soak

    require("spark", "coterie-conformance soak")
    folder = out or Path(tempfile.mkdtemp(prefix="coterie-soak-"))
    began_s = time.monotonic()

    def write_step(text: str) -> None:
        write_line(f"{time.monotonic() - began_s:6.1f} s  {text}", err=True)

    try:
        verdict = run_soak(folder, f"127.0.0.1:{free_port()}", minutes, write_step, seed)
    except RuntimeError as error:
        raise click.ClickException(f"{error}; the logs are in {folder}") from error
    if as_json:
        figures = asdict(verdict) | {"missing": len(verdict.missing), "unexplained": len(verdict.unexplained)}
        write_json({**figures, "right": verdict.right})
    else:
        records, missing = quantity(verdict.records, "record"), len(verdict.missing)
        write_line(
            f"{records}, {missing:,} not delivered, {verdict.acknowledged_lost:,} acknowledged and not in the log"
        )
        unexplained = len(verdict.unexplained)
        write_line(f"{quantity(verdict.delivered_twice, 'duplicate')}, {unexplained:,} without a kill that explains it")
        write_line("killed: " + ", ".join(f"{kind} {quantity(n, 'time')}" for kind, n in sorted(verdict.kills.items())))
        write_line("delivered: " + ", ".join(f"{who} {n:,}" for who, n in sorted(verdict.by_app.items())))
        for line in verdict.unexplained[:5]:
            write_line(f"not explained: {line}", color="red", err=True)
    if verdict.right and out is None:
        shutil.rmtree(folder, ignore_errors=True)
    elif out is None:
        write_line(f"the logs and tables are in {folder}", err=True)
    raise SystemExit(0 if verdict.right else 1)
