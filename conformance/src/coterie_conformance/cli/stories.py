"""`coterie-conformance stories`: production brokers and clients in virtual time under faults."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from typing import Any, NoReturn

import click

from coterie.cli.parts.ranges import IntegerRange
from coterie.console.terminal import write_line
from coterie.text.quantity import quantity
from coterie_conformance.cli.seed_results import Result
from coterie_conformance.cli.seed_runs import SeedRun, seed_options


@click.command(
    epilog="""\b
Examples:
  coterie-conformance stories --seeds 200
  coterie-conformance stories --first 4711 --seeds 1
  coterie-conformance stories --brokers 3 --minutes 1
  coterie-conformance stories --seeds 10000 --spark 'local[*]'
  coterie-conformance stories --hashes 2 --seeds 1000 --minutes 0.05
"""
)
@click.option("--brokers", type=click.Choice(["1", "3", "4"]), help="How many brokers; by default the seed decides.")
@click.option(
    "--hashes",
    type=IntegerRange(2),
    metavar="N",
    help="Compare the traces of each seed in N fresh processes, each with another PYTHONHASHSEED.",
)
@seed_options
def stories(brokers: str | None, hashes: int | None, **options: Any) -> None:
    """Run brokers and clients under random faults.

    The programs are the production ones, with nothing replaced but time, network and disks.

    Exits 1 where a seed breaks a rule. A failure is printed at once, with its seed and the commit.
    """
    count = None if brokers is None else int(brokers)
    if hashes is not None:
        seeds = range(options["first"], options["first"] + options["seeds"])
        _compare_traces(seeds, options["minutes"], count, hashes)
    named = "stories" if count is None else f"stories of {quantity(count, 'broker')}"
    SeedRun(**options).run(named, partial(_one, minutes=options["minutes"], brokers=count))


def _one(seed: int, minutes: float, brokers: int | None) -> Result:
    from coterie_conformance.stories.story import FuzzFailure, run_story_seed

    try:
        return seed, asdict(run_story_seed(seed, minutes, brokers=brokers)), ""
    except FuzzFailure as failure:
        return seed, {}, str(failure)


def _compare_traces(seeds: range, minutes: float, brokers: int | None, hashes: int) -> NoReturn:
    from coterie_conformance.cli.seed_traces import different_traces

    differ = 0
    for seed, traces in different_traces(seeds, minutes, brokers, range(hashes)):
        differ += 1
        write_line(f"seed {seed} has another trace in another process: {', '.join(traces)}", color="red", err=True)
    if not differ:
        write_line(f"{quantity(len(seeds), 'seed')} have the same traces in {quantity(hashes, 'process', 'processes')}")
    raise SystemExit(1 if differ else 0)
