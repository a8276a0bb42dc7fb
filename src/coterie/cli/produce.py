"""`coterie produce`: one record a line."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from itertools import repeat
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from coterie.cli.parts.invocation import broker_option, json_option, run, settings_option
from coterie.cli.parts.option_values import complete_topics
from coterie.console.terminal import write_json, write_line
from coterie.records.compiled import split_lines
from coterie.text.quantity import quantity

if TYPE_CHECKING:
    from coterie.cli.parts.json_documents import Produced
    from coterie.client import KafkaError, Producer

CHUNK_BYTES = 1 << 18  # of standard input at a time: what a processor's cache holds while its lines become records
# librdkafka's: a command that copies a file wants throughput, and each batch has a fixed cost in the client and in the broker.
BATCHES = {"batch.size": "1000000"}
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
    from coterie.client import KafkaError, Producer
    from coterie.client.connection.cluster import Cluster
    from coterie.client.settings.settings import client_settings
    from coterie.runtime.allocator import collect_seldom
    from coterie.wire.errors import ErrorCode

    if key_separator == "":
        raise click.UsageError("--key-separator must not be empty; leave it out for records without keys.")
    separator = None if key_separator is None else key_separator.encode()
    own = {} if compression is None else {"compression.type": compression}
    settings = BATCHES | client | own | given

    async def send() -> int:
        collect_seldom()
        cluster = Cluster(client_settings(settings))
        try:
            await cluster.any_connection()  # fails at once; a producer waits for a broker
        finally:
            cluster.close()
        count, failures = 0, list[KafkaError]()
        async with Producer(settings) as producer:
            try:
                await producer.partitions_for(topic, TOPIC_WAIT_MS)  # shorter than max.block.ms
            except KafkaError as error:
                if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    raise
                text = f"there is no topic {topic}, and the broker does not create it: coterie topics create {topic}"
                raise KafkaError(error.code, text) from error
            sending = _Sending(producer, topic, failures)
            async for lines in lines_of(sys.stdin.buffer):
                await sending.send(*_keys_and_values(lines, separator))
                count += len(lines)
            await producer.flush()
        if failures:
            raise failures[0]
        return count

    count = run(send())
    if as_json:
        document: Produced = {"topic": topic, "acknowledged": count}
        write_json(document)
    else:
        write_line(f"{quantity(count, 'record')} acknowledged", err=True)


class _Sending:
    """Puts lines into batches: many at once, or, where a serializer or a partitioner is set, one by one. ``failures`` receives
    the errors of records that the broker did not acknowledge."""

    def __init__(self, producer: Producer[Any, Any], topic: str, failures: list[KafkaError]) -> None:
        from coterie.client.producer.column_sender import ColumnSender

        settings = producer.settings
        is_plain = settings.partitioner is None and not (settings.key_serializer or settings.value_serializer)
        self._columns = ColumnSender(producer, failures.append) if is_plain else None
        self._producer, self._topic, self._failures = producer, topic, failures

    async def send(self, keys: list[bytes | None] | None, values: list[bytes]) -> None:
        """Waits for room in buffer.memory. Raises KafkaError."""
        from coterie.client.producer.column_sender import RecordColumns

        if self._columns is not None:
            await self._columns.send(self._topic, RecordColumns(values, keys))
            return
        for key, value in zip(repeat(None) if keys is None else keys, values, strict=False):
            await self._producer.send(self._topic, value, key, on_delivery=self._delivered)

    def _delivered(self, _: object, error: KafkaError | None) -> None:
        if error is not None:
            self._failures.append(error)


def _keys_and_values(lines: list[bytes], separator: bytes | None) -> tuple[list[bytes | None] | None, list[bytes]]:
    """A line without the separator has no key."""
    if separator is None:
        return None, lines
    parts = [line.partition(separator) for line in lines]
    keys = [head if between else None for head, between, _ in parts]
    return keys, [tail if between else head for head, between, tail in parts]


async def lines_of(stream: BinaryIO) -> AsyncIterator[list[bytes]]:
    """The lines without their line breaks, as many as there are to be read. Waits for a terminal or a pipe without holding the
    loop, so that a signal is heard meanwhile; a regular file never waits."""
    rest: list[bytes] = []  # the parts of a line whose end has not come
    while data := await _read(stream):
        first, *lines = split_lines(data)
        rest.append(first)
        if lines:
            whole, rest = b"".join(rest), [lines.pop()]
            yield [whole, *lines]
    if last := b"".join(rest):
        yield [last]


async def _read(stream: BinaryIO) -> bytes:
    """What can be read now, or comes first; empty at the end."""
    loop = asyncio.get_running_loop()
    try:
        descriptor = stream.fileno()
        readable = asyncio.Event()
        loop.add_reader(descriptor, readable.set)
    except (OSError, ValueError):  # nothing that can be waited for: a file on the disk, or bytes in memory
        await asyncio.sleep(0)  # the batches so far go out
        return stream.read(CHUNK_BYTES)
    try:
        await readable.wait()
    finally:
        loop.remove_reader(descriptor)
    return os.read(descriptor, CHUNK_BYTES)
