"""`coterie-conformance interleavings`: all orders of what may happen in a small group."""

from __future__ import annotations

import click


@click.command(
    epilog="""\b
Examples:
  coterie-conformance interleavings --members 2 --crashes 1 --losses 1
  coterie-conformance interleavings --members 3 --assignor cooperative-sticky --crashes 1 --losses 1
"""
)
@click.option("--members", type=click.IntRange(1), default=2, show_default=True, help="Members of the group.")
@click.option("--partitions", type=click.IntRange(1), default=2, show_default=True, help="Partitions.")
@click.option("--assignor", default="range", show_default=True, help="That of every member.")
@click.option("--static", is_flag=True, help="Static members.")
@click.option("--crashes", type=click.IntRange(0), default=0, help="Members that die.")
@click.option("--broker-crashes", type=click.IntRange(0), default=0, help="Restarts of the broker.")
@click.option("--losses", type=click.IntRange(0), default=0, help="Lost requests, responses and connections.")
@click.option("--slow", type=click.IntRange(0), default=0, help="Deadlines that pass while something is on its way.")
@click.option("--most-states", type=click.IntRange(1), default=10_000_000, show_default=True, help="Give up beyond.")
def interleavings(
    members: int,
    partitions: int,
    assignor: str,
    static: bool,
    crashes: int,
    broker_crashes: int,
    losses: int,
    slow: int,
    most_states: int,
) -> None:
    """Run a small group through every state.

    The machines of coordinator and members are the production ones. Three members with a crash and a loss have millions of
    states: a few minutes for each million. Exits 1 where a rule is broken, with a shortest course that breaks it.
    """
    from coterie_conformance.interleavings.search import search
    from coterie_conformance.interleavings.state import FaultBudget, SmallGroup

    faults = FaultBudget(crashes, broker_crashes, losses, slow)
    result = search(
        SmallGroup(members, partitions, assignor, faults, static),
        most_states,
        lambda done, waiting: click.echo(f"{done:,} states, {waiting:,} wait", err=True),
    )
    click.echo(
        f"{result.states:,} states, {result.events:,} events, {result.at_rest:,} of them at rest, "
        f"at most {result.longest_to_rest} events from there"
    )
    if result.failure:
        for event in result.course:
            click.echo(f"  {event.kind}" + (f", member {event.process}" if event.process >= 0 else ""))
        click.echo(result.failure)
        raise SystemExit(1)
