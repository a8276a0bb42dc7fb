"""InitProducerId in every state of a transaction, by the names of Kafka's TransactionCoordinatorTest."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from coterie.coordinator.transactions.machine import EndTransaction, InitProducer, TransactionResult
from coterie.coordinator.transactions.state import Status, Transaction
from coterie.coordinator.transactions.steps import MAX_EPOCH, Claim
from coterie.wire.errors import ErrorCode
from tests.coordinator.transactions.coordinators import (
    EPOCH,
    ID,
    MAX_TIMEOUT_MS,
    NEW,
    NONE,
    NOW_MS,
    PRODUCER,
    TIMEOUT_MS,
    Coordinator,
    knowing,
    known,
)

EMPTY, ONGOING = Status.EMPTY, Status.ONGOING
COMPLETE_COMMIT, COMPLETE_ABORT = Status.COMPLETE_COMMIT, Status.COMPLETE_ABORT
FENCED, CONCURRENT = ErrorCode.PRODUCER_FENCED, ErrorCode.CONCURRENT_TRANSACTIONS
OTHER_TIMEOUT_MS = 20_000
Producer = tuple[int, int]
Result = ErrorCode | Producer


class Init(NamedTuple):
    """``steps``: the claims of one request after another, None for no claim, with the error or the producer id and epoch."""

    name: str
    transaction: Transaction | None
    steps: list[tuple[Producer | None, Result]]


INITS = [
    Init("shouldInitPidWithEpochZeroForNewTransactionalId", None, [(None, (NEW, 0))]),
    Init(
        "shouldGenerateNewProducerIdIfNoStateAndProducerIdAndEpochProvided",
        None,
        [((PRODUCER, EPOCH), (NEW, 0))],
    ),
    Init("shouldGenerateNewProducerIdIfEpochsExhausted", known(EMPTY, MAX_EPOCH), [(None, (NEW, 0))]),
    Init(
        "shouldIncrementEpochAndUpdateMetadataOnHandleInitPidWhenExistingEmptyTransaction",
        known(EMPTY),
        [(None, (PRODUCER, EPOCH + 1))],
    ),
    Init(
        "shouldIncrementEpochAndUpdateMetadataOnHandleInitPidWhenExistingCompleteTransaction",
        known(COMPLETE_ABORT),
        [(None, (PRODUCER, EPOCH + 1))],
    ),
    Init(
        "shouldIncrementEpochAndUpdateMetadataOnHandleInitPidWhenExistingCompleteTransaction",
        known(COMPLETE_ABORT, version=2),
        [(None, (PRODUCER, EPOCH + 1))],
    ),
    Init(
        "shouldIncrementEpochAndUpdateMetadataOnHandleInitPidWhenExistingCompleteCommitTransaction",
        known(COMPLETE_COMMIT),
        [(None, (PRODUCER, EPOCH + 1))],
    ),
    Init(
        "shouldIncrementEpochAndUpdateMetadataOnHandleInitPidWhenExistingCompleteCommitTransaction",
        known(COMPLETE_COMMIT, version=2),
        [(None, (PRODUCER, EPOCH + 1))],
    ),
    Init(
        "shouldWaitForCommitToCompleteOnHandleInitPidAndExistingTransactionInPrepareCommitState",
        known(Status.PREPARE_COMMIT, version=2),
        [(None, CONCURRENT)],
    ),
    Init(
        "shouldWaitForCommitToCompleteOnHandleInitPidAndExistingTransactionInPrepareAbortState",
        known(Status.PREPARE_ABORT, version=2),
        [(None, CONCURRENT)],
    ),
    Init("testInitProducerIdWithNoLastProducerData", known(EMPTY, EPOCH + 1), [((PRODUCER, EPOCH), FENCED)]),
    Init(
        "testFenceProducerWhenMappingExistsWithDifferentProducerId",
        known(EMPTY, producer_id=PRODUCER + 1, last_epoch=0),
        [((PRODUCER, EPOCH), FENCED)],
    ),
    Init(
        "testInitProducerIdWithCurrentEpochProvided",
        known(EMPTY, 10, last_epoch=9),
        [((PRODUCER, 10), (PRODUCER, 11)), ((PRODUCER, 10), (PRODUCER, 11))],
    ),
    Init(
        "testInitProducerIdStaleCurrentEpochProvided",
        known(EMPTY, 10, last_epoch=9),
        [(None, (PRODUCER, 11)), ((PRODUCER, 10), FENCED)],
    ),
    Init(
        "testRetryInitProducerIdAfterProducerIdRotation",
        known(EMPTY, MAX_EPOCH),
        [((PRODUCER, MAX_EPOCH), (NEW, 0)), ((PRODUCER, MAX_EPOCH), (NEW, 0))],
    ),
    Init(
        "testInitProducerIdWithInvalidEpochAfterProducerIdRotation",
        known(EMPTY, MAX_EPOCH),
        [((PRODUCER, MAX_EPOCH), (NEW, 0)), ((PRODUCER, MAX_EPOCH - 1), FENCED)],
    ),
]


def init(coordinator: Coordinator, claimed: Producer | None = None, name: str = ID) -> Result:
    result = coordinator.request(InitProducer(name, OTHER_TIMEOUT_MS, claimed))
    return result_of(result)


def result_of(result: TransactionResult) -> Result:
    if result.code:
        assert (result.producer_id, result.epoch) == (-1, -1)
        return result.code
    return result.producer_id, result.epoch


@pytest.mark.parametrize("row", INITS, ids=lambda row: row.name)
def test_init(row: Init) -> None:
    coordinator = knowing(row.transaction)
    for claimed, expected in row.steps:
        assert init(coordinator, claimed) == expected
        if isinstance(expected, tuple):
            state = coordinator.by_id[ID]
            assert (state.producer_id, state.epoch, state.status) == (*expected, EMPTY)
            assert (state.timeout_ms, state.updated_ms) == (OTHER_TIMEOUT_MS, NOW_MS)
            assert coordinator.kept[-1] == state


def test_should_return_invalid_request_when_transactional_id_is_empty() -> None:
    """shouldReturnInvalidRequestWhenTransactionalIdIsEmpty."""
    assert init(Coordinator(0), name="") == ErrorCode.INVALID_REQUEST


def test_each_transactional_id_has_its_producer() -> None:
    """testAddGetPids of TransactionStateManagerTest."""
    coordinator = Coordinator(0)
    assert coordinator.by_id == {}
    assert [init(coordinator, name=name) for name in ("one", "two")] == [(NEW, 0), (NEW + 1, 0)]
    assert {name: state.producer_id for name, state in coordinator.by_id.items()} == {"one": NEW, "two": NEW + 1}


@pytest.mark.parametrize(
    ("timeout_ms", "is_valid"),
    [(1, True), (-1, False), (0, False), (MAX_TIMEOUT_MS, True), (MAX_TIMEOUT_MS + 1, False)],
)
def test_validate_transaction_timeout(timeout_ms: int, is_valid: bool) -> None:
    """testValidateTransactionTimeout of TransactionStateManagerTest, without two-phase commit."""
    result = Coordinator(0).request(InitProducer(ID, timeout_ms))
    assert result.code == (NONE if is_valid else ErrorCode.INVALID_TRANSACTION_TIMEOUT)


# -- in an open transaction -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("level", "epoch", "last_epoch", "next_producer_id"),
    [
        pytest.param(0, EPOCH, -1, -1, id="shouldAbortTransactionOnHandleInitPidWhenExistingTransactionInOngoingState"),
        pytest.param(0, MAX_EPOCH, -1, -1, id="shouldUseLastEpochToFenceWhenEpochsAreExhausted"),
        pytest.param(2, MAX_EPOCH, MAX_EPOCH, NEW, id="shouldNotCauseEpochOverflowWhenInitPidDuringOngoingTxnV2"),
    ],
)
@pytest.mark.parametrize("times_out", [False, True])
def test_an_open_transaction_is_aborted(
    level: int, epoch: int, last_epoch: int, next_producer_id: int, *, times_out: bool
) -> None:
    """Whether by the next producer or by its timeout: shouldAbortExpiredTransactionsInOngoingStateAndBumpEpoch,
    shouldHandleTimeoutAtEpochOverflowBoundaryCorrectlyTV2. Below level 2 of transaction.version its producer is fenced for
    good, as the last epoch is not kept."""
    coordinator = knowing(before := known(ONGOING, epoch, last_epoch=epoch - 1), level)
    if times_out:
        coordinator.tick(before.started_ms + TIMEOUT_MS)
        assert coordinator.kept == []
        coordinator.tick(before.started_ms + TIMEOUT_MS + 1)
    else:
        assert init(coordinator) == CONCURRENT
    (aborted,) = coordinator.kept
    assert (aborted.status, aborted.producer_id, aborted.epoch) == (Status.PREPARE_ABORT, PRODUCER, epoch + 1)
    assert (aborted.last_epoch, aborted.next_producer_id) == (last_epoch, next_producer_id)
    assert (aborted.started_ms, aborted.partitions) == (before.started_ms, before.partitions)
    assert init(coordinator) == CONCURRENT
    coordinator.mark()
    expected = FENCED if level == 0 else (NEW, 0)
    assert init(coordinator, (PRODUCER, epoch)) == expected


@pytest.mark.parametrize(
    "times_out",
    [
        pytest.param(True, id="shouldHandleTimeoutAtEpochOverflowBoundaryCorrectlyAndLateClientAbortRequestTV2"),
        pytest.param(False, id="shouldRotateProducerIdWhenInitPidFencesOngoingTxnAtEpochOverflowBoundaryTV2"),
    ],
)
def test_the_producer_of_an_aborted_transaction_gets_the_next_producer_id(*, times_out: bool) -> None:
    """shouldHandleTimeoutAtEpochOverflowBoundaryCorrectlyAndRetryInitProducerIdTV2: by InitProducerId as by EndTxn."""
    coordinator = knowing(known(ONGOING, MAX_EPOCH, version=2), level=2)
    if times_out:
        coordinator.tick(NOW_MS + TIMEOUT_MS)
    else:
        assert init(coordinator) == CONCURRENT
    coordinator.mark()
    state = coordinator.by_id[ID]
    assert (state.status, state.producer_id, state.epoch) == (COMPLETE_ABORT, NEW, 0)
    late = coordinator.request(EndTransaction(ID, Claim(PRODUCER, MAX_EPOCH), False, bumps_epoch=True))
    assert result_of(late) == (NEW, 0)
    assert init(coordinator, (PRODUCER, MAX_EPOCH)) == (NEW, 0)
    assert [kept.status for kept in coordinator.kept] == [Status.PREPARE_ABORT, COMPLETE_ABORT, EMPTY]


@pytest.mark.parametrize(
    ("level", "afterwards"),
    [
        pytest.param(0, EPOCH + 2, id="shouldNotRepeatedlyBumpEpochDueToInitPidDuringOngoingTxnIfAppendToLogFails"),
        pytest.param(2, EPOCH + 2, id="testTV2AllowsEpochReBumpingAfterFailedWrite"),
    ],
)
@pytest.mark.parametrize("times_out", [False, True])
def test_a_state_that_is_not_kept_bumps_no_epoch(level: int, afterwards: int, *, times_out: bool) -> None:
    """shouldNotBumpEpochWhenAbortingExpiredTransactionIfAppendToLogFails. Below level 2 Apache Kafka has the bumped epoch in
    its memory meanwhile."""
    coordinator = knowing(before := known(ONGOING), level)
    coordinator.error = ErrorCode.NOT_ENOUGH_REPLICAS
    for _ in range(2):
        if times_out:
            coordinator.tick(NOW_MS + TIMEOUT_MS)
        else:
            assert init(coordinator) == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert coordinator.by_id[ID] == before
    coordinator.error = NONE
    if times_out:
        coordinator.tick(NOW_MS + TIMEOUT_MS)
    else:
        assert init(coordinator) == CONCURRENT
    assert [state.epoch for state in coordinator.kept] == [EPOCH + 1]
    coordinator.mark()
    assert init(coordinator) == (PRODUCER, afterwards)


@pytest.mark.parametrize("status", list(Status), ids=lambda status: status.name)
def test_should_only_consider_transactions_in_the_ongoing_state_to_abort(status: Status) -> None:
    """shouldOnlyConsiderTransactionsInTheOngoingStateToAbort of TransactionStateManagerTest."""
    coordinator = knowing(known(status))
    coordinator.tick(NOW_MS + TIMEOUT_MS)
    assert [state.status for state in coordinator.kept] == ([Status.PREPARE_ABORT] if status == ONGOING else [])
