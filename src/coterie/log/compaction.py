"""Compaction: of each key only the newest value stays (cleanup.policy=compact; Kafka's LogCleaner).

Only closed segments are touched, and only up to the first transaction that is still open there. Records of aborted
transactions go, and never hide an older value; those of committed ones are kept as plain records, so that they need
no marker any more. A tombstone goes delete.retention.ms after it was written, in the second compaction it lives to see.

`plan` and `swap` belong on the log's own thread; `clean` only reads closed segments and writes `.cleaned` files, so it
may run elsewhere. A crash leaves the old segments, or the new; never neither.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from coterie.log.filesystem import FileSystem
from coterie.log.partition_log import PartitionLog
from coterie.log.segment import Segment
from coterie.records.batch import (
    HEADER_BYTES,
    BatchHeader,
    Record,
    decode_records,
    ends_transaction,
    read_header,
    rebuild_batch,
)

KEYS_AT_ONCE = 2_000_000
CLEANED = ".cleaned"


@dataclass(slots=True)
class Plan:
    """What one compaction will read: the closed segments, and from which offset on they are new to it."""

    fs: FileSystem
    segments: list[Segment]
    dirty_from: int
    end: int
    segment_bytes: int
    tombstones_before_ms: int


@dataclass(slots=True)
class Cleaned:
    """What `clean` made: for each group of old segments the file that takes their place, under the first one's name."""

    plan: Plan
    until: int
    groups: list[list[Segment]] = field(default_factory=list)
    records_before: int = 0
    records_after: int = 0


def plan(log: PartitionLog, now_ms: int, *, force: bool = False) -> Plan | None:
    """A plan when enough is dirty (min.cleanable.dirty.ratio) or dirty for too long (max.compaction.lag.ms), or whenever
    anything is, if forced. Segments with records younger than min.compaction.lag.ms, and all after them, wait."""
    config = log.config
    closed = _cleanable(log, now_ms - config.min_compaction_lag_ms)
    dirty = [s for s in closed if s.next_offset > log.cleaned_until]
    size, total = sum(s.size for s in dirty), sum(s.size for s in closed)
    if not size:
        return None
    due = force or size / total >= config.min_cleanable_dirty_ratio
    if not due and not _begins_before(dirty, now_ms - config.max_compaction_lag_ms):
        return None
    end = log.segments[len(closed)].base_offset
    return Plan(log.fs, closed, log.cleaned_until, end, config.segment_bytes, now_ms - config.delete_retention_ms)


def _cleanable(log: PartitionLog, younger_than_ms: int) -> list[Segment]:
    """The closed segments before the first dirty one that holds a record younger than that."""
    closed = log.segments[:-1]
    if log.config.min_compaction_lag_ms:
        for number, segment in enumerate(closed):
            if segment.next_offset > log.cleaned_until and segment.max_timestamp > younger_than_ms:
                return closed[:number]
    return closed


def _begins_before(segments: list[Segment], time_ms: int) -> bool:
    """Whether the first batch of one of the segments is older; a batch without a timestamp has no age."""
    if time_ms < 0:
        return False
    first = [read_header(s.file.read(0, HEADER_BYTES)).base_timestamp for s in segments if s.size]
    return any(0 < timestamp < time_ms for timestamp in first)


def clean(plan: Plan) -> Cleaned:
    """Writes the cleaned files. Raises OSError, BatchError or CompressionError; then nothing has changed."""
    until, aborted, newest = _survey(plan)
    cleaned = Cleaned(plan, until)
    for group in _groups(plan):
        path = group[0].stem + ".log" + CLEANED
        if plan.fs.exists(path):
            plan.fs.remove(path)
        file = plan.fs.open(path)
        try:
            for segment in group:
                for position, header in segment.headers(0):
                    data = segment.file.read(position, header.size)
                    kept = _cleaned_batch(plan, data, header, until, aborted, newest, cleaned)
                    if kept:
                        file.append(kept)
            file.sync()
        finally:
            file.close()
        cleaned.groups.append(group)
    return cleaned


def swap(log: PartitionLog, cleaned: Cleaned) -> bool:
    """Puts the cleaned files in place of the old ones; False when the log has changed meanwhile (a deleted topic, a
    segment retention took), and then the old ones stay."""
    fs = cleaned.plan.fs
    if log.segments[: len(cleaned.plan.segments)] != cleaned.plan.segments:
        for group in cleaned.groups:
            path = group[0].stem + ".log" + CLEANED
            if fs.exists(path):
                fs.remove(path)
        return False
    fresh: list[Segment] = []
    for group in cleaned.groups:
        first = group[0]
        first.close()
        first.drop_index_files()
        fs.rename(first.stem + ".log" + CLEANED, first.stem + ".log")
        for other in group[1:]:
            other.delete()
        segment = Segment(fs, log.directory, first.base_offset)
        segment.recover()
        fresh.append(segment)
    log.segments[: len(cleaned.plan.segments)] = fresh
    log.cleaned_until = cleaned.until
    return True


def _groups(plan: Plan) -> Iterator[list[Segment]]:
    """Neighbours that fit into one segment are made one."""
    group: list[Segment] = []
    size = 0
    for segment in plan.segments:
        wide = bool(group) and segment.next_offset - group[0].base_offset > 2**31 - 1_000_000
        if group and (size + segment.size > plan.segment_bytes or wide):
            yield group
            group, size = [], 0
        group.append(segment)
        size += segment.size
    if group:
        yield group


def _survey(plan: Plan) -> tuple[int, set[tuple[int, int]], dict[bytes, int]]:
    """Up to where may be cleaned; (producer id, base offset) of every batch that an abort took back; and the newest
    offset of each key in the part that is new."""
    in_transaction: dict[int, list[int]] = {}
    aborted: set[tuple[int, int]] = set()
    for segment, position, header in _batches(plan):
        if header.is_control:
            taken = in_transaction.pop(header.producer_id, [])
            records = _records(segment, position, header)
            if records and ends_transaction(records[0]) is False:
                aborted.update((header.producer_id, base) for base in taken)
        elif header.is_of_a_transaction:
            in_transaction.setdefault(header.producer_id, []).append(header.base_offset)
    until = min([plan.end, *(bases[0] for bases in in_transaction.values())])
    newest: dict[bytes, int] = {}
    for segment, position, header in _batches(plan):
        old = header.last_offset < plan.dirty_from
        if old or header.base_offset >= until or header.is_control or _in_aborted(header, aborted):
            continue
        if len(newest) >= KEYS_AT_ONCE:
            return header.base_offset, aborted, newest
        records = _records(segment, position, header)
        newest.update((r.key, r.offset) for r in records if r.key is not None and r.offset >= plan.dirty_from)
    return until, aborted, newest


def _in_aborted(header: BatchHeader, aborted: set[tuple[int, int]]) -> bool:
    return header.is_transactional and (header.producer_id, header.base_offset) in aborted


def _batches(plan: Plan) -> Iterator[tuple[Segment, int, BatchHeader]]:
    for segment in plan.segments:
        for position, header in segment.headers(0):
            yield segment, position, header


def _records(segment: Segment, position: int, header: BatchHeader) -> list[Record]:
    return decode_records(segment.file.read(position, header.size), 0, header)


def _cleaned_batch(
    plan: Plan,
    data: bytes,
    header: BatchHeader,
    until: int,
    aborted: set[tuple[int, int]],
    newest: dict[bytes, int],
    cleaned: Cleaned,
) -> bytes:
    """What stays of a batch; nothing for none of it."""
    cleaned.records_before += header.record_count
    if header.base_offset >= until:
        cleaned.records_after += header.record_count
        return data
    if header.is_control or _in_aborted(header, aborted):
        return b""
    records = decode_records(data, 0, header)
    kept = [r for r in records if _stays(plan, r, newest)]
    cleaned.records_after += len(kept)
    if not kept:
        return b""
    return data if len(kept) == len(records) and not header.is_transactional else rebuild_batch(header, kept)


def _stays(plan: Plan, record: Record, newest: dict[bytes, int]) -> bool:
    if record.key is None:
        return True
    if newest.get(record.key, -1) > record.offset:
        return False
    return record.value is not None or record.offset >= plan.dirty_from or record.timestamp >= plan.tombstones_before_ms
