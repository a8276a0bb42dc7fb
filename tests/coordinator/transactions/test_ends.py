"""EndTxn in every state of a transaction, by the names of Kafka's TransactionCoordinatorTest.

While a transaction is prepared, its completion is pending in every coordinator of Kafka's that runs, and each EndTxn of
version 2 receives CONCURRENT_TRANSACTIONS (`endTransaction` of 4.3.0 checks nothing before). Tests of Kafka's that set up a
prepared state without its pending completion expect PRODUCER_FENCED and INVALID_TXN_STATE, which no producer can see."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from coterie.coordinator.transactions.machine import AddToTransaction, EndTransaction, TransactionResult
from coterie.coordinator.transactions.state import Status, Transaction
from coterie.coordinator.transactions.steps import MAX_EPOCH, Claim
from coterie.wire.errors import ErrorCode
from tests.coordinator.transactions.coordinators import (
    EPOCH,
    ID,
    NEW,
    NONE,
    NOW_MS,
    PRODUCER,
    A,
    Coordinator,
    knowing,
    known,
)

FENCED, CONCURRENT, INVALID = (
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.INVALID_TXN_STATE,
)
EMPTY, ONGOING = Status.EMPTY, Status.ONGOING
PREPARE_COMMIT, PREPARE_ABORT = Status.PREPARE_COMMIT, Status.PREPARE_ABORT
COMPLETE_COMMIT, COMPLETE_ABORT = Status.COMPLETE_COMMIT, Status.COMPLETE_ABORT
COMMIT, ABORT = True, False


class End(NamedTuple):
    """``shift``: of the claimed epoch against that of the state. ``kept``: the first state that is appended, if any."""

    name: str
    version: int
    status: Status
    shift: int
    committed: bool
    code: ErrorCode
    kept: Status | None = None


ENDS = [
    End("shouldReplyWithProducerFencedOnEndTxnWhenEpochIsNotSameAsTransaction", 0, ONGOING, -1, COMMIT, FENCED),
    End("shouldReplyWithProducerFencedOnEndTxnWhenEpochIsNotSameAsTransaction", 2, ONGOING, -1, COMMIT, FENCED),
    End("testEndTxnWhenStatusIsCompleteCommitAndResultIsCommitInV1", 0, COMPLETE_COMMIT, 0, COMMIT, NONE),
    End("testEndTxnWhenStatusIsCompleteCommitAndResultIsCommitInV1", 0, COMPLETE_COMMIT, -1, COMMIT, FENCED),
    End("testEndTxnWhenStatusIsCompleteCommitAndResultIsCommitInV2", 2, COMPLETE_COMMIT, 0, COMMIT, INVALID),
    End("testEndTxnWhenStatusIsCompleteCommitAndResultIsCommitInV2", 2, COMPLETE_COMMIT, -1, COMMIT, NONE),
    End("testEndTxnWhenStatusIsCompleteAbortAndResultIsAbortInV1", 0, COMPLETE_ABORT, 0, ABORT, NONE),
    End("testEndTxnWhenStatusIsCompleteAbortAndResultIsAbortInV1", 0, COMPLETE_ABORT, -1, ABORT, FENCED),
    End(
        "shouldReturnOkOnEndTxnWhenStatusIsCompleteAbortAndResultIsAbortInV2",
        *(2, COMPLETE_ABORT, 0, ABORT, NONE, PREPARE_ABORT),
    ),
    End("shouldReturnOkOnEndTxnWhenStatusIsCompleteAbortAndResultIsAbortInV2", 2, COMPLETE_ABORT, -1, ABORT, NONE),
    End(
        "shouldReturnInvalidTxnRequestOnEndTxnRequestWhenStatusIsCompleteAbortAndResultIsNotAbort",
        *(0, COMPLETE_ABORT, 0, COMMIT, INVALID),
    ),
    End(
        "shouldReturnInvalidTxnRequestOnEndTxnRequestWhenStatusIsCompleteAbortAndResultIsNotAbort",
        *(2, COMPLETE_ABORT, -1, COMMIT, INVALID),
    ),
    End(
        "shouldReturnInvalidTxnRequestOnEndTxnRequestWhenStatusIsCompleteCommitAndResultIsNotCommit",
        *(0, COMPLETE_COMMIT, 0, ABORT, INVALID),
    ),
    End("testEndTxnRequestWhenStatusIsCompleteCommitAndResultIsAbortInV1", 0, COMPLETE_COMMIT, 0, ABORT, INVALID),
    End("testEndTxnRequestWhenStatusIsCompleteCommitAndResultIsAbortInV1", 0, COMPLETE_COMMIT, -1, ABORT, FENCED),
    End(
        "testEndTxnRequestWhenStatusIsCompleteCommitAndResultIsAbortInV2",
        *(2, COMPLETE_COMMIT, 0, ABORT, NONE, PREPARE_ABORT),
    ),
    End("testEndTxnRequestWhenStatusIsCompleteCommitAndResultIsAbortInV2", 2, COMPLETE_COMMIT, -1, ABORT, INVALID),
    End(
        "shouldReturnConcurrentTransactionsOnEndTxnRequestWhenStatusIsPrepareCommit",
        *(0, PREPARE_COMMIT, 0, COMMIT, CONCURRENT),
    ),
    End(
        "shouldReturnConcurrentTransactionsOnEndTxnRequestWhenStatusIsPrepareCommit",
        *(2, PREPARE_COMMIT, -1, COMMIT, CONCURRENT),
    ),
    End("TestEndTxnRequestWhenEmptyTransactionStateForAbortInV1", 0, EMPTY, 0, ABORT, INVALID),
    End("TestEndTxnRequestWhenEmptyTransactionStateForAbortInV2", 2, EMPTY, 0, ABORT, NONE, PREPARE_ABORT),
    End("TestEndTxnRequestWhenEmptyTransactionStateForAbortInV2", 2, EMPTY, -1, ABORT, FENCED),
    End("TestEndTxnRequestWhenEmptyTransactionStateForCommitInV2", 2, EMPTY, 0, COMMIT, INVALID),
    End("TestEndTxnRequestWhenEmptyTransactionStateForCommitInV2", 2, EMPTY, -1, COMMIT, FENCED),
    End("shouldReturnInvalidTxnRequestOnEndTxnV2IfNotEndTxnV2Retry", 2, PREPARE_COMMIT, 0, COMMIT, CONCURRENT),
    End("shouldReturnInvalidTxnRequestOnEndTxnV2IfNotEndTxnV2Retry", 2, COMPLETE_COMMIT, 0, COMMIT, INVALID),
    End("shouldReturnInvalidEpochOnEndTxnWhenEpochIsLarger", 0, COMPLETE_COMMIT, 1, COMMIT, FENCED),
    End("shouldReturnInvalidEpochOnEndTxnWhenEpochIsLarger", 2, COMPLETE_COMMIT, 1, COMMIT, FENCED),
    End("shouldReturnInvalidEpochOnEndTxnWhenEpochIsSmaller", 0, COMPLETE_COMMIT, -1, COMMIT, FENCED),
    End("shouldReturnInvalidEpochOnEndTxnWhenEpochIsSmaller", 2, COMPLETE_COMMIT, -2, COMMIT, FENCED),
    End(
        "shouldAppendPrepareCommitToLogOnEndTxnWhenStatusIsOngoingAndResultIsCommit",
        *(0, ONGOING, 0, COMMIT, NONE, PREPARE_COMMIT),
    ),
    End(
        "shouldAppendPrepareCommitToLogOnEndTxnWhenStatusIsOngoingAndResultIsCommit",
        *(2, ONGOING, 0, COMMIT, NONE, PREPARE_COMMIT),
    ),
    End(
        "shouldAppendPrepareAbortToLogOnEndTxnWhenStatusIsOngoingAndResultIsAbort",
        *(0, ONGOING, 0, ABORT, NONE, PREPARE_ABORT),
    ),
    End(
        "shouldAppendPrepareAbortToLogOnEndTxnWhenStatusIsOngoingAndResultIsAbort",
        *(2, ONGOING, 0, ABORT, NONE, PREPARE_ABORT),
    ),
]


def ended(
    coordinator: Coordinator, version: int, epoch: int, committed: bool, producer_id: int = PRODUCER
) -> TransactionResult:
    claim = Claim(producer_id, epoch)
    return coordinator.request(EndTransaction(ID, claim, committed, bumps_epoch=version == 2))


@pytest.mark.parametrize("row", ENDS, ids=lambda row: f"{row.name}{row.shift:+}")
def test_end(row: End) -> None:
    coordinator = knowing(before := known(row.status, version=row.version, last_epoch=EPOCH - 1))
    assert ended(coordinator, row.version, EPOCH + row.shift, row.committed).code == row.code
    assert [state.status for state in coordinator.kept[:1]] == ([] if row.kept is None else [row.kept])
    if row.kept is not None:
        prepared = coordinator.kept[0]
        assert (prepared.producer_id, prepared.epoch) == (PRODUCER, EPOCH + (row.version == 2))
        assert prepared.started_ms == (before.started_ms if row.status == ONGOING else NOW_MS)


@pytest.mark.parametrize("committed", [COMMIT, ABORT])
@pytest.mark.parametrize("status", [PREPARE_COMMIT, PREPARE_ABORT])
@pytest.mark.parametrize(("version", "shift"), [(0, 0), (2, -2), (2, -1), (2, 0), (2, 1)])
def test_nothing_is_decided_while_the_markers_are_not_written(
    version: int, shift: int, *, status: Status, committed: bool
) -> None:
    """shouldReturnInvalidTxnRequestOnEndTxnRequestWhenStatusIsPrepareAbort, with the completion pending: the epoch of the state
    is that of the producer's next transaction, which may be ended at once."""
    coordinator = knowing(known(status, 7, version=version))
    assert ended(coordinator, version, 7 + shift, committed).code == CONCURRENT
    assert (coordinator.kept, coordinator.by_id[ID].status) == ([], status)


def test_a_fenced_producer_of_version_1_is_refused_before_the_markers_are_written() -> None:
    """endTransactionWithTV1 checks the producer first: the epoch of a prepared state is that of its own transaction."""
    coordinator = knowing(known(PREPARE_COMMIT, 7))
    assert ended(coordinator, 0, 6, COMMIT).code == FENCED


@pytest.mark.parametrize("version", [0, 2])
@pytest.mark.parametrize(
    ("transaction", "name", "expected"),
    [
        pytest.param(
            *(None, ID, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
            id="shouldReplyWithInvalidPidMappingOnEndTxnWhenTxnIdDoesntExist",
        ),
        pytest.param(
            *(known(ONGOING, 0), ID, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
            id="shouldReplyWithInvalidPidMappingOnEndTxnWhenPidDoesntMatchMapped",
        ),
        pytest.param(
            *(None, "", ErrorCode.INVALID_REQUEST),
            id="shouldRespondWithInvalidRequestOnEndTxnWhenTransactionalIdIsEmpty",
        ),
    ],
)
def test_end_of_an_unknown_producer(
    version: int, transaction: Transaction | None, name: str, expected: ErrorCode
) -> None:
    command = EndTransaction(name, Claim(0, 0), COMMIT, bumps_epoch=version == 2)
    assert knowing(transaction).request(command).code == expected


def test_should_return_ok_on_retry_after_epoch_overflow() -> None:
    """shouldReturnOkOnEndTxnV2IfEndTxnV2RetryEpochOverflow, shouldGenerateNewProducerIdIfEpochsExhaustedV2,
    shouldReturnConcurrentTxnOnAddPartitionsIfEndTxnV2EpochOverflowAndNotComplete."""
    coordinator = knowing(known(ONGOING, MAX_EPOCH, version=2), level=2)
    first = ended(coordinator, 2, MAX_EPOCH, COMMIT)
    assert (first.code, first.producer_id, first.epoch) == (NONE, NEW, 0)
    prepared = coordinator.by_id[ID]
    assert (prepared.status, prepared.producer_id, prepared.epoch) == (PREPARE_COMMIT, PRODUCER, MAX_EPOCH + 1)
    assert ended(coordinator, 2, MAX_EPOCH, COMMIT).code == CONCURRENT
    adding = AddToTransaction(ID, Claim(NEW, 0), frozenset({A}), 2)
    assert coordinator.request(adding).code == CONCURRENT
    of_no_producer = AddToTransaction(ID, Claim(NEW + 1, 0), frozenset({A}), 2)
    assert coordinator.request(of_no_producer).code == CONCURRENT
    coordinator.mark()
    assert coordinator.request(of_no_producer).code == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    again = ended(coordinator, 2, MAX_EPOCH, COMMIT)
    assert (again.code, again.producer_id, again.epoch) == (NONE, NEW, 0)
    assert coordinator.request(adding).code == NONE
    assert coordinator.by_id[ID].status == ONGOING
