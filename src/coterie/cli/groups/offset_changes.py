"""`coterie groups reset` and `coterie groups delete-offsets`: a group's committed offsets, moved and deleted."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from coterie.cli.parts.exit_codes import end_with
from coterie.cli.parts.invocation import broker_option, history_option, json_option, milliseconds, run, show
from coterie.cli.parts.option_values import complete_groups, complete_topics

if TYPE_CHECKING:
    from coterie.cli.parts.json_groups import DeletedOffset, ResetOffset
    from coterie.client import Admin, KafkaError
    from coterie.client.types import TopicPartition

QUIET_S = 5.0  # without a record of the offsets topic, before reading it counts as failed


@click.command()
@click.argument("group", shell_complete=complete_groups)
@click.option(
    "--topic",
    "-t",
    "topic_names",
    multiple=True,
    shell_complete=complete_topics,
    help="Only this topic; may be given again.",
)
@click.option("--to", metavar="WHERE", help="By the topics' records: earliest, latest, an offset, or an ISO time.")
@click.option("--as-of", metavar="ISO", help="What the group itself had committed at that time.")
@history_option("For --as-of: a folder of `coterie pipeline history`, which still knows what compaction has dropped.")
@click.option("--dry-run", is_flag=True, help="Only show what would be committed.")
@broker_option
@json_option
def reset(
    group: str,
    topic_names: tuple[str, ...],
    to: str | None,
    as_of: str | None,
    history: Path | None,
    dry_run: bool,
    client: dict[str, str],
    as_json: bool,
) -> None:
    """Set the offsets of a group that has no members."""
    if (to is None) == (as_of is None):
        raise click.UsageError("groups reset needs either --to or --as-of.")
    if history is not None and as_of is None:
        raise click.UsageError("--history goes with --as-of.")
    if to is not None:
        offsets = run(_reset(group, client, topic_names, dry_run, _by_records(to)))
    else:
        moment_ms = milliseconds(as_of or "", "--as-of")
        offsets = run(_reset(group, client, topic_names, dry_run, _by_commits(group, moment_ms, history, client)))
    rows = [(o["topic"], o["partition"], o["from"], o["to"]) for o in offsets]
    if to is not None and not offsets:
        raise click.ClickException(f"{group} has no committed offsets; name the topics with --topic")
    show(offsets, as_json, ["TOPIC", "PARTITION", "FROM", "TO"], rows, f"{group} had committed nothing by then")


async def _reset(
    group: str, client: dict[str, str], names: tuple[str, ...], dry_run: bool, choose: Any
) -> list[ResetOffset]:
    from coterie.client import Admin
    from coterie.client.admin.offset_resets import reset_offsets

    async with Admin(client) as admin:
        offsets = await reset_offsets(admin, group, names, choose, dry_run=dry_run)
    return [
        {"topic": tp.topic, "partition": tp.partition, "from": before, "to": after} for tp, before, after in offsets
    ]


def _by_records(to: str) -> Any:
    """The first or last record, an offset, or the first record since a time; none that late: the end."""
    from coterie.client.admin.offset_resets import EARLIEST, LATEST, by_records

    if to.isdigit():
        return by_records(offset=int(to))
    named = {"earliest": EARLIEST, "latest": LATEST}
    at = named[to] if to in named else milliseconds(to, "--to", "earliest, latest, an offset or ")
    return by_records(timestamp_ms=at)


def _by_commits(group: str, moment_ms: int, history: Path | None, client: dict[str, str]) -> Any:
    """What the group had committed, clipped to what the topics still hold."""

    async def choose(
        admin: Admin, partitions: list[TopicPartition] | None, now: dict[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        if history is None:
            then = await _replayed(admin, client, group, moment_ms)
        else:
            from coterie.client.types import TopicPartition
            from coterie.pipeline.history.state import Moment, group_from_tables

            kept = group_from_tables(history, group, Moment(time_ms=moment_ms))
            then = {} if kept is None else {TopicPartition(*tp): o.offset for tp, o in kept.offsets.items()}
        there = set(await admin.partitions({t for t, _ in then}) if partitions is None else partitions)
        wanted = {tp: offset for tp, offset in then.items() if tp in there}
        first = await admin.list_offsets(dict.fromkeys(wanted, -2))
        end = await admin.list_offsets(dict.fromkeys(wanted, -1))
        return {tp: min(max(offset, first[tp]), end[tp]) for tp, offset in wanted.items()}

    return choose


async def _replayed(admin: Admin, client: dict[str, str], group: str, moment_ms: int) -> dict[TopicPartition, int]:
    """The group's partition of `__consumer_offsets`, replayed up to that time as a broker would load it. Committed records
    only, so that no transaction has to be followed. Raises KafkaError."""
    from coterie.client import Consumer, KafkaError, TopicPartition
    from coterie.coordinator.outcome import CoordinatorConfig
    from coterie.coordinator.partitioning import partition_for
    from coterie.coordinator.shard import Shard
    from coterie.wire.errors import ErrorCode
    from coterie.wire.primitives import WireError

    topic, shard = "__consumer_offsets", Shard(CoordinatorConfig())
    where = TopicPartition(topic, partition_for(group, len(await admin.partitions([topic]))))
    settings = client | {"isolation.level": "read_committed"}
    async with Consumer(settings | {"auto.offset.reset": "earliest", "enable.auto.commit": False}) as consumer:
        await consumer.assign([where])
        end, quiet_since_s = (await admin.list_offsets({where: -1}))[where], time.monotonic()
        while consumer.position(where) < end:
            for records in (await consumer.poll(500)).values():
                quiet_since_s = time.monotonic()
                for record in records:
                    if record.timestamp_ms <= moment_ms:
                        try:
                            shard.load(record.key, record.value, record.timestamp_ms)
                        except WireError:
                            continue  # as a broker, which skips unreadable records
            if time.monotonic() - quiet_since_s > QUIET_S:
                raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"{topic}-{where[1]} cannot be read to its end")
    state = shard.group(group)
    return {} if state is None else {TopicPartition(*tp): o.offset for tp, o in state.offsets.items()}


@click.command("delete-offsets")
@click.argument("group", shell_complete=complete_groups)
@click.option(
    "--topic",
    "-t",
    "topic_names",
    multiple=True,
    required=True,
    shell_complete=complete_topics,
    help="The offsets of this topic; may be given again.",
)
@click.option("--dry-run", is_flag=True, help="Only show what would be deleted.")
@broker_option
@json_option
def delete_offsets(
    group: str, topic_names: tuple[str, ...], dry_run: bool, client: dict[str, str], as_json: bool
) -> None:
    """Delete what a group has committed of topics.

    No member may read them. A share group must have no members; it loses its start offsets and the states of its records there.
    """
    offsets, errors = run(_delete(group, client, topic_names, dry_run))
    rows = [(each["topic"], each["partition"], each["offset"]) for each in offsets]
    empty = f"{group} has no offsets in {', '.join(topic_names)}"
    show(offsets, as_json, ["TOPIC", "PARTITION", "OFFSET"], rows, empty)
    end_with(errors)


async def _delete(
    group: str, client: dict[str, str], names: tuple[str, ...], dry_run: bool
) -> tuple[list[DeletedOffset], list[KafkaError]]:
    from coterie.client import Admin
    from coterie.client.admin.offset_resets import delete_offsets as delete

    async with Admin(client) as admin:
        deleted, errors = await delete(admin, group, names, dry_run=dry_run)
    return [{"topic": tp.topic, "partition": tp.partition, "offset": offset} for tp, offset in deleted], errors
