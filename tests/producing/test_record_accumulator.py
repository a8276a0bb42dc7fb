"""Which records go together, when a batch is due, when it expires and when it is sent again: Kafka's RecordAccumulatorTest by
name, asked of the producer's machine."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from coterie.machines.backoff import JITTER, Backoff
from coterie.producing.batch import ProduceFailure, is_unsent
from coterie.records import compression
from coterie.wire.errors import ErrorCode
from tests.producing.one_producer import RECORD_BYTES, OneProducer, Transaction

E = ErrorCode
FOREVER_MS = 2**31 - 1
PLAIN: dict[str, Any] = {"is_idempotent": False}


def partitions(one: OneProducer, number: int) -> list[tuple[str, int]]:
    return [(topic, partition) for topic, partition, *_ in one.batches_of(number)]


def values(one: OneProducer, number: int = -1) -> list[list[bytes | None]]:
    return [batch[-1] for batch in one.batches_of(number)]


def test_partitions_of_a_full_request_take_turns() -> None:
    """testDrainBatches: of two leaders with two partitions each, one batch fits into a request. What had no turn goes first;
    a partition that waits, here for the pause after a failure, is passed over."""
    one = OneProducer(max_request_size=150, max_in_flight=1, **PLAIN)
    one.leaders = {("t", 0): 1, ("t", 1): 1, ("u", 0): 2, ("u", 1): 2}

    def append(*names: tuple[str, int]) -> None:
        for topic, partition in names:
            one.append(b"x" * 100, partition, topic)
        one.run()

    def turn() -> list[tuple[str, int]]:
        taken = [p for number in range(len(one.sent)) for p in partitions(one, number)]
        for _ in taken:
            one.respond(offset=0)
        return sorted(taken)

    append(*one.leaders)
    append(("t", 0), ("u", 0))
    assert [turn() for _ in range(3)] == [[("t", 0), ("u", 0)], [("t", 1), ("u", 1)], [("t", 0), ("u", 0)]]
    append(("u", 1))
    one.respond(E.NOT_ENOUGH_REPLICAS)
    append(("t", 1), ("u", 0))
    assert turn() == [("t", 1), ("u", 0)]
    one.wait()
    assert turn() == [("u", 1)]


def test_a_request_takes_a_batch_of_every_partition_of_its_leader() -> None:
    """testDrainBatches, where all of them fit."""
    one = OneProducer()
    for topic, partition in one.leaders:
        one.append(partition=partition, topic=topic)
    one.run()
    assert [partitions(one, number) for number in range(2)] == [[("t", 0), ("t", 1)], [("u", 0)]]


@pytest.mark.parametrize("codec", [compression.NONE, compression.GZIP])
def test_a_record_beyond_batch_size_is_sent_at_once(codec: int) -> None:
    """testAppendLargeCompressed, testAppendLargeNonCompressed and, since a batch that is full lingers no longer, with
    linger.ms."""
    one = OneProducer(batch_size=512, linger_ms=10, codec=codec)
    one.append(bytes(1024), size=1024)
    one.run()
    assert values(one) == [[bytes(1024)]]


def test_a_batch_takes_a_first_record_of_any_size_and_none_after_it() -> None:
    """testHasRoomForAllowsOversizedFirstRecordButRejectsSubsequentRecords."""
    one = OneProducer(batch_size=1024, linger_ms=10)
    batches = [one.append(size=size)[0] for size in (4096, 4096, 100, 100)]
    assert [first is second for first, second in pairwise(batches)] == [False, False, True]


def test_when_to_look_again() -> None:
    """testNextReadyCheckDelay: as soon as one batch has waited for linger.ms; a full one is sent before."""
    one = OneProducer(batch_size=2 * RECORD_BYTES, linger_ms=10)
    one.append(partition=0)
    one.run()
    assert (one.sent, one.machine.next_deadline_ms()) == ([], 10)
    one.now_ms = 5
    one.append(topic="u")
    one.run()
    assert (one.sent, one.machine.next_deadline_ms()) == ([], 10)
    for _ in range(3):
        one.append(partition=1)
    one.run()
    assert [effect.node_id for effect in one.sent] == [1]
    assert one.machine.next_deadline_ms() == 15


def test_a_batch_in_flight_is_looked_at_when_it_expires() -> None:
    """testSoonToExpireBatchesArePickedUpForExpiry."""
    one = OneProducer(linger_ms=500, delivery_timeout_ms=3_200)
    one.append(partition=0)
    one.run()
    assert not one.sent
    one.wait(501)
    assert len(one.sent) == 1
    one.append(partition=1)
    one.wait(2_000)
    assert len(one.sent) == 2
    assert one.machine.next_deadline_ms() == 3_200
    one.wait(699)
    assert one.results() == ["REQUEST_TIMED_OUT"]
    assert one.machine.next_deadline_ms() == 501 + 3_200


@pytest.mark.parametrize(
    ("name", "jitter", "moves"),
    [
        ("testExponentialRetryBackoff", -1.0, False),
        ("testExponentialRetryBackoff", 1.0, False),
        ("testExponentialRetryBackoffLeaderChange", 0.0, True),
    ],
)
def test_pauses_double(name: str, jitter: float, moves: bool) -> None:
    """Up to retry.backoff.max.ms, by a fifth more or less; also to another leader whose epoch is not known."""
    one = OneProducer(backoff=Backoff(100, 1_000), delivery_timeout_ms=FOREVER_MS, **PLAIN)
    one.append()
    one.run()
    pauses = []
    for attempt in range(5):
        if moves and attempt == 2:
            one.leaders["t", 0] = 2
        failed = one.sent.pop()
        one.machine.request_failed(failed.token, ProduceFailure.of_code(E.NETWORK_EXCEPTION), one.now_ms, jitter)
        one.run()
        started_ms = one.now_ms
        while not one.sent:
            deadline_ms = one.machine.next_deadline_ms()
            assert deadline_ms is not None
            one.wait(deadline_ms - one.now_ms)
        pauses.append(one.now_ms - started_ms)
        assert one.sent[0].node_id == (2 if moves and attempt >= 2 else 1)
    assert pauses == [min(100 * 2**n * (1 + JITTER * jitter), 1_000) for n in range(4)] + [1_000 + min(jitter, 0) * 200]


def hundred(one: OneProducer) -> None:
    """A hundred records for three partitions, in batches of two, some of which are in flight."""
    for number in range(100):
        topic, partition = ("t", number % 3) if number % 3 < 2 else ("u", 0)
        one.append(partition=partition, topic=topic)
    one.run()
    assert 0 < in_flight(one) < 100


def in_flight(one: OneProducer) -> int:
    return sum(len(batch) for number in range(len(one.sent)) for batch in values(one, number))


def test_every_batch_fails() -> None:
    """testAbortIncompleteBatches: sent or not, each record has the failure once, and no room is used."""
    one = OneProducer(batch_size=2 * RECORD_BYTES, linger_ms=FOREVER_MS, **PLAIN)
    hundred(one)
    closed = ProduceFailure(E.REQUEST_TIMED_OUT, "closed")
    one.ended += [effect.batch for effect in one.machine.fail(closed)]  # type: ignore[union-attr]
    assert one.results() == ["REQUEST_TIMED_OUT"] * 100
    while one.sent:
        one.respond(offset=0)
    assert len(one.results()) == 100
    assert one.machine.accumulator.buffered_bytes == 0


def test_what_was_not_sent_fails() -> None:
    """testAbortUnsentBatches: what is in flight ends by its response."""
    one = OneProducer(batch_size=2 * RECORD_BYTES, linger_ms=FOREVER_MS)
    hundred(one)
    sent = in_flight(one)
    failure = ProduceFailure(E.INVALID_TXN_STATE, "aborted")
    one.ended += [effect.batch for effect in one.machine.fail(failure, is_unsent)]  # type: ignore[union-attr]
    assert one.results() == ["INVALID_TXN_STATE"] * (100 - sent)
    assert in_flight(one) == sent
    one.ended.clear()
    while one.sent:
        one.respond(offset=0)
    assert len(one.results()) == sent
    assert one.machine.accumulator.buffered_bytes == 0


@pytest.mark.parametrize("is_muted", [False, True])
@pytest.mark.parametrize(
    ("name", "delivery_timeout_ms"), [("testExpiredBatchSingle", 3_200), ("testExpiredBatchSingleMaxValue", FOREVER_MS)]
)
def test_a_batch_expires_although_it_cannot_be_sent(name: str, delivery_timeout_ms: int, is_muted: bool) -> None:
    """Because another of the partition is in flight, or the leader is busy; linger.ms alone lets none expire."""
    one = OneProducer(linger_ms=300, delivery_timeout_ms=delivery_timeout_ms, max_in_flight=1, **PLAIN)
    one.append(partition=0 if is_muted else 1)
    one.machine.flush()
    one.run()
    one.now_ms = 1
    one.append()
    one.wait(300)
    assert (len(one.sent), one.results()) == (1, [])
    one.wait(delivery_timeout_ms - 301)
    assert one.results() == ["REQUEST_TIMED_OUT"]
    one.wait(1)
    assert one.results() == ["REQUEST_TIMED_OUT"] * 2
    one.respond(offset=0)
    assert not one.sent


@pytest.mark.parametrize("is_muted", [False, True])
def test_a_batch_that_is_sent_again_expires_with_its_failure(is_muted: bool) -> None:
    """testExpiredBatchesRetry: in the pause after an attempt, or in flight again."""
    pause_ms = 300 if is_muted else 10
    one = OneProducer(linger_ms=3_000, delivery_timeout_ms=3_200, backoff=Backoff(pause_ms, pause_ms), **PLAIN)
    one.append()
    one.wait(3_000)
    one.wait(100)
    one.lose()
    one.wait(99)
    assert (len(one.sent), one.ended) == (0 if is_muted else 1, [])
    one.wait(1)
    assert one.results() == ["NETWORK_EXCEPTION"]
    one.wait(1_000)
    if not is_muted:
        one.respond(offset=0)
    assert (one.sent, one.results()) == ([], ["NETWORK_EXCEPTION"])


def test_a_flush_does_not_linger_in_a_transaction_either() -> None:
    """testRecordsDrainedWhenTransactionCompleting: a commit begins with it."""
    transaction = Transaction()
    transaction.partitions.add(("t", 0))
    one = OneProducer(transaction, linger_ms=10)
    one.append(b"a")
    one.append(b"b")
    one.run()
    assert not one.sent
    one.machine.flush()
    one.run()
    assert values(one) == [[b"a", b"b"]]


def test_a_broker_without_partitions_has_no_request() -> None:
    """testDrainWithANodeThatDoesntHostAnyPartitions."""
    one = OneProducer()
    one.leaders = {("t", 0): 1}
    one.append()
    one.run()
    assert [effect.node_id for effect in one.sent] == [1]


# -- batches that are too large ------------------------------------------------------------------------------------------------


def test_a_split_batch_ends_with_its_last_half() -> None:
    """testSplitAndReenqueue, testProduceRequestResultAwaitAllDependents, testSplitBatchOffAccumulator: each half has its own
    offset, and all of the buffer that they use is free in the end."""
    one = OneProducer(linger_ms=10, codec=compression.GZIP, **PLAIN)
    one.append(b"a")
    one.append(b"b")
    one.wait(10)
    one.lose()
    one.wait()
    one.respond(E.MESSAGE_TOO_LARGE)
    assert values(one) == [[b"a"]]
    one.respond(offset=0)
    assert not one.ended
    assert values(one) == [[b"b"]]
    one.respond(offset=1)
    assert one.results() == [0, 1]
    assert one.machine.accumulator.buffered_bytes == 0


def test_a_batch_is_split_until_its_records_are_alone() -> None:
    """testSplitAndReenqueuePreventInfiniteRecursion: a hundred records, each there once, after 99 splits."""
    one = OneProducer(batch_size=2**20, linger_ms=10)
    for number in range(100):
        one.append(b"%d" % number)
    one.wait(10)
    refused, taken = 0, []
    while one.sent:
        (batch,) = values(one)
        if len(batch) > 1:
            refused += 1
            one.respond(E.MESSAGE_TOO_LARGE)
        else:
            taken += batch
            one.respond(offset=len(taken) - 1)
    assert refused == 99
    assert taken == [b"%d" % number for number in range(100)]
    assert one.results() == list(range(100))
