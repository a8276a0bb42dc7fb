"""The partitions of `__consumer_offsets`, read to their end and on, or up to it, as sights."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Iterable
from typing import Any

from coterie.client import Admin, Consumer, KafkaError, TopicPartition
from coterie.client.errors import CorruptBatchError
from coterie.client.types import Record
from coterie.coordinator.partitioning import partition_for
from coterie.coordinator.stored_records.stored import from_record
from coterie.observer.machine.sights import RecordRead
from coterie.wire.errors import ErrorCode
from coterie.wire.primitives import WireError

OFFSETS_TOPIC = "__consumer_offsets"
REFUSALS = frozenset({ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.GROUP_AUTHORIZATION_FAILED})
POLL_MS, AT_ONCE = 200, 5_000
LOOK_AGAIN_S = 1.0
SETTINGS = {"enable.auto.commit": "false", "isolation.level": "read_uncommitted"}


class ReadRefused(Exception):
    """The client may not read `__consumer_offsets`."""


async def offsets_tail(
    client: dict[str, Any],
    positions: dict[TopicPartition, int],
    groups: Collection[str] = (),
    *,
    from_beginning: bool,
) -> AsyncIterator[list[RecordRead]]:
    """What each poll brings, nothing too; where ``groups`` are named, of their partitions alone. Begins at the end, or at the
    start of the log; where the topic does not exist yet, at the start once it does. ``positions`` has where it is: a later tail
    with the same ones goes on there. Raises ReadRefused, KafkaError."""
    async for records in topic_tail(client, OFFSETS_TOPIC, positions, groups, from_beginning=from_beginning):
        yield _sights(records)


async def topic_tail(
    client: dict[str, Any],
    topic: str,
    positions: dict[TopicPartition, int],
    groups: Collection[str] = (),
    *,
    from_beginning: bool,
) -> AsyncIterator[list[Record]]:
    """As `offsets_tail`, of an internal topic of the cluster; ``groups`` are of `__consumer_offsets` alone."""
    reset = "earliest" if from_beginning else "latest"
    async with Admin(client) as admin:
        while not (partitions := await _partitions(admin, groups, topic)):
            reset = "earliest"
            yield []
            await asyncio.sleep(LOOK_AGAIN_S)
    async with Consumer(client | SETTINGS | {"auto.offset.reset": reset}) as consumer:
        await consumer.assign(partitions)
        for partition, offset in positions.items():
            consumer.seek(partition, offset)
        while True:
            polled = await _polled(consumer)
            positions |= {partition: records[-1].offset + 1 for partition, records in polled.items() if records}
            yield [record for records in polled.values() for record in records]


async def offsets_past(
    client: dict[str, Any], groups: Collection[str], most: int, *, newest: bool, is_read: Callable[[bytes], bool] = bool
) -> AsyncIterator[list[RecordRead]]:
    """What the log has now, or its partitions of the named ``groups``, partition by partition, ``most`` records in all: of
    each its ``newest``, or the oldest, where compaction has left the last of each key. ``is_read``: by a record's key. Raises
    ReadRefused, KafkaError."""
    async with Admin(client) as admin:
        partitions = await _partitions(admin, groups)
        ends = await admin.list_offsets(dict.fromkeys(partitions, -1))
        starts = await admin.list_offsets(dict.fromkeys(partitions, -2))
    share = most // max(len(partitions), 1)
    async with Consumer(client | SETTINGS | {"auto.offset.reset": "earliest"}) as consumer:
        for partition, end in ends.items():
            await consumer.assign([partition])
            consumer.seek(partition, max(starts[partition], end - share) if newest else starts[partition])
            left = share
            while consumer.position(partition) < end and left > 0:
                records = (await _polled(consumer)).get(partition, [])
                left -= len(records)
                yield _sights(r for r in records if r.offset < end and r.key is not None and is_read(r.key))


async def group_past(client: dict[str, Any], group: str, most: int) -> list[RecordRead]:
    """What the log has of a group within the newest ``most`` offsets of its partition. Raises as `offsets_past` does."""
    past = offsets_past(client, [group], most, newest=True)
    return [sight async for sights in past for sight in sights if sight.group == group]


async def _polled(consumer: Consumer) -> dict[TopicPartition, list[Record]]:
    """Behind a batch that is damaged."""
    try:
        return await consumer.poll(POLL_MS, AT_ONCE)
    except CorruptBatchError as error:
        consumer.seek((error.topic, error.partition), error.next_offset)
        return {}
    except KafkaError as error:
        if error.code in REFUSALS:
            raise ReadRefused from error
        raise


def _sights(records: Iterable[Record]) -> list[RecordRead]:
    read = (record_read(record.timestamp_ms, record.key, record.value) for record in records)
    return [sight for sight in read if sight is not None]


async def _partitions(admin: Admin, groups: Collection[str], topic: str = OFFSETS_TOPIC) -> list[TopicPartition]:
    """All, or those of the groups."""
    described = (await admin.describe_topics([topic]))[topic]
    if described.error in REFUSALS:
        raise ReadRefused
    numbers = [p.partition for p in described.partitions]
    if numbers and groups:
        numbers = sorted({partition_for(group, len(numbers)) for group in groups})
    return [TopicPartition(topic, number) for number in numbers]


def record_read(time_ms: int, key: bytes | None, value: bytes | None) -> RecordRead | None:
    """None for what a broker would step over as it loads: an unknown kind of key, and bytes that cannot be read."""
    try:
        read = from_record(key, value)
    except WireError:
        return None
    return None if read is None else RecordRead(time_ms, *read)
