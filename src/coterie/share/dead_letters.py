"""Dead letters of a share group (KIP-1191): records that were rejected, or delivered as often as they may be, are written to a
topic of the group's before they are archived. Facts: Kafka 4.4's ShareGroupDLQStateManager and ShareGroupDLQRecordFetcher.

Theory. A record leaves the window in two steps. It becomes ARCHIVING, and that is written; then a letter about it is appended
to the dead letter topic; then it becomes ARCHIVED. A leader that dies between the steps leaves the state ARCHIVING behind, and
the next leader sends the letter again: at least once. The start offset does not pass an ARCHIVING record.

Rule. A letter that cannot be written is given up, and the record archived: a topic that is missing or too small must not hold
up the group. So only a failure that may pass is retried (`RETRIED`), a few times, with pauses that grow.

What a letter is. Six headers say where the record was and why it is dead; key and value are those of the record only where
errors.deadletterqueue.copy.record.enable is set, and headers of the record are not copied. Partition p of the source goes to
partition p modulo the partitions of the dead letter topic. The timestamp is that of the writing.

`bury` is a course of steps (`coterie.machines.script`): the driver looks at the topic, creates it, reads records and appends.

What is ugly. A batch that is compressed is copied whole or not at all: one that unfolds to more than max.message.bytes of the
dead letter topic leaves letters without key and value, although each record would fit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from coterie.machines.backoff import Backoff
from coterie.machines.script import Steps
from coterie.records import compression
from coterie.records.batch import HEADER_BYTES, BatchHeader, Header, batches
from coterie.records.compression import CompressionError
from coterie.records.decoding import decode_pieces
from coterie.records.encoding import record_bytes
from coterie.wire.errors import ErrorCode

REJECTED = "Offset rejected by client."
DELIVERY_COUNT_EXCEEDED = "Offset delivery count exceeded the threshold."

ATTEMPTS = 5
PAUSES = Backoff(1_000, 30_000)
READ_BYTES = 1_048_576  # of the source at a time
CREATE_RETRIED = frozenset(
    {
        ErrorCode.TOPIC_ALREADY_EXISTS,  # but its leaders are not known yet
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)
RETRIED = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NETWORK_EXCEPTION, ErrorCode.REQUEST_TIMED_OUT})


class DeadRecords(NamedTuple):
    """Records of one share partition that are dead for one reason, both offsets included. ``member_id``: whom they were
    delivered to last; "" where a former leader knew."""

    first: int
    last: int
    delivery_count: int
    reason: str
    member_id: str = ""


class LetterSource(NamedTuple):
    """Of which group and partition records are."""

    group_id: str
    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class DeadLetterTopic:
    """What is known of a group's dead letter topic now. ``name``: "" where the group has none; ``partitions``: 0 while their
    leaders are not known; ``prefix`` and ``creates`` are the broker's errors.deadletterqueue.topic.name.prefix and
    .auto.create.topics.enable; ``copies``: the group wants key and value."""

    name: str
    exists: bool = False
    is_enabled: bool = False
    partitions: int = 0
    max_message_bytes: int = 0
    prefix: str = ""
    creates: bool = False
    copies: bool = False

    def problem(self) -> str:
        """Why no letter may be written there; "" where one may."""
        if not self.name:
            return "the group has no errors.deadletterqueue.topic.name"
        if self.name.startswith("__"):
            return f"errors.deadletterqueue.topic.name must not start with __, as {self.name} does"
        if self.exists and not self.is_enabled:
            return f"errors.deadletterqueue.group.enable of topic {self.name} is false"
        if not self.exists and not self.creates:
            return f"there is no topic {self.name}, and errors.deadletterqueue.auto.create.topics.enable is false"
        if not self.name.startswith(self.prefix):
            return f"{self.name} does not begin with errors.deadletterqueue.topic.name.prefix, {self.prefix}"
        return ""


Copies = Mapping[int, tuple[bytes | None, bytes | None]]  # by offset: key and value


class Letter(NamedTuple):
    """A record of the dead letter topic, without its timestamp."""

    key: bytes | None
    value: bytes | None
    headers: Sequence[Header]


# -- the steps, with the result that each is resumed with ------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Look:
    """-> `DeadLetterTopic`"""


@dataclass(frozen=True, slots=True)
class CreateTopic:
    """With errors.deadletterqueue.group.enable=true and message.timestamp.type=CreateTime. -> ErrorCode"""

    name: str


@dataclass(frozen=True, slots=True)
class ReadRecords:
    """-> `Copied`, of the source's records from ``first`` to ``last``, within ``max_bytes``"""

    first: int
    last: int
    max_bytes: int


@dataclass(frozen=True, slots=True)
class AppendLetters:
    """As one batch, with acks=all. -> ErrorCode"""

    topic: str
    partition: int
    letters: Sequence[Letter]


@dataclass(frozen=True, slots=True)
class PauseBurial:
    """After so many failed attempts in a row. -> None"""

    failures: int


def bury(source: LetterSource, records: DeadRecords) -> Steps[str]:
    """The steps until each record has its letter. Returns why some have none, or "" """
    creations = attempts = 0
    offset = records.first
    copied: Copied | None = None
    while True:
        topic: DeadLetterTopic = yield Look()
        if problem := topic.problem():
            return problem
        if not topic.partitions:
            code = yield CreateTopic(topic.name)
            creations += 1
            if code == ErrorCode.NONE:
                topic = yield Look()
            elif code not in CREATE_RETRIED:
                return f"topic {topic.name} cannot be created: {code.name}"
            if not topic.partitions:
                if creations >= ATTEMPTS:
                    error = "" if code == ErrorCode.NONE else f": {code.name}"
                    return f"topic {topic.name} was not there after {ATTEMPTS} attempts{error}"
                yield PauseBurial(creations - 1)
                continue
            creations = 0
        if copied is None:
            copied = yield from _copied(topic, offset, records.last)
        letters = letters_of(source, records, offset, copied, topic.max_message_bytes)
        code = yield AppendLetters(topic.name, source.partition % topic.partitions, letters)
        if code == ErrorCode.NONE:
            offset, copied, attempts = offset + len(letters), None, 0
            if offset > records.last:
                return ""
            continue
        attempts += 1
        if code not in RETRIED or attempts >= ATTEMPTS:
            return f"topic {topic.name} refused the letter: {code.name}"
        yield PauseBurial(attempts - 1)


def _copied(topic: DeadLetterTopic, first: int, last: int) -> Steps[Copied]:
    if not topic.copies:
        return Copied({}, last)
    copied: Copied = yield ReadRecords(first, last, topic.max_message_bytes)
    return copied


def letters_of(
    source: LetterSource, records: DeadRecords, first: int, copied: Copied, max_message_bytes: int
) -> list[Letter]:
    """The letters of the next batch: from ``first`` on, as far as records were read, and as many as the topic takes."""
    letters: list[Letter] = []
    size = HEADER_BYTES
    for offset in range(first, max(first, min(records.last, copied.last)) + 1):
        key, value = copied.records.get(offset, (None, None))
        headers = headers_of(source, records, offset)
        size += record_bytes(0, len(letters), key, value, headers)
        if size > max_message_bytes and letters:
            break
        letters.append(Letter(key, value, headers))
    return letters


def headers_of(source: LetterSource, records: DeadRecords, offset: int) -> list[Header]:
    """The context of a dead record."""
    values = {
        "topic": source.topic,
        "partition": str(source.partition),
        "offset": str(offset),
        "group": source.group_id,
        "delivery.count": str(records.delivery_count),
        "message": records.reason,
    }
    return [(f"__dlq.errors.{name}", value.encode()) for name, value in values.items()]


# -- copies of records -----------------------------------------------------------------------------------------------------


class Copied(NamedTuple):
    """Key and value by offset; ``last``: up to where the records were looked for."""

    records: Copies
    last: int


@dataclass(slots=True)
class Copying:
    """Collects the records from ``first`` to ``last`` out of batches that were read one after the other. ``next``: where to
    read on. ``is_full``: the rest belongs to the next batch of letters."""

    first: int
    last: int
    max_bytes: int
    records: dict[int, tuple[bytes | None, bytes | None]] = field(default_factory=dict)
    next: int = field(init=False)
    is_full: bool = False
    _bytes: int = 0

    def __post_init__(self) -> None:
        self.next = self.first

    @property
    def is_done(self) -> bool:
        """Whether nothing more is to be read."""
        return self.is_full or self.next > self.last or self._bytes >= self.max_bytes

    def take(self, data: bytes) -> None:
        """The records of these batches. Raises BatchError."""
        for position, header in batches(data):
            if self.is_done:
                return
            if header.last_offset < self.next:
                continue
            for offset, key, value, size in self._of_batch(data, position, header):
                if offset > self.last:
                    self.next = self.last + 1
                    return
                if size > self.max_bytes:  # its letter has neither key nor value
                    self.next = offset + 1
                    continue
                if self._bytes + size > self.max_bytes:
                    self.is_full = True
                    return
                self.records[offset] = key, value
                self._bytes += size
                self.next = offset + 1
            self.next = max(self.next, min(header.last_offset, self.last) + 1)

    def _of_batch(
        self, data: bytes, position: int, header: BatchHeader
    ) -> Iterator[tuple[int, bytes | None, bytes | None, int]]:
        """Offset, key, value and bytes of the records from `next` on; none where the batch unfolds to too many bytes."""
        if header.codec != compression.NONE:
            body = data[position + HEADER_BYTES : position + header.size]
            try:
                compression.decompress(header.codec, body, self.max_bytes)
            except CompressionError:
                return
        for piece in decode_pieces(data, position, header):
            for record in piece:
                if record.offset >= self.next:
                    deltas = record.timestamp - header.base_timestamp, record.offset - header.base_offset
                    size = record_bytes(*deltas, record.key, record.value, record.headers)
                    yield record.offset, record.key, record.value, size

    def result(self, *, gave_up: bool = False) -> Copied:
        """``gave_up``: the rest cannot be read, and its letters have neither key nor value."""
        return Copied(self.records, self.last if gave_up else self.next - 1)
