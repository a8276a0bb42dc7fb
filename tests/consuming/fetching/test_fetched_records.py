"""What a consumer is handed of fetched batches, and where its position is then; tests named as in Kafka's
FetchRequestManagerTest, FetchCollectorTest and CompletedFetchTest are in brackets, or name a row."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Collection, Sequence
from typing import NamedTuple

import pytest

from coterie.client.errors import RecordDeserializationError
from coterie.client.serialization import IntegerDeserializer, RecordDeserializers
from coterie.records.batch import CONTROL_BIT, TIMESTAMP_TYPE_BIT, TRANSACTIONAL_BIT, Header, read_header, stamp
from coterie.records.compression import CODEC_BY_NAME
from coterie.records.decoding import decode_records
from coterie.records.encoding import encode_batch, rebuild_batch, sealed
from coterie.records.markers import end_of_transaction
from coterie.records.message_sets import to_message_set
from coterie.wire.messages.logs.fetch import AbortedTransaction, PartitionData
from tests.consuming.cluster import T0, T1
from tests.consuming.driven import Driven

P, Q, R = 1, 2, 3  # producers
Item = tuple[int, bytes | None, bytes | None, Sequence[Header]]


def at(offset: int, batch: bytes, epoch: int = 0) -> bytes:
    data = bytearray(batch)
    stamp(data, 0, offset, epoch)
    return bytes(data)


def records(offset: int, count: int, epoch: int = 0) -> bytes:
    return at(offset, encode_batch([(0, b"key", b"value", ())] * count), epoch)


def transactional(producer_id: int, offset: int, count: int = 1) -> bytes:
    items: list[Item] = [(0, b"key", b"value", ())] * count
    batch = encode_batch(items, producer_id=producer_id, producer_epoch=0, attributes=TRANSACTIONAL_BIT)
    return at(offset, batch)


def abort(producer_id: int, offset: int) -> bytes:
    return at(offset, end_of_transaction(producer_id, 0, False, 0, 1))


def commit(producer_id: int, offset: int) -> bytes:
    return at(offset, end_of_transaction(producer_id, 0, True, 0, 1))


def compacted(batch: bytes, kept: Collection[int]) -> bytes:
    header = read_header(batch)
    return rebuild_batch(header, [r for r in decode_records(batch, 0, header) if r.offset in kept])


def empty(first: int, last: int, attributes: int = 0) -> bytes:
    header = read_header(encode_batch([(0, None, None, ())], base_offset=first, producer_id=P))
    return sealed(b"", header._replace(last_offset_delta=last - first, record_count=0, attributes=attributes))


INTERLEAVED = [
    transactional(P, 0, 2),
    transactional(Q, 2),
    commit(P, 3),
    transactional(Q, 4),
    abort(Q, 5),
    transactional(P, 6),
    transactional(Q, 7),
    transactional(P, 8),
    abort(P, 9),
    commit(Q, 10),
]
COMPACTED_TRANSACTIONS = [
    transactional(R, 3, 2),
    transactional(Q, 15, 3),
    transactional(P, 22, 2),
    abort(Q, 28),
    transactional(R, 30, 3),
    commit(R, 35),
    transactional(P, 39, 2),
]


class Case(NamedTuple):
    """Of an empty position at ``begin``: the response's batches, the offsets handed out, and the position then. ``aborted``:
    (producer, first offset)."""

    batches: list[bytes]
    offsets: list[int]
    position: int
    committed_only: bool = False
    aborted: list[tuple[int, int]] = []
    begin: int = 0


ABORTED_TEN = [transactional(P, 0, 10), abort(P, 10)]
CASES = {
    "testFetcherIgnoresControlRecords": Case([transactional(P, 0), abort(P, 1)], [0], 2),
    "testFetchNonContinuousRecords": Case([compacted(records(0, 31), {15, 20, 30})], [15, 20, 30], 31),
    "testUpdatePositionWithLastRecordMissingFromBatch": Case([compacted(records(0, 4), {0, 1, 2})], [0, 1, 2], 4),
    "testUpdatePositionOnEmptyBatch": Case([empty(37, 54)], [], 55),
    "testNoRecordsInFetch": Case([], [], 1, begin=1),
    "testEmptyControlBatch": Case(
        [empty(0, 0, TRANSACTIONAL_BIT | CONTROL_BIT), transactional(P, 1, 2), commit(P, 3)], [1, 2], 4, True
    ),
    "testSkippingAbortedTransactions": Case([transactional(P, 0, 2), abort(P, 2)], [], 3, True, [(P, 0)]),
    "testConsumerPositionUpdatedWhenSkippingAbortedTransactions": Case(
        [transactional(P, 0, 2), abort(P, 2)], [], 3, True, [(P, 0)]
    ),
    "testReturnAbortedTransactionsInUncommittedMode": Case(
        [transactional(P, 0, 2), abort(P, 2)], [0, 1], 3, False, [(P, 0)]
    ),
    "testReturnCommittedTransactions": Case([transactional(P, 0, 2), commit(P, 2)], [0, 1], 3, True),
    "testReadCommittedWithCommittedAndAbortedTransactions": Case(INTERLEAVED, [0, 1, 7], 11, True, [(Q, 2), (P, 6)]),
    "testMultipleAbortMarkers": Case(
        [transactional(P, 0, 2), abort(P, 2), abort(P, 3), transactional(P, 4, 2), commit(P, 6)],
        [4, 5],
        7,
        True,
        [(P, 0)],
    ),
    "testReadCommittedAbortMarkerWithNoData": Case(
        [abort(P, 5), transactional(P, 6, 3), commit(P, 9)], [6, 7, 8], 10, True, [(P, 0)]
    ),
    "testReadCommittedWithCompactedTopic": Case(COMPACTED_TRANSACTIONS, [3, 4, 30, 31, 32], 41, True, [(Q, 6), (P, 0)]),
    "testAbortedTransactionRecordsRemoved": Case(ABORTED_TEN, [], 11, True, [(P, 0)]),
    "testAbortedTransactionRecordsRemoved, read_uncommitted": Case(ABORTED_TEN, [*range(10)], 11, False, [(P, 0)]),
    "testCommittedTransactionRecordsIncluded": Case([transactional(P, 0, 10), commit(P, 10)], [*range(10)], 11, True),
}


def received(data: bytes, begin: int = 0, aborted: Sequence[tuple[int, int]] = (), **config: object) -> Driven:
    """A consumer of T0 that has the response and polls next."""
    driven = Driven({T0: begin}, **config)
    respond(driven, data, aborted)
    return driven


def respond(driven: Driven, data: bytes, aborted: Sequence[tuple[int, int]] = ()) -> bool:
    row = PartitionData(high_watermark=100, last_stable_offset=100, records=data)
    row.aborted_transactions = [AbortedTransaction(*of) for of in aborted]
    return driven.respond(driven.sent(), {T0: row})


def position(driven: Driven) -> int:
    return driven.machine.positions[T0].offset


@pytest.mark.parametrize("name", CASES)
def test_what_is_handed_out_of_batches(name: str) -> None:
    case = CASES[name]
    driven = received(b"".join(case.batches), case.begin, case.aborted, committed_only=case.committed_only)
    assert driven.offsets().get(T0, []) == case.offsets
    assert position(driven) == case.position
    assert driven.sent().wanted[T0][0] == case.position


def test_records_come_in_polls_of_at_most_so_many() -> None:
    """[testSimple] The batch begins after the position."""
    driven = received(records(10, 11), begin=5)
    assert driven.offsets(10) == {T0: [*range(10, 20)]}
    assert driven.offsets(10) == {T0: [20]}
    assert driven.offsets(10) == {}
    assert position(driven) == 21


def test_a_poll_of_fewer_than_no_records_takes_none() -> None:
    """[testNegativeFetchCount]"""
    driven = received(records(0, 10))
    assert driven.offsets(-10) == {}
    assert position(driven) == 0


def test_a_response_without_transactions_after_one_with_an_aborted_one() -> None:
    """[testReadCommittedWithAbortedTransaction] Records that are not transactional are handed out, whatever marker follows."""
    driven = received(transactional(P, 0, 20) + abort(P, 20), 0, [(P, 0)], committed_only=True)
    assert driven.offsets() == {}
    assert (position(driven), driven.machine.positions[T0].offset_epoch) == (21, 0)
    respond(driven, records(21, 20) + abort(P, 41), [(P, 21)])
    assert driven.offsets() == {T0: [*range(21, 41)]}
    assert (position(driven), driven.machine.positions[T0].offset_epoch) == (42, 0)


def test_a_record_has_the_epoch_of_its_leader() -> None:
    """[testLeaderEpochInConsumerRecord]"""
    data = records(0, 2, 1) + records(2, 1, 8) + records(3, 3, 13)
    polled = received(data).machine.take(100)[T0]
    assert [record.leader_epoch for record in polled] == [1, 1, 8, 13, 13, 13]


def test_the_position_has_the_epoch_of_the_record_before() -> None:
    """[testSubscriptionPositionUpdatedWithEpoch]"""
    driven = received(records(0, 3, 1))
    driven.offsets()
    assert (position(driven), driven.machine.positions[T0].offset_epoch) == (3, 1)


def test_headers_come_in_order() -> None:
    """[testHeaders]"""
    two = (("headerKey", b"headerValue"), ("headerKey", b"headerValue2"))
    items: list[Item] = [(0, b"key", b"value", two[:n]) for n in range(3)]
    polled = received(at(1, encode_batch(items)), begin=1).machine.take(100)[T0]
    assert [record.headers for record in polled] == [(), two[:1], two]


def test_records_of_partitions_that_are_not_assigned_any_more_are_dropped() -> None:
    """[testClearBufferedDataForTopicPartitions]"""
    driven = received(records(0, 3))
    assert driven.machine.positions[T0].is_buffered()
    driven.machine.assign([T1])
    assert driven.offsets() == {}


def flipped(data: bytes) -> bytes:
    changed = bytearray(data)
    changed[35] ^= 87
    return bytes(changed)


@pytest.mark.parametrize("data", [bytes(8), flipped(records(0, 3))], ids=["incomplete", "wrong CRC"])
def test_bytes_that_cannot_be_read_are_damage_at_the_position(data: bytes) -> None:
    """[testFetchRequestInternalError, testParseInvalidRecordBatch]"""
    driven = received(data)
    for _ in range(2):
        assert driven.offsets() == {}
        due = driven.machine.damage_due()
        assert due is not None
        assert (due[0], due[1].offset, position(driven)) == (T0, 0, 0)


def damaged(driven: Driven, deserialize: RecordDeserializers) -> RecordDeserializationError:
    """What a poll that returns nothing raises."""
    assert driven.machine.take(10, deserialize) == {}
    due = driven.machine.damage_due()
    assert due is not None
    assert isinstance(due[1].cause, RecordDeserializationError)
    return due[1].cause


def test_a_value_that_is_refused_holds_the_position() -> None:
    """[testFetchedRecordsRaisesOnSerializationErrors]"""

    def refuse(_topic: str, _data: bytes) -> bytes:
        raise ValueError

    driven = received(records(1, 3), begin=1)
    for _ in range(2):
        assert damaged(driven, RecordDeserializers(None, refuse)).part == "value"
        assert position(driven) == 1


def test_an_error_of_a_deserializer_names_the_record() -> None:
    """[testCorruptedMessage] Keys and values are integers of four bytes; the ones of two records are not."""
    items: list[Item] = [
        (0, b"four", None, ()),
        (0, b"key", b"value", ()),
        (0, b"four", None, ()),
        (10, b"four", b"otherValue", (("hkey", b"hvalue"),)),
    ]
    deserialize = RecordDeserializers(IntegerDeserializer().deserialize, IntegerDeserializer().deserialize)
    driven = received(encode_batch(items))
    assert [r.offset for r in driven.machine.take(10, deserialize)[T0]] == [0]
    error = damaged(driven, deserialize)
    assert (error.part, error.topic, error.partition, error.offset) == ("key", "t", 0, 1)
    assert (error.record.key, error.record.value, error.record.timestamp_ms) == (b"key", b"value", 0)
    assert error.record.headers == ()
    driven.machine.seek(T0, 2)
    respond(driven, encode_batch(items))
    assert [r.offset for r in driven.machine.take(10, deserialize)[T0]] == [2]
    error = damaged(driven, deserialize)
    assert (error.part, error.topic, error.partition, error.offset) == ("value", "t", 0, 3)
    assert (error.record.key, error.record.value, error.record.timestamp_ms) == (b"four", b"otherValue", 10)
    assert error.record.headers == (("hkey", b"hvalue"),)


# -- messages of formats 0 and 1 ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", ["none", "gzip", "lz4"])
@pytest.mark.parametrize("magic", [0, 1])
def test_old_messages_are_read_without_a_leader_epoch(magic: int, codec: str) -> None:
    """[testMissingLeaderEpochInRecords] The position is within the second set; what comes after them is of format 2."""
    items: list[Item] = [(1_000 + n, None, b"%d" % n, ()) for n in range(3)]
    sets = [at(first, encode_batch(items, codec=CODEC_BY_NAME[codec])) for first in (0, 10)]
    data = b"".join(to_message_set(one, magic, 0) for one in sets)
    polled = received(data + records(13, 1, 4), begin=11).machine.take(100)[T0]
    times = [1_001, 1_002] if magic else [-1, -1]
    assert [(r.offset, r.value, r.timestamp_ms, r.leader_epoch) for r in polled] == [
        (11, b"1", times[0], -1),
        (12, b"2", times[1], -1),
        (13, b"value", 0, 4),
    ]


def test_old_messages_have_the_time_of_their_append() -> None:
    batch = encode_batch([(1_000, None, b"a", ()), (2_000, None, b"b", ())], codec=CODEC_BY_NAME["gzip"])
    message_set = bytearray(to_message_set(batch, 1, 0))
    message_set[17] |= TIMESTAMP_TYPE_BIT
    struct.pack_into(">q", message_set, 18, 5_000)
    struct.pack_into(">I", message_set, 12, zlib.crc32(message_set[16:]))
    polled = received(bytes(message_set)).machine.take(100)[T0]
    assert [(r.offset, r.timestamp_ms, r.timestamp_type.name) for r in polled] == [
        (0, 5_000, "LOG_APPEND_TIME"),
        (1, 5_000, "LOG_APPEND_TIME"),
    ]


def test_offsets_within_a_wrapper_are_not_beyond_its_own() -> None:
    batch = encode_batch([(1_000, None, b"a", ()), (2_000, None, b"b", ())], codec=CODEC_BY_NAME["gzip"])
    message_set = bytearray(to_message_set(batch, 1, 0))
    message_set[:8] = bytes(8)
    due = received(bytes(message_set)).machine.damage_due()
    assert due is not None
    assert "lower offset" in str(due[1].cause)


def test_an_old_message_that_cannot_be_read_stops_the_position_until_a_seek() -> None:
    """[testParseCorruptedRecord] The second has a wrong CRC; the fourth claims one byte, and nothing behind it can be read."""
    messages = [bytearray(to_message_set(records(offset, 1), 1, 0)) for offset in range(5)]
    messages[1][12] ^= 1
    messages[3][8:] = (1).to_bytes(4, "big")
    data = b"".join(messages)
    driven = received(data)
    assert driven.offsets() == {T0: [0]}
    for blocked, sought, offsets in ((1, 2, {T0: [2]}), (3, 4, {}), (4, 4, {})):
        for _ in range(2):
            assert driven.offsets() == {}
            due = driven.machine.damage_due()
            assert due is not None
            assert (due[1].offset, position(driven)) == (blocked, blocked)
        driven.machine.seek(T0, sought)
        assert driven.machine.damage_due() is None
        respond(driven, data)
        assert driven.offsets() == offsets
