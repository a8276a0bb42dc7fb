"""The journal of a broker, as commands read it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from coterie.cli.parts.json_documents import GroupEvent
    from coterie.client import Consumer, Record, TopicPartition
    from coterie.coordinator.journal.line import JournalLine


async def read_journal(group: str | None, client: dict[str, str]) -> tuple[list[GroupEvent], list[str]]:
    """The lines of one group, or of all, oldest first, each with ``why`` in words; and a sentence for each line that cannot be
    read. Raises KafkaError."""
    from coterie.client import Admin, Consumer, TopicPartition
    from coterie.coordinator.journal.line import TOPIC

    journal = TopicPartition(TOPIC, 0)
    async with Admin(client) as admin:
        if TOPIC not in await admin.describe_topics():
            return [], []
        end = (await admin.list_offsets({journal: -1}))[journal]
    lines: list[GroupEvent] = []
    unread: list[str] = []
    async with Consumer(client | {"auto.offset.reset": "earliest"}) as consumer:
        await consumer.assign([journal])
        while consumer.position(journal) < end:
            for record in await _polled(consumer, journal, unread):
                if record.value is not None and (group is None or record.key == group.encode()):
                    try:
                        lines.append(_line(record.value))
                    except ValueError as error:
                        unread.append(f"{TOPIC}-0 has a line at offset {record.offset} that cannot be read: {error}")
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


def _line(value: bytes) -> GroupEvent:
    """Raises ValueError."""
    from coterie.coordinator.journal.line import JournalLine

    return event_of(JournalLine.from_json(value))


def event_of(line: JournalLine) -> GroupEvent:
    """The line as commands print it with --json."""
    import json

    event: GroupEvent = json.loads(line.to_json()) | {"why": line.why()}
    return event
