"""`coterie topics`."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click

from coterie.cli.parts.commands import CommandGroup
from coterie.cli.parts.exit_codes import end_with
from coterie.cli.parts.invocation import LEADER_MS, broker_option, done, json_option, run, settings_option, show
from coterie.cli.parts.option_values import IntegerRange, complete_topics
from coterie.cli.topics.topic_replicas import elect, ids, reassign
from coterie.console.terminal import write_line, write_lines
from coterie.text.quantity import quantity

if TYPE_CHECKING:
    from coterie.cli.parts.json_documents import DescribedReplicas, DescribedTopic, ListedTopic
    from coterie.client import KafkaError, TopicDescription


@click.group(
    cls=CommandGroup,
    epilog="""\b
Examples:
  coterie topics create flights --partitions 12 --config retention.ms=86400000
  coterie topics list --json
  coterie topics grow flights --partitions 24
  coterie topics reassign flights --brokers 2,3
  coterie topics elect flights
""",
)
def topics() -> None:
    """List, create, describe, grow, move and delete topics."""


@topics.command("list")
@click.option("--internal", is_flag=True, help="Include __consumer_offsets and __coterie_journal.")
@broker_option
@json_option
def list_topics(client: dict[str, str], internal: bool, as_json: bool) -> None:
    """List every topic with its number of partitions."""
    from coterie.client import Admin
    from coterie.client.errors import error_about

    async def call() -> dict[str, TopicDescription]:
        async with Admin(client) as admin:
            return await admin.describe_topics()

    infos: dict[str, TopicDescription] = run(call())
    listed: list[ListedTopic] = []
    for name, info in sorted(infos.items()):
        if internal or not info.is_internal:
            row: ListedTopic = {"topic": name, "partitions": len(info.partitions), "internal": info.is_internal}
            listed.append(row if not info.error else row | {"error": info.error.name})
    rows = [(t["topic"], None if "error" in t else t["partitions"]) for t in listed]
    show(listed, as_json, ["TOPIC", "PARTITIONS"], rows, "there are no topics")
    end_with(error_about(info.error, f"topic {name}") for name, info in sorted(infos.items()) if info.error)


@topics.command()
@click.argument("topic")
@click.option(
    "--partitions", "-p", type=IntegerRange(1, 100_000), help="How many; by default the broker's num.partitions."
)
@click.option(
    "--replication-factor",
    "-r",
    type=IntegerRange(1, 1000),
    help="Replicas of each partition; by default the broker's default.replication.factor.",
)
@settings_option("--config", "-c", "settings", help_text="A topic setting, by Kafka's name")
@broker_option
@json_option
def create(
    topic: str,
    partitions: int | None,
    replication_factor: int | None,
    settings: dict[str, str],
    client: dict[str, str],
    as_json: bool,
) -> None:
    """Create a topic."""
    from coterie.client import Admin

    async def call() -> None:
        async with Admin(client) as admin:
            await admin.create_topic(topic, partitions or -1, settings, replication_factor=replication_factor or -1)

    run(call())
    done(f"created {topic}", as_json, created=topic)


@topics.command()
@click.argument("topic", shell_complete=complete_topics)
@click.option(
    "--all", "every_setting", is_flag=True, help="Show every setting, not only those without Kafka's default."
)
@broker_option
@json_option
def describe(topic: str, every_setting: bool, client: dict[str, str], as_json: bool) -> None:
    """Show a topic's partitions, replicas and settings.

    ISR names the replicas in sync; NOTE, where there is one, a partition without a leader, offline replicas and replicas
    that are not in sync. Settings with the default value are left out, unless --all is given.
    """
    description: DescribedTopic
    description, errors = run(_described(topic, client, every_setting=every_setting))
    cells = [
        (
            p["partition"],
            p["leader"] if p["leader"] >= 0 else None,
            ids(p["replicas"]),
            ids(p["isr"]),
            p["start"],
            p["end"],
        )
        for p in description["partitions"]
    ]
    headers = ["PARTITION", "LEADER", "REPLICAS", "ISR", "START", "END"]
    notes = [_note(p) for p in description["partitions"]]
    if any(notes):
        headers = [*headers, "NOTE"]
        cells = [(*row, note) for row, note in zip(cells, notes, strict=True)]  # type: ignore[misc]
    show(description, as_json, headers, cells)
    if not as_json:
        write_line()
        write_lines(f"{name}={value}" for name, value in sorted(description["configs"].items()))
    end_with(errors)


async def _described(
    topic: str, client: dict[str, str], *, every_setting: bool
) -> tuple[DescribedTopic, list[KafkaError]]:
    """What `topics describe --json` prints, and why offsets or settings are missing in it. Raises KafkaError."""
    from coterie.client import Admin, KafkaError, TopicPartition
    from coterie.client.errors import check

    errors: dict[TopicPartition, KafkaError] = {}
    async with Admin(client) as admin:
        info = (await admin.describe_topics([topic]))[topic]
        check(info.error, subject=f"topic {topic}")
        led = [TopicPartition(topic, p.partition) for p in info.partitions if p.leader]  # NOTE has the others
        starts, ends = await asyncio.gather(
            *(admin.list_offsets(dict.fromkeys(led, at), errors=errors, timeout_ms=LEADER_MS) for at in (-2, -1))
        )
        configs: dict[str, str | None] = {}
        unread = [errors[tp] for tp in sorted(errors)]
        try:
            entries = (await admin.describe_configs(topic)).values()
            configs = {entry.name: entry.value for entry in entries if every_setting or not entry.is_default}
        except KafkaError as error:
            unread.append(error)
    rows: list[DescribedReplicas] = [
        {
            "partition": p.partition,
            "leader": p.leader.id if p.leader else -1,
            "start": starts.get(TopicPartition(topic, p.partition)),
            "end": ends.get(TopicPartition(topic, p.partition)),
            "leader_epoch": p.leader_epoch,
            "replicas": [node.id for node in p.replicas],
            "isr": [node.id for node in p.isr],
            "offline": [node.id for node in p.offline_replicas],
        }
        for p in info.partitions
    ]
    return {"topic": topic, "partitions": rows, "configs": configs}, unread


def _note(partition: DescribedReplicas) -> str:
    """What is wrong with the partition; "" where nothing is."""
    behind = [replica for replica in partition["replicas"] if replica not in partition["isr"]]
    notes = ["no leader"] if partition["leader"] < 0 else []
    notes += ["the leader does not respond"] if not notes and partition["end"] is None else []
    notes += [f"under-replicated: {ids(behind)}"] if behind else []
    notes += [f"offline: {ids(partition['offline'])}"] if partition["offline"] else []
    return "; ".join(notes)


@topics.command()
@click.argument("topic", shell_complete=complete_topics)
@click.option("--partitions", "-p", type=IntegerRange(1, 100_000), required=True, help="The new number of partitions.")
@broker_option
@json_option
def grow(topic: str, partitions: int, client: dict[str, str], as_json: bool) -> None:
    """Add partitions to a topic."""
    from coterie.client import Admin

    async def call() -> None:
        async with Admin(client) as admin:
            await admin.create_partitions(topic, partitions)

    run(call())
    done(f"{topic} has {quantity(partitions, 'partition')}", as_json, topic=topic, partitions=partitions)


@topics.command()
@click.argument("topic", shell_complete=complete_topics)
@broker_option
@json_option
def delete(topic: str, client: dict[str, str], as_json: bool) -> None:
    """Delete a topic, its records and its committed offsets."""
    from coterie.client import Admin

    async def call() -> None:
        async with Admin(client) as admin:
            await admin.delete_topic(topic)

    run(call())
    done(f"deleted {topic}", as_json, deleted=topic)


topics.add_command(elect)
topics.add_command(reassign)
