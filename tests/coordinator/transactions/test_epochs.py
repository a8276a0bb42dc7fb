"""A transaction from state to state, its epochs and times, by the names of Kafka's TransactionMetadataTest. Times may run
backwards: every step takes that of its own."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from coterie.coordinator.transactions.state import Status, Transaction
from coterie.coordinator.transactions.steps import (
    MAX_EPOCH,
    Claim,
    add_partitions,
    complete,
    fenced,
    init_producer,
    prepare_end,
    prepare_end_with_bump,
)
from coterie.wire.errors import ErrorCode, Refusal
from tests.coordinator.transactions.coordinators import ID, NEW, NOW_MS, PRODUCER, TIMEOUT_MS, A, B, known

EARLIER_MS = NOW_MS - 5_000  # than the state before
EMPTY, ONGOING = Status.EMPTY, Status.ONGOING
PREPARE_COMMIT, PREPARE_ABORT = Status.PREPARE_COMMIT, Status.PREPARE_ABORT
COMPLETE_COMMIT, COMPLETE_ABORT = Status.COMPLETE_COMMIT, Status.COMPLETE_ABORT


def init(transaction: Transaction | None, claimed_epoch: int | None = None, now_ms: int = NOW_MS) -> Transaction:
    claimed = None if claimed_epoch is None else (PRODUCER, claimed_epoch)
    return init_producer(transaction, ID, TIMEOUT_MS, claimed, lambda: NEW, now_ms)


@pytest.mark.parametrize(
    ("transaction", "claimed_epoch", "expected"),
    [
        pytest.param(None, None, (NEW, 0, -1), id="testInitializeEpoch"),
        pytest.param(None, 735, (NEW, 0, -1), id="testAttemptedEpochBumpWithNewlyCreatedMetadata"),
        pytest.param(known(EMPTY, 735), None, (PRODUCER, 736, -1), id="testNormalEpochBump"),
        pytest.param(known(EMPTY, 735), 735, (PRODUCER, 736, 735), id="testEpochBumpWithCurrentEpochProvided"),
        pytest.param(
            known(EMPTY, 735, last_epoch=734), 734, (PRODUCER, 735, 734), id="testAttemptedEpochBumpWithLastEpoch"
        ),
        pytest.param(known(EMPTY, MAX_EPOCH), MAX_EPOCH, (NEW, 0, MAX_EPOCH), id="testRotateProducerId"),
        pytest.param(known(EMPTY, MAX_EPOCH), None, (NEW, 0, -1), id="testBumpEpochNotAllowedIfEpochsExhausted"),
        pytest.param(
            *(known(EMPTY, MAX_EPOCH, last_epoch=MAX_EPOCH - 1), MAX_EPOCH - 1, (PRODUCER, MAX_EPOCH, MAX_EPOCH - 1)),
            id="testBumpEpochNotAllowedIfEpochsExhausted-again",
        ),
    ],
)
def test_the_epoch_of_a_producer(
    transaction: Transaction | None, claimed_epoch: int | None, expected: tuple[int, int, int]
) -> None:
    state = init(transaction, claimed_epoch)
    assert (state.producer_id, state.epoch, state.last_epoch) == expected
    assert state.previous_producer_id == (NEW if transaction is None else PRODUCER)


def test_an_older_epoch_is_fenced() -> None:
    """testAttemptedEpochBumpWithFencedEpoch."""
    with pytest.raises(Refusal) as refused:
        init(known(EMPTY, 735, last_epoch=734), 733)
    assert refused.value.code == ErrorCode.PRODUCER_FENCED


@pytest.mark.parametrize("version", [0, 2])
@pytest.mark.parametrize("claimed_epoch", [None, MAX_EPOCH])
@pytest.mark.parametrize(
    "status",
    [
        pytest.param(ONGOING, id="testRotateProducerIdInOngoingState"),
        pytest.param(PREPARE_ABORT, id="testRotateProducerIdInPrepareAbortState"),
        pytest.param(PREPARE_COMMIT, id="testRotateProducerIdInPrepareCommitState"),
    ],
)
def test_an_open_transaction_keeps_its_producer(status: Status, claimed_epoch: int | None, version: int) -> None:
    with pytest.raises(AssertionError):
        init(known(status, MAX_EPOCH, version=version), claimed_epoch)


@pytest.mark.parametrize(
    "status",
    [
        pytest.param(EMPTY, id="testTransitFromEmptyToPrepareAbortInV2"),
        pytest.param(COMPLETE_ABORT, id="testTransitFromCompleteAbortToPrepareAbortInV2"),
        pytest.param(COMPLETE_COMMIT, id="testTransitFromCompleteCommitToPrepareAbortInV2"),
    ],
)
def test_an_abort_of_what_never_arrived(status: Status) -> None:
    before = known(status, 735, version=2)
    state = prepare_end_with_bump(before, Claim(PRODUCER, 735), False, lambda: NEW, NOW_MS + 1)
    assert (state.status, state.producer_id, state.epoch) == (PREPARE_ABORT, PRODUCER, 736)
    assert state.started_ms == NOW_MS + 1


@pytest.mark.parametrize(
    ("before", "step", "expected"),
    [
        pytest.param(
            *(known(EMPTY), lambda t: init(t, 1, EARLIER_MS), (PRODUCER, 2, 1, EMPTY, -1)),
            id="testTolerateUpdateTimeShiftDuringEpochBump",
        ),
        pytest.param(
            *(known(EMPTY, MAX_EPOCH), lambda t: init(t, MAX_EPOCH, EARLIER_MS), (NEW, 0, MAX_EPOCH, EMPTY, -1)),
            id="testTolerateUpdateTimeResetDuringProducerIdRotation",
        ),
        pytest.param(
            *(known(EMPTY), lambda t: add_partitions(t, {A}, 0, EARLIER_MS), (PRODUCER, 1, -1, ONGOING, EARLIER_MS)),
            id="testTolerateTimeShiftDuringAddPartitions",
        ),
        pytest.param(
            *(known(ONGOING), lambda t: prepare_end(t, True, EARLIER_MS), (PRODUCER, 1, -1, PREPARE_COMMIT, None)),
            id="testTolerateTimeShiftDuringPrepareCommit",
        ),
        pytest.param(
            *(known(ONGOING), lambda t: prepare_end(t, False, EARLIER_MS), (PRODUCER, 1, -1, PREPARE_ABORT, None)),
            id="testTolerateTimeShiftDuringPrepareAbort",
        ),
        *(
            pytest.param(
                known(status, last_epoch=0, version=version),
                lambda t: complete(t, EARLIER_MS),
                (PRODUCER, 1, 0, done, None),
                id=f"{name}-{version}",
            )
            for version in (0, 2)
            for name, status, done in (
                ("testTolerateTimeShiftDuringCompleteCommit", PREPARE_COMMIT, COMPLETE_COMMIT),
                ("testTolerateTimeShiftDuringCompleteAbort", PREPARE_ABORT, COMPLETE_ABORT),
            )
        ),
    ],
)
def test_time_may_run_backwards(
    before: Transaction, step: Callable[[Transaction], Transaction], expected: tuple[int, int, int, Status, int | None]
) -> None:
    """The last of ``expected``: when the transaction began, None where that stays."""
    state = step(before)
    assert (state.producer_id, state.epoch, state.last_epoch, state.status) == expected[:4]
    assert state.started_ms == (before.started_ms if expected[4] is None else expected[4])
    assert state.updated_ms == EARLIER_MS


def test_a_further_partition_does_not_begin_the_transaction_anew() -> None:
    """testTolerateTimeShiftDuringAddPartitions."""
    first = add_partitions(known(EMPTY), {A}, 0, EARLIER_MS)
    second = add_partitions(first, {B}, 0, EARLIER_MS - 1)
    assert (second.partitions, second.started_ms, second.updated_ms) == ({A, B}, EARLIER_MS, EARLIER_MS - 1)


@pytest.mark.parametrize(
    "epoch",
    [
        pytest.param(MAX_EPOCH, id="testFenceProducerAfterEpochsExhausted"),
        pytest.param(MAX_EPOCH + 1, id="testFenceProducerNotAllowedIfItWouldOverflow"),
    ],
)
@pytest.mark.parametrize("level", [0, 2])
def test_the_last_epoch_is_for_fencing(epoch: int, level: int) -> None:
    state = fenced(known(ONGOING, epoch), level, lambda: NEW, NOW_MS)
    assert (state.status, state.producer_id, state.epoch) == (PREPARE_ABORT, PRODUCER, MAX_EPOCH + 1)
    assert state.last_epoch == (-1 if level == 0 else epoch)


@pytest.mark.parametrize("level", [0, 2])
@pytest.mark.parametrize(
    "status",
    [
        pytest.param(COMPLETE_COMMIT, id="testInvalidTransitionFromCompleteCommitToFence"),
        pytest.param(COMPLETE_ABORT, id="testInvalidTransitionFromCompleteAbortToFence"),
    ],
)
def test_only_an_open_transaction_is_fenced(status: Status, level: int) -> None:
    with pytest.raises(AssertionError):
        fenced(known(status), level, lambda: NEW, NOW_MS)


@pytest.mark.parametrize(
    ("epoch", "marked", "following"),
    [
        pytest.param(10, 11, (PRODUCER, 11), id="testEpochBumpOnEndTxn"),
        pytest.param(MAX_EPOCH, MAX_EPOCH + 1, (NEW, 0), id="testEpochBumpOnEndTxnOverflow"),
    ],
)
def test_the_end_of_a_transaction_bumps_the_epoch(epoch: int, marked: int, following: tuple[int, int]) -> None:
    """The markers are of the bumped epoch; the last epoch that the producer knows of is that of the transaction."""
    before = known(ONGOING, epoch, version=2)
    prepared = prepare_end_with_bump(before, Claim(PRODUCER, epoch), True, lambda: NEW, NOW_MS - 1)
    assert (prepared.producer_id, prepared.epoch, prepared.last_epoch) == (PRODUCER, marked, epoch)
    done = complete(prepared, NOW_MS)
    assert (done.producer_id, done.epoch, done.last_epoch) == (*following, epoch)
    assert prepared.client_transaction_version == done.client_transaction_version == 2
