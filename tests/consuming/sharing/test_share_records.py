"""Records of a share group: what of a response is handed out, what the user has in hand, and acknowledgements."""

from __future__ import annotations

from collections import deque
from typing import Any

import pytest

from coterie.consuming.record import ShareRecord
from coterie.consuming.sharing.acknowledgements import AcknowledgeType, acknowledgement_batches
from coterie.consuming.sharing.completed_fetch import CompletedShareFetch
from coterie.consuming.sharing.in_hand import RecordsInHand
from coterie.records.encoding import encode_batch
from coterie.records.markers import end_of_transaction
from coterie.wire.errors import ErrorCode
from tests.consuming.sharing.share_peer import T0, batch, part, tip

ACCEPT, RELEASE, REJECT, RENEW = AcknowledgeType


def completed(acquired: list[tuple[int, int, int]], records: bytes, *, check_crcs: bool = True) -> CompletedShareFetch:
    return CompletedShareFetch(1, tip(T0), part(T0, acquired, records)[1], 30_000, check_crcs)


def damaged(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


def refuse_5(record: ShareRecord[Any, Any]) -> ShareRecord[Any, Any]:
    if record.offset == 5:
        raise ValueError("five")
    return record


@pytest.mark.parametrize(
    ("types", "batches"),
    [
        ({}, []),
        ({0: 0}, [(0, 0, [0])]),
        ({0: 1, 1: 1}, [(0, 1, [1])]),
        ({0: 1, 1: 2, 2: 1}, [(0, 2, [1, 2, 1])]),
        ({0: 1, 2: 1}, [(0, 0, [1]), (2, 2, [1])]),
        (dict.fromkeys(range(10), 1) | {10: 2}, [(0, 10, [1] * 10 + [2])]),
        ({0: 2} | dict.fromkeys(range(1, 12), 1) | {12: 3}, [(0, 0, [2]), (1, 11, [1]), (12, 12, [3])]),
    ],
    ids=["none", "a_gap", "one_type", "several", "a_hole", "ten_in_a_row", "eleven_in_a_row"],
)
def test_the_batches_of_acknowledgements(types: dict[int, int], batches: list[tuple[int, int, list[int]]]) -> None:
    """testEmptyBatch testSingleState testMultiStateNonContiguous testOptimiseBatches (Kafka's AcknowledgementsTest)"""
    written = acknowledgement_batches(types)
    assert [(b.first_offset, b.last_offset, b.acknowledge_types) for b in written] == batches


def test_the_acquired_records_alone_are_handed_out() -> None:
    """testSimple testUnaligned testAcquireOddRecords testAcquiredRecords (ShareCompletedFetchTest)"""
    fetch = completed([(1, 1, 1), (3, 3, 4), (12, 12, 1)], batch(0, 10) + batch(10, 10))
    records = fetch.take(500, None).records
    assert [(r.offset, r.value, r.delivery_count) for r in records] == [(1, b"v1", 1), (3, b"v3", 4), (12, b"v12", 1)]
    assert fetch.is_consumed


def test_the_limit_is_rounded_up_to_a_batch() -> None:
    """testSoftMaxPollRecordLimit"""
    fetch = completed([(0, 19, 1)], batch(0, 10) + batch(10, 10))
    assert [len(fetch.take(3, None).records) for _ in range(3)] == [10, 10, 0]


def test_acquired_offsets_without_a_record_are_gaps() -> None:
    """testGapsForControlRecordsInAcquiredRange testMixedRecordsAndGaps testGapsWithControlRecordsAtBeginningAndEnd
    testNoRecordsInFetch testAcknowledgementsIncludeOnlyGaps testCommittedTransactionRecordsIncluded"""
    marker = bytearray(end_of_transaction(7, 0, True, 0, 0))
    marker[:8] = (3).to_bytes(8, "big")
    handed_out = completed([(0, 5, 1)], batch(0, 2) + bytes(marker) + batch(4, 1)).take(500, None)
    assert [r.offset for r in handed_out.records] == [0, 1, 4]
    assert handed_out.types == {2: 0, 3: 0, 5: 0}
    assert completed([(0, 1, 1)], b"").take(500, None).types == {0: 0, 1: 0}


def test_a_damaged_batch_is_rejected_after_the_records_before_it() -> None:
    """testCrcFailureAfterPartialFetch testCrcFailureWithGapsInBatch testCrcFailureOnFirstBatchThenSubsequentFetch"""
    fetch = completed([(0, 1, 1), (3, 4, 1), (6, 6, 1)], batch(0, 2) + damaged(batch(2, 3)) + batch(5, 2))
    assert [r.offset for r in fetch.take(500, None).records] == [0, 1]
    handed_out = fetch.take(500, None)
    assert (handed_out.types, handed_out.damaged) == ({3: REJECT, 4: REJECT}, {3, 4})
    assert str(handed_out.damage) == "the batch is damaged: its CRC-32C does not fit"
    assert [r.offset for r in fetch.take(500, None).records] == [6]


def test_damaged_batches_in_a_row_come_one_by_one() -> None:
    """testMultipleConsecutiveCrcFailures testCrcFailureWithUnalignedAcquiredRecords"""
    data = damaged(batch(0, 10)) + damaged(batch(10, 10)) + batch(20, 10) + batch(30, 10)
    fetch = completed([(5, 39, 1)], data)
    for first, last in ((5, 9), (10, 19)):
        handed_out = fetch.take(10, None)
        assert handed_out.types == dict.fromkeys(range(first, last + 1), REJECT)
        assert handed_out.damage is not None
        assert not handed_out.records
    assert [next(r.offset for r in fetch.take(10, None).records) for _ in range(2)] == [20, 30]


def test_a_limit_below_nothing() -> None:
    """testNegativeFetchCount"""
    handed_out = completed([(0, 9, 1)], batch(0, 10)).take(-10, None)
    assert (handed_out.records, handed_out.types) == ([], {})


def test_a_record_that_is_acquired_twice_has_its_first_delivery_count() -> None:
    """testOverlappingAcquiredRecordsLogsErrorAndRetainsFirstOccurrence"""
    records = completed([(0, 9, 1), (5, 14, 2)], batch(0, 20)).take(20, None).records
    assert [(r.offset, r.delivery_count) for r in records] == [(n, 1 if n < 10 else 2) for n in range(15)]


def test_a_batch_whose_last_record_is_compacted_away() -> None:
    """testFetchWithLastRecordMissingFromBatch testFetchNormal testHeaders"""
    data = bytearray(encode_batch([(0, b"0", b"v", ()), (0, b"1", b"v", (("h", b"x"), ("h", b"y")))]))
    data[23:27] = (2).to_bytes(4, "big")  # the last offset of the batch
    fetch = completed([(0, 2, 1)], bytes(data), check_crcs=False)
    handed_out = fetch.take(500, None)
    assert [(r.offset, [*r.headers]) for r in handed_out.records] == [(0, []), (1, [("h", b"x"), ("h", b"y")])]
    assert (handed_out.types, fetch.is_consumed, fetch.take(500, None).records) == ({2: 0}, True, [])


def test_a_checksum_counts_where_it_is_checked() -> None:
    """testCorruptedRecordsWithCrcCheckDisabled testInvalidDefaultRecordBatch testParseInvalidRecordBatch"""
    data = bytearray(batch(0, 1))
    data[17] ^= 1  # of the CRC itself
    assert completed([(0, 0, 1)], bytes(data)).take(1, None).types == {0: REJECT}
    assert [r.offset for r in completed([(0, 0, 1)], bytes(data), check_crcs=False).take(1, None).records] == [0]


def test_a_record_that_its_deserializer_refuses_is_released() -> None:
    """testRecordDeserializationException"""
    fetch = completed([(4, 6, 1)], batch(4, 3))
    assert [r.offset for r in fetch.take(500, refuse_5).records] == [4]
    handed_out = fetch.take(500, refuse_5)
    assert (handed_out.types, str(handed_out.damage)) == ({5: RELEASE}, "five")
    assert [r.offset for r in fetch.take(500, refuse_5).records] == [6]
    assert fetch.is_consumed


def in_hand(*fetches: CompletedShareFetch, limit: int = 500) -> RecordsInHand:
    records = RecordsInHand()
    records.take(deque(fetches), limit, refuse_5)
    return records


def test_what_is_acknowledged_is_in_hand_no_more() -> None:
    """testExplicitModeUnacknowledgedRecords testExplicitAcknowledgeThrowsNotInBatch"""
    hand = in_hand(completed([(0, 2, 1)], batch(0, 3)))
    hand.acknowledge(T0, 0, REJECT)
    assert [r.offset for r in hand.unacknowledged()] == [1, 2]
    with pytest.raises(LookupError, match="record 9 of t-0 is not in hand: it was not returned by the last poll"):
        hand.acknowledge(T0, 9, ACCEPT)
    hand.acknowledge_all(ACCEPT)
    (taken,) = hand.take_acknowledged()
    assert (taken.types, hand.records(), hand.take_acknowledged()) == ({0: REJECT, 1: ACCEPT, 2: ACCEPT}, {}, [])


def test_damage_is_reported_after_the_records_before_it_and_may_be_acknowledged_otherwise() -> None:
    """testExplicitOverrideAcknowledgeCorruptedMessage"""
    hand = in_hand(completed([(4, 5, 1)], batch(4, 2)))
    assert ([r.offset for r in hand.records()[T0]], hand.is_damaged) == ([4], False)
    hand.acknowledge_all(ACCEPT)
    hand.take_acknowledged()
    assert hand.is_damaged
    hand.take_damage()
    hand.acknowledge(T0, 5, REJECT)
    assert [each.types for each in hand.take_acknowledged()] == [{5: REJECT}]


def test_a_renewed_record_comes_back_before_others() -> None:
    """testWithRenew testExplicitModeRenewAndAcknowledgeOnPoll testPendingRenewAcknowledgementsWithException"""
    hand = in_hand(completed([(0, 2, 1)], batch(0, 3)))
    hand.acknowledge_all(ACCEPT)
    hand.acknowledge(T0, 1, RENEW)
    hand.acknowledge(T0, 2, RENEW)
    (taken,) = hand.take_acknowledged()
    waiting = deque([completed([(7, 7, 1)], batch(7, 1))])
    hand.take(waiting, 500, None)
    assert (hand.records(), hand.has_renewals) == ({}, True)
    taken.end(ErrorCode.NONE, lock_timeout_ms=15_000)
    hand.ended([taken])
    hand.take(waiting, 500, None)
    assert ([r.offset for r in hand.records()[T0]], hand.lock_timeout_ms) == ([1, 2], 15_000)
    hand.acknowledge_all(RENEW)
    (taken,) = hand.take_acknowledged()
    taken.end(ErrorCode.INVALID_RECORD_STATE)
    hand.ended([taken])
    hand.take(waiting, 500, None)
    assert [r.offset for r in hand.records()[T0]] == [7]


def test_headers_of_records() -> None:
    """testHeaders (ShareConsumeRequestManagerTest): none, one, and two of one name; testFetchNormal
    (ShareFetchCollectorTest): all of a fetch, and then nothing"""
    headers = [(), (("h", b"1"),), (("h", b"1"), ("h", b"2"))]
    data = bytes(encode_batch([(0, b"k", b"v", each) for each in headers]))
    fetch = completed([(0, 2, 1)], data)
    assert [list(record.headers) for record in fetch.take(500, None).records] == [list(each) for each in headers]
    assert fetch.take(500, None).records == []
    assert fetch.is_consumed
