"""A producer's transaction, as far as the machine that sends its batches needs it."""

from __future__ import annotations

from typing import Protocol

from coterie.producing.batch import ProduceFailure, ProducerBatch, ProducerIdAndEpoch, TopicPartition
from coterie.wire.errors import ErrorCode

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
