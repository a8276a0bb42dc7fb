"""`coterie topics`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from coterie.cli.commands import CommandGroup
from coterie.cli.invocation import broker_option, done, json_option, run, show
from coterie.cli.ranges import IntegerRange
from coterie.console.terminal import write_line, write_lines
from coterie.quantity import quantity

if TYPE_CHECKING:
    from coterie.cli.json_documents import DescribedTopic, ListedTopic, TopicPartitionOffsets


@click.group(
    cls=CommandGroup,
    epilog="""\b
Examples:
  coterie topics create flights --partitions 12 --config retention.ms=86400000
  coterie topics list --json
  coterie topics grow flights --partitions 24
""",
)
def topics() -> None:
    """List, create, describe, grow and delete topics."""


@topics.command("list")
@click.option("--internal", is_flag=True, help="Include __consumer_offsets and __coterie_journal.")
@broker_option
@json_option
def list_topics(bootstrap_server: str, internal: bool, as_json: bool) -> None:
    """List every topic with its number of partitions."""
    from coterie.client import Admin

    async def ask() -> list[ListedTopic]:
        async with Admin({"bootstrap.servers": bootstrap_server}) as admin:
            infos = await admin.topics()
        return [
            {"topic": name, "partitions": len(info.partitions), "internal": info.is_internal}
            for name, info in sorted(infos.items())
            if internal or not info.is_internal
        ]

    listed: list[ListedTopic] = run(ask())
    show(
        listed, as_json, ["TOPIC", "PARTITIONS"], [(t["topic"], t["partitions"]) for t in listed], "there are no topics"
    )


@topics.command()
@click.argument("topic")
@click.option("--partitions", "-p", type=IntegerRange(1, 100_000), help="Default: the broker's num.partitions.")
@click.option("--config", "-c", "configs", multiple=True, metavar="KEY=VALUE", help="A topic setting, by Kafka's name.")
@broker_option
@json_option
def create(topic: str, partitions: int | None, configs: tuple[str, ...], bootstrap_server: str, as_json: bool) -> None:
    """Create a topic."""
    from coterie.client import Admin

    bad = [c for c in configs if "=" not in c]
    if bad:
        raise click.UsageError(f"--config takes KEY=VALUE, not {bad[0]!r}.")

    async def ask() -> None:
        async with Admin({"bootstrap.servers": bootstrap_server}) as admin:
            await admin.create_topic(topic, partitions or -1, dict(c.split("=", 1) for c in configs))

    run(ask())
    done(f"created {topic}", as_json, created=topic)


@topics.command()
@click.argument("topic")
@click.option(
    "--all", "every_setting", is_flag=True, help="Show every setting, not only those without Kafka's default."
)
@broker_option
@json_option
def describe(topic: str, every_setting: bool, bootstrap_server: str, as_json: bool) -> None:
    """Show a topic's partitions, their offsets and its settings.

    Settings with the default value are left out, unless --all is given.
    """
    from coterie.client import Admin, TopicPartition
    from coterie.client.errors import check

    async def ask() -> DescribedTopic:
        async with Admin({"bootstrap.servers": bootstrap_server}) as admin:
            info = (await admin.topics([topic]))[topic]
            check(info.error, topic)
            partitions = [TopicPartition(topic, p.partition) for p in info.partitions]
            starts = await admin.offsets(dict.fromkeys(partitions, -2))
            ends = await admin.offsets(dict.fromkeys(partitions, -1))
            rows: list[TopicPartitionOffsets] = [
                {
                    "partition": p.partition,
                    "leader": p.leader.id if p.leader else -1,
                    "start": starts[tp],
                    "end": ends[tp],
                }
                for tp, p in zip(partitions, info.partitions, strict=True)
            ]
            entries = (await admin.topic_configs(topic)).values()
            configs = {entry.name: entry.value for entry in entries if every_setting or not entry.is_default}
            return {"topic": topic, "partitions": rows, "configs": configs}

    description: DescribedTopic = run(ask())
    cells = [(p["partition"], p["leader"], p["start"], p["end"]) for p in description["partitions"]]
    show(description, as_json, ["PARTITION", "LEADER", "START", "END"], cells)
    if not as_json:
        write_line()
        write_lines(f"{name}={value}" for name, value in sorted(description["configs"].items()))


@topics.command()
@click.argument("topic")
@click.option(
    "--partitions", "-p", type=IntegerRange(1, 100_000), required=True, help="The number of partitions after it."
)
@broker_option
@json_option
def grow(topic: str, partitions: int, bootstrap_server: str, as_json: bool) -> None:
    """Add partitions to a topic."""
    from coterie.client import Admin

    async def ask() -> None:
        async with Admin({"bootstrap.servers": bootstrap_server}) as admin:
            await admin.create_partitions(topic, partitions)

    run(ask())
    done(f"{topic} has {quantity(partitions, 'partition')}", as_json, topic=topic, partitions=partitions)


@topics.command()
@click.argument("topic")
@broker_option
@json_option
def delete(topic: str, bootstrap_server: str, as_json: bool) -> None:
    """Delete a topic, its records and its committed offsets."""
    from coterie.client import Admin

    async def ask() -> None:
        async with Admin({"bootstrap.servers": bootstrap_server}) as admin:
            await admin.delete_topic(topic)

    run(ask())
    done(f"deleted {topic}", as_json, deleted=topic)
