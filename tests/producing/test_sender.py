"""How batches are sent, repeated and given up: Kafka's SenderTest by name, asked of the producer's machine. What it asks of
numbers and epochs is in `test_sequences` too, of leaders that change in `test_leader_changes`."""

from __future__ import annotations

from typing import Any

import pytest

from coterie.client.producer.delivery import error_of_failure
from coterie.producing.batch import ProduceFailure
from coterie.producing.partition_queue import LAST_EPOCH
from coterie.producing.requests import GetProducerId, LookUpLeaders
from coterie.wire.errors import ErrorCode
from tests.producing.one_producer import PAUSE_MS, OneProducer, Transaction
from tests.producing.test_epoch_bumps import in_flight, next_sequence, with_windows

E = ErrorCode
GAP, UNKNOWN, MOVED = E.OUT_OF_ORDER_SEQUENCE_NUMBER, E.UNKNOWN_PRODUCER_ID, E.NOT_LEADER_OR_FOLLOWER
PLAIN: dict[str, Any] = {"is_idempotent": False}
ID = 15


def in_one_request(epoch: int = 0) -> OneProducer:
    """A batch of each of two partitions, in one request to their leader."""
    one = OneProducer()
    one.machine.identity.current = (ID, epoch)
    one.append(b"0", 0)
    one.append(b"1", 1)
    one.run()
    assert in_flight(one) == [(0, ID, epoch, 0, [b"0"]), (1, ID, epoch, 0, [b"1"])]
    return one


# -- attempts ------------------------------------------------------------------------------------------------------------------


def test_a_record() -> None:
    """testSimple."""
    one = OneProducer(**PLAIN)
    one.send(b"value")
    assert len(one.machine.requests_in_flight()) == 1
    one.respond(offset=0)
    assert (one.results(), one.machine.requests_in_flight()) == ([0], {})


@pytest.mark.parametrize("recovers", [True, False])
def test_an_attempt_whose_connection_is_lost_is_repeated(recovers: bool) -> None:
    """testRetries: up to delivery.timeout.ms; there is no other count of attempts."""
    one = OneProducer(delivery_timeout_ms=3 * PAUSE_MS, **PLAIN)
    one.send(b"value")
    for _ in range(2):
        one.lose()
        assert (one.sent, one.ended) == ([], [])
        one.wait()
        assert len(one.sent) == 1
    if recovers:
        one.respond(offset=0)
    else:
        one.lose()
        one.wait()
    assert one.results() == [0 if recovers else "NETWORK_EXCEPTION"]


def test_a_partition_that_moves_while_a_batch_is_in_flight() -> None:
    """testSendInOrder: what comes after it is not sent to the new leader before it has ended."""
    one = OneProducer(**PLAIN)
    one.send(b"first")
    one.now_ms = 900
    one.leaders["t", 0] = 2
    one.send(b"second")
    assert [effect.node_id for effect in one.sent] == [1]
    one.respond(offset=0)
    assert [effect.node_id for effect in one.sent] == [2]


def test_a_record_that_may_not_be_written() -> None:
    """testCanRetryWithoutIdempotence: fails at once, and has no numbers."""
    one = OneProducer(**PLAIN)
    one.send(b"value")
    assert one.batches_of() == [("t", 0, -1, -1, -1, [b"value"])]
    one.respond(E.TOPIC_AUTHORIZATION_FAILED)
    assert one.results() == ["TOPIC_AUTHORIZATION_FAILED"]


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("testUnsupportedForMessageFormatInProduceRequest", E.UNSUPPORTED_FOR_MESSAGE_FORMAT),
        ("testClusterAuthorizationExceptionInProduceRequest", E.CLUSTER_AUTHORIZATION_FAILED),
        ("testUnsupportedVersionInProduceRequest", E.UNSUPPORTED_VERSION),
    ],
)
def test_an_error_for_good(name: str, code: ErrorCode) -> None:
    """Ends the batch. The next is sent, and fails likewise only if the broker still refuses it."""
    one = OneProducer()
    for number, end in enumerate((code, code, E.NONE)):
        one.send(b"value")
        one.respond(end, offset=number)
    assert one.results() == [code.name, code.name, 2]


@pytest.mark.parametrize(
    ("name", "message", "expected"),
    [
        ("testDefaultErrorMessage", None, "INVALID_REQUEST: the request makes no sense to the broker"),
        ("testCustomErrorMessage", "what the broker says", "INVALID_REQUEST: what the broker says"),
    ],
)
def test_the_message_of_an_error(name: str, message: str | None, expected: str) -> None:
    one = OneProducer(**PLAIN)
    one.send(b"value")
    one.respond(E.INVALID_REQUEST, message=message)
    result = one.ended[0].result_of(0)
    assert isinstance(result, ProduceFailure)
    assert str(error_of_failure(result)) == expected


def test_each_record_has_its_error() -> None:
    """testRecordErrorPropagatedToApplication: named with a message, without one, or not named."""
    one = OneProducer(linger_ms=5, **PLAIN)
    for _ in range(5):
        one.append()
    one.wait(5)
    one.respond(E.INVALID_RECORD, record_errors={0: "0", 2: "2", 3: None})
    results = [one.ended[0].result_of(index) for index in range(5)]
    messages = [result.message for result in results if isinstance(result, ProduceFailure)]
    assert [messages[0], messages[2], messages[3]] == ["0", "2", None]
    assert messages[1] == messages[4] == "the record was in a batch with a record that the broker refused"


# -- delivery.timeout.ms -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [MOVED, E.NONE], ids=["testExpiredBatchDoesNotRetry", "testNoDoubleDeallocation"])
def test_a_response_after_the_timeout(code: ErrorCode) -> None:
    """The batch is not sent again, and its room in the buffer is free once."""
    one = OneProducer(delivery_timeout_ms=1_500, **PLAIN)
    one.send(b"value")
    assert one.machine.accumulator.buffered_bytes > 0
    one.wait(1_500)
    assert (one.results(), one.machine.accumulator.buffered_bytes) == (["REQUEST_TIMED_OUT"], 0)
    one.respond(code)
    one.wait(1_500)
    assert (one.sent, len(one.ended), one.machine.accumulator.buffered_bytes) == ([], 1, 0)


def test_a_batch_behind_one_that_expires() -> None:
    """testWhenFirstBatchExpireNoSendSecondBatchIfGuaranteeOrder: waits for the response of the expired one all the same."""
    one = OneProducer(delivery_timeout_ms=1_500, **PLAIN)
    one.send(b"first")
    one.wait(750)
    one.send(b"second")
    one.wait(750)
    assert (len(one.sent), one.results()) == (1, ["REQUEST_TIMED_OUT"])
    one.respond(offset=0)
    assert one.batches_of() == [("t", 0, -1, -1, -1, [b"second"])]


def test_batches_of_several_partitions_expire() -> None:
    """testExpiredBatchesInMultiplePartitions."""
    one = OneProducer(delivery_timeout_ms=1_500, **PLAIN)
    one.append(partition=0)
    one.append(partition=1)
    one.run()
    one.wait(1_500)
    assert one.results() == ["REQUEST_TIMED_OUT"] * 2


def test_when_to_look_for_expired_batches() -> None:
    """testResetNextBatchExpiry: at the timeout of what is in flight; afterwards never, rather than at once and again."""
    one = OneProducer(delivery_timeout_ms=1_500, **PLAIN)
    one.send(b"value")
    assert one.machine.next_deadline_ms() == 1_500
    one.wait(1_501)
    assert one.machine.next_deadline_ms() is None


# -- the producer id -----------------------------------------------------------------------------------------------------------


def test_the_producer_id_goes_into_every_batch() -> None:
    """testInitProducerIdRequest, testSequenceNumberIncrement."""
    one = OneProducer()
    one.send(b"value")
    assert one.batches_of() == [("t", 0, 1, 0, 0, [b"value"])]
    one.respond(offset=0)
    assert next_sequence(one, 0) == 1


def test_the_producer_id_needs_no_room_among_the_requests() -> None:
    """testIdempotentInitProducerIdWithMaxInFlightOne: it is requested while the leader has as many as it may have, and as soon
    as metadata is there."""
    one = OneProducer(max_in_flight=1)
    one.leaders.clear()
    one.identifies = False
    one.send(b"value")
    assert one.requested == [LookUpLeaders(frozenset({"t"}))]
    one.leaders["t", 0] = 1
    one.machine.leaders_looked_up({}, one.now_ms, 0.0)
    one.run()
    assert one.requested[1:] == [GetProducerId()]
    one.machine.identified((ID, 0), one.now_ms)
    one.run()
    assert in_flight(one) == [(0, ID, 0, 0, [b"value"])]


def test_the_producer_id_is_requested_again_after_a_pause() -> None:
    """testSenderShouldRetryWithBackoffOnRetriableError."""
    one = OneProducer()
    one.identifies = False
    one.send(b"value")
    for requested in (1, 2, 3):
        assert one.requested == [GetProducerId()] * requested
        one.machine.not_identified(ProduceFailure.of_code(E.COORDINATOR_LOAD_IN_PROGRESS), one.now_ms, 0.0)
        one.wait(PAUSE_MS - 1)
        assert len(one.requested) == requested
        one.wait(1)


# -- numbers and epochs --------------------------------------------------------------------------------------------------------


def test_the_first_number_is_refused() -> None:
    """testBumpEpochWhenOutOfOrderSequenceReceived."""
    one = OneProducer()
    one.send(b"value")
    one.respond(GAP)
    one.wait()
    assert one.numbers() == [(1, 0, [b"value"])]


def test_a_partition_without_batches_follows_with_its_next() -> None:
    """testEpochBumpOnOutOfOrderSequenceForNextBatchWhenThereIsNoBatchInFlight."""
    one = with_windows(0, 1)
    one.send(b"2")
    one.respond(GAP)
    one.wait()
    assert in_flight(one) == [(0, ID, 1, 0, [b"2"])]
    assert next_sequence(one, 1) == 1, "of the epoch before"
    one.respond(offset=1)
    one.send(b"2", partition=1)
    assert in_flight(one) == [(1, ID, 1, 0, [b"2"])]
    one.respond(offset=1)
    assert [next_sequence(one, partition) for partition in (0, 1)] == [1, 1]


def test_a_partition_whose_batch_fails_after_the_bump_follows_with_its_next() -> None:
    """testEpochBumpOnOutOfOrderSequenceForNextBatchWhenBatchInFlightFails."""
    one = with_windows(0, 1, delivery_timeout_ms=5 * PAUSE_MS)
    one.send(b"2")
    one.send(b"2", partition=1)
    one.respond(GAP)
    one.wait()
    assert in_flight(one) == [(1, ID, 0, 1, [b"2"]), (0, ID, 1, 0, [b"2"])]
    one.respond(offset=1, number=1)
    for _ in range(4):
        one.respond(MOVED)
        one.wait()
    assert one.results() == [1, "NOT_LEADER_OR_FOLLOWER"]
    one.send(b"3", partition=1)
    one.send(b"3")
    assert in_flight(one) == [(1, ID, 1, 0, [b"3"]), (0, ID, 1, 1, [b"3"])]


def test_every_sent_batch_expires() -> None:
    """testExpiryOfAllSentBatchesShouldCauseUnresolvedSequences: the broker may lack its number, so the epoch is raised."""
    one = OneProducer(delivery_timeout_ms=100)
    one.machine.identity.current = (ID, 0)
    one.send(b"1")
    one.respond(MOVED)
    one.leaders.clear()
    one.wait(100)
    assert one.results() == ["NOT_LEADER_OR_FOLLOWER"]
    one.leaders["t", 0] = 1
    one.machine.leaders_looked_up({}, one.now_ms, 0.0)
    one.send(b"2")
    assert in_flight(one) == [(0, ID, 1, 0, [b"2"])]


@pytest.mark.parametrize(
    ("epoch", "reset"), [(0, (ID, 1)), (LAST_EPOCH, (1, 0))], ids=["the next epoch", "another producer id"]
)
def test_a_batch_of_another_partition_keeps_its_numbers(epoch: int, reset: tuple[int, int]) -> None:
    """testBatchesDrainedWithOldProducerIdShouldSucceedOnSubsequentRetry, and after the last epoch
    testResetOfProducerStateShouldAllowQueuedBatchesToDrain."""
    one = in_one_request(epoch)
    one.respond(codes={0: GAP, 1: MOVED})
    one.wait()
    retried = next(batch for batch in in_flight(one) if batch[0] == 1)
    assert retried == (1, ID, epoch, 0, [b"1"])
    renewed = next(batch for batch in in_flight(one) if batch[0] == 0)
    assert renewed == (0, *reset, 0, [b"0"])
    while one.sent:
        one.respond(offset=10)
    assert one.results() == [10, 10]
    one.send(b"2", partition=1)
    assert in_flight(one) == [(1, *reset, 0, [b"2"])]


@pytest.mark.parametrize(
    "name", ["testCloseWithProducerIdReset", "testForceCloseWithProducerIdReset"], ids=["in order", "at once"]
)
def test_a_close_while_another_producer_id_is_requested(name: str) -> None:
    one = in_one_request(LAST_EPOCH)
    one.identifies = False
    one.respond(codes={0: GAP, 1: MOVED})
    one.wait()
    assert GetProducerId() in one.requested
    if name == "testForceCloseWithProducerIdReset":
        one.ended += [e.batch for e in one.machine.fail(ProduceFailure(E.REQUEST_TIMED_OUT))]  # type: ignore[union-attr]
        assert one.results() == ["REQUEST_TIMED_OUT"] * 2
    else:
        one.machine.flush()
        one.machine.identified((ID + 1, 1), one.now_ms)
        one.run()
        while one.sent:
            one.respond(offset=0)
        assert one.results() == [0, 0]
    assert not one.machine.accumulator.buffered_bytes


def test_a_lost_connection_in_the_last_epoch() -> None:
    """testRetryWhenProducerIdChanges: an attempt is repeated under its numbers."""
    one = with_windows(epoch=LAST_EPOCH)
    one.send(b"value")
    one.lose()
    one.wait()
    assert in_flight(one) == [(0, ID, LAST_EPOCH, 0, [b"value"])]
    assert next_sequence(one, 0) == 1


def test_batches_behind_one_of_an_unknown_producer() -> None:
    """testUnknownProducerErrorShouldBeRetriedForFutureBatchesWhenFirstFails: the numbers start again, one after the other."""
    one = with_windows(0)
    one.send(b"2", b"3")
    for _ in range(2):
        one.respond(UNKNOWN, log_start_offset=1_010)
    one.wait()
    assert in_flight(one) == [(0, ID, 1, 0, [b"2"])]
    one.respond(offset=1_011)
    assert in_flight(one) == [(0, ID, 1, 1, [b"3"])]
    one.respond(offset=1_012)
    assert one.results() == [1_011, 1_012]


def test_an_unknown_producer_whose_records_are_there() -> None:
    """testShouldRaiseOutOfOrderSequenceExceptionToUserIfLogWasNotTruncated: outside of a transaction that is no failure."""
    one = with_windows(0)
    one.send(b"2")
    one.respond(UNKNOWN, log_start_offset=10)
    one.wait()
    assert in_flight(one) == [(0, ID, 1, 0, [b"2"])]
    assert one.results() == []


def test_a_batch_of_a_transaction_is_split() -> None:
    """testTransactionalSplitBatchAndSend, testTooLargeBatchesAreSafelyRemoved: its halves are of the transaction and have its
    numbers, and nothing is left of it when its time is over."""
    transaction = Transaction()
    transaction.partitions.add(("t", 0))
    one = OneProducer(transaction, linger_ms=5)
    one.append(b"a")
    one.append(b"b")
    one.wait(5)
    one.respond(E.MESSAGE_TOO_LARGE)
    sent = []
    for offset in (0, 1):
        sent += in_flight(one)
        assert one.sent[0].request.transactional_id == transaction.transactional_id
        one.respond(offset=offset)
    assert sent == [(0, 7, 0, 0, [b"a"]), (0, 7, 0, 1, [b"b"])]
    assert (one.results(), next_sequence(one, 0)) == ([0, 1], 2)
    one.wait(120_000)
    assert (one.sent, one.results()) == ([], [0, 1])


def test_what_waits_is_not_sent_once_the_transaction_has_failed() -> None:
    """The driver learns of a batch's end before anything else is sent."""
    transaction = Transaction()
    transaction.partitions.add(("t", 0))
    one = OneProducer(transaction)
    transaction.fails_with_a_batch = True
    one.send(b"refused", b"behind")
    one.respond(E.TOPIC_AUTHORIZATION_FAILED)
    assert (one.sent, one.results()) == ([], ["TOPIC_AUTHORIZATION_FAILED"] * 2)
