"""`coterie produce`: one record a line."""

from __future__ import annotations

import json
import sys

import click

from coterie.cli.running import broker_option, json_option, run

TOPIC_WAIT_MS = 5_000  # a topic that the broker creates at its first use is there sooner


@click.command(
    epilog="""\b
Examples:
  echo hello | coterie produce greetings
  coterie produce flights --key-separator : < lines.txt
"""
)
@click.argument("topic")
@click.option("--key-separator", "-K", metavar="TEXT", help="What divides key from value; without it, no keys.")
@click.option("--compression", type=click.Choice(["none", "gzip", "snappy", "lz4", "zstd"]), default="none")
@broker_option
@json_option
def produce(topic: str, key_separator: str | None, compression: str, bootstrap_server: str, as_json: bool) -> None:
    """Write the lines of standard input to a topic; returns once all are acknowledged."""
    from coterie.client import Admin, KafkaError, Producer
    from coterie.wire.errors import ErrorCode

    async def send() -> int:
        settings = {"bootstrap.servers": bootstrap_server, "compression.type": compression}
        async with Admin(settings) as admin:
            await admin.describe_cluster()  # a producer would wait for a broker; somebody at a terminal wants to know
        deliveries = []
        async with Producer(settings) as producer:
            try:
                await producer.partitions_for(topic, TOPIC_WAIT_MS)  # not max.block.ms: somebody at a terminal waits
            except KafkaError as error:
                if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    raise
                text = f"there is no topic {topic}, and the broker does not create it: coterie topics create {topic}"
                raise KafkaError(error.code, text) from error
            for line in sys.stdin.buffer:
                key, value = None, line.rstrip(b"\n")
                if key_separator is not None:
                    head, found, tail = value.partition(key_separator.encode())
                    key, value = (head, tail) if found else (None, value)
                deliveries.append(await producer.send(topic, value, key))
            await producer.flush()
            for delivery in deliveries:
                await delivery
        return len(deliveries)

    count = run(send())
    if as_json:
        click.echo(json.dumps({"topic": topic, "acknowledged": count}))
    else:
        click.echo(f"{count} records acknowledged", err=True)
