"""`coterie-conformance stories`: production brokers and clients, or the machines of one group, in virtual time under faults."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import click

from coterie.cli.parts.ranges import IntegerRange
from coterie.console.terminal import write_line, write_lines
from coterie.text.quantity import quantity
from coterie_conformance.cli.seed_results import Result
from coterie_conformance.cli.seed_runs import SeedRun, seed_options
from coterie_conformance.cli.story_figures import ALL, STORIES

FAILURES_SHRUNK = 3


@click.command(
    epilog="""\b
Examples:
  coterie-conformance stories --seeds 200
  coterie-conformance stories --first 4711 --seeds 1
  coterie-conformance stories --brokers 3 --minutes 1
  coterie-conformance stories --hashes 2 --seeds 1000 --minutes 0.05
  coterie-conformance stories --of members --seeds 10000 --spark 'local[*]'
"""
)
@click.option(
    "--of",
    "subject",
    type=click.Choice(list(STORIES)),
    default="programs",
    show_default=True,
    help="What runs under faults.",
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

    Programs are the production ones, with nothing replaced but time, network and disks. The others are of the laboratory:
    one group's coordinator, and members of the classic protocol, or of the consumer protocol (KIP-848), also of both.

    Exits 1 where a seed breaks a rule. A failure is printed at once, with its seed and the commit; those of members at the end
    also with their stories in the language of tests/spec, shrunk.
    """
    for option, value in (("--brokers", brokers), ("--hashes", hashes)):
        if value is not None and subject != "programs":
            raise click.UsageError(f"{option} goes with --of programs; leave one of them out")
    if hashes is not None:
        seeds = range(options["first"], options["first"] + options["seeds"])
        _compare_traces(seeds, options["minutes"], None if brokers is None else int(brokers), hashes)
    named = subject if brokers is None else f"programs at {quantity(int(brokers), 'broker')}"
    minutes: float = options["minutes"]
    SeedRun(**options).run(
        named,
        partial(_one, subject, minutes=minutes, brokers=None if brokers is None else int(brokers)),
        STORIES[subject],
        partial(_write_stories, minutes=minutes) if subject == "members" else lambda seeds: None,
    )


def _one(subject: str, seed: int, minutes: float, brokers: int | None) -> Result:
    from coterie_conformance.group_stories.consumer_groups import run_consumer_seed
    from coterie_conformance.group_stories.members import run_seed
    from coterie_conformance.group_stories.seed import FuzzFailure
    from coterie_conformance.stories.story import run_story_seed

    runs: dict[str, Callable[[int, float], Any]] = {
        "programs": partial(run_story_seed, brokers=brokers),
        "members": run_seed,
        "consumer-groups": run_consumer_seed,
    }
    if subject == ALL:
        subject = list(runs)[seed % len(runs)]
    try:
        report = asdict(runs[subject](seed, minutes))
        return seed, {name: report[name] for name in STORIES[subject]} | {subject: 1}, ""
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


def _write_stories(seeds: list[int], minutes: float) -> None:
    for seed in seeds[:FAILURES_SHRUNK]:
        _write_story(seed, minutes)


def _write_story(seed: int, minutes: float) -> None:
    from coterie_conformance.group_stories.members import shrunk_scenario

    lines, breaks_there = shrunk_scenario(seed, minutes)
    if breaks_there:
        write_lines([f"== seed-{seed}", *lines], err=True)
        return
    name = f"seed-{seed}.txt"
    Path(name).write_text(f"== seed-{seed}\n" + "\n".join(lines) + "\n")
    write_line(
        f"the broker's part alone breaks no rule; its story ({quantity(len(lines), 'step')}) is in {name}", err=True
    )
