"""Every partition of `__consumer_offsets`, read to its end and on, as sights."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from coterie.client import Admin, Consumer, KafkaError, TopicPartition
from coterie.client.errors import CorruptBatchError
from coterie.coordinator.stored import from_record
from coterie.observer.machine.sights import RecordRead
from coterie.wire.errors import ErrorCode
from coterie.wire.primitives import WireError

OFFSETS_TOPIC = "__consumer_offsets"
REFUSALS = frozenset({ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.GROUP_AUTHORIZATION_FAILED})
POLL_MS, AT_ONCE = 200, 5_000
LOOK_AGAIN_S = 1.0


class ReadRefused(Exception):
    """The client may not read `__consumer_offsets`."""


async def offsets_tail(
    client: dict[str, Any], positions: dict[TopicPartition, int], *, from_beginning: bool
) -> AsyncIterator[list[RecordRead]]:
    """What each poll brings, nothing too. Begins at the end, or at the start of the log; where the topic does not exist yet, at
    the start once it does. ``positions`` has where it is: a later tail with the same ones goes on there. Raises ReadRefused,
    KafkaError."""
    reset = "earliest" if from_beginning else "latest"
    async with Admin(client) as admin:
        while not (partitions := await _partitions(admin)):
            reset = "earliest"
            yield []
            await asyncio.sleep(LOOK_AGAIN_S)
    own = {"auto.offset.reset": reset, "enable.auto.commit": "false", "isolation.level": "read_uncommitted"}
    async with Consumer(client | own) as consumer:
        await consumer.assign(partitions)
        for partition, offset in positions.items():
            consumer.seek(partition, offset)
        while True:
            try:
                polled = await consumer.poll(POLL_MS, AT_ONCE)
            except CorruptBatchError as error:
                consumer.seek((error.topic, error.partition), error.next_offset)
                continue
            except KafkaError as error:
                if error.code in REFUSALS:
                    raise ReadRefused from error
                raise
            positions |= {partition: records[-1].offset + 1 for partition, records in polled.items() if records}
            yield [
                sight
                for records in polled.values()
                for record in records
                if (sight := record_read(record.timestamp_ms, record.key, record.value)) is not None
            ]


async def _partitions(admin: Admin) -> list[TopicPartition]:
    described = (await admin.describe_topics([OFFSETS_TOPIC]))[OFFSETS_TOPIC]
    if described.error in REFUSALS:
        raise ReadRefused
    return [TopicPartition(OFFSETS_TOPIC, p.partition) for p in described.partitions]


def record_read(time_ms: int, key: bytes | None, value: bytes | None) -> RecordRead | None:
    """None for what a broker would step over as it loads: an unknown kind of key, and bytes that cannot be read."""
    try:
        read = from_record(key, value)
    except WireError:
        return None
    return None if read is None else RecordRead(time_ms, *read)
