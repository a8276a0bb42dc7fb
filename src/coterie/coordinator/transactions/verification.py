"""What a partition's leader knows of a producer's transaction by itself, what it requests of the coordinator, and how it passes
the coordinator's errors on (KIP-890)."""

from __future__ import annotations

from coterie.coordinator.transactions.steps import Claim
from coterie.log.partition_log import PartitionLog
from coterie.wire.errors import ErrorCode, Refusal

Guard = tuple[int, int, int]
_LATER = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.OPERATION_NOT_ATTEMPTED,  # beside a partition that the coordinator does not know yet
    }
)


def is_open(log: PartitionLog, claim: Claim) -> bool:
    """Whether the log has records of the producer's transaction that no marker has ended: they were verified before."""
    producer = log.producers.by_id.get(claim.producer_id)
    return claim.producer_id in log.transactions.open and producer is not None and producer.epoch == claim.epoch


def needs_verification(log: PartitionLog, claim: Claim) -> bool:
    """Whether the coordinator is to verify. Raises Refusal INVALID_PRODUCER_EPOCH, whatever the coordinator has, for an epoch
    below the log's own (UnifiedLog.maybeStartTransactionVerification)."""
    log.producers.check_epoch(claim.producer_id, claim.epoch)
    return not is_open(log, claim)


def guard_of(log: PartitionLog, leader_epoch: int, claim: Claim) -> Guard:
    """Another one as soon as a marker of the producer has been written to the log, or another broker has led it: what was
    verified before then may be over (Kafka's VerificationGuard)."""
    producer = log.producers.by_id.get(claim.producer_id)
    return leader_epoch, -1 if producer is None else producer.epoch, 0 if producer is None else producer.markers


def check_guard(before: Guard, log: PartitionLog, leader_epoch: int, claim: Claim) -> None:
    """When the append is due: whether what was verified under the guard ``before`` still holds. Raises Refusal
    INVALID_PRODUCER_EPOCH, INVALID_TXN_STATE where a marker has ended the transaction meanwhile
    (UnifiedLog.analyzeAndValidateProducerState), NOT_ENOUGH_REPLICAS where another broker has led: the next attempt is verified
    again."""
    log.producers.check_epoch(claim.producer_id, claim.epoch)
    now = guard_of(log, leader_epoch, claim)
    if now == before or is_open(log, claim):
        return
    raise Refusal(ErrorCode.INVALID_TXN_STATE if now[0] == before[0] else ErrorCode.NOT_ENOUGH_REPLICAS)


def as_of_claim(code: ErrorCode, claim: Claim) -> ErrorCode:
    """The error in the form that the producer's version of Produce or TxnOffsetCommit allows."""
    if code == ErrorCode.PRODUCER_FENCED and not claim.returns_fenced:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if code == ErrorCode.TRANSACTION_ABORTABLE and not claim.returns_abortable:
        return ErrorCode.INVALID_TXN_STATE
    return code


def for_produce(code: ErrorCode, claim: Claim, *, adds: bool) -> ErrorCode:
    """As Kafka's ReplicaManager: the producer sends the records again while the coordinator is away, or a transaction of its
    ends. Producers before version 2 of transactions know the latter error of coordinators only."""
    if code in _LATER or (code == ErrorCode.CONCURRENT_TRANSACTIONS and not adds):
        return ErrorCode.NOT_ENOUGH_REPLICAS
    return as_of_claim(code, claim)


def for_offsets(code: ErrorCode, claim: Claim) -> ErrorCode:
    """As Kafka's group coordinator: the group's own coordinator is here, and the producer need not look it up."""
    if code in _LATER or code == ErrorCode.CONCURRENT_TRANSACTIONS:
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return as_of_claim(code, claim)
