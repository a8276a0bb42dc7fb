"""The batches of one partition, from the first record to the end of the last, and which of them may be sent, by an idempotent
producer's sequence numbers (KIP-98, KIP-360).

Order is kept by three rules. A batch that was sent before is sent again alone: nothing of the partition is in flight. New
batches follow one another without waiting (up to max.in.flight) only where the broker checks their numbers: of an idempotent
producer, once it has acknowledged one under this producer id and epoch, since a broker that knows nothing of the producer
accepts any number. And numbers begin again only where nothing is in flight.

A refused number alone does not say that the batch is not in the log: of what was in the log before it was restarted, a broker
knows a producer's last batch again, and refuses the ones before as too early or too late. So the batches behind it are tried
under their numbers too. One of them is acknowledged: then those before it are in the log. All are refused: then none of them
is, and they are numbered again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from coterie.producing.batch import SEQUENCES, ProducerBatch, ProducerIdAndEpoch, TopicPartition, following

LAST_EPOCH = 2**15 - 1
NO_PRODUCER: ProducerIdAndEpoch = (-1, -1)


@dataclass(slots=True)
class CurrentProducer:
    """``current`` is `NO_PRODUCER` where one is to be had from InitProducerId."""

    current: ProducerIdAndEpoch = NO_PRODUCER

    def bump(self, before: ProducerIdAndEpoch) -> None:
        """A partition has a gap in the sequence of ``before`` and goes on under the next epoch, or after the last one under
        another producer id; where another partition has bumped already, under that. The epoch is not requested from the broker:
        it returns a new producer id to InitProducerId without transactional id (KIP-360)."""
        if self.current == before:
            producer_id, epoch = before
            self.current = NO_PRODUCER if epoch == LAST_EPOCH else (producer_id, epoch + 1)


@dataclass(slots=True)
class PartitionSequence:
    """The numbers of one partition under one producer id and epoch. ``next`` is that of the next new batch, ``batches`` how
    many have one, ``expected`` the number that the broker expects as far as acknowledgements tell."""

    producer: ProducerIdAndEpoch = NO_PRODUCER
    next: int = 0
    batches: int = 0
    expected: int = 0
    last_offset: int = -1
    is_acknowledged: bool = False

    @property
    def has_gap(self) -> bool:
        """Whether a number may be missing at the broker, once nothing is under way."""
        return self.next != self.expected

    def begin(self, producer: ProducerIdAndEpoch) -> None:
        """The numbers begin at 0 under another producer id or epoch, or again."""
        self.producer, self.next, self.expected, self.is_acknowledged = producer, 0, 0, False

    def take(self, count: int) -> tuple[int, int]:
        """The number of a new batch of ``count`` records, and its ordinal."""
        number, self.next = self.next, following(self.next, count)
        self.batches += 1
        return number, self.batches

    def holds(self, producer: ProducerIdAndEpoch, sequence: int, count: int) -> bool:
        """Whether such a batch is in the log, since a later one was acknowledged: the broker takes numbers in order."""
        return producer == self.producer and _is_from(self.expected, following(sequence, count))

    def acknowledged(self, producer: ProducerIdAndEpoch, sequence: int, count: int, base_offset: int) -> None:
        """A batch is in the log, and with it all before it. A late acknowledgement changes nothing."""
        if producer != self.producer:
            return
        self.is_acknowledged = True
        after = following(sequence, count)
        if _is_from(after, self.expected):
            self.expected = after
        if base_offset >= 0:
            self.last_offset = max(self.last_offset, base_offset + count - 1)


def _is_from(sequence: int, start: int) -> bool:
    """Whether a number is ``start`` or comes after it; they begin at 0 again."""
    return (sequence - start) % SEQUENCES < SEQUENCES // 2


class PartitionQueue:
    """``in_flight`` counts requests with a batch of it, also of expired batches."""

    __slots__ = ("batches", "in_flight", "is_ready", "open", "partition", "sequence")

    def __init__(self, partition: TopicPartition) -> None:
        self.partition = partition
        self.batches: deque[ProducerBatch] = deque()
        self.open: ProducerBatch | None = None  # the last batch, while it takes records
        self.is_ready = False  # the open batch is to be sent without waiting for linger.ms
        self.in_flight = 0
        self.sequence = PartitionSequence()

    def next_to_send(self, now_ms: float, most_in_flight: int) -> ProducerBatch | None:
        """The batch that goes next, None where it has to wait for something to end, or for its pause. ``most_in_flight``: of
        new batches, where the broker checks their numbers; counted from the first without an end, since the broker knows
        only the last five of a producer again."""
        if not self.batches:
            return None
        first = self.batches[0]
        batch = first if not self.in_flight and not first.is_refused else self.candidate()
        if batch is None or batch.retry_at_ms > now_ms:
            return None
        if not self.in_flight:
            return batch
        if batch is first:  # what is in flight has expired, and its result is not known
            return None
        if batch.was_sent or not self.sequence.is_acknowledged or any(b.is_refused for b in self.batches):
            return None
        return batch if self.sequence.batches + 1 - first.ordinal < most_in_flight else None

    def candidate(self) -> ProducerBatch | None:
        """The first batch that is not in flight, and not refused."""
        for batch in self.batches:
            if not batch.is_in_flight and not batch.is_refused:
                return batch
        return None

    def is_due(self, batch: ProducerBatch, now_ms: float, linger_ms: float) -> bool:
        """Whether it waits no longer for more records."""
        return batch is not self.open or self.is_ready or now_ms - batch.created_ms >= linger_ms

    def not_in_flight(self) -> Iterator[ProducerBatch]:
        """The batches that are not in flight, in order."""
        return (batch for batch in self.batches if not batch.is_in_flight)

    def sent(self, batch: ProducerBatch) -> None:
        """The batch is in a request."""
        assert not batch.is_in_flight, "a batch is in one request at a time"
        assert not batch.is_done, "a batch that has its result is not sent again"
        assert not self.in_flight or not batch.was_sent, "a repeated batch goes alone, or it could pass another"
        batch.is_in_flight = batch.was_sent = True
        self.in_flight += 1

    def returned(self, batch: ProducerBatch) -> None:
        """The request with the batch has ended."""
        batch.is_in_flight = False
        self.in_flight -= 1
        assert self.in_flight >= 0, "a batch returns once from each request"

    def acknowledged(self, batch: ProducerBatch, base_offset: int) -> list[ProducerBatch]:
        """A numbered batch is in the log. Returns the refused ones before it, which are there too; those behind it may be
        tried again."""
        sequence = self.sequence
        sequence.acknowledged(batch.producer, batch.sequence, len(batch.items), base_offset)
        refused = [b for b in self.batches if b.is_refused]
        if not refused:
            return refused
        for other in refused:
            other.is_refused = False
        return [b for b in refused if sequence.holds(b.producer, b.sequence, len(b.items))]

    def refused(self) -> list[ProducerBatch]:
        """The batches that are known not to be in the log, all that have a number; none while that is not certain."""
        numbered = [] if self.in_flight else [b for b in self.batches if b.sequence >= 0]
        return numbered if all(b.is_refused for b in numbered) else []

    def replace(self, batch: ProducerBatch, pieces: tuple[ProducerBatch, ProducerBatch]) -> None:
        """A batch that is split."""
        at = self.batches.index(batch)
        del self.batches[at]
        self.batches.insert(at, pieces[1])
        self.batches.insert(at, pieces[0])

    def remove(self, batch: ProducerBatch) -> None:
        """A batch at its end; most often the first."""
        if batch is self.open:
            self.open, self.is_ready = None, False
        self.batches.remove(batch)

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to send and nothing to wait for."""
        return not self.batches and not self.in_flight
