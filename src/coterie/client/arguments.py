"""The arguments of the public methods, checked at the call: a slip is a TypeError or ValueError there and then, and never an
error of a task that sends later."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from coterie.client.types import GroupMembershipOperation, OffsetAndMetadata, TopicPartition
from coterie.records.batch import Header

LARGEST_TIMESTAMP_MS = LARGEST_OFFSET = 2**63 - 1
INT32 = (-(2**31), 2**31 - 1)
_BINARY = (bytes, bytearray, memoryview)


def _kind(value: object) -> str:
    return type(value).__name__


def text(value: Any, name: str) -> str:
    """Raises TypeError for what is not a str."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a str, not {_kind(value)}")
    return value


def _not_blank(name: str, what: str) -> str:
    if not name.strip():
        raise ValueError(f"{what} must not be empty or blank")
    return name


def pattern(value: Any) -> str:
    """Raises TypeError, and ValueError for an empty one."""
    return _not_blank(text(value, "the pattern"), "the pattern")


def integer(value: Any, name: str) -> int:
    """Also one of numpy's. Raises TypeError."""
    if type(value) is int:
        return value
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name} must be an int, not {_kind(value)}")
    return operator.index(value)


def whole_number(value: Any, name: str, least: int, most: int) -> int:
    """Raises TypeError, and ValueError for one out of range."""
    number = integer(value, name)
    if not least <= number <= most:
        raise ValueError(f"{name} must be from {least} to {most}, not {number}")
    return number


def milliseconds(value: Any, name: str = "timeout_ms") -> float:
    """Raises TypeError for what is not a number, ValueError for a negative one."""
    return _duration(value, name, "milliseconds")


def seconds(value: Any, name: str) -> float:
    """As `milliseconds`."""
    return _duration(value, name, "seconds")


def _duration(value: Any, name: str, unit: str) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise TypeError(f"{name} must be a number of {unit}, not {_kind(value)}")
    if not value >= 0:
        raise ValueError(f"{name} must not be negative, but it is {value}")
    return value


def membership_operation(value: Any) -> GroupMembershipOperation:
    """Raises TypeError."""
    if not isinstance(value, GroupMembershipOperation):
        raise TypeError(f"group_membership_operation must be a GroupMembershipOperation, not {_kind(value)}")
    return value


def binary(value: Any, name: str) -> bytes | None:
    """Bytes of its own. Raises TypeError."""
    if value is None or type(value) is bytes:
        return value
    if isinstance(value, _BINARY):
        return bytes(value)
    advice = f"; encode it: {name.split()[-1]}.encode()" if isinstance(value, str) else ""
    raise TypeError(f"{name} must be bytes or None, not {_kind(value)}{advice}")


def record_headers(headers: Any) -> tuple[tuple[Header, ...], int]:
    """The headers and their size in bytes. Raises TypeError."""
    is_list = type(headers) is list or type(headers) is tuple
    if not is_list and (isinstance(headers, Mapping | str | bytes) or not isinstance(headers, Iterable)):
        advice = "; use list(headers.items())" if isinstance(headers, Mapping) else ""
        raise TypeError(f"headers must be a sequence of (name, value) pairs, not {_kind(headers)}{advice}")
    checked: list[Header] = []
    size = 0
    for pair in headers:
        is_sequence = type(pair) is tuple or isinstance(pair, Sequence)  # the first is quick
        if not is_sequence or isinstance(pair, str | bytes) or len(pair) != 2:
            raise TypeError(f"a header must be a (name, value) pair, not {pair!r}")
        name, value = text(pair[0], "a header's name"), binary(pair[1], "a header's value")
        size += len(name.encode()) + len(value or b"")
        checked.append((name, value))
    return tuple(checked), size


def record_timestamp(timestamp_ms: Any) -> int:
    """Raises TypeError, and ValueError for one that an int64 cannot hold or that is negative."""
    return whole_number(timestamp_ms, "timestamp_ms", 0, LARGEST_TIMESTAMP_MS)


def partition_number(partition: Any) -> int:
    """Raises TypeError, ValueError."""
    return whole_number(partition, "partition", 0, INT32[1])


def names(given: Any, what: str) -> list[str]:
    """Raises TypeError for a single str, which is a sequence of letters, and for items that are no str."""
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise TypeError(f"{what} must be a list of str, not {given!r}")
    return [text(name, f"each of {what}") for name in given]


def principal(given: Any, what: str) -> tuple[str, str]:
    """Type and name of a principal, such as "User:alice". Raises TypeError, ValueError."""
    kind, colon, name = text(given, what).partition(":")
    if not (kind and colon and name):
        raise ValueError(f'{what} must be a principal, such as "User:alice", not {given!r}')
    return kind, name


def principals(given: Any, what: str) -> list[tuple[str, str]]:
    """Raises TypeError, ValueError."""
    return [principal(one, f"each of {what}") for one in names(given, what)]


def secret(value: Any, name: str) -> bytes:
    """Raises TypeError for what is not bytes."""
    checked = binary(value, name)
    if checked is None:
        raise TypeError(f"{name} must be bytes, not None")
    return checked


def subscribed_topics(given: Any) -> frozenset[str]:
    """Raises TypeError, and ValueError for none at all or one without a name."""
    topics = frozenset(_not_blank(name, "a topic's name") for name in names(given, "topics"))
    if not topics:
        raise ValueError("subscribe needs a topic; call unsubscribe to leave the group")
    return topics


def topic_partition(given: Any) -> TopicPartition:
    """Raises TypeError, ValueError."""
    if not isinstance(given, tuple) or len(given) != 2:
        raise TypeError(f"a partition is named by a tuple (topic, partition), not {given!r}")
    return TopicPartition(_not_blank(text(given[0], "topic"), "a topic's name"), partition_number(given[1]))


def partitions(given: Any) -> list[TopicPartition]:
    """Raises TypeError, ValueError."""
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise TypeError(f"partitions must be a list of tuples (topic, partition), not {given!r}")
    return [topic_partition(item) for item in given]


def _items(given: Any, values: str) -> Iterable[tuple[TopicPartition, Any]]:
    if not isinstance(given, Mapping):
        raise TypeError(f"expected a mapping from (topic, partition) to {values}, not {_kind(given)}")
    return [(topic_partition(partition), value) for partition, value in given.items()]


def log_starts(given: Any) -> dict[TopicPartition, int]:
    """Partition -> the offset before which records go; -1 for its end. Raises TypeError, ValueError."""
    return {tp: whole_number(value, "an offset", -1, LARGEST_OFFSET) for tp, value in _items(given, "offsets")}


def start_offsets(given: Any) -> dict[TopicPartition, int]:
    """Raises TypeError, and ValueError for a negative offset."""
    return {tp: whole_number(value, "an offset", 0, LARGEST_OFFSET) for tp, value in _items(given, "offsets")}


def timestamps(given: Any) -> dict[TopicPartition, int]:
    """Partition -> ms since 1970, or one of Kafka's negative ones (-1 end, -2 start). Raises TypeError, ValueError."""
    return {
        tp: whole_number(value, "a timestamp", -(2**63), LARGEST_TIMESTAMP_MS)
        for tp, value in _items(given, "timestamps")
    }


def broker_ids(given: Any, what: str) -> list[int]:
    """The ids of one broker at least. Raises TypeError, ValueError."""
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise TypeError(f"{what} must be a list of broker ids, not {given!r}")
    ids = [whole_number(broker_id, "a broker id", 0, INT32[1]) for broker_id in given]
    if not ids:
        raise ValueError(f"{what} must name at least one broker")
    return ids


def reassignments(given: Any) -> dict[TopicPartition, list[int] | None]:
    """Partition -> its replicas, None to cancel. Raises TypeError, ValueError."""
    return {
        tp: None if value is None else broker_ids(value, "the replicas of a partition")
        for tp, value in _items(given, "lists of broker ids")
    }


def replica_assignments(given: Any) -> dict[int, list[int]]:
    """Number of a partition -> its replicas, the preferred leader first. Raises TypeError, ValueError."""
    if not isinstance(given, Mapping):
        raise TypeError(f"assignments must map each partition's number to a list of broker ids, not {given!r}")
    assigned = {partition_number(p): broker_ids(ids, "the replicas of a partition") for p, ids in given.items()}
    if sorted(assigned) != list(range(len(assigned))):
        raise ValueError(f"assignments must name the partitions from 0 on without a gap, not {sorted(assigned)}")
    return assigned


def offsets_to_commit(given: Any) -> dict[TopicPartition, OffsetAndMetadata]:
    """Raises TypeError, and ValueError for a negative offset."""
    return {partition: offset_and_metadata(value) for partition, value in _items(given, "offsets")}


def offset_and_metadata(given: Any) -> OffsetAndMetadata:
    """A plain offset has neither epoch nor text. Raises TypeError, and ValueError for a negative offset (Java's
    OffsetAndMetadata)."""
    offset, epoch, metadata = given if isinstance(given, tuple) and len(given) == 3 else (given, -1, "")
    return OffsetAndMetadata(
        whole_number(offset, "an offset", 0, LARGEST_OFFSET),
        whole_number(epoch, "a leader epoch", -1, 2**31 - 1),
        text(metadata, "the metadata of an offset"),
    )


def settings(given: Any, *, deletes: bool = False) -> dict[str, str | None]:
    """Name -> value, both text; ``deletes``: None as a value takes the default back. Raises TypeError."""
    if not isinstance(given, Mapping):
        raise TypeError(f"configs must be a mapping from names to values, not {_kind(given)}")
    checked: dict[str, str | None] = {}
    for name, value in given.items():
        name = text(name, "the name of a setting")
        checked[name] = None if value is None and deletes else text(value, f"the value of {name}")
    return checked
