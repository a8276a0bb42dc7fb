"""Numbers and epochs of a producer without transactions: Kafka's TransactionManagerTest by name."""

from __future__ import annotations

from typing import Any

import pytest

from coterie.producing.batch import SEQUENCES
from coterie.producing.partition_queue import LAST_EPOCH, PartitionSequence
from coterie.wire.errors import ErrorCode
from tests.producing.one_producer import PAUSE_MS, OneProducer

UNKNOWN = ErrorCode.UNKNOWN_PRODUCER_ID


def with_windows(*partitions: int, epoch: int = 0, **config: Any) -> OneProducer:
    """The first batch of each partition is acknowledged: several may be in flight."""
    one = OneProducer(**config)
    one.machine.identity.current = (15, epoch)
    for partition in partitions:
        one.send(b"1", partition=partition)
        one.respond(offset=500)
    one.ended.clear()
    return one


def in_flight(one: OneProducer) -> list[tuple[int, int, int, int, list[bytes | None]]]:
    """Partition, producer id, epoch, sequence and values of each request, oldest first."""
    return [batch[1:] for number in range(len(one.sent)) for batch in one.batches_of(number)]


def next_sequence(one: OneProducer, partition: int) -> int:
    return one.machine.accumulator.queues["t", partition].sequence.next


def test_the_numbers_of_a_partition() -> None:
    """testDefaultSequenceNumber, testSequenceNumberOverflow"""
    sequence = PartitionSequence()
    assert sequence.take(3) == (0, 1)
    assert sequence.next == 3
    sequence.begin((15, 0))
    for count, after in ((SEQUENCES - 1, SEQUENCES - 1), (100, 99), (SEQUENCES - 1, 98)):
        sequence.take(count)
        assert sequence.next == after


def test_an_unknown_producer_id_restarts_the_numbers_under_the_next_epoch() -> None:
    """testBumpEpochAndResetSequenceNumbersAfterUnknownProducerId: of all that has no acknowledgement."""
    one = with_windows(0, epoch=1)
    one.send(b"2", b"3", b"4", b"5")
    assert next_sequence(one, 0) == 5
    for _ in range(4):
        one.respond(UNKNOWN, log_start_offset=501)
    sent = []
    for offset in range(501, 505):
        one.wait()
        sent.append(in_flight(one)[0])
        one.respond(offset=offset)
    assert sent == [(0, 15, 2, sequence, [b"%d" % (2 + sequence)]) for sequence in range(4)]
    assert one.results() == [501, 502, 503, 504]


def test_a_partition_whose_numbers_are_lost_does_not_restart_those_of_another() -> None:
    """testBatchFailureAfterProducerReset, testProducerIdReset: after the last epoch, under another producer id."""
    one = with_windows(0, 1, epoch=LAST_EPOCH)
    one.send(b"2")
    one.send(b"2", partition=1)
    assert in_flight(one) == [(0, 15, LAST_EPOCH, 1, [b"2"]), (1, 15, LAST_EPOCH, 1, [b"2"])]
    one.respond(UNKNOWN, log_start_offset=501)
    one.wait()
    assert in_flight(one) == [(1, 15, LAST_EPOCH, 1, [b"2"]), (0, 1, 0, 0, [b"2"])]
    assert [next_sequence(one, partition) for partition in (0, 1)] == [1, 2]


def test_what_was_numbered_before_another_partition_restarted_is_acknowledged() -> None:
    """testBatchCompletedAfterProducerReset: it keeps its numbers, and only what comes after it has the new identity."""
    one = with_windows(0, 1, epoch=LAST_EPOCH)
    one.send(b"2", b"3")
    one.send(b"lost", partition=1)
    one.respond(ErrorCode.INVALID_RECORD, number=2)
    one.send(b"next", partition=1)
    one.send(b"4")
    before = [(0, 15, LAST_EPOCH, 1, [b"2"]), (0, 15, LAST_EPOCH, 2, [b"3"])]
    assert in_flight(one) == [*before, (1, 1, 0, 0, [b"next"])]
    one.respond(offset=501)
    assert in_flight(one) == [before[1], (1, 1, 0, 0, [b"next"])]
    one.respond(offset=502)
    assert in_flight(one) == [(1, 1, 0, 0, [b"next"]), (0, 1, 0, 0, [b"4"])]


def test_a_batch_given_up_while_its_retry_is_out() -> None:
    """testDuplicateSequenceAfterProducerReset: the next one has a number that the broker cannot take for the other's. Kafka
    sends it beside the retry; here it goes once the retry has ended."""
    one = OneProducer(delivery_timeout_ms=100)
    one.machine.identity.current = (15, 1)
    one.send(b"1")
    one.now_ms = 80
    one.lose()
    one.wait()
    assert in_flight(one) == [(0, 15, 1, 0, [b"1"])], "the retry"
    one.wait(PAUSE_MS)
    assert one.results() == ["NETWORK_EXCEPTION"]
    one.send(b"2")
    assert len(one.sent) == 1
    one.lose()
    assert in_flight(one) == [(0, 15, 2, 0, [b"2"])]
    one.lose()
    one.wait()
    assert in_flight(one) == [(0, 15, 2, 0, [b"2"])]
    assert len(one.results()) == 1


def given_up(one: OneProducer, *values: bytes, then: bytes) -> None:
    """Of what is in flight, the last alone is not past its delivery timeout."""
    one.send(*values)
    one.now_ms += 50
    one.send(then)
    one.wait(50)
    assert one.results() == ["REQUEST_TIMED_OUT"] * len(values)


def test_the_last_in_flight_is_acknowledged() -> None:
    """testNoProducerIdResetAfterLastInFlightBatchSucceeds: so all before it are in the log."""
    one = with_windows(0, epoch=5, delivery_timeout_ms=100)
    given_up(one, b"1", b"2", then=b"3")
    one.respond(offset=503, number=2)
    one.lose()
    one.lose()
    one.send(b"4")
    assert in_flight(one) == [(0, 15, 5, 4, [b"4"])]


def test_the_last_in_flight_is_given_up() -> None:
    """testEpochBumpAfterLastInFlightBatchFailsIdempotentProducer: the broker may not have it."""
    one = with_windows(0, epoch=1, delivery_timeout_ms=100)
    given_up(one, b"1", then=b"2")
    one.send(b"3")
    one.respond(offset=502, number=1)
    one.lose()
    one.wait(100)
    one.lose()
    one.send(b"4")
    assert in_flight(one) == [(0, 15, 2, 0, [b"4"])]


@pytest.mark.parametrize("code", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NETWORK_EXCEPTION])
def test_a_healthy_partition_during_the_epoch_bump_of_another(code: ErrorCode) -> None:
    """testHealthyPartitionRetriesDuringEpochBump, testFailedInflightBatchAfterEpochBump: its batches keep epoch and number,
    new ones wait, and go under the next epoch."""
    one = with_windows(0, 1, epoch=1)
    one.send(b"2", b"3")
    one.send(b"2", partition=1)
    one.respond(UNKNOWN, log_start_offset=501)
    one.respond(UNKNOWN, log_start_offset=501)
    one.wait()
    assert in_flight(one) == [(1, 15, 1, 1, [b"2"]), (0, 15, 2, 0, [b"2"])]
    one.respond(code)
    one.send(b"3", partition=1)
    one.wait()
    assert in_flight(one)[1:] == [(1, 15, 1, 1, [b"2"])], "the retry, alone"
    one.respond(offset=501, number=1)
    assert in_flight(one)[1:] == [(1, 15, 2, 0, [b"3"])]
    one.respond(offset=502, number=1)
    assert next_sequence(one, 1) == 1
