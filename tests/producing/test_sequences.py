"""Numbers of an idempotent producer: Kafka's SenderTest and TransactionManagerTest by name where they have the case."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.producing.batch import SEQUENCES, ProduceFailure
from coterie.producing.partition_queue import LAST_EPOCH, NO_PRODUCER, CurrentProducer, PartitionSequence
from coterie.producing.requests import GetProducerId
from coterie.wire.errors import ErrorCode
from tests.producing.one_producer import PAUSE_MS, OneProducer, Transaction

GAP = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
UNKNOWN = ErrorCode.UNKNOWN_PRODUCER_ID


def with_window(**config: Any) -> OneProducer:
    """Its first batch is acknowledged: several may be in flight."""
    one = OneProducer(**config)
    one.append(b"first")
    one.machine.flush()
    one.run()
    one.respond(offset=0)
    one.ended.clear()
    return one


def test_the_first_batch_is_alone_until_the_broker_knows_the_producer() -> None:
    """A broker without the producer's state takes any number, so that a second batch could overtake a lost first one."""
    one = OneProducer()
    one.send(b"a", b"b", b"c")
    assert one.numbers() == [(0, 0, [b"a"])]
    one.respond(offset=0)
    one.send(b"d")
    assert one.numbers() == [(0, 1, [b"b", b"c"]), (0, 3, [b"d"])]


def test_idempotence_with_multiple_inflights() -> None:
    """SenderTest.testIdempotenceWithMultipleInflights, testIdempotenceWithMultipleInflightsRetriedInOrder."""
    one = with_window()
    one.send(b"a", b"b", b"c")
    assert one.numbers() == [(0, 1, [b"a"]), (0, 2, [b"b"]), (0, 3, [b"c"])]
    one.respond(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    one.wait()
    assert one.numbers() == [(0, 2, [b"b"]), (0, 3, [b"c"])], "the first goes again once the others are back"
    one.respond(GAP)
    one.respond(GAP)
    one.wait()
    assert one.numbers() == [(0, 1, [b"a"])], "alone"
    one.send(b"new")
    assert len(one.sent) == 1, "nothing overtakes a batch that is sent again"
    one.respond(offset=1)
    assert one.numbers() == [(0, 2, [b"b"])]
    one.respond(offset=2)
    assert one.numbers() == [(0, 3, [b"c"]), (0, 4, [b"new"])], "behind the last of them new ones follow"
    one.respond(offset=3)
    one.respond(offset=4)
    assert one.results() == [1, 2, 3, 4]


def test_only_five_are_in_flight() -> None:
    """The broker knows the last five batches of a producer again (KIP-98)."""
    one = with_window()
    one.send(*(b"%d" % n for n in range(9)))
    assert [sequence for _, sequence, _ in one.numbers()] == [1, 2, 3, 4, 5]


def test_five_are_counted_from_the_first_without_an_end() -> None:
    """What came behind it may be acknowledged already, over another connection: a sixth would have the broker forget it."""
    one = with_window()
    one.send(b"no answer")
    for number in range(4):
        one.send(b"%d" % number)
        one.respond(offset=2 + number, number=1)
    one.send(b"sixth")
    assert [sequence for _, sequence, _ in one.numbers()] == [1]
    one.lose()
    one.wait()
    assert one.numbers() == [(0, 1, [b"no answer"])]
    one.respond(offset=1)
    assert one.numbers() == [(0, 6, [b"sixth"])]


def test_a_restarted_broker_that_knows_only_the_last_batch() -> None:
    """ProducerStateManager's snapshot has one batch of a producer: the others are refused, and are in the log all the same."""
    one = with_window()
    one.send(b"a", b"b", b"c")
    for _ in range(3):
        one.lose()
    for sequence, code in ((1, GAP), (2, GAP), (3, ErrorCode.NONE)):
        one.wait()
        assert [number for _, number, _ in one.numbers()] == [sequence], "all are tried under their numbers"
        one.respond(code, offset=3 if code == ErrorCode.NONE else -1)
    assert one.results() == [-1, -1, 3]
    one.send(b"d")
    assert one.numbers() == [(0, 4, [b"d"])]


def test_what_is_before_an_acknowledged_batch_is_in_the_log() -> None:
    """SenderTest.testCorrectHandlingOfOutOfOrderResponsesWhenSecondSucceeds: also where the broker no longer knows it."""
    one = with_window()
    one.send(b"a", b"b")
    one.respond(offset=2, number=1)
    one.lose()
    one.wait()
    one.respond(GAP)
    assert one.results() == [2, -1]


def test_a_refused_batch_behind_one_that_is_given_up_goes_on() -> None:
    one = with_window(delivery_timeout_ms=100)
    one.send(b"given up")
    one.now_ms = 50
    one.send(b"refused")
    one.respond(GAP, number=1)
    one.lose()
    one.now_ms = 60
    one.leaders.clear()
    one.wait(40)
    one.leaders["t", 0] = 1
    one.machine.leaders_looked_up({}, one.now_ms, 0.0)
    one.wait()
    assert one.numbers() == [(1, 0, [b"refused"])]


def test_correct_handling_of_duplicate_sequence_error() -> None:
    """SenderTest.testCorrectHandlingOfDuplicateSequenceError: it is in the log, the offset is not known."""
    one = with_window()
    one.send(b"a", b"b")
    one.respond(offset=1_000, number=1)
    one.respond(ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
    one.send(b"c")
    assert one.results() == [1_000, -1]
    assert one.numbers() == [(0, 3, [b"c"])]


def test_epoch_bump_on_out_of_order_sequence_for_next_batch() -> None:
    """SenderTest.testEpochBumpOnOutOfOrderSequenceForNextBatch: the first that is not in the log was refused, so a number is
    missing; it and what follows go again under the next epoch."""
    one = with_window()
    one.send(b"a", b"b")
    one.respond(GAP)
    one.wait()
    assert one.numbers() == [(0, 2, [b"b"])], "numbers change once nothing is in flight"
    one.respond(GAP)
    one.wait()
    assert one.numbers() == [(1, 0, [b"a"])]
    one.respond(offset=1)
    assert one.numbers() == [(1, 1, [b"b"])]


def test_epoch_bump_after_unresolved_sequences() -> None:
    """SenderTest.testExpiryOfFirstBatchShouldCauseEpochBumpIfFutureBatchesFail: a batch is given up and its end is not known.
    The next one tells by its old number whether it is in the log."""
    one = with_window(delivery_timeout_ms=100)
    one.send(b"given up")
    one.now_ms = 50
    one.send(b"next")
    one.lose(1)
    one.wait(50)
    assert one.results() == ["REQUEST_TIMED_OUT"]
    assert one.numbers() == [(0, 1, [b"given up"])], "its request may still be carried out"
    one.lose()
    one.wait()
    assert one.numbers() == [(0, 2, [b"next"])], "the old number"
    one.respond(GAP)
    one.wait()
    assert one.numbers() == [(1, 0, [b"next"])]


def test_a_batch_given_up_that_is_in_the_log_leaves_no_gap() -> None:
    """SenderTest.testExpiryOfFirstBatchShouldNotCauseUnresolvedSequencesIfFutureBatchesSucceed: a late response
    resolves it."""
    one = with_window(delivery_timeout_ms=100)
    one.send(b"given up")
    one.wait(100)
    one.send(b"next")
    assert len(one.sent) == 1
    one.respond(offset=1)
    assert one.numbers() == [(0, 2, [b"next"])]


def test_a_batch_given_up_with_nothing_behind_it_bumps_the_epoch() -> None:
    """TransactionManagerTest.testBumpEpochAfterTimeoutWithoutPendingInflightRequests."""
    one = with_window(delivery_timeout_ms=100)
    one.send(b"given up")
    one.wait(100)
    one.lose()
    one.send(b"next")
    assert one.numbers() == [(1, 0, [b"next"])]


def test_a_refused_batch_bumps_the_epoch_and_other_partitions_follow_in_their_time() -> None:
    """TransactionManagerTest.testEpochBumpAfterLastInflightBatchFails, testHealthyPartitionRetriesDuringEpochBump."""
    one = with_window()
    one.send(b"other", partition=1)
    one.respond(offset=0)
    one.send(b"retried", partition=1)
    one.respond(ErrorCode.NOT_ENOUGH_REPLICAS)
    one.send(b"refused")
    one.respond(ErrorCode.INVALID_RECORD)
    one.send(b"next")
    assert one.numbers() == [(1, 0, [b"next"])]
    one.wait()
    assert one.numbers()[1:] == [(0, 1, [b"retried"])], "numbered before the bump"
    one.respond(offset=1, number=1)
    one.send(b"last", partition=1)
    assert one.numbers()[1:] == [(1, 0, [b"last"])]


def test_sequence_of_future_batches_after_the_first_fails_fatally() -> None:
    """SenderTest.testIdempotenceWithMultipleInflightsWhereFirstFailsFatallyAndSequenceOfFutureBatchesIsAdjusted."""
    one = with_window()
    one.send(b"refused", b"next")
    one.respond(ErrorCode.INVALID_RECORD)
    one.respond(GAP)
    one.wait()
    assert one.numbers() == [(1, 0, [b"next"])]
    one.respond(offset=1)
    assert one.results() == ["INVALID_RECORD", 1]


def test_correct_handling_of_out_of_order_responses() -> None:
    """SenderTest.testCorrectHandlingOfOutOfOrderResponses, ...WhenSecondSucceeds."""
    one = with_window()
    one.send(b"a", b"b")
    one.respond(GAP, number=1)
    one.respond(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    one.wait()
    assert one.numbers() == [(0, 1, [b"a"])]
    one.respond(offset=1)
    assert one.numbers() == [(0, 2, [b"b"])]
    one.send(b"c")
    one.respond(offset=3, number=1)
    one.lose()
    one.wait()
    assert one.numbers() == [(0, 2, [b"b"])]
    one.respond(offset=2)
    one.send(b"d")
    assert one.numbers() == [(0, 4, [b"d"])]
    assert one.results() == [1, 3, 2]


def test_expiry_of_unsent_batches_should_not_cause_unresolved_sequences() -> None:
    """SenderTest.testExpiryOfUnsentBatchesShouldNotCauseUnresolvedSequences."""
    one = with_window(delivery_timeout_ms=100)
    one.leaders.clear()
    one.send(b"never sent")
    one.wait(100)
    one.leaders["t", 0] = 1
    one.machine.leaders_looked_up({}, one.now_ms, 0.0)
    one.send(b"next")
    assert one.numbers() == [(0, 1, [b"next"])]


def test_expired_batch_does_not_split_on_message_too_large() -> None:
    """SenderTest.testExpiredBatchDoesNotSplitOnMessageTooLargeError."""
    one = OneProducer(linger_ms=5, delivery_timeout_ms=100)
    one.append(b"a")
    one.append(b"b")
    one.wait(5)
    one.wait(95)
    one.respond(ErrorCode.MESSAGE_TOO_LARGE)
    assert (one.results(), one.sent) == (["REQUEST_TIMED_OUT"] * 2, [])


def test_after_the_last_epoch_another_producer_id() -> None:
    """TransactionManager.bumpIdempotentProducerEpoch (KIP-360)."""
    one = with_window()
    one.machine.identity.current = (1, LAST_EPOCH)
    one.send(b"a")
    one.respond(ErrorCode.INVALID_RECORD)
    one.send(b"b")
    assert one.batches_of() == [("t", 0, 2, 0, 0, [b"b"])]


def test_split_batch_and_send() -> None:
    """SenderTest.testIdempotentSplitBatchAndSend: the halves keep the numbers and go one after the other, before the rest."""
    one = with_window(linger_ms=5)
    for value in (b"a", b"b", b"c"):
        one.append(value)
    one.wait(5)
    one.append(b"d")
    one.wait(5)
    assert one.numbers() == [(0, 1, [b"a", b"b", b"c"]), (0, 4, [b"d"])]
    one.respond(ErrorCode.MESSAGE_TOO_LARGE)
    one.respond(GAP)
    one.wait()
    sent = []
    for offset, count in ((1, 1), (2, 1), (3, 1), (4, 1)):
        sent += one.numbers()
        if len(sent[-1][2]) > count:
            one.respond(ErrorCode.MESSAGE_TOO_LARGE)
            sent += one.numbers()
        one.respond(offset=offset)
    assert sent == [(0, 1, [b"a"]), (0, 2, [b"b", b"c"]), (0, 2, [b"b"]), (0, 3, [b"c"]), (0, 4, [b"d"])]
    assert one.results() == [1, 2, 3, 4]
    assert one.machine.accumulator.buffered_bytes == 0


def test_a_single_record_that_is_too_large_fails() -> None:
    one = with_window()
    one.send(b"large")
    one.respond(ErrorCode.MESSAGE_TOO_LARGE)
    assert one.results() == ["MESSAGE_TOO_LARGE"]


def test_the_half_that_fails_is_that_of_its_records() -> None:
    one = OneProducer(linger_ms=5)
    one.append(b"a")
    one.append(b"b")
    one.wait(5)
    one.respond(ErrorCode.MESSAGE_TOO_LARGE)
    one.respond(offset=0)
    assert not one.ended, "a batch ends with its last half"
    one.respond(ErrorCode.INVALID_RECORD)
    assert one.results() == [0, "INVALID_RECORD"]


def test_unknown_producer_id() -> None:
    """SenderTest.testIdempotentUnknownProducerHandlingWhenRetentionLimitReached: it goes on under the next epoch."""
    one = with_window()
    one.send(b"a")
    one.respond(UNKNOWN, log_start_offset=5)
    one.wait()
    assert one.numbers() == [(1, 0, [b"a"])]


def test_unknown_producer_id_without_a_log_start_offset_is_tried_again() -> None:
    """SenderTest.testUnknownProducerErrorShouldBeRetriedWhenLogStartOffsetIsUnknown."""
    one = with_window()
    one.send(b"a")
    one.respond(UNKNOWN)
    one.wait()
    assert one.numbers() == [(0, 1, [b"a"])]


@pytest.mark.parametrize(("log_start_offset", "end"), [(1, [(0, 0, [b"b"])]), (0, [])])
def test_unknown_producer_id_in_a_transaction(log_start_offset: int, end: list[object]) -> None:
    """SenderTest.testTransactionalUnknownProducerHandlingWhenRetentionLimitReached: only where retention took all."""
    transaction = Transaction()
    transaction.partitions.add(("t", 0))
    one = OneProducer(transaction)
    one.send(b"a")
    one.respond(offset=0)
    one.send(b"b")
    one.respond(UNKNOWN, log_start_offset=log_start_offset)
    one.wait()
    assert one.numbers() == end
    assert one.results() == [0, *([] if end else ["UNKNOWN_PRODUCER_ID"])]


def test_a_gap_in_a_transaction_fails_it() -> None:
    """TransactionManagerTest.testBumpTransactionalEpochOnAbortableError: it is aborted, and the next begins another epoch."""
    transaction = Transaction()
    transaction.partitions.add(("t", 0))
    one = OneProducer(transaction)
    one.send(b"a")
    one.respond(ErrorCode.INVALID_RECORD)
    one.send(b"b")
    assert one.numbers() == [(0, 1, [b"b"])], "the epoch of a transaction is its coordinator's to raise"
    one.respond(GAP)
    assert one.results() == ["INVALID_RECORD", GAP.name]
    transaction.producer = (7, 1)
    one.send(b"c")
    assert one.numbers() == [(1, 0, [b"c"])]


def test_refused_batches_of_a_transaction_that_expire_with_the_one_before() -> None:
    """The first expires, the second is then known to be refused and ends; it had expired too. Seed 400007 of the laboratory."""
    transaction = Transaction()
    transaction.partitions.add(("t", 0))
    one = with_window(transaction=transaction, delivery_timeout_ms=1_000)
    one.send(b"a", b"b", b"c")
    one.lose()
    one.respond(GAP)
    one.respond(GAP)
    one.leaders.clear()
    one.wait(1_000)
    assert one.results() == ["NETWORK_EXCEPTION", GAP.name, GAP.name]


def test_initializing_retries_with_a_pause() -> None:
    """SenderTest.testClusterAuthorizationExceptionInInitProducerIdRequest, after an error that passes."""
    one = OneProducer(delivery_timeout_ms=50)
    one.identifies = False
    one.send(b"a")
    one.machine.not_identified(ProduceFailure.of_code(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS), 0, 0.0)
    one.run()
    assert one.requested == [GetProducerId()]
    one.wait(PAUSE_MS)
    assert one.requested == [GetProducerId()] * 2
    one.machine.not_identified(ProduceFailure.of_code(ErrorCode.CLUSTER_AUTHORIZATION_FAILED), one.now_ms, 0.0)
    one.run()
    assert one.results() == ["CLUSTER_AUTHORIZATION_FAILED"]
    one.identifies = True
    one.wait(PAUSE_MS)
    one.send(b"b")
    one.respond(offset=0)
    assert one.results()[1:] == [0]


@given(st.lists(st.integers(1, SEQUENCES - 1), max_size=6))
def test_numbers_wrap(counts: list[int]) -> None:
    """DefaultRecordBatchTest.testIncrementSequence: after 2^31 - 1 comes 0."""
    sequence = PartitionSequence()
    sequence.begin((1, 0))
    total = 0
    for count in counts:
        number, _ = sequence.take(count)
        assert number == total % 2**31
        total += count
        if count < SEQUENCES // 2:
            assert sequence.has_gap
        sequence.acknowledged((1, 0), number, count, -1)
        sequence.expected = sequence.next
    assert sequence.next == total % 2**31


@given(st.lists(st.sampled_from(["same", "stale"]), max_size=5), st.sampled_from([0, 5, LAST_EPOCH]))
def test_one_gap_is_one_bump(asks: list[str], epoch: int) -> None:
    """Partitions with a gap under the same epoch go on under the same next one."""
    identity = CurrentProducer((3, epoch))
    for _ in asks:
        identity.bump((3, epoch))
    after = NO_PRODUCER if epoch == LAST_EPOCH else (3, epoch + 1)
    assert identity.current == (after if asks else (3, epoch))
