"""The leader epochs of a log: Kafka's LeaderEpochFileCacheTest, by its names (tests/kafka_names/cluster). Leader epochs
of batches before a replica's log start: its first segment has them, the checkpoint of epochs has not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.log.checked_files import Finding
from coterie.log.config import LogConfig
from coterie.log.filesystem import MemoryFileSystem
from coterie.log.leader_epochs import (
    UNDEFINED_EPOCH,
    UNDEFINED_OFFSET,
    EndOfEpoch,
    EpochStart,
    LeaderEpochCache,
    LogEpochs,
    read_epochs,
)
from coterie.log.partition_log import PartitionLog
from coterie.log.retention import delete_records
from coterie.records.encoding import encode_batch
from coterie_conformance.fuzzing.disk_fuzz import DIRECTORY

END = 100
THREE = ((2, 6), (3, 8), (4, 11))
ASSIGNED = {  # name: what is assigned, in order, and the entries
    "shouldNotOverwriteLogEndOffsetForALeaderEpochOnceItHasBeenAssigned": (((2, 9), (2, 10)), [(2, 9)]),
    "shouldNotOverwriteOffsetForALeaderEpochOnceItHasBeenAssigned": (((2, 6), (2, 10)), [(2, 6)]),
    "shouldNotUpdateEpochAndStartOffsetIfItDidNotChange": (((2, 6), (2, 7)), [(2, 6)]),
    "shouldEnforceMonotonicallyIncreasingStartOffsets": (((2, 9), (3, 9)), [(3, 9)]),
    "shouldEnforceMonotonicallyIncreasingEpochs": (((1, 5), (2, 6), (1, 7)), [(1, 7)]),
    "shouldEnforceOffsetsIncreaseMonotonically": (((2, 6), (3, 5)), [(3, 5)]),
    "shouldTruncateIfMatchingEpochButEarlierStartingOffset": (((5, 11), (6, 12), (7, 13), (7, 12)), [(5, 11), (7, 12)]),
}
FIVE_TO_SEVEN = ((5, 11), (6, 12), (7, 13))
EVEN = ((0, 10), (2, 13), (4, 17))
CHANGED_OFTEN = ((1, 11), (1, 12), (2, 13), (2, 14), (3, 15), (3, 16))
MANY_LEADERS = ((0, 0), (1, 0), (2, 5))
MANY_MESSAGES = ((0, 0), (0, 1), (0, 2), (1, 3), (1, 4), (1, 5), (2, 6), (2, 7), (2, 8))
UNKNOWN = (UNDEFINED_EPOCH, UNDEFINED_OFFSET)
ENDS = [  # name, what is assigned, the log's end, the requested epoch, its end
    ("shouldAddEpochAndMessageOffsetToCache", ((2, 10),), 11, 2, (2, 11)),
    ("shouldReturnLogEndOffsetIfLatestEpochRequested", ((2, 11), (2, 12)), 14, 2, (2, 14)),
    ("shouldReturnUndefinedOffsetIfUndefinedEpochRequested", ((2, 11), (3, 12)), 0, UNDEFINED_EPOCH, UNKNOWN),
    ("shouldReturnUnsupportedIfNoEpochRecorded", (), 0, 0, UNKNOWN),
    ("shouldReturnUnsupportedIfNoEpochRecordedAndUndefinedEpochRequested", (), 73, UNDEFINED_EPOCH, UNKNOWN),
    ("shouldFetchEndOffsetOfEmptyCache", (), 0, 7, UNKNOWN),
    ("shouldReturnFirstEpochIfRequestedEpochLessThanFirstEpoch", FIVE_TO_SEVEN, END, 4, (4, 11)),
    ("shouldTruncateIfMatchingEpochButEarlierStartingOffset", (*FIVE_TO_SEVEN, (7, 12)), END, 5, (5, 12)),
    ("shouldTruncateIfMatchingEpochButEarlierStartingOffset", (*FIVE_TO_SEVEN, (7, 12)), END, 6, (5, 12)),
    ("shouldGetFirstOffsetOfSubsequentEpochWhenOffsetRequestedForPreviousEpoch", CHANGED_OFTEN, 17, 2, (2, 15)),
    ("shouldReturnNextAvailableEpochIfThereIsNoExactEpochForTheOneRequested", EVEN, END, 1, (0, 13)),
    ("shouldReturnNextAvailableEpochIfThereIsNoExactEpochForTheOneRequested", EVEN, END, 2, (2, 17)),
    ("shouldReturnNextAvailableEpochIfThereIsNoExactEpochForTheOneRequested", EVEN, END, 3, (2, 17)),
    ("shouldReturnInvalidOffsetIfEpochIsRequestedWhichIsNotCurrentlyTracked", ((2, 100),), 100, 3, UNKNOWN),
    ("shouldSupportEpochsThatDoNotStartFromZero", ((2, 6),), 7, 2, (2, 7)),
    ("shouldEnforceMonotonicallyIncreasingEpochs", ((1, 5), (2, 6), (1, 7)), 8, 1, (1, 8)),
    ("shouldEnforceMonotonicallyIncreasingEpochs", ((1, 5), (2, 6), (1, 7)), 8, 2, UNKNOWN),
    ("shouldIncreaseAndTrackEpochsAsLeadersChangeManyTimes", MANY_LEADERS[:1], 0, 0, (0, 0)),
    ("shouldIncreaseAndTrackEpochsAsLeadersChangeManyTimes", MANY_LEADERS[:2], 0, 1, (1, 0)),
    ("shouldIncreaseAndTrackEpochsAsLeadersChangeManyTimes", MANY_LEADERS[:2], 5, 0, (0, 0)),
    ("shouldIncreaseAndTrackEpochsAsLeadersChangeManyTimes", MANY_LEADERS[:2], 5, 1, (1, 5)),
    ("shouldIncreaseAndTrackEpochsAsLeadersChangeManyTimes", MANY_LEADERS, 10, 2, (2, 10)),
    ("shouldIncreaseAndTrackEpochsAsLeadersChangeManyTimes", MANY_LEADERS, 10, 1, (1, 5)),
    ("shouldIncreaseAndTrackEpochsAsLeadersChangeManyTimes", MANY_LEADERS, 10, 0, (0, 0)),
    ("shouldIncreaseAndTrackEpochsAsFollowerReceivesManyMessages", MANY_MESSAGES[:3], 3, 0, (0, 3)),
    ("shouldIncreaseAndTrackEpochsAsFollowerReceivesManyMessages", MANY_MESSAGES[:6], 6, 1, (1, 6)),
    ("shouldIncreaseAndTrackEpochsAsFollowerReceivesManyMessages", MANY_MESSAGES, 9, 2, (2, 9)),
    ("shouldIncreaseAndTrackEpochsAsFollowerReceivesManyMessages", MANY_MESSAGES, 9, 0, (0, 3)),
    ("shouldIncreaseAndTrackEpochsAsFollowerReceivesManyMessages", MANY_MESSAGES, 9, 1, (1, 6)),
]
CUTS = {  # name: where the log ends now, and the entries that are left of THREE
    "shouldDropEntriesOnEpochBoundaryWhenRemovingLatestEntries": (8, [(2, 6)]),
    "shouldDropEntriesBetweenEpochBoundaryWhenRemovingNewest": (9, [(2, 6), (3, 8)]),
    "shouldNotResetEpochHistoryHeadIfUndefinedPassed": (UNDEFINED_OFFSET, [*THREE]),
    "shouldNotResetEpochHistoryTailIfUndefinedPassed": (UNDEFINED_OFFSET, [*THREE]),
}
FROM_ZERO = ((0, 0), (1, 7), (2, 10))
STARTS = {  # name: the entries, where the log starts now, and what is left
    "shouldPreserveResetOffsetOnClearEarliestIfOneExists": (THREE, 8, [(3, 8), (4, 11)]),
    "shouldUpdateSavedOffsetWhenOffsetToClearToIsBetweenEpochs": (THREE, 9, [(3, 9), (4, 11)]),
    "shouldNotClearAnythingIfOffsetToEarly": (THREE, 1, [*THREE]),
    "shouldNotClearAnythingIfOffsetToFirstOffset": (THREE, 6, [*THREE]),
    "shouldRetainLatestEpochOnClearAllEarliest": (THREE, 11, [(4, 11)]),
    "shouldUpdateOffsetBetweenEpochBoundariesOnClearEarliest": (THREE, 9, [(3, 9), (4, 11)]),
    "shouldUpdateOffsetBetweenEpochBoundariesOnClearEarliest2": (FROM_ZERO, 5, [(0, 5), (1, 7), (2, 10)]),
    "shouldRetainLatestEpochOnClearAllEarliestAndUpdateItsOffset": (THREE, 15, [(4, 15)]),
}
NOW = 1_700_000_000_000


def cache(*entries: tuple[int, int]) -> LeaderEpochCache:
    made = LeaderEpochCache()
    for epoch, start_offset in entries:
        made.assign(epoch, start_offset)
    return made


def entries(made: LeaderEpochCache) -> list[tuple[int, int]]:
    return [(e.epoch, e.start_offset) for e in made.entries]


@pytest.mark.parametrize("name", ASSIGNED)
def test_epochs_that_are_assigned(name: str) -> None:
    assigned, kept = ASSIGNED[name]
    assert entries(cache(*assigned)) == kept


@pytest.mark.parametrize(("name", "assigned", "log_end", "epoch", "end"), ENDS)
def test_the_end_of_an_epoch(
    name: str, assigned: tuple[tuple[int, int], ...], log_end: int, epoch: int, end: tuple[int, int]
) -> None:
    made = cache(*assigned)
    assert made.end_of(epoch, log_end) == EndOfEpoch(*end)
    assert made.latest == (assigned[-1][0] if assigned else UNDEFINED_EPOCH)


def test_should_fetch_latest_epoch_of_empty_cache() -> None:
    """shouldFetchLatestEpochOfEmptyCache"""
    assert cache().latest == UNDEFINED_EPOCH


@pytest.mark.parametrize("name", CUTS)
def test_entries_behind_the_end_go(name: str) -> None:
    end_offset, left = CUTS[name]
    made = cache(*THREE)
    made.truncate_from_end(end_offset)
    assert entries(made) == left
    assert made.latest == left[-1][0]


@pytest.mark.parametrize("name", STARTS)
def test_entries_before_the_start_go_but_for_the_last(name: str) -> None:
    assigned, start_offset, left = STARTS[name]
    made = cache(*assigned)
    made.truncate_from_start(start_offset)
    assert entries(made) == left


def test_an_empty_cache_stays_empty() -> None:
    """shouldClearEarliestOnEmptyCache, shouldClearLatestOnEmptyCache"""
    made = cache()
    made.truncate_from_start(7)
    made.truncate_from_end(7)
    assert entries(made) == []


def test_the_file_keeps_epochs_between_two_processes() -> None:
    """shouldPersistEpochsBetweenInstances, shouldClearAllEntries"""
    fs = MemoryFileSystem()
    fs.make_directory("t-5")
    before = LogEpochs(fs, "t-5")
    before.assign(2, 6)
    before.write()
    after = LogEpochs(fs, "t-5")
    assert after.load(fs.names("t-5"), None)
    assert after.cache.entries == [EpochStart(2, 6)]
    after.clear()
    assert after.cache.entries == []
    after.write()
    assert read_epochs(fs, "t-5", fs.names("t-5")) == []


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 12)), max_size=12))
def test_epochs_and_offsets_rise_whatever_is_assigned(assigned: list[tuple[int, int]]) -> None:
    made = cache(*assigned)
    kept = entries(made)
    assert kept == sorted(kept)
    assert len({e for e, _ in kept}) == len({o for _, o in kept}) == len(kept)


@given(st.lists(st.integers(0, 2), min_size=1, max_size=12), st.integers(-1, 30))
def test_the_end_of_an_epoch_is_where_the_next_begins(steps: list[int], requested: int) -> None:
    """Beside a log of which every record's epoch is known."""
    epochs = [sum(steps[: n + 1]) for n in range(len(steps))]
    made = LeaderEpochCache()
    for offset, epoch in enumerate(epochs):
        made.assign(epoch, offset)
    response = made.end_of(requested, len(epochs))
    if requested < 0 or requested > epochs[-1]:
        assert response == EndOfEpoch()
    else:
        assert response.end_offset == sum(epoch <= requested for epoch in epochs)


def append(log: PartitionLog, epoch: int, count: int) -> None:
    """So many batches in that epoch."""
    log.begin_epoch(epoch)
    for _ in range(count):
        log.append(encode_batch([(NOW, b"k", b"v", ())]), NOW)


def test_a_crash_after_the_start_was_moved_changes_no_epoch() -> None:
    """The start was not noted yet. The batches before it got the epoch of those behind, and followers asked for its end."""
    fs, config = MemoryFileSystem(), LogConfig()
    log = PartitionLog.open(fs, DIRECTORY, config, clean=True, high_watermark=0)
    append(log, 2, 1)
    append(log, 5, 3)
    log.move_high_watermark(4)
    assert delete_records(log, 2) == 2
    append(log, 7, 2)
    assert [(entry.epoch, entry.start_offset) for entry in log.epochs.cache.entries] == [(5, 2), (7, 4)]
    findings: list[Finding] = []
    log = PartitionLog.open(fs, DIRECTORY, config, clean=False, high_watermark=4, report=findings.append)
    assert [header.leader_epoch for _, header in log.segments[0].headers(0)] == [2, 5, 5, 5, 7, 7]
    assert [finding.file for finding in findings] == [f"{DIRECTORY}/leader-epoch-checkpoint"], "read from the batches"
    assert log.epochs.cache.end_of(2, log.end_offset).end_offset == 1
