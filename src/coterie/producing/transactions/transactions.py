"""A transactional producer (KIP-98, KIP-360, KIP-447, KIP-890; Kafka's TransactionManager): its identity, the open transaction,
what is sent to the coordinators next, and what errors come to. No IO: a driver sends the requests.

Calls are served one after the other, in order: one request is out at a time, so that nothing is added to a transaction after
its end was requested. Errors are of two kinds: an *abortable* one spoils the open transaction, which has to be aborted; a
*fatal* one (another producer took the transactional id over, or it is not allowed) ends the producer.

A transaction is of version 2 where the cluster reported level 2 of transaction.version when the one before ended, or at
init: partitions and groups join it with their first records or offsets, and its end returns the epoch of the next. The first
of version 2 has an epoch of its own, so that nothing late of version 1 joins it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from coterie.machines.backoff import Backoff, Retries
from coterie.machines.cluster_metadata import GROUP, TRANSACTION, ClusterMetadata
from coterie.producing.accumulator import FOREVER_MS
from coterie.producing.transactions.requests import (
    CommittingMember,
    LookUpCoordinatorOf,
    SendTransactional,
    TopicPartition,
    TransactionCallEnded,
    TransactionEffect,
    TransactionOffsets,
    add_partitions_request,
    error_in,
    newest_version,
    offsets_request,
)
from coterie.producing.transactions.state import (
    ENDED_ELSEWHERE,
    LEGAL_SUCCESSORS,
    ProducerTransactionState,
    TransactionRemedy,
    remedy_of,
)
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.transactions.add_offsets_to_txn import AddOffsetsToTxnRequest
from coterie.wire.messages.transactions.end_txn import EndTxnRequest, EndTxnResponse
from coterie.wire.messages.transactions.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

NO_PRODUCER = (-1, -1)
BUMPS_FROM = 2  # the transaction.version of transactions that end with a new epoch
_FIRST_ADD_PAUSE_MS = 20  # Kafka's ADD_PARTITIONS_RETRY_BACKOFF_MS: the transaction before is about to be complete
_RETRIED = frozenset({TransactionRemedy.RETRY, TransactionRemedy.FIND_COORDINATOR})
S = ProducerTransactionState


@dataclass(slots=True)
class _Call:
    """A call and its requests: made when their turn comes, under the identity of that time."""

    token: int
    kind: str  # init, add, offsets, end
    started_ms: float
    partitions: frozenset[TopicPartition] = frozenset()
    offsets: TransactionOffsets = field(default_factory=dict)
    member: CommittingMember | None = None
    committed: bool = False
    claim: tuple[int, int] = NO_PRODUCER
    step: int = 0
    request: Message | None = None
    retries: Retries | None = None
    due_ms: float = float("-inf")
    was_sent: bool = False  # the present request
    follows_end: bool = False  # the transaction has ended; this is the next epoch
    may_arrive: bool = False  # an attempt without a response: it may be carried out later


@dataclass(slots=True)
class Transactions:
    """The transactions of one transactional id. Times in ms of the driver's clock; ``jitter`` between -1 and 1. ``error``
    is what brought the producer into an error state; ``took_part`` whether the coordinator may know of the open
    transaction; ``bumps_epoch`` whether that is one of version 2."""

    known: ClusterMetadata
    transactional_id: str
    transaction_timeout_ms: int
    api_timeout_ms: float
    backoff: Backoff
    producer_id: int = -1
    epoch: int = -1
    state: ProducerTransactionState = ProducerTransactionState.UNINITIALIZED
    error: ErrorCode = ErrorCode.NONE
    took_part: bool = False
    bumps_epoch: bool = False
    _partitions: set[TopicPartition] = field(default_factory=set)
    _calls: deque[_Call] = field(default_factory=deque)
    _tokens: int = 0
    _is_out: bool = False  # a request, or a look-up
    _awaits_records: bool = False  # the end, for the results of records
    _needs_epoch: bool = False  # the next transaction, not to be mixed with what is left of this one
    _next_bumps_epoch: bool | None = None  # of the next transaction; None: decided when it begins
    _effects: list[TransactionEffect] = field(default_factory=list)

    # -- what drivers read --------------------------------------------------------------------------------------------

    def has(self, partition: TopicPartition) -> bool:
        """Whether the partition takes part in the open transaction, so that records may be sent to it."""
        return partition in self._partitions and self.state != S.FATAL_ERROR

    def allows(self, *states: ProducerTransactionState) -> bool:
        """Whether the state is one of these; else the call is refused with `state`, or with `error` where there is one."""
        return self.state in states

    @property
    def has_failed(self) -> bool:
        """Whether it is in an error state, by the code `error`."""
        return self.state in (S.ABORTABLE_ERROR, S.FATAL_ERROR)

    @property
    def is_ended_elsewhere(self) -> bool:
        """Whether the coordinator has ended the open transaction, by itself or for another producer."""
        return self.state == S.FATAL_ERROR and self.error in ENDED_ELSEWHERE

    # -- calls --------------------------------------------------------------------------------------------------------

    def init(self, now_ms: float) -> int:
        """Takes the transactional id over: the producer that had it is fenced, its open transaction aborted. The state is
        UNINITIALIZED or READY."""
        claim = NO_PRODUCER if self.state == S.UNINITIALIZED else (self.producer_id, self.epoch)
        self._to(S.INITIALIZING)
        return self._call("init", now_ms, claim=claim)

    def begin(self) -> None:
        """The state is READY."""
        self._to(S.IN_TRANSACTION)
        self.took_part = self._needs_epoch = False
        self.bumps_epoch = self._is_version_2() if self._next_bumps_epoch is None else self._next_bumps_epoch

    def resume(self, producer_id: int, epoch: int, took_part: bool, bumps_epoch: bool) -> None:
        """The transaction that another process left open, to be ended here. The state is UNINITIALIZED or READY."""
        self._to(S.IN_TRANSACTION)
        self.producer_id, self.epoch, self.took_part, self.bumps_epoch = producer_id, epoch, took_part, bumps_epoch
        self._needs_epoch, self._next_bumps_epoch = False, None  # the epoch is the other process's

    def add(self, partitions: Iterable[TopicPartition], now_ms: float) -> int | None:
        """Has these take part, before records are sent to them; None where all do already, or will with their records. After a
        fatal error it is refused."""
        new = frozenset(partitions) - self._partitions
        if self.bumps_epoch and self.state != S.FATAL_ERROR:
            self._partitions |= new
            self.took_part = True
            return None
        return self._call("add", now_ms, partitions=new) if new or self.state == S.FATAL_ERROR else None

    def send_offsets(self, offsets: TransactionOffsets, member: CommittingMember, now_ms: float) -> int:
        """Commits a consumer's offsets with the transaction, refused if the consumer is no member any more (KIP-447). The
        state is IN_TRANSACTION."""
        assert self.state == S.IN_TRANSACTION, self.state
        token = self._call("offsets", now_ms, offsets=offsets, member=member)
        self._calls[-1].step = int(self.bumps_epoch)  # the offsets add their group
        return token

    def end(self, committed: bool, now_ms: float, *, awaits_records: bool = False) -> int:
        """Commits or aborts; ``awaits_records``: the request goes out after `records_ended`. Where a batch failed, or a request
        has no response, the producer goes on under its next epoch (KIP-360), which the end of a transaction of version 2
        returns anyway; also where version 2 is next. The state is IN_TRANSACTION, or ABORTABLE_ERROR for an abort."""
        assert not (committed and self.state == S.ABORTABLE_ERROR), "a failed transaction is not committed"
        self._to(S.COMMITTING if committed else S.ABORTING)
        self._awaits_records = awaits_records
        if self._next_bumps_epoch is not None:
            self._next_bumps_epoch = self._is_version_2()
            self._needs_epoch = self._needs_epoch or self._next_bumps_epoch
        return self._call("end", now_ms, committed=committed)

    def records_ended(self) -> None:
        """Every record of the transaction has its result; a failed one was reported by `failed` before."""
        self._awaits_records = False

    def _call(
        self,
        kind: str,
        now_ms: float,
        *,
        partitions: frozenset[TopicPartition] = frozenset(),
        offsets: TransactionOffsets | None = None,
        member: CommittingMember | None = None,
        committed: bool = False,
        claim: tuple[int, int] = NO_PRODUCER,
    ) -> int:
        self._tokens += 1
        call = _Call(self._tokens, kind, now_ms, partitions, offsets or {}, member, committed=committed, claim=claim)
        before_end = kind == "add" and self._awaits_records  # records that the end awaits need it
        self._calls.insert(len(self._calls) - before_end, call)
        return call.token

    def failed(self, code: ErrorCode) -> None:
        """A batch of the open transaction has failed for good; its numbers may be missing at the broker."""
        self._needs_epoch = True
        if remedy_of(code) == TransactionRemedy.GIVE_UP:
            self._fail(S.FATAL_ERROR, code)
        else:
            self._spoil(code)

    def _spoil(self, code: ErrorCode) -> None:
        if self.state == S.IN_TRANSACTION or (self.state == S.COMMITTING and not self._is_end_sent()):
            self._fail(S.ABORTABLE_ERROR, code)

    def _is_end_sent(self) -> bool:
        return any(call.kind == "end" and (call.was_sent or call.step > 0) for call in self._calls)

    def _fail(self, state: ProducerTransactionState, code: ErrorCode) -> None:
        if self.state != state and self.state != S.FATAL_ERROR:
            self._to(state)
            self.error = code

    def _to(self, state: ProducerTransactionState) -> None:
        assert state in LEGAL_SUCCESSORS[self.state], f"{self.state.name} to {state.name}"
        self.state = state
        if state == S.READY:
            self.error = ErrorCode.NONE
            self._partitions.clear()

    def _is_version_2(self) -> bool:
        return self.known.transaction_version >= BUMPS_FROM

    # -- inputs from the driver ---------------------------------------------------------------------------------------

    def coordinator_looked_up(self, code: ErrorCode, now_ms: float, jitter: float, *, is_final: bool = False) -> None:
        """NONE: the coordinator is in the cluster's metadata. ``is_final``: whatever the code, no other attempt can succeed."""
        self._is_out = False
        if code:
            self._attempt_failed(code, now_ms, jitter, is_final=is_final)

    def request_failed(self, code: ErrorCode, now_ms: float, jitter: float, *, is_final: bool = False) -> None:
        """No response will come to what was sent. ``is_final`` as in `coordinator_looked_up`."""
        self._is_out = False
        self._calls[0].may_arrive = True
        self._attempt_failed(code, now_ms, jitter, is_final=is_final)

    def responded(self, response: Message, now_ms: float, jitter: float) -> None:
        """The response to what was sent."""
        self._is_out = False
        call, code = self._calls[0], error_in(response)
        if code:
            self._attempt_failed(code, now_ms, jitter, refused=call.request)
            return
        request, call.request, call.retries, call.due_ms = call.request, None, None, float("-inf")
        call.step += 1
        if isinstance(response, InitProducerIdResponse) or (
            isinstance(response, EndTxnResponse) and response.producer_id >= 0
        ):
            self.producer_id, self.epoch = response.producer_id, response.producer_epoch
        if isinstance(request, AddOffsetsToTxnRequest):
            self.took_part = True
        if call.kind == "add":
            self._partitions |= call.partitions
            self.took_part = True

    def _attempt_failed(
        self, code: ErrorCode, now_ms: float, jitter: float, *, refused: Message | None = None, is_final: bool = False
    ) -> None:
        """``refused``: the request that the broker refused, None where it was a look-up or has no response."""
        call = self._calls[0]
        remedy = remedy_of(code, refused)
        if remedy == TransactionRemedy.FIND_COORDINATOR:
            self.known.forget_coordinator(*self._coordinator_of(call))
        if is_final and remedy in _RETRIED:
            remedy = TransactionRemedy.ABORT
        if remedy in _RETRIED and call.retries is not None:
            timeout_ms = FOREVER_MS if call.follows_end else self.api_timeout_ms
            pause_ms = call.retries.failed(now_ms, timeout_ms, jitter)
            if pause_ms is not None:
                is_first = call.kind == "add" and not self._partitions
                if is_first and code == ErrorCode.CONCURRENT_TRANSACTIONS:
                    pause_ms = min(pause_ms, _FIRST_ADD_PAUSE_MS)
                call.due_ms = now_ms + pause_ms
                return
        self._calls.popleft()
        self._effects.append(TransactionCallEnded(call.token, ErrorCode.NONE if call.follows_end else code))
        if call.may_arrive or code == ErrorCode.UNKNOWN_PRODUCER_ID:
            self._needs_epoch = True
        if remedy == TransactionRemedy.GIVE_UP:
            self._fail(S.FATAL_ERROR, code)
        elif self.state == S.INITIALIZING:
            self._to(S.UNINITIALIZED)
        elif call.kind == "end":
            # It requests what it refuses.
            is_fatal = self.state == S.ABORTING and code == ErrorCode.TRANSACTION_ABORTABLE
            self._fail(S.FATAL_ERROR if is_fatal else S.ABORTABLE_ERROR, code)
        elif call.kind == "offsets" or remedy not in _RETRIED:
            # Partitions are added again with the batch's next attempt.
            self._spoil(code)

    # -- what follows -------------------------------------------------------------------------------------------------

    def next(self, now_ms: float) -> list[TransactionEffect]:
        """The effects that are due; each is returned once. At most one of them is to be reported back."""
        while not self._is_waiting() and self._calls[0].due_ms <= now_ms:
            call = self._calls[0]
            code = self._refusal(call)
            if code or (call.request is None and not self._prepare(call, now_ms)):
                self._calls.popleft()
                self._effects.append(TransactionCallEnded(call.token, code, is_refused=bool(code)))
                continue
            key, kind = self._coordinator_of(call)
            node_id = self.known.coordinator(key, kind)
            self._is_out = True
            if node_id is None:
                self._effects.append(LookUpCoordinatorOf(key, kind))
            else:
                assert call.request is not None
                call.was_sent = True
                highest = newest_version(call.request, self.bumps_epoch)
                self._effects.append(SendTransactional(node_id, call.request, highest))
        effects, self._effects = self._effects, []
        return effects

    def next_deadline_ms(self) -> float | None:
        """When to call `next` although no input came; None: only after an input."""
        return None if self._is_waiting() else self._calls[0].due_ms

    def _is_waiting(self) -> bool:
        """Whether nothing is due before an input."""
        return not self._calls or self._is_out or (self._awaits_records and self._calls[0].kind == "end")

    def _prepare(self, call: _Call, now_ms: float) -> bool:
        """Makes the call's next request; False where there is none: the call has succeeded."""
        call.request, call.was_sent = self._next_request(call), False
        call.retries = Retries(self.backoff, now_ms)
        return call.request is not None

    def _refusal(self, call: _Call) -> ErrorCode:
        """What happened to the transaction while the call waited, for its turn or in a pause."""
        if self.state == S.FATAL_ERROR:
            return self.error
        if call.kind in ("offsets", "end") and self.state == S.ABORTABLE_ERROR:
            return self.error
        if call.committed and self.state == S.ABORTING:
            return self.error
        return ErrorCode.NONE

    def _next_request(self, call: _Call) -> Message | None:
        """None: the last has its response, and the state is as the call leaves it."""
        who = self.transactional_id, self.producer_id, self.epoch
        match call.kind, call.step:
            case "init", 0:
                return InitProducerIdRequest(self.transactional_id, self.transaction_timeout_ms, *call.claim)
            case "init", _:
                self._to(S.READY)
                self._next_bumps_epoch = self._is_version_2()
            case "add", 0 if call.partitions - self._partitions:
                return add_partitions_request(*who, call.partitions - self._partitions)
            case "offsets", 0:
                assert call.member is not None
                return AddOffsetsToTxnRequest(*who, call.member.group_id)
            case "offsets", 1:
                assert call.member is not None
                self.took_part = True
                return offsets_request(*who, call.offsets, call.member)
            case "end", 0 if self.took_part:
                return EndTxnRequest(*who, call.committed)
            case "end", _ if self._needs_epoch and not self.bumps_epoch:
                self._to(S.INITIALIZING)
                call.kind, call.step, call.claim = "init", 0, (self.producer_id, self.epoch)
                call.follows_end = True
                return self._next_request(call)
            case "end", _:
                self._to(S.READY)
        return None

    def _coordinator_of(self, call: _Call) -> tuple[str, int]:
        if call.kind == "offsets" and call.step == 1:
            assert call.member is not None
            return call.member.group_id, GROUP
        return self.transactional_id, TRANSACTION
