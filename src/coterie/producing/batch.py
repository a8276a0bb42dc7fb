"""A batch of a producer: its records, its attempts, its one end. And what the machine that sends it requires of the transaction
that it belongs to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from coterie.records.batch import Header
from coterie.wire.errors import ErrorCode

TopicPartition = tuple[str, int]
Item = tuple[int, bytes | None, bytes | None, Sequence[Header]]  # timestamp in ms, key, value, headers
ProducerIdAndEpoch = tuple[int, int]
_IN_A_REFUSED_BATCH = "the record was in a batch with a record that the broker refused"
SEQUENCES = 2**31  # sequence numbers go from 0 to this, and begin at 0 again


class Acknowledged(NamedTuple):
    """The offset of the first record and the broker's time of the append in ms; -1 where there is none: with acks=0, and
    where the records keep their own times."""

    base_offset: int = -1
    log_append_time_ms: int = -1


@dataclass(frozen=True, slots=True)
class ProduceFailure:
    """Why an attempt, and at last a batch, failed. ``cause``: the driver's own exception, which the machine only returns;
    ``record_errors``: the broker's message by the number of the record in its batch (KIP-467). ``is_of_transaction``: the
    transaction failed, or was aborted, before the batch was sent."""

    code: ErrorCode
    message: str | None = None
    is_retriable: bool = False
    cause: object = None
    record_errors: Mapping[int, str | None] = field(default_factory=dict)
    is_of_transaction: bool = False

    @classmethod
    def of_code(cls, code: ErrorCode, message: str | None = None) -> ProduceFailure:
        """Retriable as the table of errors has it."""
        return cls(code, message, code.retriable)

    def of_record(self, index: int) -> ProduceFailure:
        """The failure of one record: where the broker names refused records, the others have a message of their own
        (Sender.failBatch)."""
        if not self.record_errors:
            return self
        message = self.record_errors[index] or self.message if index in self.record_errors else _IN_A_REFUSED_BATCH
        return ProduceFailure(self.code, message, self.is_retriable, self.cause)


BatchResult = Acknowledged | ProduceFailure


class ProducerBatch:
    """Records of one partition that are sent together. ``sequence`` -1: not numbered (yet). ``is_refused``: the broker refused
    its number, and has appended nothing of the partition since. ``leader_epoch``: the newest to whose leader it was sent;
    ``is_leader_old``: no newer one was known when it was looked up, so it is looked up again before the next attempt.

    A batch that is split has pieces, which are sent in its stead; ``whole`` is the batch that was appended to, and
    ``first_index`` the number of the piece's first record in it. The results of all pieces are in ``whole.results``."""

    __slots__ = (
        "_whole",
        "created_ms",
        "encoded",
        "failures",
        "first_index",
        "is_done",
        "is_in_flight",
        "is_leader_old",
        "is_refused",
        "items",
        "last_failure",
        "leader_epoch",
        "ordinal",
        "partition",
        "producer",
        "results",
        "retry_at_ms",
        "sequence",
        "size",
        "unfinished",
        "was_sent",
    )

    def __init__(self, partition: TopicPartition, created_ms: float) -> None:
        self.partition = partition
        self.created_ms = created_ms
        self.items: list[Item] = []
        self.size = 0
        self.encoded = b""
        self.producer: ProducerIdAndEpoch = (-1, -1)
        self.sequence = -1
        self.failures = 0
        self.retry_at_ms = float("-inf")
        self.last_failure: ProduceFailure | None = None
        self.ordinal = 0
        self.was_sent = self.is_in_flight = self.is_refused = self.is_done = self.is_leader_old = False
        self.leader_epoch = -1
        self._whole: ProducerBatch | None = None  # None: this one, which must not refer to itself
        self.first_index = 0
        self.unfinished = 1
        self.results: list[tuple[int, BatchResult]] = []

    @property
    def whole(self) -> ProducerBatch:
        """The batch of which this is a piece."""
        return self._whole or self

    def number(self, producer: ProducerIdAndEpoch, sequence: int, ordinal: int) -> None:
        """Its first record's sequence number, -1 for none yet; ``ordinal``: how many batches of the partition had one before.
        What is encoded holds the number, and goes with the old one."""
        self.producer, self.sequence, self.ordinal = producer, sequence, ordinal
        self.encoded, self.is_refused = b"", False

    def finish(self, result: BatchResult) -> bool:
        """Whether the whole batch is at its end."""
        assert not self.is_done, "a batch has one end"
        self.is_done, whole = True, self.whole
        whole.results.append((self.first_index, result))
        whole.unfinished -= 1
        return not whole.unfinished

    def split(self) -> tuple[ProducerBatch, ProducerBatch]:
        """Two halves, which keep the order, the age, the failures and the numbers (ProducerBatch.split)."""
        assert len(self.items) > 1, "a record cannot be split"
        middle = len(self.items) // 2
        halves = ProducerBatch(self.partition, self.created_ms), ProducerBatch(self.partition, self.created_ms)
        halves[0].items, halves[1].items = self.items[:middle], self.items[middle:]
        halves[1].size = self.size // 2
        halves[0].size = self.size - halves[1].size  # together what the whole has of the buffer
        for half in halves:
            half._whole, half.producer, half.sequence = self.whole, self.producer, self.sequence
            half.failures, half.first_index, half.was_sent = self.failures, self.first_index, True
            half.ordinal = self.ordinal
        halves[1].first_index += middle
        if self.sequence >= 0:
            halves[1].sequence = following(self.sequence, middle)
        self.is_done = True
        self.whole.unfinished += 1
        return halves

    def result_of(self, index: int) -> tuple[int, int] | ProduceFailure:
        """Offset and time of the append (ms, -1: its own) of a record, or its failure. Only of a whole batch at its end."""
        first, result = self.results[0]
        if len(self.results) > 1:
            first, result = max((entry for entry in self.results if entry[0] <= index), key=_first_of)
        if type(result) is Acknowledged:
            base_offset, log_append_time_ms = result
            return (base_offset + index - first if base_offset >= 0 else -1), log_append_time_ms
        assert isinstance(result, ProduceFailure)
        return result.of_record(index - first)


def _first_of(entry: tuple[int, BatchResult]) -> int:
    return entry[0]


def following(sequence: int, count: int) -> int:
    """The sequence number ``count`` records later (DefaultRecordBatch.incrementSequence)."""
    return (sequence + count) % SEQUENCES


# The failure of records that were not sent yet when their transaction was aborted (Kafka's TransactionAbortedException).
ABORTED = ProduceFailure(
    ErrorCode.INVALID_TXN_STATE, "the transaction was aborted before the record was sent", is_of_transaction=True
)


class OpenedTransaction(Protocol):
    """What the machine requires before it sends a batch."""

    @property
    def transactional_id(self) -> str:
        """As Produce requests name it; the broker checks that it is the producer's."""

    @property
    def producer(self) -> ProducerIdAndEpoch:
        """The identity under which batches are numbered."""

    @property
    def failure(self) -> ProduceFailure | None:
        """Why nothing is sent any more that was not sent before: the transaction has failed; None where it has not."""

    def has(self, partition: TopicPartition) -> bool:
        """Whether the partition takes part in the open transaction, so that records may be sent to it."""


def is_unsent(batch: ProducerBatch) -> bool:
    """Whether the batch has no sequence number yet: no broker can have it, and without it no number is missing."""
    return batch.sequence < 0
