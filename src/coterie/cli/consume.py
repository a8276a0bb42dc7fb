"""`coterie consume`: a topic's records on standard output."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import time
from typing import TYPE_CHECKING, Any

import click

from coterie.cli.groups.zookeeper import read_streams, zookeeper_option
from coterie.cli.parts.invocation import (
    COMMAND_CONFIG,
    broker_option,
    json_option,
    run_until_stopped,
    sentences,
    settings_option,
)
from coterie.cli.parts.option_values import IntegerRange, complete_groups, complete_topics
from coterie.console.terminal import OutputFailed, is_terminal, write_bytes, write_json, write_line, write_value

if TYPE_CHECKING:
    from coterie.cli.parts.json_documents import ConsumedRecord
    from coterie.client import Consumer, Record, ShareRecord, TopicPartition

ACKNOWLEDGE = ("accept", "release", "reject")
JOIN_NOTICE_S = 10.0  # without an assignment; a first join waits for group.initial.rebalance.delay.ms
LOOK_AGAIN_S = 0.5
POLL_MS, AT_ONCE = 200, 5_000  # records of a poll, where each is written by itself


@click.command(
    epilog="""\b
Examples:
  coterie consume flights --from-beginning --max-messages 10
  coterie consume flights --group crew     a member; commits what it printed
  coterie consume __coterie_journal --from-beginning
  coterie consume flights --share workers  of a share group; accepts the same
  coterie consume flights --zookeeper zoo:2181 --group old   as Kafka 0.8's
"""
)
@click.argument("topic", shell_complete=complete_topics)
@click.option("--group", "-g", shell_complete=complete_groups, help="Join this group, and commit.")
@click.option("--share", shell_complete=complete_groups, help="Join this share group, and acknowledge (KIP-932).")
@click.option(
    "--acknowledge",
    type=click.Choice(ACKNOWLEDGE),
    help="With --share: what becomes of a record that is printed.  [default: accept]",
)
@click.option("--instance-id", help="group.instance.id: a static member.")
@click.option("--from-beginning", is_flag=True, help="Where there is no committed offset, start at the first record.")
@click.option("--max-messages", "-n", type=IntegerRange(1), help="Stop after this number of records.")
@click.option("--timeout-ms", type=IntegerRange(1), help="Stop when no record has arrived for this time.")
@settings_option("--set", "settings", help_text="A consumer setting, by Kafka's name")
@zookeeper_option("Join the group in this ZooKeeper, as the high-level consumer of Kafka 0.8; needs --group")
@click.option("--streams", type=IntegerRange(1, 1000), help="With --zookeeper: threads.  [default: 1]")
@broker_option
@json_option
def consume(
    topic: str,
    group: str | None,
    share: str | None,
    acknowledge: str | None,
    instance_id: str | None,
    from_beginning: bool,
    max_messages: int | None,
    timeout_ms: int | None,
    settings: dict[str, str],
    zookeeper: str | None,
    streams: int | None,
    client: dict[str, str],
    as_json: bool,
) -> None:
    """Read a topic, alone or as a member of a group, until Ctrl-C or SIGTERM.

    A value and a line break for each record: on a terminal as text, with control characters shown as \\x1b and the like;
    in a pipe or file the bytes as they are."""
    if share is not None:
        others = {"--group": group, "--instance-id": instance_id, "--zookeeper": zookeeper, "--streams": streams}
        _require_alone({**others, "--from-beginning": from_beginning})
        shared, limits = client | {"group.id": share} | settings, (max_messages, timeout_ms)
        run_until_stopped(lambda stop: _read_shared(stop, shared, topic, acknowledge, limits, as_json))
        return
    if acknowledge is not None:
        raise click.UsageError("--acknowledge goes with --share.")
    if zookeeper is not None:
        if group is None or instance_id is not None:
            raise click.UsageError("--zookeeper needs --group, and has no static members.")
        if COMMAND_CONFIG in click.get_current_context().meta:
            raise click.UsageError(
                "--command-config does not go with --zookeeper: the consumer of Kafka 0.8 has neither TLS nor SASL; "
                "its own settings go with --set."
            )
        old: dict[str, Any] = {
            "zookeeper.connect": zookeeper,
            "group.id": group,
            "auto.offset.reset": "smallest" if from_beginning else "largest",
            "consumer.timeout.ms": -1 if timeout_ms is None else timeout_ms,
        }

        def write(message: Any) -> None:
            _write(message.record, as_json)

        sentences(read_streams, old | settings, topic, streams or 1, max_messages, write)
        return
    if streams is not None:
        raise click.UsageError("--streams goes with --zookeeper.")
    own = {
        "group.id": group,
        "group.instance.id": instance_id,
        "auto.offset.reset": "earliest" if from_beginning else None,
    }
    given: dict[str, Any] = {"group.id": None, "auto.offset.reset": "latest"} | client
    given |= {name: value for name, value in own.items() if value is not None}
    given = {"enable.auto.commit": given["group.id"] is not None} | given | settings
    if instance_id is not None and given["group.id"] is None:
        raise click.UsageError("--instance-id goes with --group.")
    run_until_stopped(lambda stop: _read(stop, given, topic, max_messages, timeout_ms, as_json))


async def _read(
    stop: asyncio.Event,
    settings: dict[str, Any],
    topic: str,
    limit: int | None,
    timeout_ms: int | None,
    as_json: bool,
) -> None:
    from coterie.client import Consumer
    from coterie.client.consumer.value_lines import returns_bytes, write_lines
    from coterie.runtime.allocator import keep_freed_memory

    keep_freed_memory()
    shown, last = 0, time.monotonic()
    async with Consumer(settings) as consumer:
        if settings["group.id"] is not None:
            consumer.subscribe([topic])
        elif not await _assign(consumer, settings, topic, stop, timeout_ms):
            return
        are_lines = not as_json and not is_terminal() and returns_bytes(consumer)
        notice_s: float | None = last + JOIN_NOTICE_S
        while not stop.is_set() and (limit is None or shown < limit):
            if consumer.assignment():
                notice_s = None
            elif notice_s is not None and time.monotonic() > notice_s:
                notice_s = None
                group = settings["group.id"]
                text = (
                    f"waiting for partitions of {topic} from group {group}; for the reason: coterie groups why {group}"
                )
                write_line(text, err=True)
            left = sys.maxsize if limit is None else limit - shown
            if are_lines:
                written = await write_lines(consumer, POLL_MS, left, write_bytes)
            else:
                polled = await consumer.poll(POLL_MS, min(AT_ONCE, left))
                _write_polled(consumer, polled, as_json)
                written = sum(map(len, polled.values()))
            shown += written
            last = time.monotonic() if written else last
            if timeout_ms is not None and (time.monotonic() - last) * 1000 >= timeout_ms:
                break


async def _assign(
    consumer: Consumer, settings: dict[str, Any], topic: str, stop: asyncio.Event, timeout_ms: int | None
) -> bool:
    """All partitions of the topic; of one that does not exist yet once it does, from its first record. False where it does
    not exist at the end of the time."""
    from coterie.client import Admin, KafkaError
    from coterie.wire.errors import ErrorCode

    deadline_s = float("inf") if timeout_ms is None else time.monotonic() + timeout_ms / 1000
    is_missing = False
    async with Admin(settings) as admin:
        while not stop.is_set() and time.monotonic() < deadline_s:
            code = (await admin.describe_topics([topic]))[topic].error
            if code and not KafkaError(code).retriable:
                raise KafkaError(code, f"topic {topic}: {code.text}")
            partitions = await admin.partitions([topic])
            if partitions:
                await consumer.assign(partitions)
                if is_missing:
                    await consumer.seek_to_beginning()
                return True
            if not is_missing and code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                is_missing = True
                write_line(f"topic {topic} does not exist; waiting until it is created", err=True)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_AGAIN_S):
                    await stop.wait()
    return False


async def _read_shared(
    stop: asyncio.Event,
    settings: dict[str, Any],
    topic: str,
    acknowledge: str | None,
    limits: tuple[int | None, int | None],
    as_json: bool,
) -> None:
    """Records until the limit, the time without one or the end; the ones that are not written are released."""
    from coterie.client import AcknowledgeType, ShareConsumer

    kind = AcknowledgeType[(acknowledge or "accept").upper()]
    limit, timeout_ms = limits
    shown, last = 0, time.monotonic()
    async with ShareConsumer({**settings, "share.acknowledgement.mode": "explicit"}) as consumer:
        consumer.subscribe([topic])
        notice_s: float | None = last + JOIN_NOTICE_S
        while not stop.is_set() and (limit is None or shown < limit):
            polled = await consumer.poll(POLL_MS)
            records = [record for partition in polled.values() for record in partition]
            for record in records:
                if limit is None or shown < limit:
                    _write(record, as_json)
                    shown += 1
                    consumer.acknowledge(record, kind)
                else:
                    consumer.acknowledge(record, AcknowledgeType.RELEASE)
            last = time.monotonic() if records else last
            if consumer.assignment():
                notice_s = None
            elif notice_s is not None and time.monotonic() > notice_s:
                notice_s = None
                write_line(f"waiting for partitions of {topic} from share group {settings['group.id']}", err=True)
            if timeout_ms is not None and (time.monotonic() - last) * 1000 >= timeout_ms:
                break
        for where, error in (await consumer.commit()).items():
            if error is not None:
                write_line(f"records of {where.topic}-{where.partition} will be delivered again: {error}", err=True)


def _require_alone(context: dict[str, object]) -> None:
    """Raises UsageError for options of `coterie consume` that a share group has no use for."""
    given = [name for name, value in context.items() if value]
    if given:
        raise click.UsageError(f"{given[0]} does not go with --share.")


def _write_polled(consumer: Consumer, polled: dict[TopicPartition, list[Record]], as_json: bool) -> None:
    """Writes the records; where the output fails, the consumer goes back to the first that was not written, so that the
    commit of its end leaves that one to the next member."""
    unwritten = {tp: records[0].offset for tp, records in polled.items()}
    try:
        for tp, records in polled.items():
            for record in records:
                _write(record, as_json)
                unwritten[tp] = record.offset + 1
    except OutputFailed:
        for tp, offset in unwritten.items():
            consumer.seek(tp, offset)
        raise


def _write(record: Record | ShareRecord, as_json: bool) -> None:
    if as_json:
        write_json(_as_json(record))
    else:
        write_value(_written(record.value))


def _written(value: Any) -> bytes:
    """A value as it is written; nothing for null."""
    return value if isinstance(value, bytes) else (_text(value) or "").encode()


def _text(value: Any) -> str | None:
    """Bytes, or what a deserializer returned, as text; other objects as JSON."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return json.dumps(value, default=str)


def _as_json(record: Record | ShareRecord) -> ConsumedRecord:
    document: ConsumedRecord = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        "key": _text(record.key),
        "value": _text(record.value),
        "headers": {name: _text(value) for name, value in record.headers},
    }
    if (count := getattr(record, "delivery_count", None)) is not None:
        document["delivery_count"] = count
    return document
