"""`coterie groups why` and `groups watch`: what a group is doing right now, once or live."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import asdict
from typing import TYPE_CHECKING, NamedTuple

import click

from coterie.cli.clients import value_text
from coterie.cli.parts.invocation import broker_option, journal_option, json_option, run, run_until_stopped
from coterie.cli.parts.option_values import IntegerRange, NumberRange, complete_groups
from coterie.console.terminal import (
    drawing_console,
    is_terminal,
    terminal_size,
    terminal_width,
    text_of,
    write_drawing,
    write_json,
    write_line,
)
from coterie.text.hidden import visible
from coterie.text.quantity import lag_text, quantity, span

if TYPE_CHECKING:
    from rich.console import RenderableType

    from coterie.client import GroupExplanation, MemberExplanation
    from coterie.coordinator.journal.timeline import Timeline

WATCH_EVERY_S = 1.0
LEAST_LANES = 4
PIPED_WIDTH = 10_000  # columns: no line is folded
PREFIX = "org.apache.kafka.consumer."
OF_GROUPS = (
    "poll.idle.ratio.avg",
    "coordinator.rebalance.latency.avg",
    "coordinator.commit.latency.avg",
    "fetch.manager.fetch.latency.avg",
)
SHARE_TYPE = "share"  # the protocol type of a share group
COLUMNS = ("MEMBER", "HOST", "LAST HEARD", "LAST FETCH", "SESSION LEFT", "PARTITIONS", "NOW")


@click.command()
@click.argument("group", shell_complete=complete_groups)
@journal_option
@broker_option
@json_option
def why(group: str, journal: str | None, client: dict[str, str], as_json: bool) -> None:
    """Explain what a group waits for, and what happens then.

    Where the broker is not coterie the group is watched for some seconds, and described from outside.
    """
    document = run(_explained(group, journal, client))
    if as_json:
        write_json(asdict(document), indent=2)
        return
    write_drawing(draw(document, terminal_width()), PIPED_WIDTH)


@click.command()
@click.argument("group", shell_complete=complete_groups)
@click.option(
    "--every", type=NumberRange(0.1), default=WATCH_EVERY_S, show_default=True, help="Seconds between two requests."
)
@click.option("--times", type=IntegerRange(1), help="Stop after this number of requests.")
@click.option(
    "--by",
    type=click.Choice(["partition", "member"]),
    help="A lane for each of these; by default for each partition, as far as they fit.",
)
@click.option("--last", type=NumberRange(1), help="The seconds that lanes show; by default the last five rebalances.")
@journal_option
@broker_option
@json_option
def watch(
    group: str,
    every: float,
    times: int | None,
    by: str | None,
    last: float | None,
    journal: str | None,
    client: dict[str, str],
    as_json: bool,
) -> None:
    """Show the output of `groups why`, live, until Ctrl-C.

    Above it a timeline: who owned each partition when, a letter for each owner. In a pipe or a file: a line for each change.
    """
    is_by_member = None if by is None else by == "member"
    looks = _Looks(every, times, as_json, is_by_member, None if last is None else int(last * 1000))
    run_until_stopped(lambda stop: _watch(stop, looks, group, journal, client))


class _Looks(NamedTuple):
    every_s: float
    times: int | None
    as_json: bool
    by_member: bool | None
    last_ms: int | None


async def _explained(group: str, journal: str | None, client: dict[str, str]) -> GroupExplanation:
    from coterie.cli.groups.explainer import Explainer

    async with Explainer(group, journal, client) as explainer:
        return await explainer.explain()


async def _watch(stop: asyncio.Event, looks: _Looks, group: str, journal: str | None, client: dict[str, str]) -> None:
    from rich.live import Live

    from coterie.cli.groups.explainer import Explainer
    from coterie.client import KafkaError

    # Of a broker that is away the next look is the next attempt.
    is_live = not looks.as_json and is_terminal()
    async with Explainer(group, journal, {"default.api.timeout.ms": "0"} | client, follows=is_live) as explainer:
        live = Live(console=drawing_console(), auto_refresh=False) if is_live else None
        shown, looked = "", 0
        try:
            if live is not None:
                live.start()
            while not stop.is_set() and (looks.times is None or looked < looks.times):
                try:
                    document = await explainer.explain()
                except KafkaError as error:
                    if not looked or not error.retriable:
                        raise
                    document = None  # the broker is away for a moment: the next look tries again
                looked += 1
                if document is not None and live is not None:
                    live.update(_live(document, explainer.timeline.timeline, looks), refresh=True)
                elif document is not None:
                    shown = _show(document, looks.as_json, shown)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(looks.every_s):
                        await stop.wait()
        finally:
            if live is not None:
                live.stop()


def _live(document: GroupExplanation, timeline: Timeline, looks: _Looks) -> RenderableType:
    """The explanation, with the lanes that fit on the terminal."""
    import time

    from rich.console import Group

    from coterie.console.lanes import LINES_BESIDE, lanes

    width, height = terminal_size()
    others = len(_above(document)) + len(_below(document)) + (len(document.members) + 3 if document.members else 0)
    if not timeline.lanes:
        return draw(document, width)
    rows = max(height - others - LINES_BESIDE - 1, LEAST_LANES)
    now_ms = max(int(time.time() * 1000), timeline.end_ms or 0)
    drawn = lanes(timeline, now_ms, width, rows, by_member=looks.by_member, last_ms=looks.last_ms)
    return Group(*drawn, text_of(""), draw(document, width))


def _show(document: GroupExplanation, as_json: bool, shown: str) -> str:
    """Prints what is new; returns the last printed line."""
    lag = _lag_text(document)
    generation = f"generation {document.generation}, " if document.generation >= 0 else ""
    line = f"{generation}{document.state}: {document.verdict}; lag {lag}"
    if as_json:
        write_json(asdict(document))
    elif line != shown:
        write_line(line)
    return line


def draw(document: GroupExplanation, width: int | None) -> RenderableType:
    """The document as a page of text, in so many columns; None: away from a terminal."""
    from rich.console import Group

    from coterie.console.tables import ShortIds, table_lines

    members = [_row(member, document) for member in document.members]
    above, below = _above(document), _below(document)
    short = ShortIds([*above, *below, *(row[0] for row in members)]) if width is not None else str
    first, *others = map(short, above)
    parts: list[RenderableType] = [text_of(first, "bold"), *map(text_of, others)]
    if members:
        headers, body = table_lines(COLUMNS, [[visible(cell) for cell in row] for row in members], width)
        parts += [text_of(""), *(text_of(line, "bold") for line in headers), *map(text_of, body)]
    parts += [text_of(short(line)) for line in below]
    return Group(*parts)


def _above(document: GroupExplanation) -> list[str]:
    since = document.in_state_ms
    head = f"{document.group}: {document.state}" + ("" if since is None else f" for {span(since)}")
    generation = f", generation {document.generation}" if document.generation >= 0 else ""
    lines = [f"{head}{generation}, assignor {document.protocol or '-'}", document.verdict]
    timeout = document.next_timeout
    if timeout is not None:
        whose = f" of {timeout.member_id}" if timeout.member_id else ""
        lines.append(f"next: {timeout.name}{whose} in {span(timeout.left_ms)}; then {timeout.then}")
    return lines


def _below(document: GroupExplanation) -> list[str]:
    lines = [f"{r.member_id}: id given, not joined yet, {span(r.left_ms)} left" for r in document.reserved_ids]
    lines += [_pushed_text(member) for member in document.members if member.last_push_ms is not None]
    if document.protocol_type == SHARE_TYPE:  # it commits nothing
        return lines if document.unseen is None else [*lines, document.unseen]
    stalled = f"; stalled: {', '.join(document.stalled)}" if document.stalled else ""
    lines.append(f"lag {_lag_text(document)}{stalled}")
    return lines if document.unseen is None else [*lines, document.unseen]


def _lag_text(document: GroupExplanation) -> str:
    """A journal has neither offsets nor ends of logs, which is not a group that has committed nothing."""
    if document.partitions and all(p.committed is None and p.end is None for p in document.partitions):
        return "unknown"
    return lag_text([asdict(p) for p in document.partitions])


def _pushed_text(member: MemberExplanation) -> str:
    """What a member's client measured itself (KIP-714): the figures that concern its group."""
    text = f"{member.member_id} pushed {quantity(len(member.pushed), 'metric')} {span(member.last_push_ms or 0)} ago"
    named = {m.name.removeprefix(PREFIX): m.value for m in member.pushed}
    known = [f"{name} {value_text(named[name])}" for name in OF_GROUPS if name in named]
    return f"{text}: {', '.join(known)}" if known else text


def _row(member: MemberExplanation, document: GroupExplanation) -> tuple[str, ...]:
    owned = sum(1 for p in document.partitions if p.owner == member.member_id)
    is_shared = document.protocol_type == SHARE_TYPE  # several members have a partition
    owes = next((w.owes for w in document.waiting_for if w.member_id == member.member_id), None)
    waits = f"waits in {member.waits_in}" if member.waits_in else None
    is_heard = member.session_left_ms is not None
    now = owes or waits or ("silent" if member.is_silent else "heartbeating" if is_heard else "-")
    fetched = member.last_fetch_ms
    return (
        member.member_id + (" (leader)" if member.leader else ""),
        member.host,
        "-" if member.last_heard_ms is None else f"{span(member.last_heard_ms)} ago",
        "-" if fetched is None else f"{span(fetched)} ago",
        "-" if member.waits_in or member.session_left_ms is None else span(member.session_left_ms),
        "-" if is_shared else str(owned),
        now,
    )
