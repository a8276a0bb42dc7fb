"""A transactional producer beside coordinators and a network that do anything: stories of calls, responses, losses, look-ups
and failed batches. What must hold is checked after every step."""

from __future__ import annotations

from itertools import count

import hypothesis.strategies as st
from hypothesis import given, settings

from coterie.machines.cluster_metadata import GROUP, TRANSACTION
from coterie.producing.transactions.requests import LookUpCoordinatorOf, SendTransactional, TransactionCallEnded
from coterie.producing.transactions.state import TransactionRemedy, remedy_of
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.transactions.add_offsets_to_txn import AddOffsetsToTxnRequest
from coterie.wire.messages.transactions.add_partitions_to_txn import AddPartitionsToTxnRequest
from coterie.wire.messages.transactions.end_txn import EndTxnRequest, EndTxnResponse
from coterie.wire.messages.transactions.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from coterie.wire.messages.transactions.txn_offset_commit import TxnOffsetCommitRequest
from tests.producing.test_transactions import MEMBER, OK, Producer, S, know, response

CODES = (
    OK,
    OK,
    OK,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.TRANSACTION_ABORTABLE,
    ErrorCode.INVALID_TXN_STATE,
    ErrorCode.UNKNOWN_PRODUCER_ID,
    ErrorCode.PRODUCER_FENCED,
)
LOOKUPS = (OK, OK, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
MOVES = (
    "init",
    "begin",
    "add",
    "offsets",
    "commit",
    "abort",
    "answer",
    "answer",
    "answer",
    "lose",
    "batch",
    "records",
    "wait",
    "moved",
    "level",
)
BATCH_CODES = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.INVALID_PRODUCER_EPOCH)


class Story:
    def __init__(self) -> None:
        self.producer = Producer()
        self.machine = self.producer.machine
        self.out: SendTransactional | LookUpCoordinatorOf | None = None
        self.open: dict[int, str] = {}
        self.added: set[tuple[str, int]] = set()
        self.knows_of_it = False  # the coordinator, of the open transaction
        self.is_end_sent = False
        self.identity = (-1, -1)
        self.has_end_response = False
        self.bumps_epoch = False  # of the open transaction
        self.is_aborted = False  # while its commit still waits
        self.epochs = count()
        self.of_version_1 = (-1, -1)  # the identity of the last transaction of version 1
        self.is_spoiled = False  # the open transaction, by what failed in it
        self.awaits_records = False  # the end that was called

    def step(self, move: str, number: int) -> None:
        machine, now_ms = self.machine, self.producer.now_ms
        match move:
            case "init" if machine.allows(S.UNINITIALIZED, S.READY):
                self.open[machine.init(now_ms)] = move
            case "begin" if machine.allows(S.READY):
                machine.begin()
                assert not machine.bumps_epoch or self.identity != self.of_version_1, "what is late could join it"
                self.bumps_epoch, self.is_aborted = machine.bumps_epoch, False
                if not self.bumps_epoch:
                    self.of_version_1 = self.identity
                self.has_end_response = False
                self.added, self.knows_of_it, self.is_end_sent, self.is_spoiled = set(), False, False, False
            case "add" if machine.allows(S.IN_TRANSACTION) or (
                self.awaits_records and machine.allows(S.COMMITTING, S.ABORTING)
            ):
                wanted = {("t", number % 3), ("t", number % 4)}
                token = machine.add(wanted, now_ms)
                if token is not None:
                    self.open[token] = move
                elif self.bumps_epoch:
                    self.added |= wanted
                    self.knows_of_it = True  # from the records, perhaps
            case "offsets" if machine.allows(S.IN_TRANSACTION):
                self.open[machine.send_offsets({("u", 0): number}, MEMBER, now_ms)] = move
            case "commit" if machine.allows(S.IN_TRANSACTION):
                self.awaits_records = bool(number % 2)
                self.open[machine.end(True, now_ms, awaits_records=self.awaits_records)] = move
            case "abort" if machine.allows(S.IN_TRANSACTION, S.ABORTABLE_ERROR):
                self.awaits_records = bool(number % 2)
                self.open[machine.end(False, now_ms, awaits_records=self.awaits_records)] = move
                self.is_aborted = machine.state == S.ABORTING and "commit" in self.open.values()
            case "answer" if self.out is not None:
                self._respond(CODES[number % len(CODES)], LOOKUPS[number % len(LOOKUPS)])
            case "lose" if isinstance(self.out, SendTransactional):
                self.out = None
                machine.request_failed(ErrorCode.NETWORK_EXCEPTION, now_ms, (number % 3) - 1)
            case "batch" if machine.allows(
                S.IN_TRANSACTION, S.COMMITTING, S.ABORTABLE_ERROR, S.ABORTING, S.FATAL_ERROR
            ):
                self.is_spoiled = self.is_spoiled or not self.is_end_sent
                machine.failed(BATCH_CODES[number % len(BATCH_CODES)])
            case "records":
                self.awaits_records = False
                machine.records_ended()
            case "wait":
                self.producer.now_ms += (1, 99, 900, 6_000)[number % 4]
            case "moved":
                machine.known.forget_leaders()
            case "level":
                machine.known.features_received({"transaction.version": number % 3}, number)
        self.pump()

    def _respond(self, code: ErrorCode, lookup: ErrorCode) -> None:
        machine, now_ms, effect = self.machine, self.producer.now_ms, self.out
        self.out = None
        if isinstance(effect, LookUpCoordinatorOf):
            if not lookup:
                know(machine.known, effect.key, effect.kind, 1 + effect.kind)
            machine.coordinator_looked_up(lookup, now_ms, 0)
            return
        assert effect is not None
        received = response(effect.request, code, bumps_epoch=effect.highest is None)
        if isinstance(received, InitProducerIdResponse) or (
            isinstance(received, EndTxnResponse) and received.producer_id >= 0
        ):
            received.producer_epoch = next(self.epochs)
        if not code:
            self._succeeded(effect.request, received)
        machine.responded(received, now_ms, 0)

    def _succeeded(self, request: Message, response: Message) -> None:
        match request:
            case AddPartitionsToTxnRequest():
                self.added |= {(t.name, p) for t in request.topics for p in t.partitions}
                self.knows_of_it = True
            case AddOffsetsToTxnRequest():
                self.knows_of_it = True
            case EndTxnRequest():
                self.has_end_response = True
                assert isinstance(response, EndTxnResponse)
                if self.bumps_epoch:
                    self.identity = response.producer_id, response.producer_epoch
            case InitProducerIdRequest():
                assert isinstance(response, InitProducerIdResponse)
                self.identity = response.producer_id, response.producer_epoch

    def pump(self) -> None:
        for effect in self.machine.next(self.producer.now_ms):
            match effect:
                case SendTransactional() | LookUpCoordinatorOf():
                    assert self.out is None, "two requests are out at once"
                    self.out = effect
                    if isinstance(effect, SendTransactional):
                        self._check_version(effect)
                        self._check_request(effect.request)
                case TransactionCallEnded(token=token, code=code):
                    self._check_end(self.open.pop(token), code)
        self._check_rest()

    def _check_version(self, effect: SendTransactional) -> None:
        request, adds = effect.request, (AddPartitionsToTxnRequest, AddOffsetsToTxnRequest)
        if self.bumps_epoch:
            assert not isinstance(request, adds), "what the records and offsets do by themselves is asked for"
            assert effect.highest is None
            self.knows_of_it = self.knows_of_it or isinstance(request, TxnOffsetCommitRequest)
        elif isinstance(request, (EndTxnRequest, TxnOffsetCommitRequest)):
            assert effect.highest == 4, "a request that another version of transactions goes with"

    def _check_request(self, request: Message) -> None:
        machine = self.machine
        assert machine.state != S.FATAL_ERROR, "a producer that was replaced goes on"
        if isinstance(request, InitProducerIdRequest):
            assert machine.state == S.INITIALIZING
            claim = (request.producer_id, request.producer_epoch)
            assert claim in ((-1, -1), self.identity), "another producer's identity is claimed"
            return
        named = getattr(request, "producer_id", None), getattr(request, "producer_epoch", None)
        assert named == self.identity, "a request of an epoch that has passed"
        if isinstance(request, EndTxnRequest):
            assert machine.state == (S.COMMITTING if request.committed else S.ABORTING)
            assert self.knows_of_it, "the coordinator knows of no transaction"
            assert not self.awaits_records, "the end overtakes records"
            self.is_end_sent = True
            return
        assert not self.is_end_sent or machine.state == S.ABORTABLE_ERROR, "something is added after the end"
        if isinstance(request, AddPartitionsToTxnRequest):
            partitions = {(t.name, p) for t in request.topics for p in t.partitions}
            assert not partitions & self.added, "a partition is added twice"

    def _check_end(self, call: str, code: ErrorCode) -> None:
        state = self.machine.state
        if call in ("commit", "abort", "init") and not code:
            # The transaction has ended; an error is the next epoch's.
            is_over = call != "init" and (self.has_end_response or not self.knows_of_it)
            assert state == S.READY or (is_over and state in (S.UNINITIALIZED, S.FATAL_ERROR))
            assert state != S.READY or not self.machine.error
        elif call in ("commit", "abort") and not self.is_aborted:
            assert state in (S.ABORTABLE_ERROR, S.FATAL_ERROR, S.UNINITIALIZED)
        if call in ("commit", "abort") and not code:
            assert self.has_end_response or not self.knows_of_it, "the coordinator's transaction stays open"
        if call == "commit" and not code:
            assert not self.is_spoiled, "a transaction is committed without something of it"
        if call == "offsets" and code:
            self.is_spoiled = True
        if code and remedy_of(code) == TransactionRemedy.GIVE_UP:
            assert state == S.FATAL_ERROR

    def _check_rest(self) -> None:
        machine, now_ms = self.machine, self.producer.now_ms
        if machine.state in (S.ABORTABLE_ERROR, S.FATAL_ERROR):
            assert machine.error, "an error state without an error"
        due_ms = machine.next_deadline_ms()
        assert due_ms is None or due_ms > now_ms, "the driver would come back at once, for nothing"
        assert self.out is not None or due_ms is not None or not self.open or self.awaits_records, (
            f"{self.open} wait for nothing"
        )
        if machine.state in (S.READY, S.FATAL_ERROR):
            assert not any(machine.has(tp) for tp in self.added), "a partition takes part in nothing"
            self.added = set()
        assert all(machine.has(tp) for tp in self.added)

    def finish(self) -> None:
        """Everything is answered from now on: every call ends, and the producer can begin again unless an error forbids it."""
        for _ in range(200):
            if not self.open:
                break
            self.step("records", 0)
            if self.out is not None:
                self._respond(OK, OK)
            self.producer.now_ms += 1_000
            self.pump()
        assert not self.open, f"{self.open} never end"
        assert self.machine.state not in (S.INITIALIZING, S.COMMITTING, S.ABORTING)


@settings(max_examples=500, derandomize=True)
@given(st.lists(st.tuples(st.sampled_from(MOVES), st.integers(0, 359)), min_size=5, max_size=70))
def test_stories(moves: list[tuple[str, int]]) -> None:
    story = Story()
    know(story.machine.known, "x", TRANSACTION, 1)
    know(story.machine.known, "g", GROUP, 2)
    story.step("init", 0)
    story.step("answer", 0)
    story.step("begin", 0)
    for move, number in moves:
        story.step(move, number)
    story.finish()
