"""AddPartitionsToTxn and its verification by leaders, by the names of Kafka's TransactionCoordinatorTest."""

from __future__ import annotations

import pytest

from coterie.coordinator.transactions.machine import AddToTransaction
from coterie.coordinator.transactions.state import Status, Transaction
from coterie.coordinator.transactions.steps import Claim
from coterie.wire.errors import ErrorCode
from tests.coordinator.transactions.coordinators import (
    EPOCH,
    ID,
    NONE,
    NOW_MS,
    PRODUCER,
    A,
    B,
    Coordinator,
    knowing,
    known,
)

MAPPING, FENCED = ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.PRODUCER_FENCED
CONCURRENT, ABORTABLE = ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.TRANSACTION_ABORTABLE
ITSELF = Claim(PRODUCER, EPOCH, returns_abortable=True)
ONGOING, PREPARE_COMMIT = Status.ONGOING, Status.PREPARE_COMMIT


def add(coordinator: Coordinator, claim: Claim = ITSELF, name: str = ID, version: int = 0) -> ErrorCode:
    return coordinator.request(AddToTransaction(name, claim, frozenset({A}), version)).code


@pytest.mark.parametrize(
    ("transaction", "claim", "expected"),
    [
        pytest.param(
            *(None, ITSELF, MAPPING),
            id="shouldRespondWithInvalidPidMappingOnAddPartitionsToTransactionWhenTransactionalIdNotPresent",
        ),
        pytest.param(
            *(known(PREPARE_COMMIT, version=2), ITSELF, CONCURRENT),
            id="shouldRespondWithConcurrentTransactionsOnAddPartitionsWhenStateIsPrepareCommit",
        ),
        pytest.param(
            *(known(PREPARE_COMMIT, 10, version=2), Claim(PRODUCER, 0), CONCURRENT),
            id="testNothingIsCheckedWhilePending",
        ),
        pytest.param(
            *(known(Status.PREPARE_ABORT, version=2), ITSELF, CONCURRENT),
            id="shouldRespondWithConcurrentTransactionOnAddPartitionsWhenStateIsPrepareAbort",
        ),
        pytest.param(
            *(known(Status.COMPLETE_COMMIT, 10, last_epoch=9, version=2), Claim(PRODUCER, 0), FENCED),
            id="shouldRespondWithProducerFencedOnAddPartitionsWhenEpochsAreDifferent",
        ),
        pytest.param(
            *(known(ONGOING), ITSELF, NONE),
            id="shouldRespondWithErrorsNoneOnAddPartitionWhenNoErrorsAndPartitionsTheSame",
        ),
    ],
)
def test_add_without_a_new_state(transaction: Transaction | None, claim: Claim, expected: ErrorCode) -> None:
    coordinator = knowing(transaction)
    assert add(coordinator, claim, version=2) == expected
    assert coordinator.kept == []


def test_add_without_a_transactional_id() -> None:
    """shouldRespondWithInvalidRequestAddPartitionsToTransactionWhenTransactionalIdIsEmpty."""
    assert add(Coordinator(0), name="") == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("version", [0, 2])
@pytest.mark.parametrize(
    ("status", "partitions"),
    [
        pytest.param(Status.EMPTY, (), id="shouldAppendNewMetadataToLogOnAddPartitionsWhenPartitionsAdded"),
        pytest.param(ONGOING, (B,), id="shouldRespondWithSuccessOnAddPartitionsWhenStateIsOngoing"),
        pytest.param(Status.COMPLETE_COMMIT, (), id="shouldRespondWithSuccessOnAddPartitionsWhenStateIsCompleteCommit"),
        pytest.param(Status.COMPLETE_ABORT, (), id="shouldRespondWithSuccessOnAddPartitionsWhenStateIsCompleteAbort"),
    ],
)
def test_add_with_a_new_state(version: int, status: Status, partitions: tuple[tuple[str, int], ...]) -> None:
    before = known(status, last_epoch=EPOCH - 1, partitions=frozenset(partitions), version=version)
    coordinator = knowing(before)
    assert add(coordinator, version=version) == NONE
    (state,) = coordinator.kept
    assert state == coordinator.by_id[ID]
    assert (state.status, state.partitions) == (ONGOING, frozenset({A, *partitions}))
    assert (state.producer_id, state.epoch, state.client_transaction_version) == (PRODUCER, EPOCH, version)
    assert state.started_ms == (before.started_ms if status == ONGOING else NOW_MS)


@pytest.mark.parametrize(
    ("status", "claim", "partition", "expected"),
    [
        pytest.param(ONGOING, Claim(0, EPOCH), A, MAPPING, id="testVerifyPartitionHandling-id"),
        pytest.param(PREPARE_COMMIT, Claim(PRODUCER, 0), A, FENCED, id="testVerifyPartitionHandling-epoch"),
        pytest.param(PREPARE_COMMIT, ITSELF, A, CONCURRENT, id="testVerifyPartitionHandling-PrepareCommit"),
        pytest.param(Status.PREPARE_ABORT, ITSELF, A, CONCURRENT, id="testVerifyPartitionHandling-PrepareAbort"),
        pytest.param(
            *(ONGOING, ITSELF, A, NONE),
            id="shouldRespondWithErrorsNoneOnAddPartitionWhenOngoingVerifyOnlyAndPartitionsTheSame",
        ),
        pytest.param(
            ONGOING, ITSELF, B, ABORTABLE, id="shouldRespondWithInvalidTxnStateWhenVerifyOnlyAndPartitionNotPresent"
        ),
        pytest.param(Status.EMPTY, ITSELF, A, ABORTABLE, id="testVerifyPartitionHandling-Empty"),
    ],
)
def test_verify(status: Status, claim: Claim, partition: tuple[str, int], expected: ErrorCode) -> None:
    coordinator = knowing(known(status))
    assert coordinator.verify(claim, partition) == expected
    assert coordinator.kept == []
