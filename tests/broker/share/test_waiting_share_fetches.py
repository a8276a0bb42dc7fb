"""Share fetches that wait, what they read, and acknowledgements at a broker in virtual time. Names are those of Kafka's
SharePartitionManagerTest, DelayedShareFetchTest and ShareFetchUtilsTest."""

from __future__ import annotations

import pytest

from coterie.broker.share.share_sessions import SharedPartition
from coterie.broker.share.waiting_share_fetch import _log_batch, _sliced
from coterie.broker.storage.topic import Partition
from coterie.log.producer_states import Aborted
from coterie.records.batch import batches
from coterie.records.encoding import encode_batch
from coterie.share.acquiring import Acquired
from coterie.wire.errors import ErrorCode, Refusal
from tests.broker.share.framed_share import acquired, delete_up_to, rows_of_response, shared

E = ErrorCode
TRANSACTIONAL, CONTROL = 0x10, 0x20


# -- fetches that wait ------------------------------------------------------------------------------------------------


def test_a_fetch_waits_for_min_bytes() -> None:
    """testTryCompleteWhenMinBytesNotSatisfiedOnFirstFetch, testTryCompleteWhenMinBytesNotSatisfiedOnSubsequentFetch,
    testDelayedShareFetchTryCompleteReturnsTrue, testOnCompleteExecutionOnTimeout,
    testReplicaManagerFetchShouldHappenOnComplete, testAsyncReadMinBytesNotSatisfiedClearsAcquiredStateForRetry,
    testAsyncReadMinBytesNotSatisfiedClearsAcquiredStateForOnComplete"""
    broker = shared(1)
    size = len(encode_batch([(0, None, b"v", ())]))
    pending = broker.fetch("c1", 0, min_bytes=2 * size, max_wait_ms=1_000)
    assert pending.response is None
    broker.produce(1)
    broker.advance(10)
    assert acquired(rows_of_response(pending.response)[0]) == [(0, 1, 1)]
    # at the end of the wait it takes what there is
    broker.produce(1)
    pending = broker.fetch("c1", epoch=1, min_bytes=9 * size, max_wait_ms=1_000)
    broker.advance(999)
    assert pending.response is None
    broker.advance(1)
    assert acquired(rows_of_response(pending.response)[0]) == [(2, 2, 1)]


def test_nothing_can_be_acquired() -> None:
    """testDelayedShareFetchTryCompleteReturnsFalseDueToNonAcquirablePartitions,
    testEmptyFutureReturnedByDelayedShareFetchOnComplete,
    testAcknowledgeCompletesDelayedShareFetchRequest, testAcknowledgeDoesNotCompleteDelayedShareFetchRequest,
    testReleaseSessionCompletesDelayedShareFetchRequest, testReleaseSessionDoesNotCompleteDelayedShareFetchRequest,
    testForceCompleteTriggersDelayedActionsQueue, testForceCompleteNotTriggersDelayedActionsQueueWhenFetchDataIsEmpty: the
    window is
    full until records are accepted"""
    broker = shared(*[100] * 3)
    broker.share.configure("g", {"share.partition.max.record.locks": "100"})
    assert acquired(broker.fetched("c1", 0)[0]) == [(0, 99, 1)]
    nothing = broker.fetch("c2", 0, max_wait_ms=100)
    broker.advance(100)
    assert all(not acquired(row) for row in rows_of_response(nothing.response).values())
    waiting = broker.fetch("c2", epoch=1, max_wait_ms=5_000)
    broker.acknowledge("c1", 10, 19)
    broker.advance(10)
    assert waiting.response is None
    broker.acknowledge("c1", 0, 9, epoch=2)
    broker.advance(10)
    assert acquired(rows_of_response(waiting.response)[0]) == [(100, 199, 1)]
    # what a member that leaves had is another's
    waiting = broker.fetch("c2", epoch=2, max_wait_ms=5_000)
    broker.acknowledge("c1", 20, 20, epoch=-1)
    broker.advance(10)
    assert acquired(rows_of_response(waiting.response)[0]) == [(21, 99, 2)]


def test_a_stopped_fetch_responds_no_more() -> None:
    """testToCompleteAnAlreadyCompletedFuture, testCloseSharePartitionManager"""
    broker = shared()
    pending = broker.fetch("c1", 0, max_wait_ms=100)
    pending.cancel()
    broker.produce(1)
    broker.advance(200)
    assert pending.response is None


def test_an_append_while_fetches_are_called() -> None:
    """testToCompleteAnAlreadyCompletedFuture: what the first response brings about appends twice. The second fetch ends by the
    first of these, and is called once more for the append that ended the first fetch: there are records, and it is over"""
    broker = shared()
    first, second = (broker.fetch(member, 0, max_wait_ms=100) for member in ("c1", "c2"))
    broker.advance(0)
    first.notify = lambda: broker.produce(1, 1)
    broker.produce(1)
    broker.advance(10)
    assert [acquired(rows_of_response(f.response)[0]) for f in (first, second)] == [[(0, 0, 1)], [(1, 1, 1)]]


@pytest.mark.parametrize("max_records", [0, 500])
def test_no_records_are_requested(max_records: int) -> None:
    """testReplicaManagerFetchShouldNotProceed, testReplicaManagerFetchShouldProceed: the state is not even read"""
    broker = shared(3)
    rows = broker.fetched("c1", 0, max_records=max_records, max_bytes=max_records, min_bytes=0)
    assert [acquired(row) for row in rows.values()] == ([[(0, 2, 1)]] if max_records else [])
    assert bool(broker.requests) is bool(max_records)


def test_bytes_are_divided_among_what_can_be_acquired() -> None:
    """testUniformStrategy, testPartitionMaxBytesFromUniformStrategyWhenAllPartitionsAreAcquirable,
    testPartitionMaxBytesFromUniformStrategyWhenFewPartitionsAreAcquirable: a first batch is read whatever its size"""
    broker = shared(*[1] * 8)
    for _ in range(8):
        broker.produce(1, partition=1)
    size = len(encode_batch([(0, None, b"v", ())]))
    both = broker.fetched("c1", 0, 1, max_bytes=8 * size)
    assert [acquired(both[p]) for p in (0, 1)] == [[(0, 3, 1)], [(0, 3, 1)]]
    broker.share.configure("g", {"share.partition.max.record.locks": "100"})
    (hosted, _) = broker.share._hosted.values()
    hosted.state.limits = type(hosted.state.limits)(max_record_locks=4)
    one = broker.fetched("c2", 0, 1, max_bytes=3 * size)
    assert [(p, acquired(row)) for p, row in one.items() if row.acquired_records] == [(1, [(4, 6, 1)])]
    assert acquired(broker.fetched("c3", 1, max_bytes=1)[1]) == [(7, 7, 1)]


def test_max_records_are_of_all_partitions() -> None:
    """testProcessFetchResponse, testProcessFetchResponseWithMaxFetchRecords: what the first gave is not given by the second;
    its
    records are cut to the batches of what is acquired"""
    broker = shared(2, 6)
    broker.produce(4, 4, partition=1)
    rows = broker.fetched("c1", 0, 1, max_records=5, batch_size=1)
    assert acquired(rows[0]) == [(0, 1, 1), (2, 7, 1)]
    assert 1 not in rows or acquired(rows[1]) == []
    rows = broker.fetched("c2", 0, 1, max_records=5, batch_size=1)
    assert acquired(rows[1]) == [(0, 3, 1), (4, 7, 1)]
    other = shared(2, 6)
    row = other.fetched("c1", 0, max_records=2)[0]
    assert (acquired(row), [h.last_offset for _, h in batches(row.records)]) == ([(0, 1, 1)], [1])


def test_a_fetch_after_the_log_was_cut() -> None:
    """testProcessFetchResponseWithLsoMovementForTopicPartition, testProcessFetchResponseWhenNoRecordsAreAcquired,
    testProcessFetchResponseWithEmptyRecords: the start offset moves along; the response comes without records or an error,
    before the end of the wait"""
    broker = shared(2, 2, 2)
    broker.fetched("c1", 0, max_records=2)
    delete_up_to(broker, 5)
    row = rows_of_response(broker.fetch("c2", 0).response)[0]
    assert (row.error_code, acquired(row)) == (0, [])
    row = broker.fetched("c2", epoch=1)[0]
    assert (row.error_code, acquired(row)) == (0, [(4, 5, 1)])  # the whole batch, as in Kafka
    assert broker.share.start_offsets("g") == {0: 5}
    assert all(not acquired(row) and not row.error_code for row in broker.fetched("c2", epoch=2).values())


@pytest.mark.parametrize("start", [-(2**63), -2, 7, 2**63 - 1])
def test_a_fetch_beyond_the_log(start: int) -> None:
    """The same for a start offset that an administrator has put outside the log: one behind its end stays where it is."""
    broker = shared(3, start_offset=start)
    row = rows_of_response(broker.fetch("c1", 0).response)[0]
    assert (row.error_code, acquired(row)) == (0, [])
    again = rows_of_response(broker.fetch("c1", 0, epoch=1).response)
    assert [acquired(row) for row in again.values()] == ([[(0, 2, 1)]] if start < 0 else [])
    assert broker.share.start_offsets("g") == {0: max(start, 0)}


@pytest.mark.parametrize("error", [Refusal(E.NOT_LEADER_OR_FOLLOWER), OSError("broken")])
def test_a_log_that_cannot_be_read(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    """testReplicaManagerFetchException, testReplicaManagerFetchMultipleSharePartitionsException,
    testExceptionInMinBytesCalculation, testMaybeCompleteWithException, testProcessFetchResponseWithOffsetFetchException,
    testAsyncReadExceptionReleasesLocks, testTryCompleteReleasesLocksWhenAsyncReadImmediatelyThrows,
    testCompleteShareFetchAsyncRequestReleasesLocksWhenExceptionHandlingThrows, testTryCompleteLocksReleasedOnCompleteException,
    testLocksReleasedForCompletedFetch, testLocksReleasedAcquireException: what could not be read is the next fetch's"""
    broker = shared(2)
    broker.produce(2, partition=1)
    partition, check_leader = broker.topics.partition("t", 0), Partition.check_leader

    def check(of: Partition) -> None:
        if of is partition and broker.share.start_offsets("g"):
            raise error
        check_leader(of)

    monkeypatch.setattr(Partition, "check_leader", check)
    rows = broker.fetched("c1", 0, 1)
    expected = E.KAFKA_STORAGE_ERROR if isinstance(error, OSError) else E.NOT_LEADER_OR_FOLLOWER
    assert (rows[0].error_code, acquired(rows[1])) == (expected, [(0, 1, 1)])
    monkeypatch.undo()
    assert acquired(broker.fetched("c2", 0)[0]) == [(0, 1, 1)]


# -- acknowledgements -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("member", "partition", "code"),
    [("c1", 0, 0), ("c2", 0, E.INVALID_RECORD_STATE), ("c1", 1, E.UNKNOWN_TOPIC_OR_PARTITION)],
)
def test_acknowledgements_of_others(member: str, partition: int, code: int) -> None:
    """testAcknowledgeSinglePartition, testAcknowledgeIncorrectMemberId, testAcknowledgeEmptyPartitionCacheMap,
    testAcknowledgeIncorrectGroupId"""
    broker = shared(3)
    broker.fetched("c1", 0)
    broker.fetched("c2", 0)
    pending = broker.acknowledge(member, 0, 2, partition=partition)
    row = rows_of_response(pending.response)[partition]
    assert row.error_code == code
    text = "Member is not the owner of batch record"
    assert (row.error_message == text) is (member == "c2")


def test_sessions_that_end_without_a_partition() -> None:
    """testReleaseSessionWithIncorrectGroupId, testReleaseSessionWithIncorrectMemberId,
    testReleaseSessionWithEmptyTopicPartitions"""
    broker = shared(3)
    assert broker.acknowledge("c9", 0, 0, epoch=-1).error_code == E.SHARE_SESSION_NOT_FOUND
    broker.fetch("c1", max_wait_ms=0)
    assert broker.fetch("c1", epoch=-1).response.error_code == 0
    assert broker.share.sessions.get(("g", "c1")) is None  # type: ignore[arg-type]


def test_the_key_of_a_share_partition() -> None:
    """testSharePartitionKey: group, topic and partition"""
    broker = shared(3)
    hosted = [broker.share.host(g, SharedPartition(broker.topic(), p, "t")) for g in ("g", "h") for p in (0, 1)]
    assert len({id(one) for one in hosted}) == len(broker.share._hosted) == 4
    assert broker.share.host("g", SharedPartition(broker.topic(), 0, "t")) is hosted[0]


# -- bytes ------------------------------------------------------------------------------------------------------------

FIRST, SECOND, LAST = (encode_batch([(0, None, b"v", ())] * n, base_offset=at) for n, at in ((3, 0), (2, 3), (4, 7)))


@pytest.mark.parametrize(
    ("of", "records"),
    [
        ([(0, 10)], FIRST + SECOND + LAST),
        ([(0, 7)], FIRST + SECOND + LAST),
        ([(0, 2)], FIRST),
        ([(3, 4)], SECOND),
        ([(7, 10)], LAST),
        ([(1, 1)], FIRST),
        ([(4, 4)], SECOND),
        ([(8, 9)], LAST),
        ([(4, 8)], SECOND + LAST),
        ([(0, 2), (3, 4)], FIRST + SECOND),
        ([(7, 7), (9, 9)], LAST),
        ([(1, 1), (4, 4), (9, 9)], FIRST + SECOND + LAST),
        ([(0, 99)], FIRST + SECOND + LAST),
        ([], b""),
    ],
)
def test_records_are_cut_to_the_batches_of_what_is_acquired(of: list[tuple[int, int]], records: bytes) -> None:
    """testMaybeSliceFetchRecordsMultipleBatches, testMaybeSliceFetchRecordsSingleBatch"""
    parts = [Acquired(first, last, 1) for first, last in of]
    assert _sliced(FIRST + SECOND + LAST, parts) == records
    whole = {first for first, _ in of} and all(last <= 2 for _, last in of)
    assert not whole or _sliced(FIRST, parts) == FIRST


def test_batches_of_aborted_transactions() -> None:
    """testFetchAbortedTransactionRecordBatchesForOnlyAbortedTransactions, testContainsAbortMarker,
    testFetchAbortedTransactionRecordBatchesForAbortedAndCommittedTransactions: by producer and from the first offset up to the
    marker; a marker is no record"""
    log = [(0, 1, True), (3, 2, False), (6, 2, True), (9, 1, True), (12, 1, False), (15, 1, True)]
    aborted = [Aborted(producer, first, first + 2, first + 2) for first, producer, is_aborted in log if is_aborted]
    for first, producer, is_aborted in log:
        data = encode_batch(
            [(0, None, b"v", ())] * 2, base_offset=first, producer_id=producer, attributes=TRANSACTIONAL
        )
        ((_, header),) = batches(data)
        assert _log_batch(header, aborted) == (first, first + 1, is_aborted)
    marker = encode_batch([(0, b"\0\0\0\0", b"", ())], base_offset=2, producer_id=1, attributes=TRANSACTIONAL | CONTROL)
    ((_, header),) = batches(marker)
    assert not _log_batch(header, aborted).aborted
