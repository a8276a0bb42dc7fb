"""The journal of a coterie broker, read from its last lines on."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from coterie.client import Admin, Consumer
from coterie.client.errors import CorruptBatchError
from coterie.coordinator.journal.line import JournalLine

POLL_MS, AT_ONCE = 200, 5_000
RECORDS_READ = 100_000  # of each partition, from its end


async def journal_tail(client: dict[str, Any], topic: str) -> AsyncIterator[list[JournalLine]]:
    """What each poll brings, nothing too; what is not a line is passed over. Raises KafkaError."""
    async with Admin(client) as admin:
        partitions = await admin.partitions([topic])
        begins = await admin.list_offsets(dict.fromkeys(partitions, -2))
        ends = await admin.list_offsets(dict.fromkeys(partitions, -1))
    async with Consumer(client | {"auto.offset.reset": "earliest", "enable.auto.commit": "false"}) as consumer:
        await consumer.assign(partitions)
        for partition in partitions:
            consumer.seek(partition, max(begins[partition], ends[partition] - RECORDS_READ))
        while True:
            try:
                polled = await consumer.poll(POLL_MS, AT_ONCE)
            except CorruptBatchError as error:
                consumer.seek((error.topic, error.partition), error.next_offset)
                continue
            yield [line for records in polled.values() for record in records if (line := _line(record.value))]


def _line(value: bytes | None) -> JournalLine | None:
    try:
        return None if value is None else JournalLine.from_json(value)
    except ValueError:
        return None
