"""Hard events to records of `__consumer_offsets` and back (Kafka's GroupCoordinatorRecordHelpers);
those of consumer groups by `stored_consumer_groups`, of share and streams groups by `share/stored` and `streams/stored`.

Byte for byte what Apache Kafka writes: int16 version, then the message; offset values v3, v1 with an explicit
expiry, v4 with a topic id (all that Kafka 4.3 writes v4 for; without an id both versions say the same); group values v3.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from functools import lru_cache, partial
from typing import Any, get_args

from coterie.assignors.blobs import decode_assignment, decode_subscribed_topics
from coterie.coordinator.consumer.events import ConsumerEvent, CurrentStored
from coterie.coordinator.consumer.stored import current_record, event_of, record_of
from coterie.coordinator.events import (
    Event,
    GroupRemoved,
    GroupStored,
    OffsetRemoved,
    OffsetStored,
    TransactionalOffsetStored,
)
from coterie.coordinator.share.events import ShareEvent
from coterie.coordinator.share.stored import SHARE_RECORDS
from coterie.coordinator.state import Cause, CommittedOffset, TopicPartition
from coterie.coordinator.stored_records import stored_consumer_groups
from coterie.coordinator.stored_records.stored_kinds import RecordTable, to_bytes
from coterie.coordinator.streams.events import StreamsEvent
from coterie.coordinator.streams.stored import STREAMS_RECORDS
from coterie.machines.values import value
from coterie.wire.messages.stored.consumer_offsets import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)
from coterie.wire.primitives import NULL_UUID, WireError

OFFSET_KEY_VERSION = 1
GROUP_KEY_VERSION = 2
OFFSET_VALUE_VERSION = 3
OFFSET_VALUE_VERSION_WITH_EXPIRY = 1
OFFSET_VALUE_VERSION_WITH_TOPIC_ID = 4
GROUP_VALUE_VERSION = 3
_V3_HEAD, _V3_TAIL = struct.Struct(">hqih"), struct.Struct(">q")  # offset value v3: version to metadata's length; time
_PARTITION = struct.Struct(">i")  # the last field of an offset's key
_V3_HEAD_BYTES, _V3_TAIL_BYTES = _V3_HEAD.size, _V3_TAIL.size


@value
class StoredRecord:
    """Key and value as they stand in the log; a value of None is a tombstone."""

    key: bytes
    value: bytes | None


def _versioned(version: int, body: bytes) -> bytes:
    return struct.pack(">h", version) + body


def to_record(group_id: str, event: Event) -> StoredRecord | None:
    """The record of a hard event; None for a soft one."""
    make = _RECORDS.get(type(event))
    return None if make is None else make(group_id, event)


def to_records(group_id: str, events: Iterable[Event]) -> list[StoredRecord]:
    """The records of the hard events among these."""
    records: list[StoredRecord] = []
    for event in events:
        make = _RECORDS.get(type(event))
        if make is not None:
            record = make(group_id, event)
            if record is not None:
                records.append(record)
    return records


def _offset_record(group_id: str, event: OffsetStored | TransactionalOffsetStored) -> StoredRecord:
    committed = event.committed
    version = _offset_value_version(committed)
    key = _offset_key(group_id, event.topic, event.partition)
    if version == OFFSET_VALUE_VERSION and len(committed.metadata) < 8_000:
        text = committed.metadata.encode()
        head = _V3_HEAD.pack(OFFSET_VALUE_VERSION, committed.offset, committed.leader_epoch, len(text))
        return StoredRecord(key, head + text + _V3_TAIL.pack(committed.commit_timestamp_ms))
    value = OffsetCommitValue(
        committed.offset,
        committed.leader_epoch,
        committed.metadata,
        committed.commit_timestamp_ms,
        committed.expire_timestamp_ms,
        committed.topic_id,
    )
    return StoredRecord(key, _versioned(version, value.encode(version)))


def _offset_tombstone(group_id: str, event: OffsetRemoved) -> StoredRecord:
    return StoredRecord(_offset_key(group_id, event.topic, event.partition), None)


def _group_record(group_id: str, event: GroupStored) -> StoredRecord:
    return StoredRecord(group_key(group_id), _versioned(GROUP_VALUE_VERSION, event.value.encode(GROUP_VALUE_VERSION)))


def _group_tombstone(group_id: str, event: GroupRemoved) -> StoredRecord | None:
    return StoredRecord(group_key(group_id), None) if event.recorded else None


def _consumer_group_record(group_id: str, event: ConsumerEvent) -> StoredRecord | None:
    record = record_of(group_id, event)
    return None if record is None else StoredRecord(*to_bytes(record))


def _tabled_record(table: RecordTable, group_id: str, event: Event) -> StoredRecord | None:
    record = table.record_of(group_id, event)
    return None if record is None else StoredRecord(*to_bytes(record))


def _current_record(group_id: str, event: CurrentStored) -> StoredRecord:
    return StoredRecord(*current_record(group_id, event.member_id, event.current))


_RECORDS: dict[type, Callable[[str, Any], StoredRecord | None]] = {
    OffsetStored: _offset_record,
    TransactionalOffsetStored: _offset_record,
    OffsetRemoved: _offset_tombstone,
    GroupStored: _group_record,
    GroupRemoved: _group_tombstone,
    **dict.fromkeys(get_args(ConsumerEvent), _consumer_group_record),
    CurrentStored: _current_record,
    **dict.fromkeys(get_args(StreamsEvent), partial(_tabled_record, STREAMS_RECORDS)),
    **dict.fromkeys(get_args(ShareEvent), partial(_tabled_record, SHARE_RECORDS)),
}
_TABLES = (STREAMS_RECORDS, SHARE_RECORDS)


def _offset_value_version(committed: CommittedOffset) -> int:
    if committed.expire_timestamp_ms >= 0:
        return OFFSET_VALUE_VERSION_WITH_EXPIRY
    return OFFSET_VALUE_VERSION if committed.topic_id == NULL_UUID else OFFSET_VALUE_VERSION_WITH_TOPIC_ID


def _offset_key(group_id: str, topic: str, partition: int) -> bytes:
    return _offset_key_head(group_id, topic) + _PARTITION.pack(partition)


@lru_cache(maxsize=10_000)
def _offset_key_head(group_id: str, topic: str) -> bytes:
    """An offset's key up to its partition, with which it ends. Remembered, because a member commits the same topics again and
    again; whole keys were two fifths of a broker's memory for its offsets."""
    key = OffsetCommitKey(group_id, topic, 0)
    return _versioned(OFFSET_KEY_VERSION, key.encode(OFFSET_KEY_VERSION))[: -_PARTITION.size]


def group_key(group_id: str) -> bytes:
    """The record key of a group's metadata in `__consumer_offsets` (GroupMetadataKey, key version 2)."""
    return _versioned(GROUP_KEY_VERSION, GroupMetadataKey(group_id).encode(GROUP_KEY_VERSION))


def from_record(key: bytes | None, value: bytes | None) -> tuple[str, Event] | None:
    """The group and event of a record; None for a key of a kind or version unknown here, which loading steps
    over. Raises WireError for a damaged key or an unknown value version."""
    if key is None or len(key) < 2:
        return None
    (version,) = struct.unpack_from(">h", key)
    if version in (0, 1):
        offset_key = OffsetCommitKey.decode(key, version, 2)
        if value is None:
            return offset_key.group, OffsetRemoved(offset_key.topic, offset_key.partition)
        committed = committed_offset(value)
        return offset_key.group, OffsetStored(offset_key.topic, offset_key.partition, committed)
    if version == GROUP_KEY_VERSION:
        group_id = GroupMetadataKey.decode(key, version, 2).group
        if value is None:
            return group_id, GroupRemoved(Cause("tombstone"))
        return group_id, GroupStored(GroupMetadataValue.decode(value, _value_version(value), 2))
    record = stored_consumer_groups.from_bytes(key, value)
    if record is not None:
        return record.group_id, event_of(record)
    for table in _TABLES:
        record = table.read(key, value)
        if record is not None:
            return record.group_id, table.event_of(record)
    return None


class KeyReader:
    """Reads keys; an offset's key is cached, since a log repeats each of them many times."""

    REMEMBERED = 200_000

    def __init__(self) -> None:
        self._offset_keys: dict[bytes, tuple[str, TopicPartition]] = {}

    def offset_key(self, key: bytes) -> tuple[str, TopicPartition] | None:
        """(group, (topic, partition)) of an offset's key, None for any other. Raises WireError."""
        cached = self._offset_keys.get(key)
        if cached is None:
            if len(key) < 2 or key[0] or key[1] > 1:
                return None
            read = OffsetCommitKey.decode(key, key[1], 2)
            cached = (read.group, (read.topic, read.partition))
            if len(self._offset_keys) >= self.REMEMBERED:
                self._offset_keys.clear()
            self._offset_keys[key] = cached
        return cached


def committed_offset(value: bytes) -> CommittedOffset:
    """The value of an offset's record. Raises WireError."""
    if value[:2] == b"\0\3" and len(value) >= _V3_HEAD_BYTES + _V3_TAIL_BYTES:
        # The version that nearly every record has, read without the detour over a message.
        _, offset, epoch, length = _V3_HEAD.unpack_from(value)
        end = _V3_HEAD_BYTES + length
        if length >= 0 and end + _V3_TAIL_BYTES == len(value):
            metadata = _text(value[_V3_HEAD_BYTES:end]) if length else ""
            return CommittedOffset(offset, epoch, metadata, _V3_TAIL.unpack_from(value, end)[0])
    stored = OffsetCommitValue.decode(value, _value_version(value), 2)
    return CommittedOffset(
        stored.offset,
        stored.leader_epoch,
        stored.metadata,
        stored.commit_timestamp,
        stored.expire_timestamp,
        stored.topic_id,
    )


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise WireError(f"an offset's metadata is not UTF-8: {error}") from error


def _value_version(value: bytes) -> int:
    if len(value) < 2:
        raise WireError("a value of __consumer_offsets is too short for its version")
    version: int = struct.unpack_from(">h", value)[0]
    return version


def record_text(key: bytes, value: bytes | None) -> str:
    """A record as a line of text for a dump. Raises WireError for an unreadable one."""
    record = stored_consumer_groups.from_bytes(key, value)
    if record is not None:
        return stored_consumer_groups.text_of(record)
    for table in _TABLES:
        record = table.read(key, value)
        if record is not None:
            return table.text(record)
    read = from_record(key, value)
    if read is None:
        other = stored_consumer_groups.other_group_text(key)
        return other or f"a record of key version {struct.unpack_from('>h', key)[0]}, unknown here"
    group_id, event = read
    match event:
        case OffsetRemoved(topic, partition):
            return f"offset {group_id} {topic}-{partition} tombstone"
        case OffsetStored(topic, partition, committed):
            epoch = f", leader epoch {committed.leader_epoch}" if committed.leader_epoch >= 0 else ""
            note = f", metadata {committed.metadata!r}" if committed.metadata else ""
            when = f", committed at {committed.commit_timestamp_ms}"
            return f"offset {group_id} {topic}-{partition} = {committed.offset}{epoch}{note}{when}"
        case GroupStored(stored):
            members = ", ".join(_member_text(m) for m in stored.members)
            text = f"group {group_id} {stored.protocol_type or 'of no type'}, generation {stored.generation}"
            text += "" if stored.protocol is None else f", protocol {stored.protocol}"
            text += "" if stored.leader is None else f", leader {stored.leader}"
            return f"{text}, members [{members}]" if stored.members else f"{text}, no members"
        case _:
            return f"group {group_id} tombstone"


def _member_text(member: MemberMetadata) -> str:
    name = member.member_id + (f" ({member.group_instance_id})" if member.group_instance_id else "")
    try:
        topics = "+".join(sorted(decode_subscribed_topics(member.subscription))) or "nothing"
    except WireError:
        topics = "nothing readable"
    try:
        owned = " ".join(f"{t}-{p}" for t, p in decode_assignment(member.assignment)) or "nothing"
    except WireError:
        owned = "nothing readable"
    return f"{name} subscribes to {topics}, owns {owned}"
