"""Compaction: of each key only the newest value stays (cleanup.policy=compact; Kafka's LogCleaner).

Only closed segments are touched, of a log with replicas only those before its high watermark (what is cut off behind it must
have hidden nothing), and only up to the first transaction that is still open there. Records of aborted transactions go, and
never hide an older value; those of committed ones are kept as plain records, so that this log needs no marker for them. The
last batch of a producer that the log knows stays without records, so that its sequence outlives
them (BatchRetention.RETAIN_EMPTY). A tombstone goes delete.retention.ms after it was written, in the second compaction it
lives to see, and so does a marker: a replica that has the records of its transaction fetches it from here. A batch whose
records cannot be read although its checksum is right stays as it is, unless a marker would have to stay for it.

`plan` and `swapping` belong on the log's own thread; `clean` only reads closed segments, and writes `.cleaned` files and reads
them once more for their indexes, so it may run elsewhere. A crash leaves the old segments, or the new; never neither.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import partial

from coterie.log.filesystem import FileSystem
from coterie.log.partition_log import PartitionLog
from coterie.log.segments.segment import DELETED, Segment
from coterie.log.segments.segment_loader import CLEANED, SWAP
from coterie.records.batch import HEADER_BYTES, BatchError, BatchHeader, BatchRecord, check_crc, read_header
from coterie.records.compression import CompressionError
from coterie.records.decoding import decode_pieces, decode_records
from coterie.records.encoding import rebuild_batch
from coterie.records.markers import ends_transaction

KEYS_AT_ONCE = 2_000_000


@dataclass(slots=True)
class CompactionPlan:
    """The input of one compaction: the closed segments, and the first offset that no earlier one has processed.
    ``last_offsets``: of the last batch of each producer, by producer id. ``cuts``: of the log's end, so far."""

    fs: FileSystem
    segments: list[Segment]
    dirty_from: int
    end: int
    segment_bytes: int
    index_interval_bytes: int
    tombstones_before_ms: int
    last_offsets: dict[int, int]
    cuts: int


@dataclass(slots=True)
class Cleaned:
    """The result of `clean`: for each group of old segments the one that replaces them, under the first one's name.
    ``until``: cleaned up to there; ``surveyed_until``: what is left before it awaits markers in later segments."""

    plan: CompactionPlan
    until: int
    surveyed_until: int
    groups: list[tuple[list[Segment], Segment]] = field(default_factory=list)
    records_before: int = 0
    records_after: int = 0
    is_in_place: bool = False

    def close_files(self) -> None:
        """Of the segments that take no other's place."""
        for _, segment in self.groups:
            segment.close_files()


def plan(log: PartitionLog, now_ms: int, *, force: bool = False) -> CompactionPlan | None:
    """A plan when enough is dirty (min.cleanable.dirty.ratio) or dirty for too long (max.compaction.lag.ms), or whenever
    anything is, if forced. Segments with records younger than min.compaction.lag.ms, and all after them, wait."""
    config = log.config
    closed = _cleanable(log, now_ms - config.min_compaction_lag_ms)
    dirty = [s for s in closed if s.next_offset > log.cleaned_until]
    size, total = sum(s.size for s in dirty), sum(s.size for s in closed)
    end = log.segments[len(closed)].base_offset
    if not size or (not force and end <= log.surveyed_until):
        return None
    due = force or size / total >= config.min_cleanable_dirty_ratio
    if not due and not _begins_before(dirty, now_ms - config.max_compaction_lag_ms):
        return None
    tombstones_before_ms = now_ms - config.delete_retention_ms
    last_offsets = {
        producer_id: entry.batches[-1].last_offset
        for producer_id, entry in log.producers.by_id.items()
        if entry.last_sequence >= 0
    }
    return CompactionPlan(
        log.fs,
        closed,
        dirty_from=log.cleaned_until,
        end=end,
        segment_bytes=config.segment_bytes,
        index_interval_bytes=config.index_interval_bytes,
        tombstones_before_ms=tombstones_before_ms,
        last_offsets=last_offsets,
        cuts=log.cuts,
    )


def _cleanable(log: PartitionLog, younger_than_ms: int) -> list[Segment]:
    """The closed segments before the high watermark, and before the first dirty one that holds a record younger than that."""
    end = log.end_offset if log.replicas_high_watermark is None else log.replicas_high_watermark
    closed = [segment for segment in log.segments[:-1] if segment.next_offset <= end]
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


def clean(plan: CompactionPlan) -> Cleaned:
    """Writes the cleaned files. Raises OSError, BatchError or CompressionError; then nothing has changed."""
    until, aborted, newest = _survey(plan)
    cleaned = Cleaned(plan, until, until if len(newest) >= KEYS_AT_ONCE else plan.end)
    try:
        for group in _groups(plan):
            path = group[0].stem + ".log" + CLEANED
            if plan.fs.exists(path):
                plan.fs.remove(path)
            with closing(plan.fs.open(path)) as file:
                for segment in group:
                    for position, header in _headers(segment):
                        data = segment.file.read(position, header.size)
                        kept = _cleaned_batch(
                            plan, data, header, until, aborted=aborted, newest=newest, cleaned=cleaned
                        )
                        if kept:
                            file.append(kept)
                file.sync()
            replacement = Segment(plan.fs, group[0].directory, group[0].base_offset, CLEANED)
            cleaned.groups.append((group, replacement))
            replacement.rebuild_index(replacement.headers(0), plan.index_interval_bytes)
    except BaseException:
        cleaned.close_files()
        raise
    return cleaned


def swap(log: PartitionLog, cleaned: Cleaned) -> bool:
    """`swapping` at once; whether all of the cleaned files are in place."""
    for _ in swapping(log, cleaned):
        pass
    return cleaned.is_in_place


def swapping(log: PartitionLog, cleaned: Cleaned) -> Iterator[None]:
    """Puts the cleaned files in place of the old ones, and stops between two groups of segments: each costs syncs of the
    folder. Once the log has changed meanwhile (a deleted topic, a segment retention took), the old ones that are left stay.
    Raises OSError; then what was not exchanged stays as it was."""
    fs, is_same = cleaned.plan.fs, _is_unchanged(log, cleaned)
    try:
        if is_same:
            _undo_unfinished(log)
        while is_same and cleaned.groups:
            group, segment = cleaned.groups[0]
            at = log.segments.index(group[0])
            _exchange(fs, group, segment)
            log.segments[at : at + len(group)] = [segment]
            del cleaned.groups[0]
            if cleaned.groups:
                yield
                is_same = _is_unchanged(log, cleaned)
    except OSError:
        cleaned.close_files()
        raise
    if is_same:
        log.cleaned_until, log.surveyed_until = cleaned.until, cleaned.surveyed_until
        cleaned.is_in_place = True
        return
    cleaned.close_files()
    for group, _ in cleaned.groups:
        path = group[0].stem + ".log" + CLEANED
        if fs.exists(path):
            fs.remove(path)


def _is_unchanged(log: PartitionLog, cleaned: Cleaned) -> bool:
    """Whether the segments that are not exchanged yet are still the log's, one after the other."""
    left = [segment for group, _ in cleaned.groups for segment in group]
    if log.is_closed or log.cuts != cleaned.plan.cuts:
        return False
    at = next((n for n, segment in enumerate(log.segments) if left and segment is left[0]), 0)
    return log.segments[at : at + len(left)] == left


def _undo_unfinished(log: PartitionLog) -> None:
    """Undoes a failed exchange whose undoing failed too. Raises OSError."""
    names = log.fs.names(log.directory)
    unfinished = [name for name in names if name.endswith(SWAP)]
    for segment in log.segments if unfinished else []:
        path = segment.stem + ".log"
        if not log.fs.exists(path):
            log.fs.rename(path + DELETED, path)
    for name in unfinished:
        log.fs.remove(f"{log.directory}/{name}")


def _exchange(fs: FileSystem, group: list[Segment], segment: Segment) -> None:
    """The suffixes are Kafka's: after a crash, loading reads from the names of the files how far the exchange came."""
    path = group[0].stem + ".log"
    gone: list[str] = []
    try:
        fs.rename(path + CLEANED, path + SWAP)
        for other in group[1:]:
            fs.rename(other.stem + ".log", other.stem + ".log" + DELETED)
            gone.append(other.stem + ".log")
        fs.rename(path + SWAP, path)
    except OSError:
        with suppress(OSError):
            for name in gone:
                fs.rename(name + DELETED, name)
            if fs.exists(path + SWAP):
                fs.rename(path + SWAP, path + CLEANED)
        raise
    for old in group:
        old.close_files()
        with suppress(OSError):  # what stays is removed when the log is opened, or written again
            old.drop_index_files()
    for name in gone:
        with suppress(OSError):
            fs.remove(name + DELETED)
    segment.index.write()


def _groups(plan: CompactionPlan) -> Iterator[list[Segment]]:
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


def _survey(plan: CompactionPlan) -> tuple[int, set[tuple[int, int]], dict[bytes, int]]:
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
        keys: dict[bytes, int] = {}  # one that is not read whole hides nothing
        if _read(segment.file.read(position, header.size), header, partial(_note_keys, plan, keys)):
            newest.update(keys)
    return until, aborted, newest


def _in_aborted(header: BatchHeader, aborted: set[tuple[int, int]]) -> bool:
    return header.is_transactional and (header.producer_id, header.base_offset) in aborted


def _batches(plan: CompactionPlan) -> Iterator[tuple[Segment, int, BatchHeader]]:
    for segment in plan.segments:
        for position, header in _headers(segment):
            yield segment, position, header


def _headers(segment: Segment) -> list[tuple[int, BatchHeader]]:
    """The batches of the whole segment. Raises BatchError."""
    headers = segment.headers(0)
    end = headers[-1][0] + headers[-1][1].size if headers else 0
    if end != segment.size:
        raise BatchError(f"{segment.stem}.log: no whole batch at byte {end}")
    return headers


def _records(segment: Segment, position: int, header: BatchHeader) -> list[BatchRecord]:
    data = segment.file.read(position, header.size)
    check_crc(data, 0, header)
    return decode_records(data, 0, header)


def _note_keys(plan: CompactionPlan, newest: dict[bytes, int], records: list[BatchRecord]) -> None:
    newest.update((r.key, r.offset) for r in records if r.key is not None and r.offset >= plan.dirty_from)


def _read(data: bytes, header: BatchHeader, take: Callable[[list[BatchRecord]], None]) -> bool:
    """Has ``take`` called with the records of a batch without a marker, some at a time, since a batch may unfold to millions.
    False where not all can be read. Raises BatchError for damage, and CompressionError too where the batch is of a
    transaction."""
    check_crc(data, 0, header)
    try:
        for records in decode_pieces(data, 0, header):
            take(records)
    except (BatchError, CompressionError):
        if header.is_transactional:
            raise
        return False
    return True


def _cleaned_batch(
    plan: CompactionPlan,
    data: bytes,
    header: BatchHeader,
    until: int,
    aborted: set[tuple[int, int]],
    newest: dict[bytes, int],
    cleaned: Cleaned,
) -> bytes:
    """The bytes kept of a batch; empty where all its records go and its producer has written another since."""
    check_crc(data, 0, header)
    cleaned.records_before += header.record_count
    if header.base_offset >= until:
        cleaned.records_after += header.record_count
        return data
    if header.is_control:
        is_left = _lasts(plan, header.base_offset, header.max_timestamp)
        cleaned.records_after += is_left * header.record_count
        return data if is_left else b""
    kept: list[BatchRecord] = []
    if not _in_aborted(header, aborted) and not _read(
        data, header, lambda records: kept.extend(r for r in records if _stays(plan, r, newest))
    ):
        cleaned.records_after += header.record_count
        return data
    cleaned.records_after += len(kept)
    if not kept:
        is_last = plan.last_offsets.get(header.producer_id) == header.last_offset
        return rebuild_batch(header, []) if is_last else b""
    return data if len(kept) == header.record_count and not header.is_transactional else rebuild_batch(header, kept)


def _stays(plan: CompactionPlan, record: BatchRecord, newest: dict[bytes, int]) -> bool:
    if record.key is None:  # from before the topic was compacted; Kafka's Cleaner.shouldRetainRecord
        return False
    if newest.get(record.key, -1) > record.offset:
        return False
    return record.value is not None or _lasts(plan, record.offset, record.timestamp)


def _lasts(plan: CompactionPlan, offset: int, timestamp: int) -> bool:
    """Whether a tombstone, or a marker, has yet to stay for delete.retention.ms, or to see its second compaction."""
    return offset >= plan.dirty_from or timestamp >= plan.tombstones_before_ms
