"""`coterie consume`: a topic's records on standard output."""

from __future__ import annotations

import asyncio
import json
import signal
import time
from typing import Any

import click

from coterie.cli.running import broker_option, json_option, run


@click.command(
    epilog="""\b
Examples:
  coterie consume flights --from-beginning --max-messages 10
  coterie consume flights --group crew            as a member; commits what it printed
  coterie consume __coterie_journal --from-beginning
"""
)
@click.argument("topic")
@click.option("--group", "-g", help="Join this group, and commit.")
@click.option("--instance-id", help="group.instance.id: a static member.")
@click.option("--from-beginning", is_flag=True, help="Where there is no committed offset, start at the first record.")
@click.option("--max-messages", "-n", type=click.IntRange(1), help="Stop after so many.")
@click.option("--timeout-ms", type=click.IntRange(1), help="Stop when nothing came for so long.")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="A consumer setting, by Kafka's name.")
@broker_option
@json_option
def consume(
    topic: str,
    group: str | None,
    instance_id: str | None,
    from_beginning: bool,
    max_messages: int | None,
    timeout_ms: int | None,
    settings: tuple[str, ...],
    bootstrap_server: str,
    as_json: bool,
) -> None:
    """Read a topic, alone or as a member of a group. Ctrl-C stops it in order."""
    given: dict[str, Any] = {
        "bootstrap.servers": bootstrap_server,
        "group.id": group,
        "group.instance.id": instance_id,
        "auto.offset.reset": "earliest" if from_beginning else "latest",
        "enable.auto.commit": group is not None,
    }
    for item in settings:
        name, equals, value = item.partition("=")
        if not equals:
            raise click.UsageError(f"--set takes KEY=VALUE, not {item!r}.")
        given[name] = value
    run(_read(given, topic, max_messages, timeout_ms, as_json))


async def _read(settings: dict[str, Any], topic: str, limit: int | None, timeout_ms: int | None, as_json: bool) -> None:
    from coterie.client import Consumer

    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    shown, last = 0, time.monotonic()
    async with Consumer(settings) as consumer:
        if settings["group.id"] is not None:
            consumer.subscribe([topic])
        else:
            from coterie.client import Admin

            async with Admin({"bootstrap.servers": settings["bootstrap.servers"]}) as admin:
                await consumer.assign(await admin.partitions([topic]))
        while not stop.is_set() and (limit is None or shown < limit):
            left = 500 if limit is None else min(500, limit - shown)
            polled = await consumer.poll(200, left)
            for (_, partition), records in polled.items():
                for r in records:
                    click.echo(_line(topic, partition, r) if as_json else _text(r.value))
                    shown += 1
            last = time.monotonic() if polled else last
            if timeout_ms is not None and (time.monotonic() - last) * 1000 >= timeout_ms:
                break


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode(errors="replace")


def _line(topic: str, partition: int, record: Any) -> str:
    return json.dumps(
        {
            "topic": topic,
            "partition": partition,
            "offset": record.offset,
            "timestamp_ms": record.timestamp,
            "key": _text(record.key),
            "value": _text(record.value),
            "headers": {name: _text(value) for name, value in record.headers},
        }
    )
