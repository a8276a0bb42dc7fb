"""`coterie produce`: one record a line."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, BinaryIO

import click

from coterie.cli.completion import complete_topics
from coterie.cli.invocation import broker_option, json_option, run, settings_option
from coterie.console.terminal import write_json, write_line
from coterie.quantity import quantity

if TYPE_CHECKING:
    from coterie.cli.json_documents import Produced

CHUNK_BYTES = 65_536
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")

TOPIC_WAIT_MS = 5_000  # a topic that the broker creates at its first use is there sooner


@click.command(
    epilog="""\b
Examples:
  echo hello | coterie produce greetings
  coterie produce flights --key-separator : < lines.txt
"""
)
@click.argument("topic", shell_complete=complete_topics)
@click.option(
    "--key-separator", "-K", metavar="TEXT", help="The text between key and value; without it, records have no keys."
)
@click.option("--compression", type=click.Choice(CODECS), help="How batches are compressed.  [default: none]")
@settings_option("--set", "given", help_text="A producer setting, by Kafka's name")
@broker_option
@json_option
def produce(
    topic: str,
    key_separator: str | None,
    compression: str | None,
    given: dict[str, str],
    client: dict[str, str],
    as_json: bool,
) -> None:
    """Write the lines of standard input to a topic, a record each.

    Returns when the broker has acknowledged all of them; Ctrl-C and SIGTERM end it with 130.
    """
    from coterie.client import Admin, KafkaError, Producer
    from coterie.wire.errors import ErrorCode

    if key_separator == "":
        raise click.UsageError("--key-separator must not be empty; leave it out for records without keys.")
    own = {} if compression is None else {"compression.type": compression}
    settings = client | own | given

    async def send() -> int:
        async with Admin(settings) as admin:
            await admin.describe_cluster()  # fails at once; a producer waits for a broker
        deliveries = []
        async with Producer(settings) as producer:
            try:
                await producer.partitions_for(topic, TOPIC_WAIT_MS)  # shorter than max.block.ms
            except KafkaError as error:
                if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    raise
                text = f"there is no topic {topic}, and the broker does not create it: coterie topics create {topic}"
                raise KafkaError(error.code, text) from error
            async for value in lines_of(sys.stdin.buffer):
                key = None
                if key_separator is not None:
                    head, separator, tail = value.partition(key_separator.encode())
                    key, value = (head, tail) if separator else (None, value)
                deliveries.append(await producer.send(topic, value, key))
            await producer.flush()
            for delivery in deliveries:
                await delivery
        return len(deliveries)

    count = run(send())
    if as_json:
        document: Produced = {"topic": topic, "acknowledged": count}
        write_json(document)
    else:
        write_line(f"{quantity(count, 'record')} acknowledged", err=True)


async def lines_of(stream: BinaryIO) -> AsyncIterator[bytes]:
    """The lines without their line breaks. Waits for a terminal or a pipe without holding the loop, so that a signal is
    heard meanwhile; a regular file never waits."""
    rest = b""
    while data := await _read(stream):
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            yield line
    if rest:
        yield rest


async def _read(stream: BinaryIO) -> bytes:
    """What can be read now, or comes first; empty at the end."""
    loop = asyncio.get_running_loop()
    try:
        descriptor = stream.fileno()
        readable = asyncio.Event()
        loop.add_reader(descriptor, readable.set)
    except (OSError, ValueError):  # nothing that can be waited for: a file on the disk, or bytes in memory
        return stream.read(CHUNK_BYTES)
    try:
        await readable.wait()
    finally:
        loop.remove_reader(descriptor)
    return os.read(descriptor, CHUNK_BYTES)
