"""A producer's transaction as the machine that sends its batches sees it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from coterie.producing.batch import ProduceFailure, ProducerIdAndEpoch, TopicPartition
from coterie.producing.transactions.transactions import Transactions
from coterie.wire.errors import ErrorCode


class TransactionView:
    """An `OpenedTransaction`. ``failure_of``: what the transaction's error is to the driver."""

    def __init__(
        self,
        transactions: Transactions,
        failure_of: Callable[[ErrorCode], ProduceFailure] = ProduceFailure.of_code,
    ) -> None:
        self._transactions, self._failure_of = transactions, failure_of
        self.transactional_id = transactions.transactional_id

    @property
    def producer(self) -> ProducerIdAndEpoch:
        """The identity under which batches are numbered."""
        return self._transactions.producer_id, self._transactions.epoch

    @property
    def failure(self) -> ProduceFailure | None:
        """Why nothing new is sent: the transaction has failed; None where it has not."""
        if not self._transactions.has_failed:
            return None
        return replace(self._failure_of(self._transactions.error), is_of_transaction=True)

    def has(self, partition: TopicPartition) -> bool:
        """Whether the partition takes part."""
        return self._transactions.has(partition)
