"""Acknowledgements of acquired records: their types, their batches in a request, and how they ended."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import groupby
from typing import NamedTuple

from coterie.consuming.record import TopicPartition
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.share.share_acknowledge import AcknowledgementBatch

GAP = 0  # the type of an acquired offset without a record: of a marker, or of what compaction took
LONGEST_LISTED = 10  # records of one type in a row that share a batch with others (Kafka's Acknowledgements)


class AcknowledgeType(IntEnum):
    """What becomes of an acquired record. ACCEPT: it is processed. RELEASE: it is delivered again, up to the group's limit of
    deliveries. REJECT: it is not delivered again. RENEW: it stays acquired, with a new acquisition lock (KIP-1222, Apache
    Kafka 4.2)."""

    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


class TopicIdPartition(NamedTuple):
    """A partition of a topic of this id: a topic that was created again has another."""

    topic_id: bytes
    topic: str
    partition: int

    @property
    def named(self) -> TopicPartition:
        """The partition without the id."""
        return TopicPartition(self.topic, self.partition)


@dataclass(slots=True, eq=False)
class Acknowledgements:
    """Types by offset, of one partition's records that broker ``node_id`` delivered. ``code``: None until they have ended; NONE
    where the broker took them; where it did not, it still has the records as acquired or delivers them again."""

    partition: TopicIdPartition
    node_id: int
    types: dict[int, int] = field(default_factory=dict)
    code: ErrorCode | None = None
    message: str | None = None
    lock_timeout_ms: int | None = None  # of renewed records
    deadline_ms: float = float("inf")  # after which they are not sent again
    attempts: int = 0

    @property
    def renews(self) -> bool:
        """Whether the acquisition lock of a record is to be renewed."""
        return AcknowledgeType.RENEW in self.types.values()

    @property
    def failed(self) -> bool:
        """Whether the broker did not take them."""
        return bool(self.code)

    def end(self, code: ErrorCode, message: str | None = None, lock_timeout_ms: int | None = None) -> None:
        """The first end counts."""
        if self.code is None:
            self.code, self.message, self.lock_timeout_ms = code, message, lock_timeout_ms


def acknowledgement_batches(types: Mapping[int, int]) -> list[AcknowledgementBatch]:
    """The batches of a request: offsets without a hole between them, in which more than LONGEST_LISTED records of one type in a
    row are a batch of their own, with that type alone (Acknowledgements.getAcknowledgementBatches)."""
    batches: list[AcknowledgementBatch] = []
    for first, listed in _runs(types):
        at, pending = first, list[int]()
        for kind, group in groupby(listed):
            count = len(list(group))
            if count > LONGEST_LISTED:
                batches += _batch(at, pending)
                at += len(pending)
                batches += _batch(at, [kind] * count)
                at, pending = at + count, []
            else:
                pending += [kind] * count
        batches += _batch(at, pending)
    return batches


def _runs(types: Mapping[int, int]) -> Iterator[tuple[int, list[int]]]:
    """Each first offset, with the types of it and of the offsets that follow without a hole."""
    for _, group in groupby(enumerate(sorted(types)), lambda pair: pair[1] - pair[0]):
        offsets = [offset for _, offset in group]
        yield offsets[0], [types[offset] for offset in offsets]


def _batch(first: int, listed: list[int]) -> list[AcknowledgementBatch]:
    if not listed:
        return []
    return [AcknowledgementBatch(first, first + len(listed) - 1, listed[:1] if len(set(listed)) == 1 else listed)]
