"""The end of a transaction of version 2 (KIP-890): the epoch is bumped with it, so that nothing late of one transaction can
enter the next (Kafka's TransactionCoordinator.endTransaction and TransactionMetadata.prepareAbortOrCommit).

As the producer's epoch tells one transaction from the next, a request to end it is one of two, by that epoch: a *retry* of
the last one, or about the transaction that is open, of which the coordinator may know nothing when it is aborted.
"""

from __future__ import annotations

from collections.abc import Callable

from coterie.coordinator.transactions.state import BUMPS_FROM, COMPLETE, PREPARED, Status, Transaction
from coterie.coordinator.transactions.steps import MAX_EPOCH, Claim, fence, moved
from coterie.wire.errors import ErrorCode, Refusal


def is_retry(transaction: Transaction | None, claim: Claim) -> bool:
    """Whether the request was carried out before. The transaction is not prepared: while it is, its epoch is that of the next
    one already, and nothing can be decided. Raises Refusal for a producer that may not end the transaction."""
    overflowed = (
        transaction is not None
        and (claim.producer_id, claim.epoch) == (transaction.previous_producer_id, MAX_EPOCH)
        and transaction.epoch == 0
    )
    if transaction is None or (transaction.producer_id != claim.producer_id and not overflowed):
        raise Refusal(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    current, bumped = transaction.epoch == claim.epoch, transaction.epoch == claim.epoch + 1
    if transaction.status in COMPLETE:
        is_valid = bumped or overflowed or current
    else:
        is_valid = current
    if not is_valid:
        raise Refusal(ErrorCode.PRODUCER_FENCED)
    return bumped or overflowed


def prepare_end_with_bump(
    transaction: Transaction | None, claim: Claim, committed: bool, new_producer_id: Callable[[], int], now_ms: int
) -> Transaction:
    """Decided from here on, whatever happens. The same state where a retry requests what is done. Raises Refusal."""
    retry = is_retry(transaction, claim)
    assert transaction is not None, "there is nothing to end without a transactional id"
    wanted = Status.PREPARE_COMMIT if committed else Status.PREPARE_ABORT
    if transaction.status == Status.ONGOING:
        return bumped(transaction, wanted, new_producer_id, now_ms)
    if retry and transaction.status == PREPARED[wanted]:
        return transaction
    if retry or committed:
        raise Refusal(ErrorCode.INVALID_TXN_STATE)
    return bumped(transaction, wanted, new_producer_id, now_ms)


def bumped(transaction: Transaction, wanted: Status, new_producer_id: Callable[[], int], now_ms: int) -> Transaction:
    """The prepared state under the next epoch, which fences what is late. Where the producer id has no other epoch for its
    producer, another id follows with the end."""
    epoch = transaction.epoch
    return moved(
        transaction,
        now_ms,
        status=wanted,
        epoch=min(epoch + 1, MAX_EPOCH + 1),
        last_epoch=epoch,
        next_producer_id=new_producer_id() if epoch >= MAX_EPOCH else -1,
        started_ms=transaction.started_ms if transaction.status == Status.ONGOING else now_ms,
        client_transaction_version=BUMPS_FROM,
    )


def fenced(
    transaction: Transaction, transaction_version: int, new_producer_id: Callable[[], int], now_ms: int
) -> Transaction:
    """An open transaction is aborted, whichever its producer's version, as the finalized level of transaction.version
    demands. Raises Refusal where there is no producer id to go on with."""
    assert transaction.status == Status.ONGOING, "only an open transaction is aborted by the coordinator"
    if transaction_version >= BUMPS_FROM:
        return bumped(transaction, Status.PREPARE_ABORT, new_producer_id, now_ms)
    return fence(transaction, now_ms)
