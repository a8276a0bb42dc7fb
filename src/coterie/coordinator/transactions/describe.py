"""DescribeTransactions and ListTransactions: transactional ids as others see them (KIP-664, KIP-994, KIP-1152)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator

from coterie.coordinator.transactions.state import Status, Transaction
from coterie.wire.messages.transactions.describe_transactions import DescribedTransaction, TransactionTopic
from coterie.wire.messages.transactions.list_transactions import ListedTransaction

STATE_NAMES = {
    Status.EMPTY: "Empty",
    Status.ONGOING: "Ongoing",
    Status.PREPARE_COMMIT: "PrepareCommit",
    Status.PREPARE_ABORT: "PrepareAbort",
    Status.COMPLETE_COMMIT: "CompleteCommit",
    Status.COMPLETE_ABORT: "CompleteAbort",
}
# States of Kafka's that a transactional id is never listed in here: it is fenced and aborted within one step.
UNUSED_STATES = ("Dead", "PrepareEpochFence")
KNOWN_STATES = frozenset({*STATE_NAMES.values(), *UNUSED_STATES})


def describe_transaction(transaction: Transaction) -> DescribedTransaction:
    """The row of DescribeTransactions; topics in order of name, ``transaction_start_time_ms`` -1 where none has begun
    (KIP-664)."""
    topics: dict[str, TransactionTopic] = {}
    for topic, partition in sorted(transaction.partitions):
        topics.setdefault(topic, TransactionTopic(topic)).partitions.append(partition)
    return DescribedTransaction(
        transactional_id=transaction.transactional_id,
        transaction_state=STATE_NAMES[transaction.status],
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_start_time_ms=transaction.started_ms,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.epoch,
        topics=list(topics.values()),
    )


def list_transactions(
    transactions: Iterable[Transaction],
    states: Collection[str],
    producer_ids: Collection[int],
    longer_than_ms: int,
    now_ms: int,
    matches: Callable[[str], bool],
) -> Iterator[ListedTransaction]:
    """Empty collections filter nothing, nor does a negative duration. A duration is counted from the start of the last
    transaction, also after its end, as in Kafka."""
    for t in transactions:
        state = STATE_NAMES[t.status]
        if states and state not in states:
            continue
        if producer_ids and t.producer_id not in producer_ids:
            continue
        if longer_than_ms >= 0 and now_ms - t.started_ms <= longer_than_ms:
            continue
        if matches(t.transactional_id):
            yield ListedTransaction(t.transactional_id, t.producer_id, state)
