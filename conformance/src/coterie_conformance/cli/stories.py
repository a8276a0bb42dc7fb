"""`coterie-conformance stories`: production brokers and clients in virtual time, under faults."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from typing import Any

import click

from coterie.cli.lab.seed_results import Result
from coterie.cli.lab.seed_runs import SeedRun, seed_options
from coterie.text.quantity import quantity

SUMMED = ("events", "acknowledged", "delivered", "transactions", "faults", "broker_crashes")


@click.command(
    epilog="""\b
Examples:
  coterie-conformance stories --seeds 200
  coterie-conformance stories --first 4711 --seeds 1
  coterie-conformance stories --brokers 3 --minutes 1
"""
)
@click.option("--brokers", type=click.Choice(["1", "3", "4"]), help="How many brokers; by default the seed decides.")
@seed_options
def stories(brokers: str | None, **options: Any) -> None:
    """Run brokers and clients under random faults.

    They are the production ones, with nothing replaced but time, network and disks. Exits 1 where a seed breaks a rule; a
    failure is printed at once, with its seed and the commit.
    """
    subject = "programs" if brokers is None else f"programs at {quantity(int(brokers), 'broker')}"
    one = partial(_one, minutes=options["minutes"], brokers=None if brokers is None else int(brokers))
    SeedRun(**options).run(subject, one, SUMMED)


def _one(seed: int, minutes: float, brokers: int | None) -> Result:
    from coterie.laboratory.fuzz import FuzzFailure
    from coterie_conformance.stories.story import run_story_seed

    try:
        report = asdict(run_story_seed(seed, minutes, brokers=brokers))
        return seed, {name: report[name] for name in SUMMED}, ""
    except FuzzFailure as failure:
        return seed, {}, str(failure)
