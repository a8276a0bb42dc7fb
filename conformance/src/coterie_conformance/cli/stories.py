"""`coterie-conformance stories`: production brokers and clients in virtual time under faults."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from typing import Any, NoReturn

import click

from coterie.cli.parts.option_values import IntegerRange
from coterie.console.terminal import write_line
from coterie.text.quantity import quantity
from coterie_conformance.cli.seed_runs import Result, SeedRun, seed_options


@click.command(
    epilog="""\b
Examples:
  coterie-conformance stories --seeds 200
  coterie-conformance stories --first 4711 --seeds 1
  coterie-conformance stories --brokers 3 --minutes 1
  coterie-conformance stories --seeds 10000 --spark 'local[*]'
  coterie-conformance stories --hashes 2 --seeds 1000 --minutes 0.05
  coterie-conformance stories --of share --brokers 3 --seeds 1000
  coterie-conformance stories --of kinds --seeds 1000 --minutes 0.5
"""
)
@click.option(
    "--of",
    "subject",
    type=click.Choice(["programs", "share", "kinds"]),
    default="programs",
    show_default=True,
    help="Of all programs; of a share group that is spoken to by hand; or of the four kinds of groups on one topic.",
)
@click.option("--brokers", type=click.Choice(["1", "3", "4"]), help="How many brokers; by default the seed decides.")
@click.option(
    "--hashes",
    type=IntegerRange(2),
    metavar="N",
    help="Compare the traces of each seed in N fresh processes, each with another PYTHONHASHSEED.",
)
@seed_options
def stories(subject: str, brokers: str | None, hashes: int | None, **options: Any) -> None:
    """Run brokers and clients under random faults.

    The programs are the production ones, with nothing replaced but time, network and disks.

    Exits 1 where a seed breaks a rule. A failure is printed at once, with its seed and the commit.
    """
    count = None if brokers is None else int(brokers)
    if hashes is not None and subject != "programs":
        raise click.UsageError("--hashes compares stories of all programs; leave it out with --of")
    if hashes is not None:
        seeds = range(options["first"], options["first"] + options["seeds"])
        _compare_traces(seeds, options["minutes"], count, hashes)
    named = "stories" if subject == "programs" else f"{subject} stories"
    named += "" if count is None else f" of {quantity(count, 'broker')}"
    SeedRun(**options).run(named, partial(_one, subject, minutes=options["minutes"], brokers=count))


def _one(subject: str, seed: int, minutes: float, brokers: int | None) -> Result:
    from coterie_conformance.share_stories.every_kind import run_kinds_seed
    from coterie_conformance.share_stories.share_story import run_share_seed
    from coterie_conformance.stories.story import FuzzFailure, run_story_seed

    run = {"programs": run_story_seed, "share": run_share_seed, "kinds": run_kinds_seed}[subject]
    try:
        return seed, asdict(run(seed, minutes, brokers=brokers)), ""
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
