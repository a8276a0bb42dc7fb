"""The transactional ids of one partition of `__transaction_state`, as its leader coordinates them (Kafka's
TransactionCoordinator and TransactionStateManager).

submit -> KeepState -> kept -> WriteMarkers -> marked -> KeepState -> kept. A state is in force, and the response sent, once
all replicas in sync have the state. Meanwhile, and until the markers of a prepared transaction are written, requests of its
producer receive CONCURRENT_TRANSACTIONS.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace

from coterie.coordinator.transactions import steps
from coterie.coordinator.transactions.state import (
    PREPARED,
    Status,
    TopicPartition,
    Transaction,
    decode_transaction,
    store_error,
    transactional_id_of,
)
from coterie.coordinator.transactions.steps import Claim, check_producer, fenced, prepare_end_with_bump
from coterie.wire.errors import ErrorCode, Refusal


@dataclass(frozen=True, slots=True)
class InitProducer:
    """``claimed``: the producer id and epoch that the producer has, None for neither."""

    transactional_id: str
    timeout_ms: int
    claimed: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class AddToTransaction:
    """``transaction_version``: 2 where records or offsets themselves add their partition."""

    transactional_id: str
    claim: Claim
    partitions: frozenset[TopicPartition]
    transaction_version: int = 0


@dataclass(frozen=True, slots=True)
class EndTransaction:
    """Commits or aborts. ``bumps_epoch``: the transaction is of version 2."""

    transactional_id: str
    claim: Claim
    committed: bool
    bumps_epoch: bool = False


TransactionCommand = InitProducer | AddToTransaction | EndTransaction


@dataclass(frozen=True, slots=True)
class TransactionResult:
    """The response to the request of that token; the producer id and epoch of InitProducer and of an end of version 2."""

    token: object
    code: ErrorCode = ErrorCode.NONE
    producer_id: int = -1
    epoch: int = -1


@dataclass(frozen=True, slots=True)
class KeepState:
    """Append the state with acks=all, then call `TransactionMachine.kept`."""

    transaction: Transaction


@dataclass(frozen=True, slots=True)
class WriteMarkers:
    """Have the markers of a prepared transaction written, then call `TransactionMachine.marked`."""

    prepared: Transaction


@dataclass(frozen=True, slots=True)
class RemoveStates:
    """Append tombstones with acks=all, then call `TransactionMachine.removed` for each batch."""

    expired: tuple[Transaction, ...]


TransactionEffect = TransactionResult | KeepState | WriteMarkers | RemoveStates


@dataclass(frozen=True, slots=True)
class _Pending:
    """A state that is being kept or removed, and the response that waits for it, if any."""

    state: Transaction
    response: TransactionResult | None


class TransactionMachine:
    """``by_id``: the states in force. ``new_producer_id`` raises Refusal where there is none; ``transaction_version`` returns
    the finalized level."""

    def __init__(
        self, max_timeout_ms: int, new_producer_id: Callable[[], int], transaction_version: Callable[[], int]
    ) -> None:
        self._max_timeout_ms = max_timeout_ms
        self._new_producer_id, self._transaction_version = new_producer_id, transaction_version
        self.by_id: dict[str, Transaction] = {}
        self._pending: dict[str, _Pending] = {}
        self._marked: set[str] = set()  # their markers are written, and their completion is not kept yet

    # -- requests -------------------------------------------------------------------------------------------------------

    def submit(self, command: TransactionCommand, token: object, now_ms: int) -> list[TransactionEffect]:
        """The response is among these effects, or among those of `kept`."""
        try:
            state, result = self._decide(command, token, now_ms)
        except Refusal as refusal:
            return [TransactionResult(token, refusal.code)]
        return [result] if state is None else self._keep(state, result)

    def _decide(
        self, command: TransactionCommand, token: object, now_ms: int
    ) -> tuple[Transaction | None, TransactionResult]:
        """The next state, None where it stays. Raises Refusal."""
        if not command.transactional_id:
            raise Refusal(ErrorCode.INVALID_REQUEST)
        match command:
            case InitProducer():
                return self._init(command, token, now_ms)
            case AddToTransaction(transactional_id, claim, partitions, version):
                known = check_producer(self._settled(transactional_id), claim)
                if known.status == Status.ONGOING and partitions <= known.partitions:
                    return None, TransactionResult(token)
                return steps.add_partitions(known, partitions, version, now_ms), TransactionResult(token)
            case EndTransaction():
                return self._end(command, token, now_ms)

    def _init(self, command: InitProducer, token: object, now_ms: int) -> tuple[Transaction | None, TransactionResult]:
        """An open transaction of the producer before is aborted first, while the producer tries again."""
        steps.check_init(command.transactional_id, command.timeout_ms, self._max_timeout_ms)
        known, claimed = self._settled(command.transactional_id), command.claimed
        if known is not None and known.status == Status.ONGOING:
            steps.check_claimed_id(known, claimed)
            aborted = fenced(known, self._transaction_version(), self._new_producer_id, now_ms)
            return aborted, TransactionResult(token, ErrorCode.CONCURRENT_TRANSACTIONS)
        taken = steps.init_producer(
            known, command.transactional_id, command.timeout_ms, claimed, self._new_producer_id, now_ms
        )
        return taken, TransactionResult(token, producer_id=taken.producer_id, epoch=taken.epoch)

    def _end(self, command: EndTransaction, token: object, now_ms: int) -> tuple[Transaction | None, TransactionResult]:
        """The producer receives its response once the decision is kept; its markers follow."""
        if not command.bumps_epoch:
            known = check_producer(self.by_id.get(command.transactional_id), command.claim)
            self._settled(command.transactional_id)
            prepared = steps.prepare_end(known, command.committed, now_ms)
            return (None if prepared is known else prepared), TransactionResult(token)
        open_one = self._settled(command.transactional_id)
        prepared = prepare_end_with_bump(open_one, command.claim, command.committed, self._new_producer_id, now_ms)
        producer_id, epoch = prepared.next_producer()
        result = TransactionResult(token, producer_id=producer_id, epoch=epoch)
        return (None if prepared is open_one else prepared), result

    def check_ongoing(self, transactional_id: str, claim: Claim, partition: TopicPartition) -> None:
        """Raises Refusal where the producer has no ongoing transaction with the partition."""
        steps.check_ongoing(self.by_id.get(transactional_id), claim, partition)

    def _settled(self, transactional_id: str) -> Transaction | None:
        """Raises Refusal while a state of the transactional id is being kept, and while its transaction ends."""
        if transactional_id in self._pending:
            raise Refusal(ErrorCode.CONCURRENT_TRANSACTIONS)
        return steps.settled(self.by_id.get(transactional_id))

    # -- states ---------------------------------------------------------------------------------------------------------

    def _keep(self, state: Transaction, result: TransactionResult | None) -> list[TransactionEffect]:
        self._pending[state.transactional_id] = _Pending(state, result)
        return [KeepState(state)]

    def kept(self, state: Transaction, error: ErrorCode, now_ms: int) -> list[TransactionEffect]:
        """All replicas in sync have the state; with an ``error`` it may be there or not, as after a lost response, and the
        state before stays in force."""
        pending = self._pending.get(state.transactional_id)
        if pending is None or pending.state is not state:
            return []  # of a load before
        del self._pending[state.transactional_id]
        if error != ErrorCode.NONE:
            result = pending.response
            return [] if result is None else [TransactionResult(result.token, store_error(error))]
        self.by_id[state.transactional_id] = state
        effects: list[TransactionEffect] = [] if pending.response is None else [pending.response]
        if state.status in PREPARED:
            return [*effects, *self._write_markers(state, now_ms)]
        self._marked.discard(state.transactional_id)
        return effects

    def _write_markers(self, prepared: Transaction, now_ms: int) -> list[TransactionEffect]:
        return [WriteMarkers(prepared)] if prepared.partitions else self.marked(prepared, now_ms)

    def marked(self, prepared: Transaction, now_ms: int) -> list[TransactionEffect]:
        """Every partition of the transaction has its marker, or is deleted."""
        if self.by_id.get(prepared.transactional_id) is not prepared:
            return []  # of a load before
        self._marked.add(prepared.transactional_id)
        return self._keep(steps.complete(prepared, now_ms), None)

    # -- upkeep ---------------------------------------------------------------------------------------------------------

    def tick(self, now_ms: int) -> list[TransactionEffect]:
        """Every transaction.abort.timed.out.transaction.cleanup.interval.ms: aborts what is open for longer than its
        transaction.timeout.ms, and tries again to keep completions."""
        effects: list[TransactionEffect] = []
        for transactional_id in sorted(self._marked - self._pending.keys()):
            effects += self._keep(steps.complete(self.by_id[transactional_id], now_ms), None)
        late = [
            t for t in self.by_id.values() if steps.timed_out(t, now_ms) and t.transactional_id not in self._pending
        ]
        for transaction in late:
            with suppress(Refusal):  # for want of a producer id: the next time, then
                level = self._transaction_version()
                effects += self._keep(fenced(transaction, level, self._new_producer_id, now_ms), None)
        return effects

    def remove_expired(self, now_ms: int, expiration_ms: int) -> list[TransactionEffect]:
        """Every transaction.remove.expired.transaction.cleanup.interval.ms: removes the transactional ids that were not used
        for ``expiration_ms``. Meanwhile their requests receive CONCURRENT_TRANSACTIONS."""
        expired = tuple(
            t
            for name, t in self.by_id.items()
            if name not in self._pending and steps.has_expired(t, now_ms, expiration_ms)
        )
        self._pending |= {t.transactional_id: _Pending(t, None) for t in expired}
        return [RemoveStates(expired)] if expired else []

    def removed(self, expired: Iterable[Transaction], error: ErrorCode) -> None:
        """All replicas in sync have the tombstones; with an ``error`` the states stay until the next round."""
        for transaction in expired:
            pending = self._pending.get(transaction.transactional_id)
            if pending is None or pending.state is not transaction:
                continue  # of a load before
            del self._pending[transaction.transactional_id]
            if error == ErrorCode.NONE:
                del self.by_id[transaction.transactional_id]

    # -- loading and leaving --------------------------------------------------------------------------------------------

    def load(self, key: bytes, value: bytes | None) -> None:
        """Replays a record of the log. Raises WireError or ValueError for one that is neither ours nor Kafka's."""
        if value is None:
            self.by_id.pop(transactional_id_of(key), None)
            return
        stored = decode_transaction(key, value)
        self.by_id[stored.transactional_id] = stored

    def loaded(self, now_ms: int) -> list[TransactionEffect]:
        """The whole partition was read: what was decided is completed."""
        steps.restart_timeouts(self.by_id, now_ms)
        prepared = [t for t in self.by_id.values() if t.status in PREPARED]
        return [effect for transaction in prepared for effect in self._write_markers(transaction, now_ms)]

    def unload(self) -> list[TransactionEffect]:
        """The partition moves away: requests that wait receive NOT_COORDINATOR, and the states are dropped."""
        waiting = [pending.response for pending in self._pending.values() if pending.response is not None]
        self.by_id.clear()
        self._pending.clear()
        self._marked.clear()
        return [replace(a, code=ErrorCode.NOT_COORDINATOR, producer_id=-1, epoch=-1) for a in waiting]
