"""`coterie lab`: groups in virtual time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import click

from coterie.assignors import ASSIGNORS
from coterie.cli.lab.lab_figures import ALL, STORIES
from coterie.cli.lab.seed_results import Result
from coterie.cli.lab.seed_runs import SeedRun, seed_options
from coterie.cli.lab.study import study
from coterie.cli.parts.commands import CommandGroup
from coterie.cli.parts.invocation import json_option, show
from coterie.cli.parts.ranges import IntegerRange
from coterie.console.terminal import write_line, write_lines
from coterie.text.quantity import quantity

FAILURES_SHRUNK = 3


@click.group(
    cls=CommandGroup,
    epilog="""\b
Examples:
  coterie lab fuzz --seeds 200
  coterie lab fuzz --first 4711 --seeds 1
  coterie lab fuzz --seeds 10000 --spark 'local[*]'
  coterie lab handover
  coterie lab migration
  coterie lab study --seeds 3 --largest 300
""",
)
def lab() -> None:
    """Run groups in virtual time, under faults."""


lab.add_command(study)


@lab.command()
@click.option(
    "--of",
    "story",
    type=click.Choice(list(STORIES)),
    default="members",
    show_default=True,
    help="What runs under faults.",
)
@seed_options
def fuzz(story: str, **options: Any) -> None:
    """Run members of groups under random faults.

    With --of: of the classic protocol, or of the consumer protocol (KIP-848), also of both; with a coordinator. Exits 1 where a
    seed breaks a rule. A failure is printed at once, with its seed and the commit; those of members at the end also with their
    stories in the language of tests/spec, shrunk.
    """
    SeedRun(**options).run(
        story,
        partial(_one, story, minutes=options["minutes"]),
        STORIES[story],
        partial(_write_stories, minutes=options["minutes"]) if story == "members" else lambda seeds: None,
    )


@lab.command()
@click.option(
    "--members",
    type=IntegerRange(1, 1000),
    default=19,
    show_default=True,
    help="The members before the one that joins.",
)
@click.option(
    "--partitions", type=IntegerRange(1, 10_000), default=20, show_default=True, help="The partitions of its topic."
)
@click.option(
    "--listener-ms",
    type=IntegerRange(0),
    default=100,
    show_default=True,
    help="How long a listener takes to release its partitions.",
)
@json_option
def handover(members: int, partitions: int, listener_ms: int, as_json: bool) -> None:
    """Measure what one more member costs a group.

    Eager beside cooperative. UNOWNED TIME is the time without an owner, summed over the partitions; LONGEST is that of one
    partition.
    """
    from coterie.laboratory.experiments import handover as run_handover

    costs = [run_handover(name, members, partitions, listener_ms) for name in ASSIGNORS]
    rows = [
        (
            c.assignor,
            c.protocol,
            f"{c.paused} of {members}",
            f"{c.unowned} of {partitions}",
            f"{c.unowned_ms / 1000:.1f} s",
            f"{c.longest_ms / 1000:.1f} s",
            c.moved,
            c.rebalances,
        )
        for c in costs
    ]
    headers = ("ASSIGNOR", "PROTOCOL", "MEMBERS PAUSED", "UNOWNED", "UNOWNED TIME", "LONGEST", "MOVED", "REBALANCES")
    show([asdict(c) for c in costs], as_json, headers, rows)


@lab.command()
@click.option("--members", type=IntegerRange(1, 100), default=3, show_default=True, help="The members of the group.")
@click.option(
    "--partitions", type=IntegerRange(1, 10_000), default=12, show_default=True, help="The partitions of its topic."
)
@click.option(
    "--bounces",
    type=IntegerRange(1, 2),
    default=2,
    show_default=True,
    help="Rolling restarts; 1 shows why two are needed.",
)
@json_option
def migration(members: int, partitions: int, bounces: int, as_json: bool) -> None:
    """Move a group from eager to cooperative, member by member.

    From range to cooperative-sticky, one member restarted after the other.
    """
    from coterie.laboratory.experiments import migration as run_migration

    steps = list(run_migration(members, partitions, bounces=bounces))
    rows = [
        (s.what, s.assignor, s.protocol, s.members, s.rebalances, s.refused, "yes" if s.complete else "NO")
        for s in steps
    ]
    headers = ("STEP", "ASSIGNOR", "PROTOCOL", "MEMBERS", "REBALANCES", "REFUSED", "EVERY PARTITION OWNED")
    show([asdict(s) for s in steps], as_json, headers, rows)


def _one(story: str, seed: int, minutes: float) -> Result:
    from coterie.laboratory.consumer_group_fuzz import run_consumer_seed
    from coterie.laboratory.fuzz import FuzzFailure, run_seed

    runs: dict[str, Callable[[int, float], Any]] = {
        "members": run_seed,
        "consumer-groups": run_consumer_seed,
    }
    subject = list(runs)[seed % len(runs)] if story == ALL else story
    try:
        report = asdict(runs[subject](seed, minutes))
        return seed, {name: report[name] for name in STORIES[subject]} | {subject: 1}, ""
    except FuzzFailure as failure:
        return seed, {}, str(failure)


def _write_stories(seeds: list[int], minutes: float) -> None:
    for seed in seeds[:FAILURES_SHRUNK]:
        _write_story(seed, minutes)


def _write_story(seed: int, minutes: float) -> None:
    from coterie.laboratory.fuzz import shrunk_scenario

    lines, breaks_there = shrunk_scenario(seed, minutes)
    if breaks_there:
        write_lines([f"== seed-{seed}", *lines], err=True)
        return
    name = f"seed-{seed}.txt"
    Path(name).write_text(f"== seed-{seed}\n" + "\n".join(lines) + "\n")
    write_line(
        f"the broker's part alone breaks no rule; its story ({quantity(len(lines), 'step')}) is in {name}", err=True
    )
