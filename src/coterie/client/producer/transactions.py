"""A transactional producer's side of KIP-98: `producing.transactions` decides what is sent, repeated and refused; this carries
it out on the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from coterie.client.connection.cluster import Cluster, Coordinator
from coterie.client.connection.handshake import response_type
from coterie.client.errors import ClientBugError, FatalError, KafkaError, TransactionAbortableError, client_error
from coterie.client.pauses import clock
from coterie.client.pauses.loop_clock import until_due
from coterie.client.pauses.retrying import backoff_of
from coterie.client.producer.delivery import failure_of
from coterie.client.types import ByPartition, ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition
from coterie.producing.transactions.requests import (
    CommittingMember,
    LookUpCoordinatorOf,
    SendTransactional,
    TransactionCallEnded,
    TransactionEffect,
)
from coterie.producing.transactions.state import ProducerTransactionState
from coterie.producing.transactions.transactions import Transactions
from coterie.producing.transactions.view import TransactionView
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.transactions.txn_offset_commit import TxnOffsetCommitRequest

MEMBER_FROM = 3  # the version of TxnOffsetCommit that names the member and its generation (KIP-447)
CLOSED_BEFORE = "the producer was closed before this call had its response"
State = ProducerTransactionState
_INIT = "init_transactions"
_END = {True: "commit_transaction", False: "abort_transaction"}


class _Transition(NamedTuple):
    """A call that ends in another state, until a caller has its result."""

    call: str
    token: int
    result: asyncio.Future[Exception | None]


class OpenTransaction(NamedTuple):
    """A transaction that one process leaves open for another to end."""

    transactional_id: str
    producer_id: int
    epoch: int
    took_part: bool
    bumps_epoch: bool = False


class TransactionManager:
    """One transactional id. A call whose caller is cancelled goes on; init, commit and abort are then called again for their
    result, and nothing else is accepted before (Kafka's TransactionalRequestResult)."""

    def __init__(self, cluster: Cluster, transactional_id: str) -> None:
        settings = cluster.settings
        self._machine = Transactions(
            cluster.known,
            transactional_id,
            settings.transaction_timeout_ms,
            settings.default_api_timeout_ms,
            backoff_of(settings),
        )
        self._cluster = cluster
        self._results: dict[int, asyncio.Future[Exception | None]] = {}
        self._transition: _Transition | None = None
        self._driver: asyncio.Task[None] | None = None
        self.attempt_error: KafkaError | None = None  # what the last attempt raised
        self._cause: KafkaError | None = None  # of the error state

    @property
    def transactional_id(self) -> str:
        """The setting transactional.id."""
        return self._machine.transactional_id

    @property
    def producer_id(self) -> int:
        """Goes into every batch; -1 before `init`."""
        return self._machine.producer_id

    @property
    def epoch(self) -> int:
        """Goes into every batch; -1 before `init`."""
        return self._machine.epoch

    @property
    def bumps_epoch(self) -> bool:
        """Whether the open transaction is one of version 2, so that records add their partitions to it (KIP-890)."""
        return self._machine.bumps_epoch

    @property
    def is_ended_elsewhere(self) -> bool:
        """Whether the coordinator has ended the open transaction, by itself or for another producer."""
        return self._machine.is_ended_elsewhere

    @property
    def state(self) -> ProducerTransactionState:
        """The state of the machine (`producing/transactions/state`)."""
        return self._machine.state

    def require(self, *states: ProducerTransactionState) -> None:
        """Raises KafkaError INVALID_TXN_STATE, or what made the producer unusable."""
        if self._machine.state not in states:
            raise self._error_of_state()
        if self._transition is not None:
            text = f"the result of {self._transition.call} was not awaited; call it again"
            raise KafkaError(ErrorCode.INVALID_TXN_STATE, text)

    def _error_of_state(self) -> KafkaError:
        """With which a call is refused that the state does not allow."""
        state, cause = self._machine.state, self.failure()
        if cause is None:
            return KafkaError(ErrorCode.INVALID_TXN_STATE, state.value)
        fatal = FatalError if cause.code == ErrorCode.TRANSACTION_ABORTABLE else KafkaError
        kind = TransactionAbortableError if state is State.ABORTABLE_ERROR else fatal
        error = kind(cause.code, f"{state.value} ({cause})")
        error.__cause__ = cause
        return error

    def failure(self) -> KafkaError | None:
        """What brought the producer into an error state; None in another."""
        if not self._machine.has_failed:
            return None
        if self._cause is not None and self._cause.code == self._machine.error:
            return self._cause
        return KafkaError(self._machine.error)

    def view(self) -> TransactionView:
        """The transaction as the machine that sends batches sees it."""
        return TransactionView(self._machine, lambda code: failure_of(self.failure() or KafkaError(code)))

    def failed(self, error: KafkaError) -> None:
        """A batch of the open transaction failed for good."""
        before = self._machine.state
        self._machine.failed(error.code)
        if self._machine.state != before:
            self._cause = error

    async def init(self) -> None:
        """Takes the transactional id over, once: the producer that had it is fenced, and its open transaction aborted. Raises
        KafkaError."""
        if self._is_new(_INIT):
            if self._machine.state is State.READY and self._transition is None:
                raise KafkaError(ErrorCode.INVALID_TXN_STATE, f"{_INIT} was called already; begin a transaction")
            self.require(State.UNINITIALIZED)
            self._begun(_INIT, self._machine.init(clock.now_ms()))
            self._start_driver()
        await self._transition_result()

    def begin(self) -> None:
        """Raises KafkaError."""
        self.require(State.READY)
        self._machine.begin()

    def left_open(self) -> OpenTransaction:
        """What another process needs to end the open transaction. Raises KafkaError if it has failed."""
        self.require(State.IN_TRANSACTION)
        machine = self._machine
        who = self.transactional_id, self.producer_id, self.epoch
        return OpenTransaction(*who, machine.took_part, machine.bumps_epoch)

    def resume(self, left: OpenTransaction) -> None:
        """The transaction that was left open, to be ended here. Raises KafkaError."""
        self.require(State.UNINITIALIZED, State.READY)
        self._machine.resume(left.producer_id, left.epoch, left.took_part, left.bumps_epoch)

    async def add(self, partitions: Iterable[TopicPartition]) -> None:
        """Has these partitions take part, before anything is written to them. Raises KafkaError."""
        token = self._machine.add(partitions, clock.now_ms())
        if token is not None:
            await self._result(token)

    async def send_offsets(self, offsets: ByPartition[int | OffsetAndMetadata], group: ConsumerGroupMetadata) -> None:
        """Commits a consumer's offsets with the transaction; refused if the consumer is not a member any more (KIP-447).
        Raises KafkaError, and then the transaction must be aborted."""
        self.require(State.IN_TRANSACTION)
        member = CommittingMember(group.group_id, group.generation_id, group.member_id, group.group_instance_id)
        await self._result(self._machine.send_offsets(offsets, member, clock.now_ms()))

    def require_end(self, committed: bool) -> None:
        """Raises KafkaError where `end` would refuse the call."""
        if self._is_new(_END[committed]):
            self.require(State.IN_TRANSACTION, *([] if committed else [State.ABORTABLE_ERROR]))

    async def end(self, committed: bool, flush_then: Callable[[Callable[[], None]], None]) -> None:
        """Begins at once, and goes on where its caller is cancelled. ``flush_then`` calls its argument once every record has
        its result. Raises KafkaError. After an aborted failure the producer goes on under its next epoch (KIP-360)."""
        self.require_end(committed)
        if self._is_new(_END[committed]):
            self._begun(_END[committed], self._machine.end(committed, clock.now_ms(), awaits_records=True))
            flush_then(self._records_ended)
        await self._transition_result()

    def _records_ended(self) -> None:
        self._machine.records_ended()
        self._start_driver()

    async def finish(self, timeout_s: float) -> None:
        """Waits for a commit or abort that is under way."""
        if self._transition is not None and self._transition.call in _END.values():
            await asyncio.wait([self._transition.result], timeout=timeout_s)

    def _is_new(self, call: str) -> bool:
        return self._transition is None or self._transition.call != call

    def _begun(self, call: str, token: int) -> None:
        self._transition = _Transition(call, token, self._future(token))

    async def _transition_result(self) -> None:
        """Raises the error with which it ended. A caller that is cancelled leaves it to the next."""
        transition = self._transition
        assert transition is not None
        error = await asyncio.shield(transition.result)
        if self._transition is transition:
            self._transition = None
        if error is not None:
            raise error

    # -- driving the machine ------------------------------------------------------------------------------------------

    async def _result(self, token: int) -> None:
        """Raises the error with which the call ended."""
        result = self._future(token)
        self._start_driver()
        error = await result
        if error is not None:
            raise error

    def _future(self, token: int) -> asyncio.Future[Exception | None]:
        """The result of a call."""
        result = self._results[token] = asyncio.get_running_loop().create_future()
        return result

    def _start_driver(self) -> None:
        if self._driver is None or self._driver.done():
            self._driver = asyncio.create_task(self._drive())

    async def _drive(self) -> None:
        """Until no call is under way. The machine has one request out at a time."""
        now_ms = clock.now_ms()
        try:
            while True:
                effects = self._machine.next(now_ms)
                for effect in effects:
                    now_ms = await self._carry_out(effect)
                if not effects:
                    due_ms = self._machine.next_deadline_ms()
                    if due_ms is None:
                        return
                    await until_due(due_ms)
                    now_ms = due_ms
        except Exception as error:
            for token in list(self._results):
                self._settle(token, ClientBugError(error))

    async def _carry_out(self, effect: TransactionEffect) -> float:
        """Returns the time of the machine's input."""
        if isinstance(effect, TransactionCallEnded):
            self._ended(effect)
            return clock.now_ms()
        code, is_final, response = ErrorCode.NONE, False, None
        try:
            if isinstance(effect, LookUpCoordinatorOf):
                await Coordinator(self._cluster, effect.key, effect.kind).node()
            else:
                response = await self._response(effect)
            self.attempt_error = None
        except Exception as raised:
            is_closed = self._cluster.is_closed
            error = KafkaError(ErrorCode.REQUEST_TIMED_OUT, CLOSED_BEFORE) if is_closed else client_error(raised)
            self.attempt_error, code, is_final = error, error.code, is_closed or not error.retriable
        now_ms, jitter = clock.now_ms(), clock.jitter()
        if response is not None:
            self._machine.responded(response, now_ms, jitter)
        elif isinstance(effect, LookUpCoordinatorOf):
            self._machine.coordinator_looked_up(code, now_ms, jitter, is_final=is_final)
        else:
            self._machine.request_failed(code, now_ms, jitter, is_final=is_final)
        return now_ms

    async def _response(self, effect: SendTransactional) -> Any:
        request = effect.request
        connection = await self._cluster.coordinator_connection(effect.node_id)
        if isinstance(request, TxnOffsetCommitRequest):
            _check_member(request, connection.version_of(TxnOffsetCommitRequest))
        return await connection.request(
            request, response_type(request), self._cluster.timeout_s, highest=effect.highest
        )

    def _ended(self, effect: TransactionCallEnded) -> None:
        error: Exception | None = None
        if effect.is_refused:
            error = self._error_of_state()
        elif effect.code:
            error, self.attempt_error = self.attempt_error or KafkaError(effect.code), None
            if isinstance(error, TransactionAbortableError) and self._machine.state is State.FATAL_ERROR:
                error = FatalError(error.code, "the abort was refused; close this producer and make a new one")
            if isinstance(error, KafkaError) and error.code == self._machine.error:
                self._cause = error
        self._settle(effect.token, error)

    def _settle(self, token: int, error: Exception | None) -> None:
        """What failed needs no second call: the state decides what is allowed."""
        result = self._results.pop(token, None)
        if result is not None and not result.done():
            result.set_result(error)
        if error is not None and self._transition is not None and self._transition.token == token:
            self._transition = None


def _check_member(request: TxnOffsetCommitRequest, version: int) -> None:
    """A broker that does not check the member would let one commit that is no longer in the group. Raises KafkaError."""
    if version < MEMBER_FROM and (
        request.member_id or request.generation_id_or_member_epoch >= 0 or request.group_instance_id
    ):
        text = "offsets of a group's member need TxnOffsetCommit version 3, which Apache Kafka has from 2.5 on"
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, text)
