"""The judge of producers and transactions: what each of its rules lets pass, and the defect that it finds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.coordinator.events import TransactionalOffsetStored
from coterie.coordinator.outcome import CoordinatorConfig
from coterie.coordinator.shard import Shard
from coterie.coordinator.state import CommittedOffset, Group
from coterie.coordinator.transactions.state import Status, Transaction
from coterie.laboratory.transaction_checker import GROUP, OFFSETS_PARTITION, TransactionChecker
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.transactions.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

T0 = ("t", 0)
PRODUCER = (7, 0)
ONGOING = Transaction("x", *PRODUCER, 1000, Status.ONGOING, frozenset({OFFSETS_PARTITION}))
COMMITTING = replace(ONGOING, status=Status.PREPARE_COMMIT)
ABORTING = replace(ONGOING, status=Status.PREPARE_ABORT)


def offset(number: int) -> CommittedOffset:
    return CommittedOffset(number, -1, "", 0)


def given_id(producer_id: int, epoch: int = 0, error: int = 0) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=error, producer_id=producer_id, producer_epoch=epoch)


def of(transactional_id: str | None) -> InitProducerIdRequest:
    return InitProducerIdRequest(transactional_id, 1000)


def committed_in(checker: TransactionChecker, *offsets: int) -> None:
    checker.accepted(PRODUCER, [TransactionalOffsetStored("t", 0, offset(o), PRODUCER[0]) for o in offsets])


def begun(*, certain: bool = True) -> TransactionChecker:
    checker = TransactionChecker(certain=certain)
    checker.kept(ONGOING)
    return checker


def shard_with(held: int | None, pending_of: int | None = None) -> Shard:
    shard, group = Shard(CoordinatorConfig()), Group(GROUP)
    if held is not None:
        group.offsets = {T0: offset(held)}
    if pending_of is not None:
        group.pending_offsets = {pending_of: {}}
    shard.groups = {GROUP: group}
    return shard


# -- producer ids -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        ((None, 5, 0), (None, 5, 0), "producer id 5 was given to two producers"),
        (("x", 5, 0), (None, 5, 0), "producer id 5 has two owners"),
        ((None, 5, 0), ("x", 5, 3), "producer id 5 has two owners"),
        ((None, 4, 0), (None, 5, 1), "a new producer id begins with epoch 1"),
        (("x", 5, 0), ("x", 5, 1), ""),
        ((None, 5, 0), (None, 6, 0), ""),
    ],
)
def test_a_producer_id_has_one_owner(
    first: tuple[str | None, int, int], second: tuple[str | None, int, int], message: str
) -> None:
    checker = TransactionChecker(certain=True)
    checker.initialized(of(first[0]), given_id(*first[1:]))
    if not message:
        checker.initialized(of(second[0]), given_id(*second[1:]))
        return
    checker.initialized(of(second[0]), given_id(*second[1:], error=ErrorCode.INVALID_PRODUCER_EPOCH))  # gives none
    with pytest.raises(AssertionError, match=message):
        checker.initialized(of(second[0]), given_id(*second[1:]))


# -- offsets of a transaction -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "state",
    [
        None,
        replace(ONGOING, status=Status.EMPTY),
        replace(ONGOING, partitions=frozenset({("__consumer_offsets", 1)})),
        replace(ONGOING, epoch=1),
        replace(ONGOING, producer_id=8),
        COMMITTING,
    ],
)
def test_an_offset_outside_an_ongoing_transaction_is_seen(state: Transaction | None) -> None:
    checker = TransactionChecker(certain=True)
    if state is not None:
        checker.states = {"x": state}
    with pytest.raises(AssertionError, match="accepted outside an ongoing transaction"):
        committed_in(checker, 1)
    committed_in(begun(), 1)


def test_a_transaction_is_prepared_only_after_its_beginning() -> None:
    with pytest.raises(AssertionError, match="x is prepared without a beginning"):
        TransactionChecker(certain=True).kept(COMMITTING)


@given(st.booleans(), st.lists(st.integers(0, 3), min_size=1, max_size=4, unique=True), st.integers(0, 3))
def test_a_group_has_the_offset_appended_last_of_a_committed_transaction(
    commit: bool, offsets: list[int], held: int
) -> None:
    checker = begun()
    committed_in(checker, *offsets)
    checker.kept(COMMITTING if commit else ABORTING)
    checker.check(shard_with(None if commit else held))  # not before the markers are written
    checker.kept(replace(ONGOING, status=Status.COMPLETE_COMMIT if commit else Status.COMPLETE_ABORT))
    right = offsets[-1] if commit else None
    checker.check(shard_with(right))
    for wrong in {None, held} - {right}:
        with pytest.raises(AssertionError, match="has committed"):
            checker.check(shard_with(wrong))
    assert (checker.commits, checker.aborts) == (int(commit), int(not commit))


def test_a_report_to_the_producer_is_compared_with_what_was_decided() -> None:
    for state, committed in ((COMMITTING, True), (ABORTING, False)):
        checker = begun()
        committed_in(checker, 1, 2)
        checker.kept(state)
        checker.reported(committed, [1, 2], bumps_epoch=False)
        with pytest.raises(AssertionError, match="offset 1 of an aborted" if committed else "offset 1 of a committed"):
            checker.reported(not committed, [1, 2], bumps_epoch=False)
        checker.certain = False
        checker.reported(not committed, [1, 2], bumps_epoch=False)


@pytest.mark.parametrize("status", Status)
def test_an_offset_is_pending_only_while_its_transaction_is_open(status: Status) -> None:
    checker = TransactionChecker(certain=False)
    checker.states = {"x": replace(ONGOING, status=status)}
    if status in (Status.ONGOING, Status.PREPARE_COMMIT, Status.PREPARE_ABORT):
        checker.check(shard_with(None, pending_of=7))
    else:
        with pytest.raises(AssertionError, match="has offsets of producer 7 pending, which has no open transaction"):
            checker.check(shard_with(None, pending_of=7))
    with pytest.raises(AssertionError, match="producer 8 pending"):
        checker.check(shard_with(None, pending_of=8))


# -- a broker that comes back -------------------------------------------------------------------------------------------

DECIDED: dict[str, tuple[Callable[[], dict[str, Transaction]], int | None]] = {
    "the commit is in the log": (lambda: {"x": replace(ONGOING, status=Status.COMPLETE_COMMIT)}, 1),
    "the abort is in the log": (lambda: {"x": replace(ONGOING, status=Status.COMPLETE_ABORT)}, None),
    "a later epoch fenced it": (lambda: {"x": replace(ONGOING, epoch=1, status=Status.EMPTY)}, None),
}


@pytest.mark.parametrize("log", DECIDED)
def test_a_decision_without_response_holds_as_the_log_has_it(log: str) -> None:
    states, held = DECIDED[log]
    checker = begun()
    committed_in(checker, 1)
    checker.reloaded(states())
    checker.check(shard_with(held))
    with pytest.raises(AssertionError, match="has committed"):
        checker.check(shard_with(1 if held is None else None))


def test_a_transaction_that_goes_on_is_decided_later() -> None:
    checker = begun()
    committed_in(checker, 1)
    checker.reloaded({"x": ONGOING})
    checker.kept(COMMITTING)
    checker.reported(True, [1], bumps_epoch=False)


def test_a_disk_that_lies_excuses_what_was_committed_before() -> None:
    checker = begun(certain=False)
    committed_in(checker, 1)
    checker.kept(COMMITTING)
    checker.reloaded({})
    checker.check(shard_with(9))
