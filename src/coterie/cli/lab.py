"""`coterie lab`: groups in virtual time."""

from __future__ import annotations

import json
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import click

from coterie.cli.running import json_option


@click.group(
    epilog="""\b
Examples:
  coterie lab fuzz --seeds 200
  coterie lab fuzz --first 4711 --seeds 1
"""
)
def lab() -> None:
    """Run groups in virtual time, under faults."""


@lab.command()
@click.option("--seeds", "-n", type=click.IntRange(1), default=100, show_default=True, help="How many.")
@click.option("--first", type=int, default=0, show_default=True, help="The first seed.")
@click.option("--minutes", type=float, default=10.0, show_default=True, help="Virtual minutes of trouble per seed.")
@json_option
def fuzz(seeds: int, first: int, minutes: float, as_json: bool) -> None:
    """Members and broker under random faults; exits 1 and names each seed that breaks a rule."""
    started, reports, failures = time.monotonic(), list[Any](), list[str]()
    wanted = [(seed, minutes) for seed in range(first, first + seeds)]
    with ProcessPoolExecutor() as pool, click.progressbar(length=seeds, label="seeds", file=sys.stderr) as bar:
        for report, failure in pool.map(_one, wanted, chunksize=4):
            bar.update(1)
            if failure:
                failures.append(failure)
                click.echo(failure, err=True)
            else:
                reports.append(report)
    said = {
        "seeds": seeds,
        "failed": len(failures),
        "events": sum(r.events for r in reports),
        "rebalances": sum(r.rebalances for r in reports),
        "broker_crashes": sum(r.broker_crashes for r in reports),
        "seconds": round(time.monotonic() - started, 1),
    }
    click.echo(json.dumps(said) if as_json else ", ".join(f"{v} {k.replace('_', ' ')}" for k, v in said.items()))
    raise SystemExit(1 if failures else 0)


def _one(what: tuple[int, float]) -> tuple[Any, str]:
    from coterie.laboratory.fuzz import FuzzFailure, run_seed

    try:
        return run_seed(*what), ""
    except FuzzFailure as failure:
        return None, str(failure)
