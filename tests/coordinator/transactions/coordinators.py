"""The transaction machine with its effects carried out."""

from __future__ import annotations

from itertools import count

from coterie.coordinator.transactions.machine import (
    InitProducer,
    KeepState,
    RemoveStates,
    TransactionCommand,
    TransactionEffect,
    TransactionMachine,
    TransactionResult,
    WriteMarkers,
)
from coterie.coordinator.transactions.state import Status, TopicPartition, Transaction
from coterie.coordinator.transactions.steps import Claim
from coterie.wire.errors import ErrorCode, Refusal

ID, A, B = "ledger", ("a", 0), ("b", 1)
PRODUCER, EPOCH, NEW = 10, 1, 100  # NEW: the first producer id that is generated
TIMEOUT_MS, MAX_TIMEOUT_MS, NOW_MS, EXPIRATION_MS = 10_000, 60_000, 5_000_000, 1_000_000
INIT_VERSION = 5
NONE = ErrorCode.NONE


def known(
    status: Status,
    epoch: int = EPOCH,
    *,
    partitions: frozenset[TopicPartition] | None = None,
    last_epoch: int = -1,
    version: int = 0,
    producer_id: int = PRODUCER,
    next_producer_id: int = -1,
) -> Transaction:
    """A transaction that began 1 s ago; with A where none is named and one is open."""
    is_open = status in (Status.ONGOING, Status.PREPARE_COMMIT, Status.PREPARE_ABORT)
    return Transaction(
        ID,
        producer_id,
        epoch,
        TIMEOUT_MS,
        status,
        partitions if partitions is not None else frozenset({A} if is_open else ()),
        NOW_MS - 1_000,
        NOW_MS - 1_000,
        last_epoch,
        PRODUCER,
        next_producer_id,
        version,
    )


class Coordinator:
    """``kept``: the states that were appended, in their order. ``error``: what appends fail with. Markers wait for
    `mark`."""

    def __init__(self, level: int) -> None:
        self.machine = TransactionMachine(MAX_TIMEOUT_MS, count(NEW).__next__, lambda: level)
        self.by_id = self.machine.by_id
        self.kept: list[Transaction] = []
        self.error = NONE
        self._unmarked: list[Transaction] = []

    def request(self, command: TransactionCommand, now_ms: int = NOW_MS) -> TransactionResult:
        (result,) = self._act(self.machine.submit(command, None, now_ms))
        return result

    def _act(self, effects: list[TransactionEffect]) -> list[TransactionResult]:
        responses = []
        for effect in effects:
            match effect:
                case TransactionResult():
                    responses.append(effect)
                case KeepState(state):
                    self.kept += [] if self.error else [state]
                    responses += self._act(self.machine.kept(state, self.error, NOW_MS))
                case WriteMarkers(prepared):
                    self._unmarked.append(prepared)
                case RemoveStates():
                    raise AssertionError("only `remove_expired` calls for it")
        return responses

    def expire(self, now_ms: int) -> list[str]:
        """Returns the transactional ids with a tombstone in the log."""
        names = []
        for effect in self.machine.remove_expired(now_ms, EXPIRATION_MS):
            assert isinstance(effect, RemoveStates)
            for transaction in effect.expired:
                busy = self.request(InitProducer(transaction.transactional_id, TIMEOUT_MS))
                assert busy.code == ErrorCode.CONCURRENT_TRANSACTIONS
                names += [] if self.error else [transaction.transactional_id]
            self.machine.removed(effect.expired, self.error)
        return names

    def verify(self, claim: Claim, partition: TopicPartition) -> ErrorCode:
        try:
            self.machine.check_ongoing(ID, claim, partition)
        except Refusal as refusal:
            return refusal.code
        return NONE

    def tick(self, now_ms: int) -> None:
        self._act(self.machine.tick(now_ms))

    def mark(self) -> None:
        due, self._unmarked = self._unmarked, []
        for prepared in due:
            self._act(self.machine.marked(prepared, NOW_MS))


def knowing(transaction: Transaction | None, level: int = 0) -> Coordinator:
    """A coordinator with that state in force."""
    coordinator = Coordinator(level)
    if transaction is not None:
        coordinator.by_id[transaction.transactional_id] = transaction
    return coordinator
