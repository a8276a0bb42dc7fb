"""A fetch acquires records: what was released first, then new ones (Kafka's SharePartition.acquire).

The unit is the batch, as it lies in the log or as it was acquired before, so that a client acknowledges with few entries. A
record at its last delivery is delivered alone, and records that are half-way there in ever smaller numbers: else one bad
record would take its whole batch to the archive.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from coterie.share.in_flight import Batch, OffsetRun
from coterie.share.partition import SharePartition, archive
from coterie.share.states import RecordState

BATCH_OPTIMIZED, RECORD_LIMIT = 0, 1


@dataclass(frozen=True, slots=True)
class Acquiring:
    """What a request wants of a partition. ``max_records`` may be exceeded up to the end of a batch, unless ``record_limit``
    (KIP-1206)."""

    member_id: str
    max_records: int
    batch_size: int
    record_limit: bool
    now_ms: int


class LogBatch(NamedTuple):
    """The offsets of a record batch of the log, both included. ``aborted``: of a transaction that was, for a reader of
    committed records."""

    first: int
    last: int
    aborted: bool = False


class Acquired(NamedTuple):
    """Offsets that a member has acquired, with the number of times that they were delivered, this one included."""

    first: int
    last: int
    delivery_count: int

    @property
    def size(self) -> int:
        return self.last - self.first + 1


def acquire(
    partition: SharePartition, request: Acquiring, fetch_offset: int, batches: Sequence[LogBatch]
) -> list[Acquired]:
    """Acquires of ``batches``, which were read from the log at ``fetch_offset``."""
    if request.max_records <= 0 or not batches or batches[-1].last < partition.start_offset:
        return []
    last, most = _bounds(partition, fetch_offset, request.max_records, batches[-1].last)
    if most <= 0:
        return []
    _archive_compacted(partition, fetch_offset, batches[0].first)
    base = _base_offset(partition, batches[0].first)
    known = partition.in_flight.between(min(batches[0].first, base), last)
    if known:
        acquired = _Reacquisition(partition, request, batches, last, most).acquire(known, base)
    else:
        acquired, _ = _acquire_new(partition, request, batches, (base, last), most)
    return _without_aborted(partition, acquired, batches)


def _bounds(partition: SharePartition, fetch_offset: int, max_records: int, last: int) -> tuple[int, int]:
    """The last offset to acquire, and how many. A full window gives out what has come back, and nothing new."""
    most = min(max_records, partition.limits.max_record_locks - partition.record_count)
    if most <= 0 and fetch_offset <= partition.end_offset:
        return min(last, partition.end_offset), min(max_records, partition.end_offset - fetch_offset + 1)
    return last, most


def _archive_compacted(partition: SharePartition, fetch_offset: int, first: int) -> None:
    """What was requested of the log and is no longer there: it begins later than the fetch offset."""
    if partition.in_flight and fetch_offset < first:
        partition.delete(fetch_offset, first - 1)


def _base_offset(partition: SharePartition, first: int) -> int:
    floor = partition.in_flight.floor(first)
    if floor is None:
        return max(first, partition.start_offset)
    return floor.first if floor.last >= first else first


@dataclass(slots=True)
class _Reacquisition:
    """A fetch that reaches into the window. ``most``: how many are still acquired; 0 once no more may be."""

    partition: SharePartition
    request: Acquiring
    log: Sequence[LogBatch]
    last: int
    most: int
    count: int = 0

    def acquire(self, known: list[Batch], expected: int) -> list[Acquired]:
        acquired: list[Acquired] = []
        for batch in known:
            if self.count >= self.most:
                break
            if self.partition.open_hole is not None:
                if expected < batch.first:
                    acquired += self._new(expected, batch.first - 1)
                expected = batch.last + 1
                if self.count >= self.most:
                    break
            if not self._of_batch(batch, acquired):
                break
        end = known[-1].last
        if self.count < self.most and end < self.last:
            acquired += self._new(end + 1, self.last)
        if acquired:
            _fill_hole(self.partition, acquired[-1].last + 1)
        return acquired

    def _new(self, first: int, last: int) -> list[Acquired]:
        acquired, count = _acquire_new(self.partition, self.request, self.log, (first, last), self.most - self.count)
        self.count += count
        return acquired

    def _of_batch(self, batch: Batch, acquired: list[Acquired]) -> bool:
        """Acquires what is available of a batch; False: nothing more may be acquired."""
        first = self.log[0].first
        throttled = self._is_throttled(batch)
        if throttled and self.count > 0:
            self.most = 0
            return False
        left = self.most - self.count
        too_large = self.request.record_limit and batch.last - batch.first + 1 > left
        if batch.is_within(first, self.last) and not batch.is_split and not too_large and not throttled:
            run = batch.whole
            if run.is_free:
                _lock(self.partition, run, self.request)
                acquired.append(Acquired(run.first, run.last, run.delivery_count))
                self.count += run.count
            return True
        if not batch.is_split and not batch.whole.is_free:
            return True
        part = self._of_parts(batch, left)
        acquired += part
        count = sum(each.size for each in part)
        self.count += count
        if throttled and count > 0:
            self.most = 0
            return False
        return True

    def _is_throttled(self, batch: Batch) -> bool:
        limit, first = self.partition.limits.throttled_from, self.log[0].first
        if not batch.is_split:
            return batch.whole.is_free and batch.whole.delivery_count >= limit
        return any(
            run.is_free and run.delivery_count >= limit
            for run in batch.runs
            if run.last >= first and run.first <= self.last
        )

    def _of_parts(self, batch: Batch, left: int) -> list[Acquired]:
        """Acquires record by record, neighbours of one delivery count together."""
        limits = self.partition.limits
        limit, size = limits.delivery_count_limit, batch.last - batch.first + 1
        acquired: list[Acquired] = []
        count, most_throttled = 0, -1
        for run in [run for run in batch.cut(self.log[0].first, self.last) if run.is_free]:
            before = run.delivery_count
            if limit > 2 and before == limit - 1 and count > 0:
                break
            if before >= limits.throttled_from and most_throttled < 0:
                most_throttled = max(1, size >> (before - limits.throttled_from + 1))
            is_last_delivery = limit > 2 and before == limit - 1
            most = 1 if is_last_delivery else run.count
            if self.request.record_limit:
                most = min(most, left - count)
            if count < most_throttled:
                most = min(most, most_throttled - count)
            taken = batch.cut(run.first, run.first + most - 1)[0]
            _lock(self.partition, taken, self.request)
            _append(acquired, Acquired(taken.first, taken.last, taken.delivery_count))
            count += taken.count
            if is_last_delivery or most < run.count or count == most_throttled:
                break
            if self.request.record_limit and count == left:
                break
        batch.join()
        return acquired


def _append(acquired: list[Acquired], part: Acquired) -> None:
    last = acquired[-1] if acquired else None
    if last is not None and last.last + 1 == part.first and last.delivery_count == part.delivery_count:
        acquired[-1] = Acquired(last.first, part.last, part.delivery_count)
    else:
        acquired.append(part)


def _lock(partition: SharePartition, run: OffsetRun, request: Acquiring) -> None:
    run.state, run.member_id = RecordState.ACQUIRED, request.member_id
    run.delivery_count += 1
    run.deadline_ms = request.now_ms + partition.limits.record_lock_duration_ms


def _acquire_new(
    partition: SharePartition, request: Acquiring, log: Sequence[LogBatch], offsets: tuple[int, int], most: int
) -> tuple[list[Acquired], int]:
    """Acquires offsets that are not in the window, and the number of them that counts: up to the end of a batch of the log."""
    first, last = offsets
    if not partition.in_flight:
        first = max(first, partition.end_offset)
    if most < last - first + 1:
        limit = last
        last = _end_of_batch(log, first + most - 1)
        if partition.open_hole is not None:
            last = min(last, limit)
    if request.record_limit:
        acquired = [_add(partition, request, first, last, min(most, last - first + 1))]
    else:
        parts = _parts(log, first, last, request.batch_size)
        acquired = [_add(partition, request, first, last, last - first + 1) for first, last in parts]
        first = acquired[0].first
    if partition.in_flight.batches[0].first == first:
        partition.start_offset = max(partition.start_offset, first)
    partition.end_offset = max(partition.end_offset, last)
    end = acquired[-1].last
    _fill_hole(partition, end + 1)
    return acquired, end - first + 1


def _end_of_batch(log: Sequence[LogBatch], offset: int) -> int:
    """The last offset of the log's batch that has the offset, or else the offset."""
    return next((batch.last for batch in reversed(log) if batch.first <= offset <= batch.last), offset)


def _parts(log: Sequence[LogBatch], first: int, last: int, batch_size: int) -> list[tuple[int, int]]:
    """Offsets cut at the batches of the log once ``batch_size`` of them are together."""
    parts = []
    if last - first + 1 > batch_size:
        for batch in log:
            if batch.first > last:
                break
            if batch.first - first >= batch_size:
                parts.append((first, batch.first - 1))
                first = batch.first
    return [*parts, (first, last)]


def _add(partition: SharePartition, request: Acquiring, first: int, last: int, count: int) -> Acquired:
    """A batch of the window, of which the first ``count`` are acquired and the others are available. A range that ends before
    it begins, as a batch size of 0 makes it, is only in the response, as Kafka's."""
    if last < first:
        return Acquired(first, last, 1)
    run = OffsetRun(first, last, RecordState.AVAILABLE, 0)
    batch = Batch([run])
    if count < run.count:
        run = batch.cut(first, first + count - 1)[0]
        partition.seeks = True
    _lock(partition, run, request)
    partition.in_flight.add(batch)
    return Acquired(run.first, run.last, run.delivery_count)


def _fill_hole(partition: SharePartition, offset: int) -> None:
    """What was loaded has no hole below the offset any longer."""
    hole = partition.hole
    if hole is None:
        return
    if hole.end == partition.end_offset and offset <= hole.end:
        hole.start = offset
    else:
        partition.hole = None


def _without_aborted(partition: SharePartition, acquired: list[Acquired], log: Sequence[LogBatch]) -> list[Acquired]:
    """Archives the records of aborted transactions, and leaves them out of what was acquired."""
    for gone in (batch for batch in log if batch.aborted):
        for batch in partition.overlapping(gone.first, gone.last):
            archive(batch, gone.first, gone.last, RecordState.ACQUIRED)
        acquired = [part for each in acquired for part in _outside(each, gone)]
    return acquired


def _outside(acquired: Acquired, gone: LogBatch) -> list[Acquired]:
    parts = ((acquired.first, min(acquired.last, gone.first - 1)), (max(acquired.first, gone.last + 1), acquired.last))
    return [Acquired(first, last, acquired.delivery_count) for first, last in parts if first <= last]
