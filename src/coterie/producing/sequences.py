"""An idempotent producer's identity and the sequence numbers of its partitions (KIP-98, KIP-360)."""

from __future__ import annotations

from dataclasses import dataclass

from coterie.producing.batch import SEQUENCES, ProducerIdAndEpoch, following

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
