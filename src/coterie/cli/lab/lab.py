"""`coterie lab`: groups in virtual time."""

from __future__ import annotations

from dataclasses import asdict

import click

from coterie.assignors import ASSIGNORS
from coterie.cli.lab.study import study
from coterie.cli.parts.commands import CommandGroup
from coterie.cli.parts.invocation import json_option, show
from coterie.cli.parts.option_values import IntegerRange


@click.group(
    cls=CommandGroup,
    epilog="""\b
Examples:
  coterie lab handover
  coterie lab migration
  coterie lab study --seeds 3 --largest 300
""",
)
def lab() -> None:
    """Run groups in virtual time."""


lab.add_command(study)


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
