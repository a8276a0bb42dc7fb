"""The transaction coordinator of a broker alone and that of a cluster's partition behind one face. Markers of both stay
outstanding until `mark`."""

from __future__ import annotations

from itertools import count
from typing import Protocol

from coterie.coordinator.transactions.machine import TransactionMachine
from coterie.coordinator.transactions.replicated import (
    AddToTransaction,
    EndTransaction,
    InitProducer,
    KeepState,
    RemoveStates,
    ReplicatedTransactions,
    TransactionCommand,
    TransactionEffect,
    TransactionResult,
    WriteMarkers,
)
from coterie.coordinator.transactions.state import Status, TopicPartition, Transaction
from coterie.coordinator.transactions.steps import Claim
from coterie.wire.errors import ErrorCode, Refusal, error_of
from coterie.wire.messages.transactions.init_producer_id import InitProducerIdRequest

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


class Coordinator(Protocol):
    """``kept``: the states that were appended, in their order. ``error``: what appends fail with. `expire` returns the
    transactional ids with a tombstone in the log."""

    kept: list[Transaction]
    error: ErrorCode
    by_id: dict[str, Transaction]

    def __init__(self, level: int) -> None: ...
    def request(self, command: TransactionCommand, now_ms: int = NOW_MS) -> TransactionResult: ...
    def verify(self, claim: Claim, partition: TopicPartition) -> ErrorCode: ...
    def tick(self, now_ms: int) -> None: ...
    def mark(self) -> None: ...
    def expire(self, now_ms: int) -> list[str]: ...


class Alone:
    """It fails to append with COORDINATOR_NOT_AVAILABLE only, as the broker's."""

    def __init__(self, level: int) -> None:
        self.machine = TransactionMachine(self, MAX_TIMEOUT_MS)
        self.machine.loaded = True
        self.by_id = self.machine.by_id
        self.kept: list[Transaction] = []
        self.error, self._level, self._marks = NONE, level, False
        self._ids = count(NEW)

    def transaction_version(self) -> int:
        return self._level

    def keep(self, transaction: Transaction) -> None:
        if self.error:
            raise Refusal(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        self.kept.append(transaction)

    def write_marker(self, partition: TopicPartition, prepared: Transaction) -> None:
        if not self._marks:
            raise Refusal(ErrorCode.KAFKA_STORAGE_ERROR)

    def new_producer_id(self) -> int:
        return next(self._ids)

    def request(self, command: TransactionCommand, now_ms: int = NOW_MS) -> TransactionResult:
        try:
            return self._respond(command, now_ms)
        except Refusal as refusal:
            return TransactionResult(None, refusal.code)

    def _respond(self, command: TransactionCommand, now_ms: int) -> TransactionResult:
        match command:
            case InitProducer(name, timeout_ms, claimed):
                request = InitProducerIdRequest(name, timeout_ms, *(claimed or (-1, -1)))
                response = self.machine.init_producer_id(request, INIT_VERSION, now_ms)
                code = error_of(response.error_code)
                return TransactionResult(None, code, response.producer_id, response.producer_epoch)
            case AddToTransaction(name, claim, partitions, version):
                self.machine.add_partitions(name, claim, partitions, now_ms, transaction_version=version)
                return TransactionResult(None)
            case EndTransaction(name, claim, committed, bumps_epoch):
                if not bumps_epoch:
                    self.machine.end(name, claim, committed, now_ms)
                    return TransactionResult(None)
                producer_id, epoch = self.machine.end_with_bump(name, claim, committed, now_ms)
                return TransactionResult(None, NONE, producer_id, epoch)

    def verify(self, claim: Claim, partition: TopicPartition) -> ErrorCode:
        try:
            self.machine.verify(ID, claim, partition)
        except Refusal as refusal:
            return refusal.code
        return NONE

    def tick(self, now_ms: int) -> None:
        self.machine.complete_prepared(now_ms)
        self.machine.abort_timed_out(now_ms)

    def expire(self, now_ms: int) -> list[str]:
        expired = self.machine.expired(now_ms, EXPIRATION_MS)
        if self.error:
            return []
        self.machine.remove(expired)
        return [transaction.transactional_id for transaction in expired]

    def mark(self) -> None:
        self._marks = True
        self.machine.complete_prepared(NOW_MS)
        self._marks = False


class Replicated:
    def __init__(self, level: int) -> None:
        self.machine = ReplicatedTransactions(MAX_TIMEOUT_MS, count(NEW).__next__, lambda: level)
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


BOTH: list[type[Coordinator]] = [Alone, Replicated]


def knowing(kind: type[Coordinator], transaction: Transaction | None, level: int = 0) -> Coordinator:
    """A coordinator with that state in force."""
    coordinator = kind(level)
    if transaction is not None:
        coordinator.by_id[transaction.transactional_id] = transaction
    return coordinator
