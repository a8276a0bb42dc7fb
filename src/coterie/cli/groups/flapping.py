"""`coterie groups flapping`: which members come and go, and what that costs."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from coterie.cli.groups.journal_reading import has_journal, journal_lines, time_text
from coterie.cli.parts.exit_codes import end_with
from coterie.cli.parts.invocation import broker_option, journal_option, json_option, run, run_until_stopped, show
from coterie.cli.parts.option_values import Duration, IntegerRange, complete_groups
from coterie.coordinator.journal.line import CAUSES
from coterie.machines.ownership import unowned_text

if TYPE_CHECKING:
    from coterie.coordinator.journal.line import JournalLine
    from coterie.observer.flapping import FlappingMember

LEAST = 2  # joins and departures: a member that has joined once does not flap
HEADERS = ("GROUP", "MEMBER", "JOINS", "DEPARTURES", "REBALANCES", "UNOWNED", "MOVED", "LAST", "HOW")


@click.command(
    epilog="""\b
Examples:
  coterie groups flapping crew
  coterie groups flapping crew --for 10m -b kafka:9092
  coterie groups flapping --journal ./journal
"""
)
@click.argument("group", required=False, shell_complete=complete_groups)
@click.option("--for", "watch_ms", type=Duration(), help="Watch for so long, and rank what happens then.")
@click.option("--top", type=IntegerRange(1), default=20, show_default=True, help="Show so many members.")
@journal_option
@broker_option
@json_option
def flapping(
    group: str | None, watch_ms: int | None, top: int, journal: str | None, client: dict[str, str], as_json: bool
) -> None:
    """Show which members join and leave most often, and the cost.

    Works with any Kafka: from the journal, or from what __consumer_offsets still has; without GROUP the members of every group
    of the journal. UNOWNED and MOVED are of the rebalances that a member caused, shared equally where several caused one. A
    member is its group.instance.id, or its client.id.
    """
    from coterie.observer.flapping import flapping_members

    if watch_ms is not None and journal is not None:
        raise click.UsageError("--for watches the group now, and --journal has its past; give one of them.")
    unread: list[str] = []
    if watch_ms is not None:
        lines = run_until_stopped(lambda stop: _watched(stop, group, client, watch_ms / 1000, unread))
    else:
        lines, unread = run(_lines(group, client, journal))
    ranked = [member for member in flapping_members(lines) if member.joins + member.departures >= LEAST][:top]
    none = f"no member of {group or 'any group'} came and went again"
    show([asdict(member) for member in ranked], as_json, HEADERS, [_row(member) for member in ranked], none)
    end_with(unread)


async def _lines(group: str | None, client: dict[str, str], journal: str | None) -> tuple[list[JournalLine], list[str]]:
    if group is None and journal is None and not await has_journal(client):
        raise click.UsageError(
            "The broker has no journal of all groups: name a GROUP, a --journal, or watch --for 10m."
        )
    return await journal_lines(group, client, journal)


async def _watched(
    stop: asyncio.Event, group: str | None, client: dict[str, str], seconds: float, unread: list[str]
) -> list[JournalLine]:
    """What an observer writes meanwhile; the stop ends it early."""
    from coterie.observer.observation import ClusterObservation

    lines: list[JournalLine] = []
    observation = ClusterObservation(client, lines.append, unread.append, groups=[] if group is None else [group])
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await observation.run(stop)
    return lines


def _row(member: FlappingMember) -> tuple[object, ...]:
    unowned_ms = None if member.unowned_ms is None else round(member.unowned_ms)
    return (
        member.group,
        member.name,
        member.joins,
        member.departures,
        member.rebalances,
        unowned_text(unowned_ms, None),
        round(member.moved_count),
        time_text(member.last_ms),
        "; ".join(f"{CAUSES.get(kind, kind)} {count}x" for kind, count in member.causes.items()),
    )
