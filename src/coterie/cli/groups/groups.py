"""`coterie groups`: who is in a group, how far behind it is, why it rebalanced."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from coterie.cli.groups.explanation import watch, why
from coterie.cli.groups.flapping import flapping
from coterie.cli.groups.group_description import describe_group
from coterie.cli.groups.group_description import list_groups as rows_of_groups
from coterie.cli.groups.journal_reading import HISTORY_EVENTS, read_journal, time_text
from coterie.cli.groups.offset_changes import delete_offsets, reset
from coterie.cli.groups.predict import predict
from coterie.cli.groups.zookeeper import describe_in_zookeeper, list_in_zookeeper, migrate, zookeeper_option
from coterie.cli.parts.commands import CommandGroup
from coterie.cli.parts.exit_codes import end_with
from coterie.cli.parts.invocation import broker_option, done, journal_option, json_option, run, sentences, show
from coterie.cli.parts.option_values import complete_groups
from coterie.console.terminal import write_finding, write_line, write_lines
from coterie.machines.ownership import unowned_text
from coterie.text.quantity import lag_text, quantity, span

if TYPE_CHECKING:
    from coterie.cli.parts.json_groups import DescribedMember, GroupDocument, GroupEvent, GroupRow
    from coterie.client import Advice, KafkaError


@click.group(
    cls=CommandGroup,
    epilog="""\b
Examples:
  coterie groups list
  coterie groups describe crew
  coterie groups history crew
  coterie groups why crew
  coterie groups watch crew
  coterie groups lint crew
  coterie groups predict crew --rolling-restart
  coterie groups flapping crew
  coterie groups dump kafka-data/__consumer_offsets-0
  coterie groups reset crew --topic flights --to earliest
  coterie groups reset crew --as-of 2026-11-21T09:30
  coterie groups delete-offsets crew --topic flights --dry-run
  coterie groups list --zookeeper 127.0.0.1:2181
  coterie groups migrate crew --zookeeper 127.0.0.1:2181
""",
)
def groups() -> None:
    """Show, explain, reset and delete consumer groups."""


groups.add_command(why)
groups.add_command(watch)
groups.add_command(predict)
groups.add_command(flapping)
groups.add_command(migrate)


_ROLES = ("active", "standby", "warmup")  # of tasks


@groups.command("list")
@click.option("--state", "states", multiple=True, help="Only groups in this state; may be given again.")
@zookeeper_option("Include the groups in ZooKeeper; the brokers are those registered there")
@broker_option
@json_option
def list_groups(states: tuple[str, ...], zookeeper: str | None, client: dict[str, str], as_json: bool) -> None:
    """List every group with its state, members and lag.

    KIND is classic, consumer (KIP-848), share, streams, simple for a group that only committed offsets, or a protocol type such
    as connect.
    BEHIND is how long ago the first record that is not committed was written.
    """
    from coterie.client import GroupState

    unknown = [state for state in states if state not in list(GroupState)]
    if unknown:
        raise click.UsageError(f"There is no state {unknown[0]!r}; there are {', '.join(GroupState)}.")
    in_zookeeper: list[GroupRow] = []
    unread: list[KafkaError] = []
    if zookeeper is not None:
        in_zookeeper, unread, servers = sentences(list_in_zookeeper, zookeeper)
        client |= {"bootstrap.servers": servers}

    listed: list[GroupRow]
    listed, errors = run(rows_of_groups(client, states))
    listed += [g for g in in_zookeeper if not states or g["state"] in states]
    rows = [
        (
            g["group"],
            g["state"],
            _kind(g),
            g["members"],
            g["lag"],
            None if g["lag_ms"] is None else span(g["lag_ms"]),
            g["protocol"] or None,
            g["coordinator"],
        )
        for g in listed
    ]
    headers = ["GROUP", "STATE", "KIND", "MEMBERS", "LAG", "BEHIND", "PROTOCOL", "COORDINATOR"]
    show(listed, as_json, headers, rows, "there are no groups")
    end_with([*unread, *errors])


def _kind(group: GroupRow) -> str:
    """Of consumers, share groups and Kafka Streams by their protocol; of others, as Connect, by the protocol type."""
    if group["type"] in ("Consumer", "Share", "Streams"):
        return group["type"].lower()
    named = {"consumer": "classic", "": "simple"}
    return named.get(group["protocol_type"], group["protocol_type"])


@groups.command()
@click.argument("group", shell_complete=complete_groups)
@zookeeper_option("Show the group of that name in ZooKeeper")
@broker_option
@json_option
def describe(group: str, zookeeper: str | None, client: dict[str, str], as_json: bool) -> None:
    """Show a group's state, members, owners and lag.

    BEHIND is how long ago the first record that is not committed was written. Of a share group, START is the offset before
    which every record is acknowledged or archived, and LAG counts the records that are neither.
    """
    if zookeeper is not None:
        description: GroupDocument
        errors: list[KafkaError]
        description, errors = sentences(describe_in_zookeeper, group, zookeeper, client)
    else:
        description, errors = run(describe_group(group, client))
    if as_json:
        show(description, True, [], [])
        end_with(errors)
        return
    members = quantity(len(description["members"]), "member")
    kind = description["protocol_type"]
    protocol = kind if kind in ("share", "streams") else "consumer"
    epoch = f"{protocol} protocol, epoch {description['group_epoch']}, " if "group_epoch" in description else ""
    write_line(f"{group}: {description['state']}, {epoch}assignor {description['protocol'] or '-'}, {members}")
    _write_tasks(description)
    rows = [
        (
            p["topic"],
            p["partition"],
            p["committed"],
            p["end"],
            p["lag"],
            None if p["lag_ms"] is None else span(p["lag_ms"]),
            " ".join(p.get("owners", ())) or p["owner"],
            p["host"],
        )
        for p in description["partitions"]
    ]
    offset = "START" if kind == "share" else "COMMITTED"
    headers = ["TOPIC", "PARTITION", offset, "END", "LAG", "BEHIND", "OWNER", "HOST"]
    show(description, False, headers, rows, "no partition is committed or assigned")
    if description["partitions"]:
        of = "start offset" if kind == "share" else "committed offset"
        write_line(f"total lag: {lag_text(description['partitions'], of)}")
    end_with(errors)


def _write_tasks(description: GroupDocument) -> None:
    """A table of a streams group's members with their tasks; nothing of other groups."""
    members = cast("list[DescribedMember]", description["members"]) if description["protocol_type"] == "streams" else []
    rows = [
        (m["member_id"], m["client_id"], m["member_epoch"], *(" ".join(m["tasks"][role]) or None for role in _ROLES))
        for m in members
    ]
    if rows:
        show(rows, False, ["MEMBER", "CLIENT", "EPOCH", "ACTIVE", "STANDBY", "WARM-UP"], rows, "")


@groups.command()
@click.argument("group", shell_complete=complete_groups)
@click.option(
    "--change",
    "changes",
    multiple=True,
    type=click.Choice(["none", "cooperative", "static", "consumer", "classic"]),
    help="Only this change: none, which finds what hurts the group as it is; to cooperative rebalancing, static members, the "
    "consumer protocol or back; may be given again.",
)
@broker_option
@json_option
def lint(group: str, changes: tuple[str, ...], client: dict[str, str], as_json: bool) -> None:
    """Check what hurts the group, and which changes are safe.

    To cooperative, to static members, or to the consumer protocol. Names what blocks a change, and what will hurt the group as
    it is, by its settings, its commits and what its clients push; each with the next step. Works with any Kafka. Exits 1 when
    a change, or leaving the group as it is, is not safe now.
    """
    from coterie.client.lint.lint import CHANGES
    from coterie.observer.group_facts import linted

    wanted = {text for change in changes or CHANGES for text in CHANGES[change]}
    advices: list[Advice] = [advice for advice in run(linted(client, group)) if advice.change in wanted]
    if as_json:
        show([asdict(advice) for advice in advices], True, [], [])
    else:
        for advice in advices:
            _write_advice(advice)
    raise SystemExit(0 if all(advice.safe for advice in advices) else 1)


def _write_advice(advice: Advice) -> None:
    from coterie.client.lint.lint import AS_IS

    refused, by = ("harmful", "harmed by ") if advice.change == AS_IS else ("not yet", "blocked by ")
    write_finding(*(("safe   ", "green") if advice.safe else (refused, "red")), advice.change)
    write_line(f"         {advice.why}")
    for finding in advice.findings:
        text = "" if finding.blocks and finding.text == advice.why else f": {finding.text}"
        write_line(f"         {by if finding.blocks else ''}{finding.rule}{text}")
        write_line(f"           next: {finding.next_step}")
        for member in finding.members:
            write_line(f"           - {member}")
    for member in () if advice.findings else advice.blocked_by:
        write_line(f"         - {member}")


@groups.command()
@click.argument("group", shell_complete=complete_groups)
@click.option(
    "--all",
    "everything",
    is_flag=True,
    help="Show every event, not only generations, restarts of static members and other coordinators.",
)
@journal_option
@broker_option
@json_option
def history(group: str, everything: bool, journal: str | None, client: dict[str, str], as_json: bool) -> None:
    """Show every generation of a group, from the journal.

    Where the broker keeps no journal, from what __consumer_offsets still has of the group, with inferred causes.

    With the time, causes, phases and moved partitions of each. MOVED counts partitions that went from one member to another.
    UNOWNED is for how long partitions had no live owner, summed over them; N still: N partitions have none yet. On a narrow
    terminal WHY is without the clients' own reasons.
    """
    lines: list[GroupEvent]
    lines, errors = run(read_journal(group, client, journal))
    shown = [line for line in lines if everything or line["event"] in HISTORY_EVENTS]
    rows = [history_row(line) for line in shown]
    none = f"the journal has no events of group {group}"
    if journal is None:
        none += "; of another broker than coterie, `coterie observe --journal DIR` writes one"
    headers = ["TIME", "GENERATION", "EVENT", "MEMBERS", "JOIN", "SYNC", "MOVED", "UNOWNED", "WHY"]
    show(shown, as_json, headers, rows, none, brief=without_reasons)
    end_with(errors)


def without_reasons(why: str) -> str:
    """The causes of an event without the clients' own words (KIP-800), for a narrow terminal."""
    import re

    return re.sub(r" \([^;]*\)(?=;|$)", "", why)


def history_row(line: GroupEvent) -> tuple[Any, ...]:
    """The row of an event in the table of `groups history`."""
    return (
        time_text(line["time_ms"]),
        line["generation"] if line["generation"] >= 0 else None,
        line["event"],
        line.get("members", 0),
        _ms(line.get("join_ms")),
        _ms(line.get("sync_ms")),
        line.get("moved_count"),
        unowned_text(line.get("unowned_ms"), line.get("unowned_count")),
        line["why"],
    )


def _ms(value: int | None) -> str | None:
    return None if value is None else f"{value} ms"


@groups.command()
@click.argument("path", type=click.Path(exists=True, path_type=Path))
def dump(path: Path) -> None:
    """Print the records in files of __consumer_offsets.

    PATH is a segment, a partition's folder or a data folder. What cannot be read is a line that begins with !, and the exit
    code is then 1.
    """
    from coterie.cli.groups.offsets_dump import dump_offsets, is_segment, offset_segments

    if path.is_file() and not is_segment(path):
        sentence = f"{path} has no record batch at byte 0; name a segment of __consumer_offsets, or a data folder"
        raise click.ClickException(sentence)
    segments = offset_segments(path)
    if not segments:
        raise click.ClickException(f"{path} has no segment of __consumer_offsets; name a data folder, or a file of one")
    unread: list[str] = []
    write_lines(dump_offsets(segments, unread))
    end_with(unread)


@groups.command()
@click.argument("group", shell_complete=complete_groups)
@broker_option
@json_option
def delete(group: str, client: dict[str, str], as_json: bool) -> None:
    """Delete a group that has no members, with its offsets."""
    from coterie.client import Admin

    async def call() -> None:
        async with Admin(client) as admin:
            await admin.delete_consumer_group(group)

    run(call())
    done(f"deleted {group}", as_json, deleted=group)


groups.add_command(delete_offsets)
groups.add_command(reset)
