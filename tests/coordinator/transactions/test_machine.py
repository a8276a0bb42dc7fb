"""The transactional ids of a partition, by the names of Kafka's TransactionCoordinatorTest,
TransactionStateManagerTest and TransactionMarkerChannelManagerTest."""

from __future__ import annotations

from itertools import count

import pytest

from coterie.coordinator.transactions.machine import (
    AddToTransaction,
    EndTransaction,
    InitProducer,
    KeepState,
    TransactionCommand,
    TransactionEffect,
    TransactionMachine,
    TransactionResult,
    WriteMarkers,
)
from coterie.coordinator.transactions.state import Status, TopicPartition, Transaction
from coterie.coordinator.transactions.steps import Claim
from coterie.wire.errors import ErrorCode

ID, A, B = "ledger", ("a", 0), ("b", 1)
TIMEOUT_MS, MAX_MS = 10_000, 60_000
NONE = ErrorCode.NONE


class Shard:
    """A shard whose states are kept when the test says so; ``waiting``: those that are not, in their order."""

    def __init__(self, version: int = 2) -> None:
        self.states = TransactionMachine(MAX_MS, count(100).__next__, lambda: version)
        self.now_ms = 0
        self.waiting: list[Transaction] = []
        self.responses: list[TransactionResult] = []
        self.marked: list[Transaction] = []

    def act(self, effects: list[TransactionEffect]) -> None:
        for effect in effects:
            match effect:
                case TransactionResult():
                    self.responses.append(effect)
                case KeepState(state):
                    self.waiting.append(state)
                case WriteMarkers(prepared):
                    self.marked.append(prepared)

    def submit(self, command: TransactionCommand) -> None:
        self.act(self.states.submit(command, "token", self.now_ms))

    def keep(self, error: ErrorCode = NONE) -> None:
        self.act(self.states.kept(self.waiting.pop(0), error, self.now_ms))

    def respond(self) -> TransactionResult:
        (result,) = self.responses
        self.responses.clear()
        return result

    def request(self, command: TransactionCommand) -> TransactionResult:
        self.submit(command)
        while self.waiting:
            self.keep()
        return self.respond()

    def written(self) -> None:
        self.act(self.states.marked(self.marked.pop(0), self.now_ms))

    @property
    def status(self) -> Status:
        return self.states.by_id[ID].status


def opened(*partitions: TopicPartition, version: int = 2) -> tuple[Shard, Claim]:
    """A shard with an ongoing transaction."""
    shard = Shard(version)
    taken = shard.request(InitProducer(ID, TIMEOUT_MS))
    claim = Claim(taken.producer_id, taken.epoch)
    assert shard.request(AddToTransaction(ID, claim, frozenset(partitions or (A, B)), version)).code == NONE
    return shard, claim


def test_a_state_is_in_force_once_it_is_kept() -> None:
    """testCompleteTransitionWhenAppendSucceeded."""
    shard = Shard()
    shard.submit(InitProducer(ID, TIMEOUT_MS))
    assert (shard.responses, shard.states.by_id) == ([], {})
    shard.keep()
    assert (shard.respond().producer_id, shard.status) == (100, Status.EMPTY)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ErrorCode.RECORD_LIST_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_append_fail_to_coordinator_error(error: ErrorCode, expected: ErrorCode) -> None:
    """testAppendFailToCoordinatorNotAvailableError, testAppendFailToNotCoordinatorError, testAppendFailToUnknownError: and the
    state before stays."""
    shard, claim = opened()
    shard.submit(EndTransaction(ID, claim, committed=True, bumps_epoch=True))
    shard.keep(error)
    assert (shard.respond().code, shard.status) == (expected, Status.ONGOING)
    assert shard.request(EndTransaction(ID, claim, committed=True, bumps_epoch=True)).code == NONE


def test_should_respond_with_concurrent_transactions_while_a_state_is_pending() -> None:
    """shouldNotBumpEpochWithPendingTransaction. A request that adds partitions may be of the epoch to come."""
    shard, claim = opened()
    shard.submit(EndTransaction(ID, claim, committed=True))
    for request in (
        AddToTransaction(ID, claim, frozenset({A})),
        AddToTransaction(ID, Claim(claim.producer_id, claim.epoch + 1), frozenset({A})),
        InitProducer(ID, TIMEOUT_MS, (claim.producer_id, 10)),
        EndTransaction(ID, claim, committed=True),
        InitProducer(ID, TIMEOUT_MS),
    ):
        shard.submit(request)
        assert shard.respond().code == ErrorCode.CONCURRENT_TRANSACTIONS
    shard.keep()
    assert shard.respond().code == NONE
    shard.submit(AddToTransaction(ID, claim, frozenset({A})))
    assert shard.respond().code == ErrorCode.CONCURRENT_TRANSACTIONS
    shard.written()
    shard.keep()
    assert shard.request(AddToTransaction(ID, claim, frozenset({A}))).code == NONE


@pytest.mark.parametrize("bumps_epoch", [False, True])
def test_the_markers_follow_the_decision_and_the_completion_follows_the_markers(*, bumps_epoch: bool) -> None:
    shard, claim = opened(version=2 if bumps_epoch else 0)
    shard.submit(EndTransaction(ID, claim, committed=True, bumps_epoch=bumps_epoch))
    assert shard.marked == []
    shard.keep()
    assert (shard.respond().epoch, shard.status) == (1 if bumps_epoch else -1, Status.PREPARE_COMMIT)
    shard.written()
    assert shard.status == Status.PREPARE_COMMIT
    shard.keep()
    assert (shard.status, shard.states.by_id[ID].partitions) == (Status.COMPLETE_COMMIT, frozenset())


def test_should_retry_append_to_log_on_end_txn_when_coordinator_not_available_error() -> None:
    """shouldRetryAppendToLogOnEndTxnWhenCoordinatorNotAvailableError: the completion, with the next round of upkeep. Until then
    the transaction is at no end: testPendingStateNotResetOnRetryAppend."""
    shard, claim = opened()
    shard.request(EndTransaction(ID, claim, committed=True, bumps_epoch=True))
    shard.written()
    shard.keep(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert (shard.status, shard.waiting) == (Status.PREPARE_COMMIT, [])
    shard.submit(AddToTransaction(ID, Claim(claim.producer_id, claim.epoch + 1), frozenset({A}), 2))
    assert shard.respond().code == ErrorCode.CONCURRENT_TRANSACTIONS
    shard.act(shard.states.tick(shard.now_ms))
    shard.keep()
    assert (shard.status, shard.responses, shard.marked) == (Status.COMPLETE_COMMIT, [], [])


def test_should_not_abort_expired_transactions_that_have_a_pending_state_transition() -> None:
    """shouldNotAbortExpiredTransactionsThatHaveAPendingStateTransition."""
    shard, claim = opened()
    shard.submit(EndTransaction(ID, claim, committed=True, bumps_epoch=True))
    shard.act(shard.states.tick(TIMEOUT_MS + 1))
    assert [t.status for t in shard.waiting] == [Status.PREPARE_COMMIT]


def test_should_complete_what_was_decided_before_the_load() -> None:
    """Its markers are written again, and then its end is kept."""
    shard, claim = opened()
    shard.request(EndTransaction(ID, claim, committed=True, bumps_epoch=True))
    stored = shard.states.by_id[ID]
    other = Shard()
    other.states.load(stored.key(), stored.value(2))
    other.states.load(b"\0\0\0\x04gone", stored.value(2))
    other.states.load(b"\0\0\0\x04gone", None)
    other.act(other.states.loaded(0))
    assert [t.transactional_id for t in other.marked] == [ID]
    other.written()
    other.keep()
    assert (other.status, len(other.states.by_id)) == (Status.COMPLETE_COMMIT, 1)


def test_what_belongs_to_a_load_before_changes_nothing() -> None:
    """testAppendTransactionToLogWhilePartitionLoading and its like: late acknowledgements and markers after an unload."""
    shard, claim = opened()
    shard.request(EndTransaction(ID, claim, committed=True, bumps_epoch=True))
    shard.submit(InitProducer("other", TIMEOUT_MS))
    shard.act(shard.states.unload())
    assert shard.respond().code == ErrorCode.NOT_COORDINATOR
    shard.keep()
    shard.written()
    assert (shard.responses, shard.waiting, shard.states.by_id) == ([], [], {})


def test_an_open_transaction_without_partitions_needs_no_marker() -> None:
    shard = Shard()
    taken = shard.request(InitProducer(ID, TIMEOUT_MS))
    claim = Claim(taken.producer_id, taken.epoch)
    assert shard.request(EndTransaction(ID, claim, committed=False, bumps_epoch=True)).epoch == 1
    assert (shard.marked, shard.status) == ([], Status.COMPLETE_ABORT)
