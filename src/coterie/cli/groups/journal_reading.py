"""The journal of a broker, or of an observer, as commands read it."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from pathlib import Path

    from coterie.cli.parts.json_groups import GroupEvent
    from coterie.client import Consumer, Record, TopicPartition
    from coterie.coordinator.journal.line import JournalLine


# The events that `groups history` shows without --all: the generations, what ends a group, the restart of a static member,
# which makes no generation, and another coordinator.
_CLASSIC_EVENTS = ("stable", "empty", "member_replaced")
_CONSUMER_EVENTS = ("epoch_raised", "target_computed")  # a consumer group's generation: its causes, then what moves
_OTHERS = ("group_removed", "coordinator_moved", "pattern_seen", "tasks_restored")
HISTORY_EVENTS = frozenset({*_CLASSIC_EVENTS, *_CONSUMER_EVENTS, *_OTHERS})


async def read_journal(
    group: str | None, client: dict[str, str], journal: str | None = None
) -> tuple[list[GroupEvent], list[str]]:
    """`journal_lines` as documents, each with ``why`` in words."""
    lines, unread = await journal_lines(group, client, journal)
    return [event_of(line) for line in lines], unread


async def journal_lines(
    group: str | None, client: dict[str, str], journal: str | None = None
) -> tuple[list[JournalLine], list[str]]:
    """The lines of one group, or of all, oldest first, and a sentence for each line that cannot be read. ``journal``: a folder
    or a topic of `coterie observe`; None for the broker's own, and where it has none, for what `__consumer_offsets` has of the
    one group. Raises KafkaError; ClickException for a folder without one."""
    from coterie.coordinator.journal.line import TOPIC
    from coterie.observer.journal_folders import journal_folder

    if journal is None and group is not None and not await has_journal(client):
        return await _of_the_past(group, client)
    folder = None if journal is None else journal_folder(journal)
    return await _of_topic(group, client, journal or TOPIC) if folder is None else _of_folder(group, folder)


async def has_journal(client: dict[str, str]) -> bool:
    """Whether the broker keeps coterie's journal. Raises KafkaError."""
    from coterie.client import Admin
    from coterie.coordinator.journal.line import TOPIC

    async with Admin(client) as admin:
        return bool((await admin.describe_topics([TOPIC]))[TOPIC].partitions)


async def _of_the_past(group: str, client: dict[str, str]) -> tuple[list[JournalLine], list[str]]:
    from coterie.observer.internal_topics import OFFSETS_TOPIC, ReadRefused
    from coterie.observer.observation import past_lines

    try:
        return await past_lines(client, group), []
    except ReadRefused:
        return [], [f"{OFFSETS_TOPIC} cannot be read: grant READ on the topic, or name a journal of `coterie observe`"]


def _of_folder(group: str | None, folder: Path) -> tuple[list[JournalLine], list[str]]:
    from coterie.coordinator.journal.line import JournalLine
    from coterie.observer.journal_folders import JOURNAL_FILE, read_folder

    lines: list[JournalLine] = []
    unread: list[str] = []
    try:
        for number, value in enumerate(read_folder(folder), 1):
            try:
                line = JournalLine.from_json(value)
            except ValueError as error:
                unread.append(f"line {number} of {folder / JOURNAL_FILE} cannot be read: {error}")
                continue
            lines += [line] if group in (None, line.group) else []
    except OSError as error:
        text = f"{folder} has no journal: {error.strerror}; `coterie observe --journal {folder}` writes one"
        raise click.ClickException(text) from None
    return lines, unread


async def _of_topic(group: str | None, client: dict[str, str], topic: str) -> tuple[list[JournalLine], list[str]]:
    from coterie.client import Admin, Consumer
    from coterie.coordinator.journal.line import JournalLine

    async with Admin(client) as admin:
        partitions = await admin.partitions([topic])
        ends = await admin.list_offsets(dict.fromkeys(partitions, -1)) if partitions else {}
    lines: list[JournalLine] = []
    unread: list[str] = []
    async with Consumer(client | {"auto.offset.reset": "earliest"}) as consumer:
        for journal, end in ends.items():
            await consumer.assign([journal])
            while consumer.position(journal) < end:
                for record in await _polled(consumer, journal, unread):
                    if record.value is not None and (group is None or record.key == group.encode()):
                        try:
                            lines.append(JournalLine.from_json(record.value))
                        except ValueError as error:
                            where = f"{topic}-{journal.partition} has a line at offset {record.offset}"
                            unread.append(f"{where} that cannot be read: {error}")
    return lines, unread


async def _polled(consumer: Consumer, journal: TopicPartition, unread: list[str]) -> list[Record]:
    """The next records; behind a batch that is damaged."""
    from coterie.client.errors import CorruptBatchError

    try:
        return (await consumer.poll(1000, 10_000)).get(journal, [])
    except CorruptBatchError as error:
        unread.append(str(error))
        consumer.seek(journal, error.next_offset)
        return []


def time_text(time_ms: int) -> str:
    """A time as commands print it: local, to a millisecond."""
    return datetime.datetime.fromtimestamp(time_ms / 1000).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]


def event_of(line: JournalLine) -> GroupEvent:
    """The line as commands print it with --json."""
    import json

    event: GroupEvent = json.loads(line.explained_json())
    return event
