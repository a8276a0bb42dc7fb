"""A batch and its one end: Kafka's ProducerBatchTest by name."""

from __future__ import annotations

import pytest

from coterie.producing.batch import Acknowledged, ProduceFailure, ProducerBatch
from coterie.producing.requests import encoded
from coterie.records import compression
from coterie.records.batch import batches
from coterie.records.decoding import decode_records
from coterie.wire.errors import ErrorCode
from tests.producing.one_producer import OneProducer

FIRST = ProduceFailure(ErrorCode.UNKNOWN_SERVER_ERROR, "first")
SECOND = ProduceFailure(ErrorCode.UNKNOWN_SERVER_ERROR, "second")
CODECS = [compression.NONE, compression.GZIP, compression.SNAPPY, compression.LZ4, compression.ZSTD]


def batch_of(count: int = 1, headers: tuple[tuple[str, bytes], ...] = ()) -> ProducerBatch:
    batch = ProducerBatch(("topic", 1), 0)
    batch.items = [(0, b"hi", b"there %d" % number, headers) for number in range(count)]
    return batch


def test_a_batch_that_failed_takes_no_response() -> None:
    """testBatchAbort: the late response of its request changes nothing."""
    one = OneProducer(is_idempotent=False)
    one.send(b"a")
    (effect,) = one.machine.fail(FIRST)
    one.ended.append(effect.batch)  # type: ignore[union-attr]
    one.respond(offset=500)
    assert one.ended[0].result_of(0) == FIRST
    assert len(one.ended) == 1


@pytest.mark.parametrize(
    ("name", "first"), [("testBatchCannotAbortTwice", FIRST), ("testBatchCannotCompleteTwice", Acknowledged(500, 10))]
)
def test_a_batch_has_one_end(name: str, first: Acknowledged | ProduceFailure) -> None:
    batch = batch_of()
    assert batch.finish(first)
    for second in (SECOND, Acknowledged(1_000, 20)):
        with pytest.raises(AssertionError, match="a batch has one end"):
            batch.finish(second)
    assert batch.result_of(0) == (FIRST if first is FIRST else (500, 10))


@pytest.mark.parametrize("codec", CODECS)
def test_halves_are_as_the_whole(codec: int) -> None:
    """testSplitPreservesHeaders, testSplitPreservesMagicAndCompressionType."""
    header = ("header-key", b"header-value")
    values = []
    for half in batch_of(10, (header,)).split():
        records = encoded(half, codec, False)
        for position, batch in batches(records):
            assert (batch.magic, batch.base_offset, batch.attributes & 7) == (2, 0, codec)
            for record in decode_records(records, position, batch):
                assert list(record.headers) == [header]
                values.append(record.value)
    assert values == [b"there %d" % number for number in range(10)]


@pytest.mark.parametrize("is_retried", [False, True])
def test_a_clock_that_goes_back_lets_no_batch_expire(is_retried: bool) -> None:
    """testBatchExpiration, testBatchExpirationAfterReenqueue."""
    one = OneProducer(delivery_timeout_ms=10_240, is_idempotent=False)
    one.now_ms = 1_488_748_346_917
    one.send(b"a")
    if is_retried:
        one.lose()
    one.wait(-2)
    assert not one.ended
    one.wait(2 + 10_240)
    assert len(one.ended) == 1


def test_a_batch_on_its_way_takes_no_records() -> None:
    """testShouldNotAttemptAppendOnceRecordsBuilderIsClosedForAppends."""
    one = OneProducer()
    first, _ = one.append(size=10)
    assert one.append(size=10) == (first, 1)
    one.run()
    assert one.append(size=10)[0] is not first


def test_records_that_the_broker_names_have_their_own_failure() -> None:
    """testCompleteExceptionallyWithRecordErrors."""
    batch = batch_of(5)
    failure = ProduceFailure(ErrorCode.INVALID_RECORD, "refused", record_errors={0: "zero", 3: "three"})
    assert batch.finish(failure)
    results = [batch.result_of(index) for index in range(5)]
    assert all(isinstance(result, ProduceFailure) and result.code == ErrorCode.INVALID_RECORD for result in results)
    messages = [result.message for result in results if isinstance(result, ProduceFailure)]
    assert messages[0] == "zero"
    assert messages[3] == "three"
    assert len({messages[index] for index in (1, 2, 4)}) == 1
