"""Which records go together, and when: Kafka's RecordAccumulatorTest by name where it has the case."""

from __future__ import annotations

from typing import Any

from coterie.producing.batch import ABORTED, ProduceFailure, is_unsent
from coterie.producing.requests import BatchEnded, LookUpLeaders
from coterie.wire.errors import ErrorCode
from tests.producing.one_producer import RECORD_BYTES, OneProducer, Transaction

PLAIN: dict[str, Any] = {"is_idempotent": False}


def values(one: OneProducer, number: int = -1) -> list[list[bytes | None]]:
    return [batch[-1] for batch in one.batches_of(number)]


def test_full() -> None:
    """RecordAccumulatorTest.testFull: a batch that is full goes without linger.ms; the next record is in another."""
    one = OneProducer(linger_ms=50, batch_size=2 * RECORD_BYTES)
    for value in (b"a", b"b", b"c"):
        one.append(value)
    one.run()
    assert values(one) == [[b"a", b"b"]]
    assert one.closed == [("t", 0)]


def test_linger() -> None:
    """RecordAccumulatorTest.testLinger."""
    one = OneProducer(linger_ms=10)
    one.append()
    one.run()
    assert not one.sent
    assert one.machine.next_deadline_ms() == 10
    one.wait(9)
    assert not one.sent
    one.wait(1)
    assert values(one) == [[b"v"]]


def test_append_large() -> None:
    """RecordAccumulatorTest.testAppendLargeNonCompressed: a record beyond batch.size has a batch of its own."""
    one = OneProducer(linger_ms=50, batch_size=RECORD_BYTES)
    one.append(b"large", size=5 * RECORD_BYTES)
    one.append(b"next")
    one.run()
    assert values(one) == [[b"large"]]


def test_what_lingers_goes_with_a_batch_that_is_due_for_the_same_leader() -> None:
    """RecordAccumulator.drain takes every partition of a node that is ready; fewer requests carry more."""
    one = OneProducer(linger_ms=10)
    one.append(b"first", 0)
    one.append(b"elsewhere", 0, "u")
    one.now_ms = 5
    one.append(b"lingers", 1)
    one.append(b"lingers too", 1)
    one.wait(5)
    assert [values(one, n) for n in range(len(one.sent))] == [
        [[b"first"], [b"lingers", b"lingers too"]],
        [[b"elsewhere"]],
    ]


def test_flush() -> None:
    """RecordAccumulatorTest.testFlush: what was appended before it does not linger, what comes after does."""
    one = OneProducer(linger_ms=5_000)
    one.append(b"before")
    one.machine.flush()
    one.run()
    assert values(one) == [[b"before"]]
    one.respond(offset=0)
    one.append(b"after")
    one.run()
    assert not one.sent


def test_partial_drain() -> None:
    """RecordAccumulatorTest.testPartialDrain: no request is larger than max.request.size, but for one batch."""
    one = OneProducer(max_request_size=100)
    one.append(b"x" * 100, 0)
    one.append(b"y" * 100, 1)
    one.run()
    assert [values(one, n) for n in range(len(one.sent))] == [[[b"x" * 100]], [[b"y" * 100]]]


def test_a_small_max_request_size_starves_no_partition() -> None:
    one = OneProducer(max_request_size=100, max_in_flight=1)
    for round_of in range(3):
        for partition in (0, 1):
            one.append(b"%d" % round_of * 100, partition)
    one.run()
    partitions = []
    for _ in range(2):
        partitions.append(one.batches_of()[0][1])
        one.respond(offset=0)
    assert sorted(partitions) == [0, 1]


def test_records_join_the_open_batch_until_it_is_sent() -> None:
    """Sender: a batch is closed when it is drained, so that it grows while the connection is busy."""
    one = OneProducer(max_in_flight=1)
    one.send(b"a", b"b", b"c")
    assert values(one) == [[b"a"]]
    one.respond(offset=0)
    assert values(one) == [[b"b", b"c"]]


def test_requests_in_flight_are_bounded_for_each_broker() -> None:
    one = OneProducer(max_in_flight=1)
    one.append(b"a", 0)
    one.run()
    one.append(b"b", 1)
    one.append(b"c", 0, "u")
    one.run()
    assert [values(one, n) for n in range(len(one.sent))] == [[[b"a"]], [[b"c"]]]
    one.respond(offset=0)
    assert values(one) == [[b"b"]]


def test_mute_partition() -> None:
    """RecordAccumulatorTest.testMutedPartitions: without sequence numbers one batch of a partition is in flight at a time."""
    one = OneProducer(**PLAIN)
    one.send(b"a", b"b")
    assert [values(one, n) for n in range(len(one.sent))] == [[[b"a"]]]
    one.respond(offset=0)
    assert values(one) == [[b"b"]]


def test_expired_batches() -> None:
    """RecordAccumulatorTest.testExpiredBatches, SenderTest.testInflightBatchesExpireOnDeliveryTimeout: also in flight, and a
    response afterwards changes nothing."""
    one = OneProducer(delivery_timeout_ms=100, **PLAIN)
    one.send(b"sent", b"waiting")
    assert one.machine.next_deadline_ms() == 100
    one.wait(100)
    assert one.results() == ["REQUEST_TIMED_OUT", "REQUEST_TIMED_OUT"]
    assert one.machine.accumulator.buffered_bytes == 0
    one.respond(offset=5)
    assert len(one.results()) == 2
    assert one.machine.next_deadline_ms() is None


def test_a_batch_expires_before_it_is_due_where_the_timeout_is_shorter() -> None:
    """ProducerConfig forbids it, the machine does not rely on that."""
    one = OneProducer(linger_ms=1_000, delivery_timeout_ms=100)
    one.append()
    assert one.machine.next_deadline_ms() == 100
    one.wait(100)
    assert one.results() == ["REQUEST_TIMED_OUT"]
    assert one.machine.next_deadline_ms() is None


def test_a_batch_that_is_given_up_fails_with_its_last_failure() -> None:
    one = OneProducer(delivery_timeout_ms=100, **PLAIN)
    one.send(b"a")
    one.respond(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    one.leaders.clear()
    one.wait(100)
    assert one.results() == ["NOT_LEADER_OR_FOLLOWER"]


def test_a_batch_without_a_leader_expires_with_that_as_its_failure() -> None:
    """Also while the first look-up is still out."""
    one = OneProducer(delivery_timeout_ms=100, **PLAIN)
    one.leaders.clear()
    one.send(b"a")
    one.wait(100)
    assert one.results() == ["LEADER_NOT_AVAILABLE"]


def test_retry_backoff() -> None:
    """RecordAccumulatorTest.testRetryBackoff: the others go on, the next of the partition waits behind it."""
    one = OneProducer(**PLAIN)
    one.send(b"a", b"b")
    one.respond(ErrorCode.NOT_ENOUGH_REPLICAS)
    one.send(b"other", partition=1)
    assert values(one) == [[b"other"]]
    assert one.machine.next_deadline_ms() == 10
    one.wait()
    assert values(one) == [[b"a"]]
    one.respond(offset=0)
    one.respond(offset=0)
    assert values(one) == [[b"b"]]


def test_a_retriable_error_forgets_the_leader_before_anything_else_is_sent() -> None:
    """Sender.completeBatch requests an update of the metadata."""
    one = OneProducer(**PLAIN)
    one.send(b"a")
    one.append(b"other", 1)
    failed = one.sent.pop()
    one.machine.request_failed(failed.token, ProduceFailure.of_code(ErrorCode.NETWORK_EXCEPTION), 0, 0.0)
    effects = one.machine.next(0)
    assert [type(e).__name__ for e in effects] == ["ForgetLeaders"]


def test_leaders_are_looked_up_once_at_a_time_and_with_a_pause() -> None:
    one = OneProducer(**PLAIN)
    one.leaders.clear()
    one.send(b"a")
    one.append(b"b", 0, "u")
    one.run()
    assert one.requested == [LookUpLeaders(frozenset({"t"}))], "one look-up is out"
    one.machine.leaders_looked_up({}, 0, 0.0)
    one.run()
    assert len(one.requested) == 1, "and the next one waits for its pause"
    one.wait()
    assert one.requested[1:] == [LookUpLeaders(frozenset({"t", "u"}))]
    one.leaders |= {("t", 0): 1, ("u", 0): 2}
    one.machine.leaders_looked_up({}, one.now_ms, 0.0)
    one.run()
    assert len(one.sent) == 2


def test_a_topic_that_is_not_allowed_fails_at_once_and_a_missing_one_in_the_end() -> None:
    one = OneProducer(delivery_timeout_ms=100, **PLAIN)
    one.leaders.clear()
    one.send(b"a")
    one.machine.leaders_looked_up({"t": ProduceFailure.of_code(ErrorCode.TOPIC_AUTHORIZATION_FAILED)}, 0, 0.0)
    one.run()
    assert one.results() == ["TOPIC_AUTHORIZATION_FAILED"]
    one.append(b"b", 0, "u")
    one.wait()
    one.machine.leaders_looked_up({"u": ProduceFailure.of_code(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)}, 0, 0.0)
    one.wait(100)
    assert one.results()[1:] == ["UNKNOWN_TOPIC_OR_PARTITION"]


def test_acks_0_is_acknowledged_once_it_is_sent() -> None:
    one = OneProducer(acks=0, **PLAIN)
    one.send(b"a")
    one.machine.sent(one.sent.pop().token, 0)
    one.run()
    assert one.results() == [-1]


def test_a_response_without_the_partition_is_a_failure_that_may_pass() -> None:
    one = OneProducer(**PLAIN)
    one.send(b"a")
    effect = one.sent.pop()
    effect.request.topic_data.clear()
    one.sent.append(effect)
    one.respond()
    one.wait()
    assert len(one.sent) == 1


def test_record_errors() -> None:
    """SenderTest.testRecordErrorPropagatedToApplication (KIP-467): the broker's message for the records it names, another
    one for those beside them."""
    one = OneProducer(linger_ms=5, **PLAIN)
    for _ in range(3):
        one.append()
    one.wait(5)
    one.respond(ErrorCode.INVALID_RECORD, record_errors={1: "no key"}, message="the batch is refused")
    (batch,) = one.ended
    messages = [result.message for result in map(batch.result_of, range(3)) if isinstance(result, ProduceFailure)]
    beside = "the record was in a batch with a record that the broker refused"
    assert messages == [beside, "no key", beside]


def test_fail_all_ends_everything_once() -> None:
    one = OneProducer(**PLAIN)
    one.send(b"in flight", b"waiting")
    ends = one.machine.fail(ProduceFailure(ErrorCode.REQUEST_TIMED_OUT, "closed"))
    assert [type(effect) for effect in ends] == [BatchEnded, BatchEnded]
    one.respond(offset=0)
    assert one.machine.accumulator.buffered_bytes == 0
    assert not one.ended


def test_what_has_a_number_is_sent_although_the_transaction_is_aborted() -> None:
    """It had no room in a request. Without it, a number would be missing at the broker in the next transaction."""
    transaction = Transaction()
    transaction.partitions |= {("t", 0), ("t", 1)}
    one = OneProducer(transaction, max_request_size=100, max_in_flight=1)
    one.append(b"a")
    one.append(b"b", 1)
    one.run()
    assert values(one) == [[b"a"]]
    one.append(b"c")
    one.machine.fail(ABORTED, is_unsent)
    one.respond(offset=0)
    assert [batch[1:] for batch in one.batches_of()] == [(1, 7, 0, 0, [b"b"])]
    one.respond(offset=0)
    assert not one.sent


def test_a_transaction_has_a_partition_before_anything_is_sent_to_it() -> None:
    """TransactionManagerTest.testRaiseErrorWhenNoPartitionsPendingOnDrain, testNoDrainWhenPartitionsPending"""
    transaction = Transaction()
    one = OneProducer(transaction)
    one.send(b"a")
    one.append(b"b", 1)
    one.run()
    assert not one.sent
    assert [sorted(e.partitions) for e in one.requested] == [[("t", 0)]]  # type: ignore[union-attr]
    transaction.partitions.add(("t", 0))
    one.machine.partitions_added()
    one.run()
    assert values(one) == [[b"a"]]
    one.machine.partitions_refused(ProduceFailure.of_code(ErrorCode.TOPIC_AUTHORIZATION_FAILED), 0, 0.0)
    one.run()
    assert one.results() == ["TOPIC_AUTHORIZATION_FAILED"]
