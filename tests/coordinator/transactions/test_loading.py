"""A partition of `__transaction_state` is loaded, by the names of Kafka's TransactionStateManagerTest."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

import pytest

from coterie.coordinator.outcome import CoordinatorConfig
from coterie.coordinator.shard import Shard
from coterie.coordinator.stored_records.offsets_log import OffsetsLog
from coterie.coordinator.transactions.machine import TransactionMachine, WriteMarkers
from coterie.coordinator.transactions.state import Status, Transaction, load_by_chunks
from coterie.log.config import LogConfig
from coterie.log.filesystem import MemoryFileSystem
from coterie.log.partition_log import PartitionLog
from coterie.log.reading import SkippedBatch
from coterie.records.batch import read_header
from coterie.records.encoding import encode_batch, rebuild_batch
from tests.coordinator.transactions.coordinators import EPOCH, MAX_TIMEOUT_MS, NEW, NOW_MS, PRODUCER, A, B

DIRECTORY = "__transaction_state-0"
SMALL = LogConfig(segment_bytes=200, cleanup_compact=True, cleanup_delete=False)  # a batch in a segment


def stored(name: str, status: Status, *partitions: tuple[str, int]) -> Transaction:
    return Transaction(name, PRODUCER, EPOCH, 1_000, status, frozenset(partitions), NOW_MS, NOW_MS)


def batch_of(*states: Transaction) -> bytes:
    return encode_batch([(NOW_MS, state.key(), state.value(2), ()) for state in states])


def unexpected(batch: SkippedBatch) -> None:
    raise AssertionError(str(batch))


def loaded(log: PartitionLog) -> TransactionMachine:
    shard = TransactionMachine(MAX_TIMEOUT_MS, lambda: NEW, lambda: 2)

    def load(key: bytes | None, value: bytes | None, offset: int) -> None:
        assert key is not None
        shard.load(key, value)

    for _ in load_by_chunks(log, load, unexpected):
        pass
    return shard


def test_load_and_remove_transactions_for_partition() -> None:
    """testLoadAndRemoveTransactionsForPartition: the last state of each transactional id, from any start offset."""
    log = PartitionLog.open(MemoryFileSystem(), DIRECTORY, LogConfig(), clean=True, start_offset=15)
    one = stored("one", Status.PREPARE_COMMIT, A, B, ("c", 2))
    two = stored("two", Status.EMPTY)
    log.append_own(batch_of(replace(one, status=Status.ONGOING, partitions=frozenset({A}))), NOW_MS)
    log.append_own(batch_of(replace(one, status=Status.ONGOING), one, stored("two", Status.ONGOING, B)), NOW_MS)
    log.append_own(batch_of(stored("two", Status.PREPARE_ABORT, B), stored("two", Status.COMPLETE_ABORT), two), NOW_MS)
    log.append_own(batch_of(stored("gone", Status.EMPTY)), NOW_MS)
    log.append_own(encode_batch([(NOW_MS, stored("gone", Status.EMPTY).key(), None, ())]), NOW_MS)
    shard = loaded(log)
    assert shard.by_id == {"one": one, "two": two}
    assert shard.unload() == []
    assert shard.by_id == {}


@pytest.mark.parametrize(
    "status",
    [
        pytest.param(Status.PREPARE_COMMIT, id="shouldWriteTxnMarkersForTransactionInPreparedCommitState"),
        pytest.param(Status.PREPARE_ABORT, id="shouldWriteTxnMarkersForTransactionInPreparedAbortState"),
    ],
)
def test_the_markers_of_what_was_decided_are_written(status: Status) -> None:
    log = PartitionLog.open(MemoryFileSystem(), DIRECTORY, LogConfig(), clean=True)
    log.append_own(batch_of(stored("one", status, A, B), stored("two", Status.ONGOING, A)), NOW_MS)
    assert loaded(log).loaded(NOW_MS) == [WriteMarkers(stored("one", status, A, B))]


def test_a_transaction_of_a_clock_that_was_ahead_times_out_from_now_on() -> None:
    log = PartitionLog.open(MemoryFileSystem(), DIRECTORY, LogConfig(), clean=True)
    ahead = replace(stored("one", Status.ONGOING, A), started_ms=NOW_MS + 5 * 3_600_000)
    log.append_own(batch_of(ahead, stored("two", Status.ONGOING, A)), NOW_MS)
    shard = loaded(log)
    assert shard.loaded(NOW_MS - 10) == []
    assert shard.tick(NOW_MS - 10 + ahead.timeout_ms) == []
    late = shard.tick(NOW_MS - 10 + ahead.timeout_ms + 1)
    assert len(late) == 2


def test_all_other_times_stay_as_they_were_stored() -> None:
    log = PartitionLog.open(MemoryFileSystem(), DIRECTORY, LogConfig(), clean=True)
    earlier = replace(stored("one", Status.ONGOING, A), started_ms=NOW_MS - 500)
    decided = replace(stored("two", Status.PREPARE_COMMIT, A), started_ms=NOW_MS + 500)
    ended = replace(stored("three", Status.COMPLETE_COMMIT), started_ms=NOW_MS + 500)
    log.append_own(batch_of(earlier, decided, ended), NOW_MS)
    shard = loaded(log)
    shard.loaded(NOW_MS)
    assert shard.by_id == {"one": earlier, "two": decided, "three": ended}


def test_a_segment_that_ends_with_an_empty_batch() -> None:
    """testLoadTransactionMetadataContainingSegmentEndingWithEmptyBatch."""
    log = PartitionLog.open(MemoryFileSystem(), DIRECTORY, LogConfig(segment_bytes=200), clean=True)
    one, two = stored("one", Status.PREPARE_COMMIT, A), stored("two", Status.ONGOING, B)
    log.append_own(batch_of(one), NOW_MS)
    log.append_own(rebuild_batch(read_header(batch_of(two)), []), NOW_MS)
    log.append_own(batch_of(two), NOW_MS)
    assert [segment.base_offset for segment in log.segments] == [0, 2]
    assert loaded(log).by_id == {"one": one, "two": two}


def log_with_a_lost_end() -> PartitionLog:
    """Its last batch before an empty segment is damaged, so that nothing can be read up to its end."""
    fs = MemoryFileSystem()
    log = PartitionLog.open(fs, DIRECTORY, SMALL, clean=True)
    for name in ("one", "two", "three"):
        log.append_own(batch_of(stored(name, Status.ONGOING, A)), NOW_MS)
    log.close()
    paths = sorted(path for path in fs.files if path.endswith(".log"))
    fs.files[paths[1]].data[-3] ^= 0xFF
    fs.files[paths[2]].data.clear()
    return PartitionLog.open(fs, DIRECTORY, SMALL, clean=False)


def test_a_log_that_ends_with_nothing_is_loaded() -> None:
    """testLoadTransactionMetadataWithCorruptedLog."""
    log = log_with_a_lost_end()
    assert log.end_offset == 2
    names: list[bytes | None] = []
    chunks = list(islice(load_by_chunks(log, lambda key, value, offset: names.append(key), unexpected), 10))
    assert (chunks, names) == ([1], [stored("one", Status.EMPTY).key()])
    assert log.read(1, 1_000) == b""


def test_groups_are_loaded_from_such_a_log_too() -> None:
    chunks = OffsetsLog(log_with_a_lost_end()).load_by_chunks(Shard(CoordinatorConfig()))
    assert len(list(islice(chunks, 10))) == 1
