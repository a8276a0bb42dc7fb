"""What the internal topics of a cluster hold, as sights: `__consumer_offsets`, read to its end and on, or up to it, and
`__share_group_state`: from where on a partition's records are not done with, and how many of them wait for another delivery."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Iterable
from typing import Any

from coterie.client import Admin, Consumer, KafkaError, TopicPartition
from coterie.client.errors import CorruptBatchError
from coterie.client.types import Record
from coterie.coordinator.events import GroupStored
from coterie.coordinator.partitioning import partition_for
from coterie.coordinator.share_state.share_shard import ShareShard
from coterie.coordinator.share_state.state import SHARE_STATE_TOPIC, SharePartitionKey, ShareState, from_bytes
from coterie.coordinator.stored_records.stored import GROUP_KEY_VERSION, from_record
from coterie.observer.machine.sights import RecordRead, ShareStateRead, StoredBefore
from coterie.share.states import RecordState
from coterie.wire.errors import ErrorCode
from coterie.wire.primitives import WireError

OFFSETS_TOPIC = "__consumer_offsets"
REFUSALS = frozenset({ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.GROUP_AUTHORIZATION_FAILED})
POLL_MS, AT_ONCE = 200, 5_000
LOOK_AGAIN_S = 1.0
MOST_RECORDS = 1_000_000  # of the past of groups: some seconds
_GENERATION_KEY = GROUP_KEY_VERSION.to_bytes(2, "big")  # how the key of a generation's record begins
SETTINGS = {"enable.auto.commit": "false", "isolation.level": "read_uncommitted"}
UPDATES_PER_SNAPSHOT = 500  # of writes alone, which an observer has none of


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
    async for records in _topic_tail(client, OFFSETS_TOPIC, positions, groups, from_beginning=from_beginning):
        yield _sights(records)


async def _topic_tail(
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


async def _offsets_past(
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
    """What the log has of a group within the newest ``most`` offsets of its partition. Raises as `_offsets_past` does."""
    past = _offsets_past(client, [group], most, newest=True)
    return [sight async for sights in past for sight in sights if sight.group == group]


def _is_generation(key: bytes) -> bool:
    return key.startswith(_GENERATION_KEY)


async def stored_before(client: dict[str, Any], groups: Collection[str]) -> AsyncIterator[list[StoredBefore]]:
    """The last generations of the named groups, or of all, in the older part of the log, where compaction has left one of each
    group: that of a group that has long been stable. Raises ReadRefused, KafkaError."""
    async for read in _offsets_past(client, groups, MOST_RECORDS, newest=False, is_read=_is_generation):
        stored = {sight.group: sight for sight in read}
        yield [
            StoredBefore(sight.time_ms, sight.group, sight.event.value)
            for sight in stored.values()
            if isinstance(sight.event, GroupStored)
        ]


class ShareStates:
    """The states so far; ``positions``: what is read of the topic."""

    def __init__(self) -> None:
        self._shard = ShareShard(UPDATES_PER_SNAPSHOT)
        self.positions: dict[TopicPartition, int] = {}

    async def tail(self, client: dict[str, Any]) -> AsyncIterator[list[ShareStateRead]]:
        """The whole log, which has a snapshot of each state, and on: what each poll brings. Raises ReadRefused, KafkaError."""
        async for records in _topic_tail(client, SHARE_STATE_TOPIC, self.positions, from_beginning=True):
            changed: dict[SharePartitionKey, int] = {}
            for record in records:
                try:
                    read = None if record.key is None else from_bytes(record.key, record.value)
                except WireError:
                    continue  # as a broker steps over it
                if read is not None:
                    self._shard.replay(*read, record.offset)
                    changed[read[0]] = record.timestamp_ms
            yield [self._sight(key, time_ms) for key, time_ms in changed.items()]

    def _sight(self, key: SharePartitionKey, time_ms: int) -> ShareStateRead:
        state = self._shard.state(key)
        start = None if state is None or state.start_offset < 0 else state.start_offset
        done = 0 if state is None else max(state.delivery_complete_count, 0)
        return ShareStateRead(time_ms, *key, start, done, 0 if state is None else redelivered(state))


def redelivered(state: ShareState) -> int:
    """Records that wait for another delivery."""
    again = [b for b in state.batches if b.delivery_state == RecordState.AVAILABLE and b.delivery_count]
    return sum(batch.last_offset - batch.first_offset + 1 for batch in again)


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
    read = (_record_read(record.timestamp_ms, record.key, record.value) for record in records)
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


def _record_read(time_ms: int, key: bytes | None, value: bytes | None) -> RecordRead | None:
    """None for what a broker would step over as it loads: an unknown kind of key, and bytes that cannot be read."""
    try:
        read = from_record(key, value)
    except WireError:
        return None
    return None if read is None else RecordRead(time_ms, *read)
