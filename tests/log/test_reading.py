"""Message sets out of a log: what comes where control batches and batches that are too large stand in the way."""

from __future__ import annotations

import pytest
from kafka.record.memory_records import MemoryRecords

from coterie.log.config import LogConfig
from coterie.log.filesystem import MemoryFileSystem
from coterie.log.partition_log import PartitionLog
from coterie.log.reading import cut_short, read_committed, read_message_set
from coterie.log.retention import delete_records
from coterie.records.batch import TRANSACTIONAL_BIT
from coterie.records.encoding import encode_batch
from coterie.records.markers import end_of_transaction
from coterie.records.message_sets import OVERSIZED
from coterie.wire.errors import ErrorCode, Refusal

NOW = 1_700_000_000_000


@pytest.fixture
def log() -> PartitionLog:
    """A record at 0, markers at 2, 4, 6 and 8 of transactions with one record each, and at 9 a record of 500 bytes."""
    log = PartitionLog.open(MemoryFileSystem(), "t-0", LogConfig(), clean=True)
    log.append(encode_batch([(NOW, b"k", b"v", ())]), NOW)
    for number in range(4):
        sent = encode_batch(
            [(NOW, b"k", b"v", ())],
            producer_id=7,
            producer_epoch=0,
            base_sequence=number,
            attributes=TRANSACTIONAL_BIT,
        )
        log.append(sent, NOW)
        log.append_own(end_of_transaction(7, 0, number % 2 == 0, 0, NOW), NOW)
    return log


def offsets(message_set: bytes) -> list[int]:
    decoded, records = [], MemoryRecords(message_set)
    while records.has_next():
        decoded += [r.offset for r in records.next_batch()]
    return decoded


def test_markers_are_left_out_of_message_sets(log: PartitionLog) -> None:
    assert offsets(read_message_set(log, 0, 100_000, 1, at_least_one=True)) == [0, 1, 3, 5, 7]


def test_a_read_goes_on_after_a_piece_with_nothing_but_markers(log: PartitionLog) -> None:
    """An old reader stays at its offset as long as it gets no message."""
    assert offsets(read_message_set(log, 2, 1, 1, at_least_one=True)) == [3]


def test_nothing_after_the_last_marker(log: PartitionLog) -> None:
    """Not a message cut short, which the readers of Kafka 0.8 to 1.1 take for one that is too large for them."""
    assert log.end_offset == 9
    assert read_message_set(log, 8, 100_000, 0, at_least_one=False) == b""
    assert cut_short(log, 8, 100_000) == b""


def test_a_batch_larger_than_the_limit(log: PartitionLog) -> None:
    log.append(encode_batch([(NOW, b"k", b"v" * 500, ())]), NOW)
    assert read_message_set(log, 9, 200, 0, at_least_one=False) == b""
    assert cut_short(log, 9, 200) == OVERSIZED
    assert cut_short(log, 9, 0) == b""
    assert offsets(read_message_set(log, 9, 200, 0, at_least_one=True)) == [9]


def test_outside_of_the_log(log: PartitionLog) -> None:
    with pytest.raises(Refusal) as refusal:
        read_message_set(log, 10, 100, 0, at_least_one=True)
    assert refusal.value.code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_committed_records_and_what_was_aborted(log: PartitionLog) -> None:
    records, aborted = read_committed(log, 0, 100_000, at_least_one=True)
    assert records == log.read(0, 100_000)
    assert [(a.first_offset, a.last_offset) for a in aborted] == [(3, 4), (7, 8)]
    still_open = encode_batch(
        [(NOW, b"k", b"v", ())], producer_id=8, producer_epoch=0, base_sequence=0, attributes=TRANSACTIONAL_BIT
    )
    log.append(still_open, NOW)
    assert read_committed(log, 0, 100_000, at_least_one=True)[0] == records
    assert read_committed(log, 9, 100_000, at_least_one=True) == (b"", [])


def test_an_open_transaction_is_not_read_where_the_log_begins_within_its_batch() -> None:
    log = PartitionLog.open(MemoryFileSystem(), "t-0", LogConfig(), clean=True)
    fields = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0, "attributes": TRANSACTIONAL_BIT}
    log.append(encode_batch([(NOW, b"k", b"v", ())] * 2, **fields), NOW)
    delete_records(log, 1)
    assert log.last_stable_offset == 1
    assert read_committed(log, 1, 100_000, at_least_one=True) == (b"", [])
