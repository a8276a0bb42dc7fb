"""Records of groups in `__consumer_offsets` that are a key and a value of their own kinds (KIP-848, KIP-1071): bytes to
messages and back. Byte for byte what Apache Kafka writes: int16 kind before a key, int16 version 0 before a value."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from coterie.wire.declaration import Message
from coterie.wire.primitives import WireError

_VERSION = struct.Struct(">h")


@dataclass(frozen=True, slots=True)
class GroupRecord:
    """A key of `wire.messages.stored` with its value; None for a tombstone."""

    key: Any
    value: Any

    @property
    def group_id(self) -> str:
        group_id: str = self.key.group_id
        return group_id


@dataclass(frozen=True, slots=True)
class RecordKind:
    """A kind of record: the messages of its key and value, and what a dump calls it."""

    key: type[Message]
    value: type[Message]
    text: Callable[[Any, Any], str]  # of the key and of a value that is not None
    name: Callable[[Any], str]  # of the key, for a tombstone


def to_bytes(record: GroupRecord) -> tuple[bytes, bytes | None]:
    """Key and value as they stand in the log; None for a tombstone's value."""
    number = type(record.key).versions.first
    key = _VERSION.pack(number) + record.key.encode(number)
    return key, None if record.value is None else _VERSION.pack(0) + record.value.encode(0)


def read_record(kinds: Mapping[int, RecordKind], key: bytes, value: bytes | None) -> GroupRecord | None:
    """The record; None for a key of none of these kinds. Raises WireError for a damaged one or an unknown value version."""
    kind = kinds.get(int.from_bytes(key[:2], "big"))
    if kind is None:
        return None
    decoded = kind.key.decode(key, kind.key.versions.first, 2)
    if value is None:
        return GroupRecord(decoded, None)
    if len(value) < 2:
        raise WireError("a value of __consumer_offsets is too short for its version")
    return GroupRecord(decoded, kind.value.decode(value, _VERSION.unpack_from(value)[0], 2))


def text_of_record(kinds: Mapping[int, RecordKind], record: GroupRecord, group: str) -> str:
    """The record as a line of text for a dump; ``group`` is the kind of its group."""
    kind = kinds[type(record.key).versions.first]
    text = f"tombstone of {kind.name(record.key)}" if record.value is None else kind.text(record.key, record.value)
    return f"{group} group {record.group_id} {text}"


@dataclass(frozen=True, slots=True)
class RecordTable:
    """The records of one kind of group. ``records``: of an event, its key and value; ``events``: of a key, the event of a value
    and that of a tombstone; ``kinds`` by the number before a key; ``group``: the name of the kind of group."""

    group: str
    records: Mapping[type, Callable[[str, Any], tuple[Any, Any]]]
    events: Mapping[type, tuple[Callable[[Any, Any], Any], Callable[[Any], Any]]]
    kinds: Mapping[int, RecordKind]

    def record_of(self, group_id: str, event: object) -> GroupRecord | None:
        """The record of a hard event; None for a soft one."""
        make = self.records.get(type(event))
        return None if make is None else GroupRecord(*make(group_id, event))

    def event_of(self, record: GroupRecord) -> Any:
        """The event of a record, of any kind that `record_of` makes."""
        stored, removed = self.events[type(record.key)]
        return removed(record.key) if record.value is None else stored(record.key, record.value)

    def read(self, key: bytes, value: bytes | None) -> GroupRecord | None:
        """The record; None for a key of another kind. Raises WireError for a damaged one or an unknown value version."""
        return read_record(self.kinds, key, value)

    def text(self, record: GroupRecord) -> str:
        """The record as a line of text for a dump."""
        return text_of_record(self.kinds, record, self.group)
