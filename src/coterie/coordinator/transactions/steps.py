"""What may happen to a transactional id, each step a function: from the state and a request to the next state."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from coterie.coordinator.transactions.state import COMPLETE, PREPARED, Status, TopicPartition, Transaction
from coterie.wire.errors import ErrorCode, Refusal

MAX_EPOCH = 2**15 - 2  # the last is kept for fencing
FENCED_FROM = 2  # in which version AddPartitionsToTxn, AddOffsetsToTxn and EndTxn begin to say PRODUCER_FENCED


@dataclass(frozen=True, slots=True)
class Claim:
    """Who a producer says it is; ``says_fenced``: its request is new enough to be told PRODUCER_FENCED."""

    producer_id: int
    epoch: int
    says_fenced: bool = True


def check_producer(found: Transaction | None, claim: Claim) -> Transaction:
    """The transactional id's state, if that producer may go on with it. Raises Refusal."""
    if found is None or found.producer_id != claim.producer_id:
        raise Refusal(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if found.epoch != claim.epoch:
        raise Refusal(ErrorCode.PRODUCER_FENCED if claim.says_fenced else ErrorCode.INVALID_PRODUCER_EPOCH)
    return found


def add_partitions(found: Transaction, partitions: Iterable[TopicPartition], now_ms: int) -> Transaction:
    """The transaction begins with its first partition. Raises Refusal while another comes to its end."""
    if found.status in PREPARED:
        raise Refusal(ErrorCode.CONCURRENT_TRANSACTIONS)
    if found.status == Status.ONGOING:
        return replace(found, partitions=found.partitions | set(partitions), updated_ms=now_ms)
    return replace(found, status=Status.ONGOING, partitions=frozenset(partitions), updated_ms=now_ms, started_ms=now_ms)


def prepare_end(found: Transaction, committed: bool, now_ms: int) -> Transaction:
    """Decided from here on, whatever happens. The same state where it had ended just so. Raises Refusal."""
    wanted = Status.PREPARE_COMMIT if committed else Status.PREPARE_ABORT
    if found.status == PREPARED[wanted]:
        return found
    if found.status in PREPARED:
        code = ErrorCode.CONCURRENT_TRANSACTIONS if found.status == wanted else ErrorCode.INVALID_TXN_STATE
        raise Refusal(code)
    if found.status != Status.ONGOING:
        raise Refusal(ErrorCode.INVALID_TXN_STATE)
    return replace(found, status=wanted, updated_ms=now_ms)


def complete(prepared: Transaction, now_ms: int) -> Transaction:
    """The markers are written."""
    return replace(prepared, status=PREPARED[prepared.status], partitions=frozenset(), updated_ms=now_ms, started_ms=-1)


def fence(found: Transaction, now_ms: int) -> Transaction:
    """Aborts an open transaction under the next epoch, so that its producer can do no more."""
    epoch = min(found.epoch + 1, 2**15 - 1)
    return replace(found, epoch=epoch, status=Status.PREPARE_ABORT, updated_ms=now_ms)


def init_producer(
    found: Transaction | None,
    transactional_id: str,
    timeout_ms: int,
    claimed: tuple[int, int],
    fresh_id: int,
    now_ms: int,
) -> Transaction:
    """The producer that now has the transactional id. ``claimed``: producer id and epoch that it says it had (KIP-360), -1
    each for none; ``fresh_id`` is used where a new one is needed. Raises Refusal."""
    if found is None:
        return Transaction(transactional_id, fresh_id, 0, timeout_ms, updated_ms=now_ms)
    if claimed[0] >= 0 and claimed not in ((found.producer_id, found.epoch), (found.producer_id, found.epoch - 1)):
        raise Refusal(ErrorCode.PRODUCER_FENCED)
    assert found.status in COMPLETE or found.status == Status.EMPTY, "what is open was ended before"
    ids = (found.producer_id, found.epoch + 1) if found.epoch < MAX_EPOCH else (fresh_id, 0)
    return Transaction(transactional_id, *ids, timeout_ms, updated_ms=now_ms)


def timed_out(found: Transaction, now_ms: int) -> bool:
    """Whether it was open for longer than its producer asked for (transaction.timeout.ms)."""
    return found.status == Status.ONGOING and now_ms - found.started_ms > found.timeout_ms
