"""What each error of each request of a transactional producer comes to: Kafka's TransactionManagerTest by name."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from coterie.machines.cluster_metadata import GROUP, TRANSACTION
from coterie.producing.transactions.requests import LookUpCoordinatorOf, SendTransactional
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.transactions.add_partitions_to_txn import AddPartitionsToTxnRequest
from coterie.wire.messages.transactions.end_txn import EndTxnRequest
from coterie.wire.messages.transactions.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from tests.producing.test_transactions import MEMBER, OK, T0, T1, Producer, S, know, response

E = ErrorCode
ABORT = EndTxnRequest("x", 7, 0, False)


def to_init(producer: Producer) -> None:
    producer.machine.init(0)


def to_find_the_coordinator(producer: Producer) -> None:
    producer.machine.known.forget_coordinator("x", TRANSACTION)
    producer.machine.init(0)


def to_add(producer: Producer) -> None:
    producer.begun().machine.add([T0, T1], 0)


def to_add_offsets(producer: Producer) -> None:
    producer.begun().machine.send_offsets({T0: 1, T1: 1}, MEMBER, 0)


def to_commit_offsets(producer: Producer) -> None:
    to_add_offsets(producer)
    producer.respond(OK)


def to_find_the_group(producer: Producer) -> None:
    producer.machine.known.forget_coordinator("g", GROUP)
    to_commit_offsets(producer)


def to_commit(producer: Producer) -> None:
    producer.begun().added().machine.end(True, 0)


Situation = Callable[[Producer], None]


def fail(producer: Producer, code: ErrorCode) -> Message | None:
    """What is out ends with the code; of an offset commit, that of the second partition. Returns the request, if it is one."""
    machine, now_ms = producer.machine, producer.now_ms
    (effect,) = producer.next()
    if isinstance(effect, LookUpCoordinatorOf):
        machine.coordinator_looked_up(code, now_ms, 0, is_final=not code.retriable)
        return None
    assert isinstance(effect, SendTransactional)
    if code in (E.UNSUPPORTED_VERSION, E.NETWORK_EXCEPTION) and not isinstance(effect.request, TxnOffsetCommitRequest):
        machine.request_failed(code, now_ms, 0, is_final=not code.retriable)
        return effect.request
    received = response(effect.request, code)
    if isinstance(received, TxnOffsetCommitResponse):
        received.topics[0].partitions[0].error_code = 0
    machine.responded(received, now_ms, 0)
    return effect.request


FATAL: list[tuple[str, Situation, ErrorCode]] = [
    ("testUnsupportedFindCoordinator", to_find_the_coordinator, E.UNSUPPORTED_VERSION),
    ("testUnsupportedInitTransactions", to_init, E.UNSUPPORTED_VERSION),
    (
        "testTransactionalIdAuthorizationFailureInFindCoordinator",
        to_find_the_coordinator,
        E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ),
    ("testProducerFencedExceptionInInitProducerId", to_init, E.PRODUCER_FENCED),
    ("testInvalidProducerEpochConvertToProducerFencedInInitProducerId", to_init, E.INVALID_PRODUCER_EPOCH),
    ("testTransactionalIdAuthorizationFailureInAddPartitions", to_add, E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
    ("testInvalidTxnStateInAddPartitions", to_add, E.INVALID_TXN_STATE),
    (
        "testTransactionalIdAuthorizationFailureInAddOffsetsToTxn",
        to_add_offsets,
        E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ),
    ("testInvalidTxnStateFailureInAddOffsetsToTxn", to_add_offsets, E.INVALID_TXN_STATE),
    (
        "testTransactionalIdAuthorizationFailureInTxnOffsetCommit",
        to_commit_offsets,
        E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ),
    ("testUnsupportedForMessageFormatInTxnOffsetCommit", to_commit_offsets, E.UNSUPPORTED_FOR_MESSAGE_FORMAT),
    (
        "testHandlingOfUnsupportedForMessageFormatErrorOnTxnOffsetCommit",
        to_commit_offsets,
        E.UNSUPPORTED_FOR_MESSAGE_FORMAT,
    ),
    ("testHandlingOfProducerFencedErrorOnTxnOffsetCommit", to_commit_offsets, E.PRODUCER_FENCED),
    (
        "testHandlingOfTransactionalIdAuthorizationFailedErrorOnTxnOffsetCommit",
        to_commit_offsets,
        E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ),
    ("testHandlingOfInvalidProducerEpochErrorOnTxnOffsetCommit", to_commit_offsets, E.INVALID_PRODUCER_EPOCH),
]


@pytest.mark.parametrize(("name", "situation", "code"), FATAL, ids=[name for name, _, _ in FATAL])
def test_errors_that_end_the_producer(name: str, situation: Situation, code: ErrorCode) -> None:
    """Nothing is allowed any more, an abort neither."""
    producer = Producer()
    situation(producer)
    fail(producer, code)
    assert producer.ended() == code
    machine = producer.machine
    assert (machine.state, machine.error) == (S.FATAL_ERROR, code)
    assert machine.next_deadline_ms() is None, "nothing is sent again"
    machine.add([T0], 0)
    assert producer.ended() == code
    assert not machine.has(T0)


ABORTABLE: list[tuple[str, Situation, ErrorCode]] = [
    ("testGroupAuthorizationFailureInFindCoordinator", to_find_the_group, E.GROUP_AUTHORIZATION_FAILED),
    ("testTransactionAbortableExceptionInFindCoordinator", to_find_the_group, E.TRANSACTION_ABORTABLE),
    ("shouldNotAddPartitionsToTransactionWhenTopicAuthorizationFailed", to_add, E.TOPIC_AUTHORIZATION_FAILED),
    ("shouldNotSendAbortTxnRequestWhenOnlyAddPartitionsRequestFailed", to_add, E.TOPIC_AUTHORIZATION_FAILED),
    ("testTransactionAbortableExceptionInAddPartitions", to_add, E.TRANSACTION_ABORTABLE),
    ("testTransactionAbortableExceptionInAddOffsetsToTxn", to_add_offsets, E.TRANSACTION_ABORTABLE),
    ("testGroupAuthorizationFailureInTxnOffsetCommit", to_commit_offsets, E.GROUP_AUTHORIZATION_FAILED),
    ("testFencedInstanceIdInTxnOffsetCommitByGroupMetadata", to_commit_offsets, E.FENCED_INSTANCE_ID),
    ("testUnknownMemberIdInTxnOffsetCommitByGroupMetadata", to_commit_offsets, E.UNKNOWN_MEMBER_ID),
    ("testIllegalGenerationInTxnOffsetCommitByGroupMetadata", to_commit_offsets, E.ILLEGAL_GENERATION),
    ("testTransactionAbortableExceptionInTxnOffsetCommit", to_commit_offsets, E.TRANSACTION_ABORTABLE),
    ("testTransactionAbortableExceptionInEndTxn", to_commit, E.TRANSACTION_ABORTABLE),
]


@pytest.mark.parametrize(("name", "situation", "code"), ABORTABLE, ids=[name for name, _, _ in ABORTABLE])
def test_errors_after_which_the_transaction_is_to_be_aborted(name: str, situation: Situation, code: ErrorCode) -> None:
    """The abort succeeds, under the same epoch since no record was lost; where the coordinator knows of no transaction, it is
    not sent anything."""
    producer = Producer()
    situation(producer)
    request = fail(producer, code)
    if isinstance(request, TxnOffsetCommitRequest):
        named = request.group_id, request.generation_id_or_member_epoch, request.member_id, request.group_instance_id
        assert named == (MEMBER.group_id, MEMBER.generation, MEMBER.member_id, MEMBER.group_instance_id)
        assert (request.producer_id, request.producer_epoch) == (7, 0)
    assert producer.ended() == code
    machine = producer.machine
    assert (machine.state, machine.error) == (S.ABORTABLE_ERROR, code)
    assert not machine.has(T1)
    is_known = situation not in (to_add, to_add_offsets)
    machine.end(False, 0)
    assert producer.respond(*[OK] * is_known) == [ABORT] * is_known
    assert producer.ended() == OK
    assert (machine.state, machine.error, machine.epoch) == (S.READY, OK, 0)


@pytest.mark.parametrize(
    "code", [E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, E.TRANSACTION_ABORTABLE], ids=lambda c: c.name
)
def test_an_init_that_is_refused_may_be_tried_again(code: ErrorCode) -> None:
    """testTransactionalIdAuthorizationFailureInInitProducerId, testTransactionAbortableExceptionInInitProducerId: Kafka's
    producer has an abortable error then; here no transaction is there to be aborted."""
    producer = Producer()
    to_init(producer)
    fail(producer, code)
    assert producer.ended() == code
    assert producer.machine.state == S.UNINITIALIZED
    producer.begun()
    assert producer.machine.state == S.IN_TRANSACTION


RETRIABLE = [
    E.UNKNOWN_TOPIC_OR_PARTITION,
    E.REQUEST_TIMED_OUT,
    E.COORDINATOR_LOAD_IN_PROGRESS,
    E.CONCURRENT_TRANSACTIONS,
]
REPEATED: list[tuple[str, Situation, ErrorCode]] = [
    *(
        ("testRetriableErrors", situation, code)
        for code in RETRIABLE
        for situation in (to_find_the_coordinator, to_init, to_add, to_commit)
    ),
    ("testCoordinatorNotAvailable", to_find_the_coordinator, E.COORDINATOR_NOT_AVAILABLE),
    ("testDisconnectAndRetry", to_find_the_coordinator, E.NETWORK_EXCEPTION),
    ("testLookupCoordinatorOnDisconnectAfterSend", to_init, E.NETWORK_EXCEPTION),
    ("testLookupCoordinatorOnDisconnectBeforeSend", to_init, E.NETWORK_EXCEPTION),  # the driver reports both alike
    ("testLookupCoordinatorOnNotCoordinatorError", to_init, E.NOT_COORDINATOR),
    ("testHandlingOfUnknownTopicPartitionErrorOnTxnOffsetCommit", to_commit_offsets, E.UNKNOWN_TOPIC_OR_PARTITION),
    ("testHandlingOfCoordinatorLoadingErrorOnTxnOffsetCommit", to_commit_offsets, E.COORDINATOR_LOAD_IN_PROGRESS),
    ("testHandlingOfNetworkExceptionOnTxnOffsetCommit", to_commit_offsets, E.NETWORK_EXCEPTION),
    ("testSendOffsetsWithGroupMetadata", to_commit_offsets, E.COORDINATOR_LOAD_IN_PROGRESS),
]
LOOKED_UP = (E.REQUEST_TIMED_OUT, E.COORDINATOR_NOT_AVAILABLE, E.NETWORK_EXCEPTION, E.NOT_COORDINATOR)


@pytest.mark.parametrize(("name", "situation", "code"), REPEATED)
def test_errors_that_pass(name: str, situation: Situation, code: ErrorCode) -> None:
    """The call goes on: the same request goes out once more, to a coordinator that is looked up where it may have moved."""
    producer = Producer()
    situation(producer)
    machine = producer.machine
    request = fail(producer, code)
    assert producer.next() == [], "neither at an end, nor sent at once"
    producer.now_ms += 100
    (effect,) = producer.next()
    is_looked_up = request is None or code in LOOKED_UP
    if is_looked_up:
        key, kind = ("g", GROUP) if isinstance(request, TxnOffsetCommitRequest) else ("x", TRANSACTION)
        assert effect == LookUpCoordinatorOf(key, kind)
        know(machine.known, key, kind, 9)
        machine.coordinator_looked_up(OK, producer.now_ms, 0)
        (effect,) = producer.next()
    assert isinstance(effect, SendTransactional)
    assert effect.node_id == (9 if is_looked_up else 2 if isinstance(request, TxnOffsetCommitRequest) else 1)
    assert request in (None, effect.request)
    if isinstance(request, TxnOffsetCommitRequest):
        assert (request.generation_id_or_member_epoch, request.member_id, request.group_instance_id) == MEMBER[1:]
    if isinstance(request, AddPartitionsToTxnRequest):
        assert not machine.has(T0)
    machine.responded(response(effect.request), producer.now_ms, 0)
    assert producer.ended() == OK
