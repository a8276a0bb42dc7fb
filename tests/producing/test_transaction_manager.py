"""Kafka's TransactionManagerTest by name, where a name asks the machine of transactions alone: which partitions take part, when
something is sent again, and under which identity the next transaction goes. Errors: test_transaction_errors."""

from __future__ import annotations

import pytest

from coterie.machines.cluster_metadata import TRANSACTION
from coterie.producing.transactions.requests import LookUpCoordinatorOf
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.transactions.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from coterie.wire.messages.transactions.add_partitions_to_txn import AddPartitionsToTxnRequest
from coterie.wire.messages.transactions.end_txn import EndTxnRequest, EndTxnResponse
from coterie.wire.messages.transactions.init_producer_id import InitProducerIdRequest
from tests.producing.test_transaction_errors import ABORT, E, to_add_offsets, to_commit_offsets
from tests.producing.test_transactions import MEMBER, OK, T0, T1, Producer, S, know, response

NEXT_EPOCH = InitProducerIdRequest("x", 60_000, 7, 0)


@pytest.mark.parametrize(
    ("name", "has_one", "code", "pause_ms"),
    [
        (
            "testAddPartitionToTransactionOverridesRetryBackoffForConcurrentTransactions",
            False,
            E.CONCURRENT_TRANSACTIONS,
            20,
        ),
        (
            "testAddPartitionToTransactionRetainsRetryBackoffForRegularRetriableError",
            False,
            E.COORDINATOR_NOT_AVAILABLE,
            100,
        ),
        (
            "testAddPartitionToTransactionRetainsRetryBackoffWhenPartitionsAlreadyAdded",
            True,
            E.CONCURRENT_TRANSACTIONS,
            100,
        ),
    ],
)
def test_the_pause_before_partitions_are_added_again(name: str, has_one: bool, code: ErrorCode, pause_ms: int) -> None:
    """Short where the transaction before is being completed."""
    producer = Producer().begun()
    if has_one:
        producer.added()
    producer.machine.add([T1], 0)
    producer.respond(code)
    assert producer.next() == []
    assert producer.machine.next_deadline_ms() == pause_ms


@pytest.mark.parametrize("is_version_2", [False, True])
def test_a_partition_that_takes_part(is_version_2: bool) -> None:
    """testMaybeAddPartitionToTransaction, testMaybeAddPartitionToTransactionInTransactionV2: added once, by a request of its
    own only in version 1."""
    producer = Producer()
    producer.machine.known.features_received({"transaction.version": 1 + is_version_2}, 1)
    machine = producer.begun().machine
    assert (machine.add([T0], 0) is None) == is_version_2
    assert machine.has(T0) == is_version_2
    if not is_version_2:
        assert [type(r) for r in producer.respond(OK)] == [AddPartitionsToTxnRequest]
        assert producer.ended() == OK
    assert machine.has(T0)
    assert machine.add([T0], 0) is None, "once"
    assert producer.next() == []


ALLOWED = [
    ("testIsSendToPartitionAllowedWithPendingPartitionAfterAbortableError", "pending", E.MESSAGE_TOO_LARGE, False),
    (
        "testIsSendToPartitionAllowedWithInFlightPartitionAddAfterAbortableError",
        "in flight",
        E.MESSAGE_TOO_LARGE,
        False,
    ),
    ("testIsSendToPartitionAllowedWithAddedPartitionAfterAbortableError", "added", E.MESSAGE_TOO_LARGE, True),
    ("testIsSendToPartitionAllowedWithPendingPartitionAfterFatalError", "pending", E.PRODUCER_FENCED, False),
    ("testIsSendToPartitionAllowedWithInFlightPartitionAddAfterFatalError", "in flight", E.PRODUCER_FENCED, False),
    ("testIsSendToPartitionAllowedWithAddedPartitionAfterFatalError", "added", E.PRODUCER_FENCED, False),
    ("testIsSendToPartitionAllowedWithPartitionNotAdded", "not added", OK, False),
]


@pytest.mark.parametrize(("name", "partition", "code", "is_allowed"), ALLOWED, ids=[row[0] for row in ALLOWED])
def test_whether_records_may_be_sent_to_a_partition(
    name: str, partition: str, code: ErrorCode, is_allowed: bool
) -> None:
    producer = Producer().begun()
    machine = producer.machine
    if partition == "added":
        producer.added()
    elif partition != "not added":
        machine.add([T0], 0)
    if partition == "in flight":
        producer.sent()
    if code:
        machine.failed(code)
        assert machine.state == (S.FATAL_ERROR if code == E.PRODUCER_FENCED else S.ABORTABLE_ERROR)
    assert machine.has(T0) == is_allowed


OPEN = S.IN_TRANSACTION, S.COMMITTING, S.ABORTING, S.ABORTABLE_ERROR


@pytest.mark.parametrize("end", ["SuccessfulAbort", "SuccessfulCommit", "AbortableError", "FatalError"])
def test_a_transaction_is_open_until_it_has_ended(end: str) -> None:
    """testHasOngoingTransactionSuccessfulAbort, testHasOngoingTransactionSuccessfulCommit,
    testHasOngoingTransactionAbortableError, testHasOngoingTransactionFatalError"""
    producer = Producer()
    machine = producer.machine
    assert not machine.allows(*OPEN)
    machine.init(0)
    producer.respond(OK)
    assert producer.ended() == OK
    assert not machine.allows(*OPEN)
    machine.begin()
    assert machine.allows(*OPEN)
    producer.added()
    assert machine.allows(*OPEN)
    if end == "FatalError":
        machine.failed(E.PRODUCER_FENCED)
        assert not machine.allows(*OPEN)
        return
    if end == "AbortableError":
        machine.failed(E.MESSAGE_TOO_LARGE)
        assert machine.allows(*OPEN)
    machine.end(end == "SuccessfulCommit", 0)
    assert machine.allows(*OPEN)
    producer.respond(*[OK] * (2 if end == "AbortableError" else 1))
    assert producer.ended() == OK
    assert not machine.allows(*OPEN)
    assert not machine.has(T0)


def test_an_abort_while_offsets_are_added() -> None:
    """shouldNotSendAbortTxnRequestWhenOnlyAddOffsetsRequestFailed: the coordinator knows of nothing to abort."""
    producer = Producer()
    to_add_offsets(producer)
    machine = producer.machine
    machine.end(False, 0)
    producer.respond(E.GROUP_AUTHORIZATION_FAILED)
    assert [getattr(effect, "code", None) for effect in producer.next()] == [E.GROUP_AUTHORIZATION_FAILED, OK]
    assert machine.state == S.READY


def test_an_abort_while_offsets_are_refused_for_good() -> None:
    """shouldFailAbortIfAddOffsetsFailsWithFatalError"""
    producer = Producer()
    to_add_offsets(producer)
    producer.machine.end(False, 0)
    producer.respond(E.UNKNOWN_SERVER_ERROR)
    assert [getattr(effect, "code", None) for effect in producer.next()] == [E.UNKNOWN_SERVER_ERROR] * 2
    assert producer.machine.state == S.FATAL_ERROR


def test_a_coordinator_without_the_producers_state() -> None:
    """testBumpTransactionalEpochOnRecoverableAddPartitionRequestError, and where a partition takes part already
    testBumpTransactionalEpochOnRecoverableAddOffsetsRequestError: the abort takes the next epoch."""
    for has_one in (False, True):
        producer = Producer().begun()
        machine = producer.machine
        if has_one:
            producer.added().machine.send_offsets({T0: 1}, MEMBER, 0)
        else:
            machine.add([T0], 0)
        (refused,) = producer.respond(E.UNKNOWN_PRODUCER_ID)
        assert isinstance(refused, AddOffsetsToTxnRequest if has_one else AddPartitionsToTxnRequest)
        assert producer.ended() == E.UNKNOWN_PRODUCER_ID
        assert machine.state == S.ABORTABLE_ERROR
        machine.end(False, 0)
        assert producer.respond(*[OK] * (1 + has_one)) == [ABORT] * has_one + [NEXT_EPOCH]
        assert producer.ended() == OK
        assert (machine.state, machine.epoch) == (S.READY, 1)


def test_the_next_epoch_is_due_also_where_the_coordinator_is_gone() -> None:
    """testNeedToTriggerEpochBumpFromClientDuringCoordinatorDisconnect"""
    producer = Producer().begun().added()
    machine = producer.machine
    machine.failed(E.REQUEST_TIMED_OUT)
    machine.known.forget_coordinator("x", TRANSACTION)
    machine.end(False, 0)
    assert producer.next() == [LookUpCoordinatorOf("x", TRANSACTION)]
    know(machine.known, "x", TRANSACTION, 1)
    machine.coordinator_looked_up(OK, 0, 0)
    assert producer.respond(OK, OK) == [ABORT, NEXT_EPOCH]


def test_a_coordinator_that_moves_while_the_transaction_is_to_be_aborted() -> None:
    """testFindCoordinatorAllowedInAbortableErrorState: it is looked up all the same."""
    producer = Producer().begun()
    machine = producer.machine
    machine.add([T0], 0)
    sent = producer.sent()
    machine.failed(E.MESSAGE_TOO_LARGE)
    machine.responded(response(sent.request, E.NOT_COORDINATOR), 0, 0)
    assert producer.next() == []
    producer.now_ms = 100
    assert producer.next() == [LookUpCoordinatorOf("x", TRANSACTION)]
    assert machine.state == S.ABORTABLE_ERROR


def test_a_commit_that_waited_when_its_transaction_failed_is_not_sent() -> None:
    """Its caller gave up, and the transaction is aborted."""
    producer = Producer().begun().added()
    machine = producer.machine
    machine.send_offsets({T0: 1}, MEMBER, 0)
    machine.end(True, 0)
    producer.sent()
    machine.failed(E.MESSAGE_TOO_LARGE)
    machine.end(False, 0)
    machine.responded(AddOffsetsToTxnResponse(), 0, 0)
    producer.respond(OK)
    ended = producer.next()
    assert [getattr(effect, "code", None) for effect in ended[:2]] == [OK, E.MESSAGE_TOO_LARGE]
    assert [getattr(effect, "request", None) for effect in ended[2:]] == [ABORT]


def test_a_commit_whose_coordinator_is_looked_up_when_a_batch_fails_is_not_sent() -> None:
    producer = Producer().begun().added()
    machine = producer.machine
    machine.known.forget_coordinator("x", TRANSACTION)
    machine.end(True, 0)
    assert producer.next() == [LookUpCoordinatorOf("x", TRANSACTION)]
    machine.failed(E.MESSAGE_TOO_LARGE)
    know(machine.known, "x", TRANSACTION, 1)
    machine.coordinator_looked_up(OK, 0, 0)
    assert producer.ended() == E.MESSAGE_TOO_LARGE
    assert machine.state == S.ABORTABLE_ERROR


def test_a_request_that_may_still_arrive_is_fenced_by_the_next_epoch() -> None:
    """More than Kafka asks for: offsets whose response is lost do not join the transaction after the aborted one."""
    producer = Producer()
    to_commit_offsets(producer)
    producer.sent()
    producer.machine.request_failed(E.NETWORK_EXCEPTION, 0, 0, is_final=True)
    assert producer.ended() == E.NETWORK_EXCEPTION
    producer.machine.end(False, 0)
    assert producer.respond(OK, OK) == [ABORT, NEXT_EPOCH]


def test_a_cluster_that_gets_version_2_during_a_transaction() -> None:
    """testTransactionManagerEnablesV2: it ends as it began, and the next goes under its own epoch."""
    producer = Producer().begun()
    machine = producer.machine
    machine.known.features_received({"transaction.version": 2}, 1)
    assert not machine.bumps_epoch
    producer.added().machine.end(True, 0)
    sent = producer.sent()
    assert (sent.request, sent.highest) == (EndTxnRequest("x", 7, 0, True), 4)
    machine.responded(EndTxnResponse(), 0, 0)
    assert producer.respond(OK) == [NEXT_EPOCH]
    assert producer.ended() == OK
    machine.begin()
    assert (machine.bumps_epoch, machine.epoch) == (True, 1)


def test_a_cluster_without_version_2() -> None:
    """testTransactionManagerDisablesV2: the level decides, whatever versions of requests the brokers have."""
    producer = Producer()
    producer.machine.known.features_received({"transaction.version": 1}, 1)
    assert not producer.begun().machine.bumps_epoch


@pytest.mark.parametrize(("committed", "identity"), [(False, (7, 1)), (True, (8, 0))])
def test_the_end_of_version_2_returns_the_next_identity(committed: bool, identity: tuple[int, int]) -> None:
    """testEpochUpdateAfterBumpFromEndTxnResponseInV2, testProducerIdAndEpochUpdateAfterOverflowFromEndTxnResponseInV2"""
    producer = Producer()
    producer.machine.known.features_received({"transaction.version": 2}, 1)
    machine = producer.begun().machine
    machine.add([T0], 0)
    machine.end(committed, 0)
    assert producer.sent().request == EndTxnRequest("x", 7, 0, committed)
    machine.responded(EndTxnResponse(producer_id=identity[0], producer_epoch=identity[1]), 0, 0)
    assert producer.ended() == OK
    assert (machine.producer_id, machine.epoch) == identity
