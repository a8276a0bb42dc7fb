"""`coterie topics elect` and `coterie topics reassign`: leaders and replicas of partitions in a cluster."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from coterie.cli.parts.exit_codes import end_with
from coterie.cli.parts.invocation import FILE, broker_option, json_option, run, show
from coterie.cli.parts.option_values import IntegerRange, complete_topics
from coterie.controller.assignment import assign_replicas
from coterie.text.files import NotText, decode_text
from coterie.text.quantity import quantity

if TYPE_CHECKING:
    from coterie.cli.parts.json_documents import Election, ReassignmentPlan, ReassignmentRow
    from coterie.client import Admin, KafkaError, PartitionReassignment, TopicPartition

FORM = '{"version": 1, "partitions": [{"topic": "orders", "partition": 0, "replicas": [1, 2]}]}'
ANY_DISK = "any"
PLAN, BROKERS, LIST, CANCEL = "--plan", "--brokers", "--list", "--cancel"
Moves = tuple[Mapping["TopicPartition", Sequence[int]], Mapping["TopicPartition", Sequence[int]], list[str]]


def plan_over(
    brokers: Sequence[int], now: Mapping[TopicPartition, Sequence[int]], replication_factor: int | None
) -> dict[TopicPartition, list[int]]:
    """Each partition of ``now`` with replicas on these brokers alone, as many as now or as ``replication_factor``; leaders go
    round. Raises UsageError where the brokers are too few."""
    topics = sorted({topic for topic, _ in now})
    plan: dict[TopicPartition, list[int]] = {}
    for partition, replicas in sorted(now.items()):
        factor = replication_factor or len(replicas)
        if factor > len(brokers):
            wanted = f"{_name(partition)} shall have {quantity(factor, 'replica')}"
            raise click.UsageError(
                f"{wanted}: name so many brokers in --brokers, or fewer replicas in --replication-factor."
            )
        start = topics.index(partition[0])
        assigned = assign_replicas(brokers, partition[1] + 1, factor, start_index=start, shift=start)
        plan[partition] = list(assigned[partition[1]])
    return plan


def plan_of(text: str, source: str) -> dict[TopicPartition, list[int]]:
    """The plan of the JSON in ``source``. Raises UsageError for JSON that is not a plan, or names a disk."""
    from coterie.client import TopicPartition

    try:
        rows = json.loads(text)["partitions"]
        plan: dict[TopicPartition, list[int]] = {}
        for row in rows:
            topic, number, replicas = row["topic"], row["partition"], row["replicas"]
            if not isinstance(topic, str) or not all(_is_id(value) for value in (number, *replicas)) or not replicas:
                raise TypeError
            if any(disk != ANY_DISK for disk in row.get("log_dirs", [])):
                raise click.UsageError(
                    f"{source} names disks in log_dirs; replicas move between brokers here: leave it out."
                )
            plan[TopicPartition(topic, number)] = list(replicas)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise click.UsageError(f"{source} is not a reassignment plan; it must be JSON such as {FORM}.") from None
    if len(plan) < len(rows) or not plan:
        problem = "names a partition twice" if plan else "names no partition"
        raise click.UsageError(f"{source} {problem}.")
    return plan


def _is_id(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**31


def plan_document(plan: Mapping[TopicPartition, Sequence[int]]) -> ReassignmentPlan:
    """As `plan_of` reads it."""
    rows = [{"topic": topic, "partition": number, "replicas": list(ids)} for (topic, number), ids in plan.items()]
    return {"version": 1, "partitions": rows}  # type: ignore[typeddict-item]


def _name(partition: TopicPartition) -> str:
    return f"{partition[0]}-{partition[1]}"


def ids(brokers: Iterable[int]) -> str:
    """Broker ids in a cell of a table; `-` for none."""
    return ",".join(map(str, brokers)) or "-"


@click.command()
@click.argument("topics", nargs=-1, metavar="[TOPIC]...", shell_complete=complete_topics)
@click.option(
    "--partition",
    "-p",
    "numbers",
    type=IntegerRange(0),
    multiple=True,
    help="Only the partition of this number; may be given again.",
)
@click.option("--unclean", is_flag=True, help="Where no replica in sync is there, elect any other; records are lost.")
@broker_option
@json_option
def elect(
    topics: tuple[str, ...], numbers: tuple[int, ...], unclean: bool, client: dict[str, str], as_json: bool
) -> None:
    """Elect the preferred leader of each partition.

    Of every topic, unless some are named. The preferred leader is the first replica. Exits 1 when an election fails.
    """
    from coterie.client import Admin, TopicPartition
    from coterie.wire.errors import ErrorCode

    if unclean and not topics:
        raise click.UsageError("--unclean loses records: name the topics that it is for.")
    if numbers and len(topics) != 1:
        raise click.UsageError("--partition goes with one topic.")

    errors: list[KafkaError] = []

    async def call() -> list[Election]:
        async with Admin(client) as admin:
            wanted: list[TopicPartition] | None = [TopicPartition(topics[0], number) for number in numbers]
            if not numbers:
                wanted = list(await _replicas(admin, topics, errors)) if topics else None
            if wanted == []:
                return []
            elected = await admin.elect_leaders(wanted, unclean=unclean)
        return [
            {"topic": topic, "partition": number, "error": code.name if code else None}
            for (topic, number), code in elected.items()
        ]

    elections: list[Election] = run(call())
    not_needed = ErrorCode.ELECTION_NOT_NEEDED.name
    results = {None: "elected", not_needed: "leads already" if not unclean else "has a leader"}
    rows = [(e["topic"], e["partition"], results.get(e["error"], e["error"])) for e in elections]
    show(elections, as_json, ["TOPIC", "PARTITION", "RESULT"], rows, "no partition needs an election")
    end_with(errors)
    sys.exit(1 if any(e["error"] not in results for e in elections) else 0)


@click.command(
    epilog="""\b
Examples:
  coterie topics reassign orders --brokers 2,3
  coterie topics reassign orders --brokers 1,2,3 --dry-run --json > plan.json
  coterie topics reassign --plan plan.json
  coterie topics reassign --list
"""
)
@click.argument("topics", nargs=-1, metavar="[TOPIC]...", shell_complete=complete_topics)
@click.option(
    BROKERS, metavar="ID,ID,...", help="Spread the topics' replicas over these brokers alone, the leaders in turn."
)
@click.option("--replication-factor", "-r", type=IntegerRange(1, 1000), help="With --brokers; default: as many as now.")
@click.option(
    PLAN,
    type=FILE,
    help="A plan in kafka-reassign-partitions' JSON.",
)
@click.option(LIST, "is_list", is_flag=True, help="Show the reassignments in progress.")
@click.option(CANCEL, is_flag=True, help="Cancel the reassignments in progress.")
@click.option("--dry-run", is_flag=True, help="Only show what would be done.")
@broker_option
@json_option
def reassign(
    topics: tuple[str, ...],
    brokers: str | None,
    replication_factor: int | None,
    plan: Path | None,
    is_list: bool,
    cancel: bool,
    dry_run: bool,
    client: dict[str, str],
    as_json: bool,
) -> None:
    """Move partitions to other brokers.

    Returns when the reassignment has begun: --list shows it until the new replicas are in sync. With --json the plan is
    printed as --plan reads it.
    """
    given = [name for name, value in ((BROKERS, brokers), (PLAN, plan), (LIST, is_list), (CANCEL, cancel)) if value]
    if len(given) != 1:
        raise click.UsageError(f"topics reassign needs one of {BROKERS}, {PLAN}, {LIST} and {CANCEL}.")
    if replication_factor and not brokers:
        raise click.UsageError(f"--replication-factor goes with {BROKERS}.")
    if is_list or cancel:
        stops = cancel and not dry_run
        in_progress, errors = run(_in_progress(client, topics, cancel=stops))
        _show_in_progress(in_progress, as_json, "cancelled" if stops else "in progress")
        end_with(errors)
    elif plan is not None:
        if topics:
            raise click.UsageError(f"{PLAN} names the topics itself; name none.")
        wanted = plan_of(_text_of(plan), str(plan))
        _show_plan(run(_begin(client, wanted, dry_run=dry_run)), as_json)
    else:
        if not topics:
            raise click.UsageError(f"{BROKERS} needs the topics to move.")
        moved = _move(client, topics, _broker_ids(brokers or ""), replication_factor, dry_run=dry_run)
        _show_plan(run(moved), as_json)


def _broker_ids(text: str) -> list[int]:
    parts = text.split(",")
    if not all(part.strip().isascii() and part.strip().isdigit() for part in parts):
        raise click.UsageError(f"{BROKERS} takes the ids of brokers such as 1,2,3, not {text!r}.")
    brokers = [int(part) for part in parts]
    if len(set(brokers)) < len(brokers):
        raise click.UsageError(f"{BROKERS} {text!r} names a broker twice.")
    return brokers


async def _replicas(
    admin: Admin, topics: Iterable[str], errors: list[KafkaError] | None = None
) -> dict[TopicPartition, list[int]]:
    """The replicas of now. Raises KafkaError for a topic that is not described; ``errors`` receives it instead."""
    from coterie.client import TopicPartition
    from coterie.client.errors import error_about

    now: dict[TopicPartition, list[int]] = {}
    for name, info in (await admin.describe_topics(topics)).items():
        if info.error:
            error = error_about(info.error, f"topic {name}")
            if errors is None:
                raise error
            errors.append(error)
        now |= {TopicPartition(name, p.partition): [node.id for node in p.replicas] for p in info.partitions}
    return now


async def _move(
    client: dict[str, str], topics: Sequence[str], brokers: Sequence[int], factor: int | None, *, dry_run: bool
) -> Moves:
    from coterie.client import Admin

    async with Admin(client) as admin:
        wanted = plan_over(brokers, await _replicas(admin, topics), factor)
    return await _begin(client, wanted, dry_run=dry_run)


async def _begin(client: dict[str, str], plan: Mapping[TopicPartition, Sequence[int]], *, dry_run: bool) -> Moves:
    """The replicas of now, the plan as far as it has begun, and a sentence for each partition that the controller rejects.
    Raises KafkaError where the request failed as a whole."""
    from coterie.client import Admin, KafkaError

    async with Admin(client) as admin:
        now = await _replicas(admin, sorted({topic for topic, _ in plan}))
        if dry_run:
            return now, plan, []
        rejected: dict[TopicPartition, KafkaError] = {}
        for partition, future in admin.each.alter_partition_reassignments(plan).items():
            try:
                await future
            except KafkaError as error:
                rejected[partition] = error
    errors = list(rejected.values())
    if len(errors) > 1 and all(error is errors[0] for error in errors):  # the request's error, not a partition's
        raise errors[0]
    texts = [f"{topic}-{number}: {error}" for (topic, number), error in rejected.items()]
    return now, {tp: replicas for tp, replicas in plan.items() if tp not in rejected}, texts


def _show_plan(moves: Moves, as_json: bool) -> None:
    now, plan, rejected = moves
    if plan:
        rows = [(topic, number, ids(now.get(tp, ())), ids(plan[tp])) for tp in plan for topic, number in [tp]]
        show(plan_document(plan), as_json, ["TOPIC", "PARTITION", "FROM", "TO"], rows)
    if rejected:
        raise click.ClickException("; ".join(rejected))


async def _in_progress(
    client: dict[str, str], topics: Sequence[str], *, cancel: bool
) -> tuple[dict[TopicPartition, PartitionReassignment], list[KafkaError]]:
    """The reassignments in progress, or the cancelled ones, and the errors of single ones. Raises KafkaError."""
    from coterie.client import Admin, KafkaError

    errors: list[KafkaError] = []
    async with Admin(client) as admin:
        wanted = list(await _replicas(admin, topics, errors)) if topics else None
        listed = {} if wanted == [] else await admin.list_partition_reassignments(wanted)
        if cancel and listed:
            for partition, future in admin.each.alter_partition_reassignments(dict.fromkeys(listed)).items():
                try:
                    await future
                except KafkaError as error:
                    errors.append(error)
                    del listed[partition]
    return listed, errors


def _show_in_progress(listed: Mapping[TopicPartition, PartitionReassignment], as_json: bool, state: str) -> None:
    document: list[ReassignmentRow] = [
        {
            "topic": topic,
            "partition": number,
            "replicas": list(r.replicas),
            "adding": list(r.adding_replicas),
            "removing": list(r.removing_replicas),
        }
        for (topic, number), r in listed.items()
    ]
    rows = [
        (row["topic"], row["partition"], ids(row["replicas"]), ids(row["adding"]), ids(row["removing"]), state)
        for row in document
    ]
    headers = ["TOPIC", "PARTITION", "REPLICAS", "ADDING", "REMOVING", "STATE"]
    show(document, as_json, headers, rows, "no reassignment is in progress")


def _text_of(path: Path) -> str:
    """The text of a file. Raises BadParameter."""
    try:
        return decode_text(path.read_bytes())
    except NotText as error:
        raise click.BadParameter(f"{path}: {error}.") from None
