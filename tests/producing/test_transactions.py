"""The machine of transactions, each rule by itself; Kafka's TransactionManagerTest by name."""

from __future__ import annotations

import pytest

from coterie.machines.backoff import Backoff
from coterie.machines.cluster_metadata import GROUP, TRANSACTION, ClusterMetadata
from coterie.producing.transactions.requests import (
    CommittingMember,
    LookUpCoordinatorOf,
    SendTransactional,
    TransactionCallEnded,
    TransactionEffect,
)
from coterie.producing.transactions.state import (
    LEGAL_SUCCESSORS,
    ProducerTransactionState,
    TransactionRemedy,
    remedy_of,
)
from coterie.producing.transactions.transactions import Transactions
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.groups.find_coordinator import Coordinator, FindCoordinatorResponse
from coterie.wire.messages.transactions.add_offsets_to_txn import AddOffsetsToTxnResponse
from coterie.wire.messages.transactions.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
)
from coterie.wire.messages.transactions.end_txn import EndTxnRequest
from coterie.wire.messages.transactions.init_producer_id import InitProducerIdRequest
from coterie.wire.messages.transactions.txn_offset_commit import (
    TxnOffsetCommitRequest,
)
from coterie_conformance.scenarios.transactional_scenario import response_to

S = ProducerTransactionState
T0, T1 = ("t", 0), ("t", 1)
MEMBER = CommittingMember("g", 3, "me", "i")
OK = ErrorCode.NONE


def know(known: ClusterMetadata, key: str, kind: int, node_id: int) -> None:
    known.coordinator_received(key, kind, FindCoordinatorResponse(coordinators=[Coordinator(key, node_id, "b", 9092)]))


def response(request: Message, code: ErrorCode = OK, *, bumps_epoch: bool = False) -> Message:
    """To any of the requests; the code is that of every partition; ``bumps_epoch``: EndTxn is one of version 5."""
    producer = (-1, -1)
    if isinstance(request, InitProducerIdRequest):
        producer = (7, request.producer_epoch + 1)
    elif isinstance(request, EndTxnRequest) and bumps_epoch and not code:
        producer = (request.producer_id, request.producer_epoch + 1)
    return response_to(request, code, producer)


class Producer:
    """A machine with its driver in the test's hands."""

    def __init__(self) -> None:
        self.machine = Transactions(ClusterMetadata(300_000), "x", 60_000, 5_000, Backoff(100, 1_000))
        know(self.machine.known, "x", TRANSACTION, 1)
        know(self.machine.known, "g", GROUP, 2)
        self.now_ms = 0.0

    def next(self) -> list[TransactionEffect]:
        return self.machine.next(self.now_ms)

    def sent(self) -> SendTransactional:
        (effect,) = self.next()
        assert isinstance(effect, SendTransactional)
        return effect

    def respond(self, *codes: ErrorCode) -> list[Message]:
        """The requests that go out one after the other, each answered with the next code."""
        requests = []
        for code in codes:
            sent = self.sent()
            requests.append(sent.request)
            received = response(sent.request, code, bumps_epoch=sent.highest is None)
            self.machine.responded(received, self.now_ms, 0)
        return requests

    def ended(self) -> ErrorCode:
        (effect,) = self.next()
        assert isinstance(effect, TransactionCallEnded)
        return effect.code

    def begun(self) -> Producer:
        self.machine.init(self.now_ms)
        self.respond(OK)
        assert self.ended() == OK
        self.machine.begin()
        return self

    def added(self) -> Producer:
        self.machine.add([T0], self.now_ms)
        self.respond(OK)
        assert self.ended() == OK
        return self


def test_a_transaction_from_its_beginning_to_its_end() -> None:
    """testBasicTransaction"""
    producer = Producer()
    machine = producer.machine
    machine.init(0)
    assert machine.state == S.INITIALIZING
    (init,) = producer.respond(OK)
    assert init == InitProducerIdRequest("x", 60_000, -1, -1)
    assert producer.ended() == OK
    assert (machine.state, machine.producer_id, machine.epoch) == (S.READY, 7, 0)
    machine.begin()
    machine.add([T1, T0], 0)
    assert machine.add([], 0) is None
    (add,) = producer.respond(OK)
    assert isinstance(add, AddPartitionsToTxnRequest)
    assert [(t.name, t.partitions) for t in add.topics] == [("t", [0, 1])]
    assert producer.ended() == OK
    assert machine.has(T0)
    assert machine.add([T0, T1], 0) is None, "they take part already"
    machine.send_offsets({T0: 5, T1: (6, 2, "text")}, MEMBER, 0)
    assert producer.sent().node_id == 1
    machine.responded(AddOffsetsToTxnResponse(), 0, 0)
    effect = producer.sent()
    assert effect.node_id == 2, "the group's coordinator"
    assert isinstance(effect.request, TxnOffsetCommitRequest)
    request = effect.request
    member = request.generation_id_or_member_epoch, request.member_id, request.group_instance_id
    assert member == (3, "me", "i")
    machine.responded(response(effect.request), 0, 0)
    assert producer.ended() == OK
    machine.end(True, 0)
    assert machine.state == S.COMMITTING
    assert producer.respond(OK) == [EndTxnRequest("x", 7, 0, True)]
    assert producer.ended() == OK
    assert machine.state == S.READY
    machine.begin()
    assert not machine.has(T0)
    machine.end(True, 0)
    assert producer.ended() == OK, "nothing took part: the coordinator knows of no transaction"


def test_an_end_waits_for_what_was_added_before() -> None:
    """One request at a time."""
    producer = Producer().begun()
    machine = producer.machine
    machine.add([T0], 0)
    machine.end(True, 0)
    requests = producer.respond(OK)
    ended, end = producer.next()
    assert isinstance(ended, TransactionCallEnded)
    assert isinstance(end, SendTransactional)
    assert [type(r) for r in (*requests, end.request)] == [AddPartitionsToTxnRequest, EndTxnRequest]


@pytest.mark.parametrize("committed", [True, False])
def test_an_end_begins_at_once_and_waits_for_the_results_of_records(committed: bool) -> None:
    """Kafka's TransactionManager.nextRequest. A partition that a waiting record needs is added before the end."""
    producer = Producer().begun().added()
    machine = producer.machine
    machine.end(committed, 0, awaits_records=True)
    assert machine.state == (S.COMMITTING if committed else S.ABORTING)
    assert (producer.next(), machine.next_deadline_ms()) == ([], None)
    machine.add([T1], 0)
    assert [type(request) for request in producer.respond(OK)] == [AddPartitionsToTxnRequest]
    assert producer.ended() == OK
    assert (producer.next(), machine.next_deadline_ms()) == ([], None)
    machine.records_ended()
    assert producer.respond(OK) == [EndTxnRequest("x", 7, 0, committed)]
    assert producer.ended() == OK


def test_a_record_that_fails_while_its_commit_waits_ends_the_commit_once_all_have_results() -> None:
    producer = Producer().begun().added()
    machine = producer.machine
    machine.end(True, 0, awaits_records=True)
    machine.failed(ErrorCode.MESSAGE_TOO_LARGE)
    assert (machine.state, producer.next()) == (S.ABORTABLE_ERROR, [])
    machine.records_ended()
    assert producer.ended() == ErrorCode.MESSAGE_TOO_LARGE
    machine.end(False, 0)
    assert producer.respond(OK, OK)[0] == EndTxnRequest("x", 7, 0, False)


def test_a_batch_that_fails_before_the_end_is_sent_spoils_the_commit() -> None:
    """Nothing is committed without one of its records."""
    producer = Producer().begun()
    machine = producer.machine
    machine.add([T0], 0)
    machine.end(True, 0)
    producer.sent()
    machine.failed(ErrorCode.MESSAGE_TOO_LARGE)
    machine.responded(AddPartitionsToTxnResponse(), 0, 0)
    codes = [effect.code for effect in producer.next() if isinstance(effect, TransactionCallEnded)]
    assert codes == [OK, ErrorCode.MESSAGE_TOO_LARGE]
    assert machine.state == S.ABORTABLE_ERROR


@pytest.mark.parametrize(
    ("code", "request_", "remedy"),
    [
        (ErrorCode.NOT_COORDINATOR, None, TransactionRemedy.FIND_COORDINATOR),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, None, TransactionRemedy.FIND_COORDINATOR),
        (ErrorCode.NETWORK_EXCEPTION, None, TransactionRemedy.FIND_COORDINATOR),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, None, TransactionRemedy.RETRY),
        (ErrorCode.CONCURRENT_TRANSACTIONS, None, TransactionRemedy.RETRY),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None, TransactionRemedy.RETRY),
        (ErrorCode.PRODUCER_FENCED, None, TransactionRemedy.GIVE_UP),
        (ErrorCode.INVALID_PRODUCER_EPOCH, EndTxnRequest(), TransactionRemedy.GIVE_UP),
        (ErrorCode.INVALID_PRODUCER_EPOCH, None, TransactionRemedy.ABORT),  # of a batch
        (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, None, TransactionRemedy.GIVE_UP),
        (ErrorCode.UNSUPPORTED_VERSION, None, TransactionRemedy.GIVE_UP),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, AddPartitionsToTxnRequest(), TransactionRemedy.ABORT),
        (ErrorCode.GROUP_AUTHORIZATION_FAILED, TxnOffsetCommitRequest(), TransactionRemedy.ABORT),
        (ErrorCode.FENCED_INSTANCE_ID, TxnOffsetCommitRequest(), TransactionRemedy.ABORT),
        (ErrorCode.ILLEGAL_GENERATION, TxnOffsetCommitRequest(), TransactionRemedy.ABORT),
        (ErrorCode.TRANSACTION_ABORTABLE, EndTxnRequest(), TransactionRemedy.ABORT),
        # An abort would be refused with the same error.
        (ErrorCode.INVALID_TXN_STATE, EndTxnRequest(), TransactionRemedy.GIVE_UP),
        (ErrorCode.INVALID_TXN_STATE, AddPartitionsToTxnRequest(), TransactionRemedy.GIVE_UP),
        (ErrorCode.INVALID_TXN_STATE, None, TransactionRemedy.ABORT),
    ],
)
def test_remedies(code: ErrorCode, request_: Message | None, remedy: TransactionRemedy) -> None:
    assert remedy_of(code, request_) == remedy


def test_a_request_is_repeated_after_pauses_until_the_time_is_over() -> None:
    """default.api.timeout.ms of each request, the last error counts."""
    producer = Producer().begun().added()
    machine = producer.machine
    machine.end(True, producer.now_ms)
    for pause_ms in (100, 200, 400, 800, 1_000, 1_000, 1_000, 500):
        producer.respond(ErrorCode.CONCURRENT_TRANSACTIONS)
        assert producer.next() == []
        assert machine.next_deadline_ms() == producer.now_ms + pause_ms
        producer.now_ms += pause_ms
    producer.respond(ErrorCode.CONCURRENT_TRANSACTIONS)
    assert producer.ended() == ErrorCode.CONCURRENT_TRANSACTIONS
    assert machine.state == S.ABORTABLE_ERROR


def test_the_coordinator_is_looked_up_where_it_has_moved() -> None:
    """The one that refused, or did not answer; the other is still known."""
    producer = Producer().begun().added()
    machine = producer.machine
    machine.send_offsets({T0: 1}, MEMBER, 0)
    producer.respond(OK, ErrorCode.NOT_COORDINATOR)
    assert producer.next() == []
    producer.now_ms = 100
    assert producer.next() == [LookUpCoordinatorOf("g", GROUP)]
    assert machine.known.coordinator("x", TRANSACTION) == 1, "the other one is still known"
    machine.coordinator_looked_up(ErrorCode.COORDINATOR_NOT_AVAILABLE, 100, 0)
    producer.now_ms = 300
    assert producer.next() == [LookUpCoordinatorOf("g", GROUP)]
    know(machine.known, "g", GROUP, 5)
    machine.coordinator_looked_up(OK, 300, 0)
    assert producer.sent().node_id == 5


def test_what_no_attempt_can_mend_is_not_repeated() -> None:
    """An untrusted certificate is NETWORK_EXCEPTION too."""
    producer = Producer()
    producer.machine.init(0)
    producer.sent()
    producer.machine.request_failed(ErrorCode.NETWORK_EXCEPTION, 0, 0, is_final=True)
    assert producer.ended() == ErrorCode.NETWORK_EXCEPTION
    assert producer.machine.state == S.UNINITIALIZED


def test_after_an_aborted_failure_comes_the_next_epoch() -> None:
    """KIP-360."""
    producer = Producer().begun().added()
    machine = producer.machine
    machine.failed(ErrorCode.REQUEST_TIMED_OUT)
    assert (machine.state, machine.error) == (S.ABORTABLE_ERROR, ErrorCode.REQUEST_TIMED_OUT)
    machine.end(False, 0)
    assert producer.respond(OK, OK) == [EndTxnRequest("x", 7, 0, False), InitProducerIdRequest("x", 60_000, 7, 0)]
    assert producer.ended() == OK
    assert (machine.state, machine.epoch, machine.error) == (S.READY, 1, OK)
    machine.begin()
    machine.failed(ErrorCode.MESSAGE_TOO_LARGE)
    machine.end(False, 0)
    assert producer.respond(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS) == [InitProducerIdRequest("x", 60_000, 7, 1)]
    machine.next(100)
    machine.request_failed(ErrorCode.INVALID_REQUEST, 100, 0)
    assert producer.ended() == OK, "the transaction has ended, whatever comes of the next epoch"
    assert machine.state == S.UNINITIALIZED, "the epoch is unknown: init_transactions is due again"


@pytest.mark.parametrize(
    ("code", "state"),
    [
        (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, S.UNINITIALIZED),
        (ErrorCode.PRODUCER_FENCED, S.FATAL_ERROR),
        (OK, S.READY),
    ],
)
def test_a_commit_that_is_made_succeeds_whatever_comes_of_the_next_epoch(code: ErrorCode, state: S) -> None:
    """The next epoch is due where an attempt of the end had no response; errors that may pass are repeated without a limit, as
    Kafka's producer repeats InitProducerId."""
    producer = Producer().begun().added()
    machine = producer.machine
    machine.failed(ErrorCode.REQUEST_TIMED_OUT)
    machine.end(False, 0)
    producer.respond(OK)
    for _ in range(20):
        producer.respond(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        assert producer.next() == []
        producer.now_ms += 1_000  # 20 s are longer than default.api.timeout.ms
    producer.respond(code)
    assert (producer.ended(), machine.state) == (OK, state)


def test_a_fatal_error_ends_every_call() -> None:
    """The queued ones as well."""
    producer = Producer().begun()
    machine = producer.machine
    machine.add([T0], 0)
    machine.send_offsets({T0: 1}, MEMBER, 0)
    producer.respond(ErrorCode.PRODUCER_FENCED)
    codes = [effect.code for effect in producer.next() if isinstance(effect, TransactionCallEnded)]
    assert codes == [ErrorCode.PRODUCER_FENCED] * 2
    assert (machine.state, machine.error) == (S.FATAL_ERROR, ErrorCode.PRODUCER_FENCED)
    machine.failed(ErrorCode.MESSAGE_TOO_LARGE)
    assert (machine.state, machine.error) == (S.FATAL_ERROR, ErrorCode.PRODUCER_FENCED)


def test_after_a_fatal_error_a_partition_that_took_part_is_refused() -> None:
    """A batch that was sent before waits for its next attempt: where nothing is refused and the partition does not take part,
    it is added again without an end. Seed 400017 of the laboratory."""
    producer = Producer().begun().added()
    machine = producer.machine
    machine.failed(ErrorCode.PRODUCER_FENCED)
    assert not machine.has(T0)
    assert machine.add([T0], 0) is not None
    assert producer.ended() == ErrorCode.PRODUCER_FENCED


def test_a_transaction_that_another_process_left_open_is_ended() -> None:
    producer = Producer()
    producer.machine.resume(9, 4, True, False)
    producer.machine.end(True, 0)
    assert producer.respond(OK) == [EndTxnRequest("x", 9, 4, True)]
    assert producer.ended() == OK


def test_every_state_is_reached_and_only_the_fatal_one_is_never_left() -> None:
    assert {state for targets in LEGAL_SUCCESSORS.values() for state in targets} == set(S)
    assert [state for state, targets in LEGAL_SUCCESSORS.items() if not targets] == [S.FATAL_ERROR]


def of_version_2(producer: Producer) -> Producer:
    producer.machine.known.features_received({"transaction.version": 2}, 1)
    return producer.begun()


def test_a_transaction_of_version_2_adds_nothing_and_ends_with_a_new_epoch() -> None:
    """testTransactionV2AddPartitionAndOffsets"""
    producer = of_version_2(Producer())
    machine = producer.machine
    assert machine.add([T0, T1], 0) is None, "the records do it"
    assert machine.has(T0)
    machine.send_offsets({T0: 1}, MEMBER, 0)
    sent = producer.sent()
    assert (sent.node_id, type(sent.request), sent.highest) == (2, TxnOffsetCommitRequest, 5)
    machine.responded(response(sent.request), 0, 0)
    assert producer.ended() == OK
    machine.end(True, 0)
    assert producer.respond(OK) == [EndTxnRequest("x", 7, 0, True)]
    assert producer.ended() == OK
    assert (machine.state, machine.producer_id, machine.epoch) == (S.READY, 7, 1)
    machine.begin()
    machine.end(False, 0)
    assert producer.ended() == OK, "nothing was sent, so there is nothing to end"


def test_an_aborted_failure_of_version_2_needs_no_other_epoch() -> None:
    """Its end returns one."""
    producer = of_version_2(Producer())
    machine = producer.machine
    machine.add([T0], 0)
    machine.failed(ErrorCode.MESSAGE_TOO_LARGE)
    machine.end(False, 0)
    assert producer.respond(OK) == [EndTxnRequest("x", 7, 0, False)]
    assert producer.ended() == OK
    assert (machine.state, machine.epoch) == (S.READY, 1)


def test_offsets_whose_response_is_lost_may_have_begun_the_transaction() -> None:
    producer = of_version_2(Producer())
    machine = producer.machine
    machine.send_offsets({T0: 1}, MEMBER, 0)
    producer.sent()
    machine.request_failed(ErrorCode.NETWORK_EXCEPTION, 0, 0, is_final=True)
    assert producer.ended() == ErrorCode.NETWORK_EXCEPTION
    machine.end(False, 0)
    assert producer.respond(OK) == [EndTxnRequest("x", 7, 0, False)]


def test_the_version_is_that_of_the_beginning_and_an_older_report_changes_nothing() -> None:
    producer = Producer().begun()
    known = producer.machine.known
    known.features_received({"transaction.version": 2}, 5)
    assert not producer.machine.bumps_epoch
    producer.added().machine.end(True, 0)
    sent = producer.sent()
    assert sent.highest == 4, "version 5 would bump the epoch"
    producer.machine.responded(response(sent.request), 0, 0)
    assert producer.respond(OK) == [InitProducerIdRequest("x", 60_000, 7, 0)], (
        "no late request of version 1 joins the next"
    )
    assert producer.ended() == OK
    known.features_received({"transaction.version": 1}, 6)
    producer.machine.begin()
    assert producer.machine.bumps_epoch, "as it was at the end of the one before, for which the epoch was chosen"
    known.features_received({"transaction.version": 2}, 7)
    known.features_received({}, 4)
    assert known.transaction_version == 2
    known.features_received({}, 8)
    assert known.transaction_version == 0


def test_a_transaction_of_version_2_that_another_process_left_open_is_ended_so() -> None:
    producer = Producer()
    producer.machine.resume(9, 4, True, True)
    producer.machine.end(True, 0)
    assert producer.sent().highest is None
