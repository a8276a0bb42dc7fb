"""The topics of a request with committed offsets, divided into what the core decides and what is refused before it.

The request stays as it is: the core gets one of the allowed topics, with names also where the client spoke of ids.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Protocol, TypeVar

from coterie.broker.storage.topics import Topics
from coterie.wire.errors import ErrorCode

_NO_ID = bytes(16)
R = TypeVar("R", bound=Any)


class Refused(NamedTuple):
    """A topic with the indexes that the error is about: none where the request names an unknown topic without partitions."""

    name: str
    topic_id: bytes
    code: ErrorCode
    indexes: list[int]


def checked_topics(
    topics: Topics, requested: Iterable[R], make: Callable[[str, bytes, list[Any]], R], *, by_id: bool
) -> tuple[list[R], list[Refused]]:
    """The topics with the partitions that exist, and what does not: UNKNOWN_TOPIC_ID, UNKNOWN_TOPIC_OR_PARTITION.
    ``requested``: topics of a request, ``by_id`` in a version that has ids in place of names; ``make`` makes one of its name,
    id and partitions."""
    allowed, refused = list[R](), list[Refused]()
    for topic in requested:
        topic_id = topic.topic_id if by_id else _NO_ID
        name = topics.name_of(topic.name, topic_id, by_id)
        existing = topics.by_name.get(name or "")
        count = len(existing.partitions) if existing is not None else 0
        missing = [p.partition_index for p in topic.partitions if not 0 <= p.partition_index < count]
        if missing or existing is None:
            code = ErrorCode.UNKNOWN_TOPIC_ID if name is None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            refused.append(Refused(name or "", topic_id, code, missing))
        if len(missing) == len(topic.partitions):
            continue
        if missing:
            partitions = [p for p in topic.partitions if 0 <= p.partition_index < count]
            allowed.append(make(name or "", topic_id, partitions))
        else:
            allowed.append(make(name or "", topic_id, topic.partitions) if by_id else topic)
    return allowed, refused


class _ResponseTopic(Protocol):
    name: str
    partitions: list[Any]


Topic = TypeVar("Topic", bound=_ResponseTopic)


def after_refused(refused: list[Topic], responded: list[Topic]) -> list[Topic]:
    """Each topic once, as Kafka's response builders merge: the topics and partitions that were refused come first."""
    merged, first = list(refused), {topic.name: topic for topic in reversed(refused)}
    for topic in responded:
        same = first.get(topic.name)
        if same is None:
            merged.append(topic)
        else:
            same.partitions += topic.partitions
    return merged
