"""The transitions of a transactional id, each a function from state and request to the next state.

The end of a transaction of version 2 (KIP-890) bumps the epoch, so that nothing late of one transaction can enter the next
(Kafka's TransactionCoordinator.endTransaction and TransactionMetadata.prepareAbortOrCommit). As the producer's epoch tells one
transaction from the next, a request to end it is one of two, by that epoch: a *retry* of the last one, or about the transaction
that is open, of which the coordinator may know nothing when it is aborted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from coterie.coordinator.transactions.state import (
    BUMPS_FROM,
    COMPLETE,
    OPEN,
    PREPARED,
    Status,
    TopicPartition,
    Transaction,
)
from coterie.wire.errors import ErrorCode, Refusal
from coterie.wire.messages.transactions.init_producer_id import InitProducerIdRequest
from coterie.wire.messages.transactions.txn_offset_commit import TxnOffsetCommitRequest

MAX_EPOCH = 2**15 - 2  # the last that a producer gets; the one after it is kept for markers
PRODUCE_ABORTABLE_FROM, _TXN_OFFSET_COMMIT_ABORTABLE_FROM = 11, 4  # from here on TRANSACTION_ABORTABLE (KIP-890)
# From here on a request is of transactions of version 2 (KIP-890, second part): it adds its partition, or bumps the epoch.
PRODUCE_V2_FROM, TXN_OFFSET_COMMIT_V2_FROM, END_TXN_V2_FROM, ADD_PARTITIONS_V2_FROM = 12, 5, 5, 4
_INIT_FENCED_FROM = 4  # in which version InitProducerId begins to return PRODUCER_FENCED
NO_PRODUCER = (-1, -1)
FENCED_FROM = 2  # in which version AddPartitionsToTxn, AddOffsetsToTxn and EndTxn return PRODUCER_FENCED


@dataclass(frozen=True, slots=True)
class Claim:
    """The identity that a producer's request claims; the rest: whether its version is new enough for PRODUCER_FENCED and
    TRANSACTION_ABORTABLE, or gets the older INVALID_PRODUCER_EPOCH and INVALID_TXN_STATE."""

    producer_id: int
    epoch: int
    returns_fenced: bool = True
    returns_abortable: bool = False


def offsets_claim(request: TxnOffsetCommitRequest, version: int) -> Claim:
    """The claim of a TxnOffsetCommit, with the errors that its version allows."""
    abortable = version >= _TXN_OFFSET_COMMIT_ABORTABLE_FROM
    return Claim(request.producer_id, request.producer_epoch, returns_fenced=False, returns_abortable=abortable)


def check_producer(transaction: Transaction | None, claim: Claim) -> Transaction:
    """The transactional id's state, if that producer may go on with it. Raises Refusal."""
    if transaction is None or transaction.producer_id != claim.producer_id:
        raise Refusal(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if transaction.epoch != claim.epoch:
        raise Refusal(ErrorCode.PRODUCER_FENCED if claim.returns_fenced else ErrorCode.INVALID_PRODUCER_EPOCH)
    return transaction


def settled(transaction: Transaction | None) -> Transaction | None:
    """The state from which the next may be decided. Raises Refusal while the transaction ends: before anything is
    checked, since its producer may have the epoch, or the producer id, of the next one already, and must try again (Kafka's
    pendingTransitionInProgress)."""
    if transaction is not None and transaction.status in PREPARED:
        raise Refusal(ErrorCode.CONCURRENT_TRANSACTIONS)
    return transaction


def check_ongoing(transaction: Transaction | None, claim: Claim, partition: TopicPartition) -> None:
    """Whether the producer's transaction is ongoing and has the partition (KIP-890). Raises Refusal."""
    known = check_producer(transaction, claim)
    if known.status in PREPARED:
        raise Refusal(ErrorCode.CONCURRENT_TRANSACTIONS)
    if known.status != Status.ONGOING or partition not in known.partitions:
        code = ErrorCode.TRANSACTION_ABORTABLE if claim.returns_abortable else ErrorCode.INVALID_TXN_STATE
        raise Refusal(code, "the partition was not added to the transaction")


def moved(transaction: Transaction, now_ms: int, **changes: Any) -> Transaction:
    """The next state; each remembers the producer id of the one before (TransactionMetadata.prepareTransitionTo)."""
    return replace(transaction, updated_ms=now_ms, previous_producer_id=transaction.producer_id, **changes)


def add_partitions(
    transaction: Transaction, partitions: Iterable[TopicPartition], transaction_version: int, now_ms: int
) -> Transaction:
    """The transaction begins with its first partition. ``transaction_version`` that of the request."""
    begins = transaction.status != Status.ONGOING
    return moved(
        transaction,
        now_ms,
        status=Status.ONGOING,
        partitions=transaction.partitions | set(partitions),
        started_ms=now_ms if begins else transaction.started_ms,
        client_transaction_version=transaction_version,
    )


def prepare_end(transaction: Transaction, committed: bool, now_ms: int) -> Transaction:
    """Decided from here on, whatever happens. The same state where it had ended just so. Raises Refusal."""
    wanted = Status.PREPARE_COMMIT if committed else Status.PREPARE_ABORT
    if transaction.status == PREPARED[wanted]:
        return transaction
    if transaction.status != Status.ONGOING:
        raise Refusal(ErrorCode.INVALID_TXN_STATE)
    return moved(transaction, now_ms, status=wanted, client_transaction_version=0)


def complete(prepared: Transaction, now_ms: int) -> Transaction:
    """The markers are written; a producer id without epochs gives way to the next."""
    done = moved(prepared, now_ms, status=PREPARED[prepared.status], partitions=frozenset(), next_producer_id=-1)
    if prepared.client_transaction_version >= BUMPS_FROM and prepared.next_producer_id >= 0:
        return replace(done, producer_id=prepared.next_producer_id, epoch=0)
    return done


def fence(transaction: Transaction, now_ms: int) -> Transaction:
    """Aborts an open transaction of version 0 or 1 under the next epoch, so that its producer can do no more: below level 2
    of transaction.version it cannot go on by InitProducerId either."""
    epoch = min(transaction.epoch + 1, MAX_EPOCH + 1)
    return moved(
        transaction,
        now_ms,
        epoch=epoch,
        last_epoch=-1,
        status=Status.PREPARE_ABORT,
        client_transaction_version=0,
    )


def check_init(transactional_id: str, timeout_ms: int, max_timeout_ms: int) -> None:
    """Raises Refusal for an id of no characters, and for a timeout that is not positive or above ``max_timeout_ms``
    (transaction.max.timeout.ms)."""
    if not transactional_id:
        raise Refusal(ErrorCode.INVALID_REQUEST)
    if not 0 < timeout_ms <= max_timeout_ms:
        raise Refusal(ErrorCode.INVALID_TRANSACTION_TIMEOUT)


def claimed_producer(request: InitProducerIdRequest) -> tuple[int, int] | None:
    """The producer id and epoch that the request names, None for neither. Raises Refusal for one without the other."""
    claimed = request.producer_id, request.producer_epoch
    if claimed == NO_PRODUCER:
        return None
    if -1 in claimed:
        raise Refusal(ErrorCode.INVALID_REQUEST)
    return claimed


def init_producer(
    transaction: Transaction | None,
    transactional_id: str,
    timeout_ms: int,
    claimed: tuple[int, int] | None,
    new_producer_id: Callable[[], int],
    now_ms: int,
) -> Transaction:
    """The producer that now has the transactional id (KIP-360; Kafka's prepareInitProducerIdTransit). ``claimed``: the
    producer id and epoch of its request; a repeated request gets the response of the first. Raises Refusal."""
    if transaction is None:
        producer_id = new_producer_id()
        return Transaction(
            transactional_id, producer_id, 0, timeout_ms, updated_ms=now_ms, previous_producer_id=producer_id
        )
    check_claimed_id(transaction, claimed)
    assert transaction.status not in OPEN, "what is open was ended before"
    fresh = moved(transaction, now_ms, status=Status.EMPTY, timeout_ms=timeout_ms, started_ms=-1)
    if transaction.epoch >= MAX_EPOCH and (claimed is None or claimed[1] == transaction.epoch):
        last_epoch = -1 if claimed is None else transaction.epoch
        return replace(fresh, producer_id=new_producer_id(), epoch=0, last_epoch=last_epoch)
    if claimed is None:
        return replace(fresh, epoch=transaction.epoch + 1, last_epoch=-1)
    if claimed[1] == transaction.epoch:
        return replace(fresh, epoch=transaction.epoch + 1, last_epoch=transaction.epoch)
    if claimed[1] == transaction.last_epoch:
        return fresh
    raise Refusal(ErrorCode.PRODUCER_FENCED)


def check_claimed_id(transaction: Transaction, claimed: tuple[int, int] | None) -> None:
    """Raises Refusal for a producer id that the transactional id neither has nor gave up for want of epochs."""
    if claimed is None or claimed[0] == transaction.producer_id:
        return
    if claimed[0] != transaction.previous_producer_id or claimed[1] < MAX_EPOCH:
        raise Refusal(ErrorCode.PRODUCER_FENCED)


def has_expired(transaction: Transaction, now_ms: int, expiration_ms: int) -> bool:
    """``expiration_ms``: transactional.id.expiration.ms. An open transaction does not expire."""
    return transaction.status not in OPEN and transaction.updated_ms <= now_ms - expiration_ms


def restart_timeouts(by_id: dict[str, Transaction], now_ms: int) -> None:
    """After a load: what began later than now, by the clock of another coordinator or of a former process, begins now. Kafka's
    would stay open for as long as that clock was ahead."""
    for name, transaction in by_id.items():
        if transaction.status == Status.ONGOING and transaction.started_ms > now_ms:
            by_id[name] = replace(transaction, started_ms=now_ms)


def timed_out(transaction: Transaction, now_ms: int) -> bool:
    """Whether it was open for longer than its producer's transaction.timeout.ms."""
    return transaction.status == Status.ONGOING and now_ms - transaction.started_ms > transaction.timeout_ms


def init_error(code: ErrorCode, version: int) -> ErrorCode:
    """As the versions of InitProducerId name it."""
    is_old = code == ErrorCode.PRODUCER_FENCED and version < _INIT_FENCED_FROM
    return ErrorCode.INVALID_PRODUCER_EPOCH if is_old else code


def orphans(
    transactions: Iterable[Transaction], pending: Iterable[tuple[int, int]], partition: TopicPartition
) -> list[tuple[int, int]]:
    """Of the producers (id, epoch) with records pending in a partition, those without an open transaction that has it: no
    marker will ever come for them, so the coordinator of the partition aborts them itself. ``transactions``: all there are."""
    producers = list(pending)
    if not producers:
        return []
    here = {t.producer_id: t for t in transactions if t.status in OPEN and partition in t.partitions}
    return [p for p in producers if p[0] not in here or p[1] not in here[p[0]].record_epochs()]


def _is_retry(transaction: Transaction | None, claim: Claim) -> bool:
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
    retry = _is_retry(transaction, claim)
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
