"""A replica's log follows its leader's: the leader's batches are appended as they are, with their offsets and epochs, and the
log is cut where it has left the leader's (Kafka's UnifiedLog.appendAsFollower, truncateTo, truncateFullyAndStartAt).

Segments go from the end, the last one first, so that a crash leaves a beginning of the log.
"""

from __future__ import annotations

from contextlib import suppress

from coterie.log.partition_log import PartitionLog
from coterie.log.segments.segment import segment_name
from coterie.records.batch import MAGIC, BatchError, BatchHeader, batches, check_crc
from coterie.wire.errors import ErrorCode, Refusal


def append_as_follower(log: PartitionLog, data: bytes, now_ms: int) -> int:
    """Appends the whole batches of ``data``, one after another; a batch cut short at the end is left out. Offsets may have
    gaps, which compaction leaves. An empty log begins again with a first batch that begins earlier and holds its start: the
    leader's log starts within that batch. Producers are not checked: the leader has. Returns the number of batches. Raises
    Refusal CORRUPT_MESSAGE, with nothing appended, or OSError, with some of them appended."""
    whole = _checked(log, data)
    if whole and whole[0][1].base_offset < log.end_offset:
        start_anew_at(log, whole[0][1].base_offset)
    try:
        for _, header in whole:
            if header.leader_epoch > log.epochs.cache.latest:
                log.epochs.assign(header.leader_epoch, header.base_offset)
        log.epochs.write()
        for position, header in whole:
            batch = data[position : position + header.size]
            log.write(batch, header, now_ms)
            if header.producer_id >= 0:
                log.remember(header, batch if header.is_control else b"")
    except OSError:
        log.epochs.cut(log.end_offset)
        log.epoch_due = True
        raise
    return len(whole)


def _checked(log: PartitionLog, data: bytes) -> list[tuple[int, BatchHeader]]:
    whole: list[tuple[int, BatchHeader]] = []
    next_offset = log.end_offset
    is_empty = log.log_start_offset == next_offset
    try:
        for position, header in batches(data):
            if header.magic != MAGIC:
                raise Refusal(ErrorCode.CORRUPT_MESSAGE, f"the leader sent a batch of format {header.magic}")
            is_within = not whole and is_empty and header.last_offset >= next_offset
            if (header.base_offset < next_offset and not is_within) or header.last_offset_delta < 0:
                problem = f"offsets {header.base_offset} to {header.last_offset} where the log ends at {next_offset}"
                raise Refusal(ErrorCode.CORRUPT_MESSAGE, f"the leader sent a batch with {problem}")
            check_crc(data, position, header)
            whole.append((position, header))
            next_offset = header.last_offset + 1
    except BatchError as error:
        raise Refusal(ErrorCode.CORRUPT_MESSAGE, f"the leader sent a damaged batch: {error}") from error
    return whole


def truncate_to(log: PartitionLog, offset: int) -> None:
    """Only batches that end before ``offset`` stay; one that reaches beyond goes whole. An epoch that begins at the log's end
    goes in any case. Raises OSError; then the log ends where it does, and may be cut again."""
    if offset >= log.end_offset:
        log.epochs.cut(log.end_offset)
        log.epoch_due = True
        return
    if offset < log.segments[0].base_offset:
        start_anew_at(log, offset)
        return
    try:
        while log.segments[-1].base_offset > offset:
            log.segments[-1].delete()
            log.segments.pop()
        _cut_last(log, offset)
    finally:
        _settle(log)
    log.epochs.write()


def _cut_last(log: PartitionLog, offset: int) -> None:
    slot = len(log.segments) - 1
    segment = log.segments[slot]
    if segment.unverified and not segment.verify_for(offset):
        segment = log.replace_segment(slot, None)
    segment.cut_at(offset)


def start_anew_at(log: PartitionLog, offset: int) -> None:
    """Removes all that the log holds; it begins and ends at ``offset``. Raises OSError; then it has lost its end, or all of its
    batches, and may be emptied again."""
    try:
        while len(log.segments) > 1:
            log.segments[-1].delete()
            log.segments.pop()
        first = log.segments[0]
        first.cut_at(first.base_offset)
        log.epochs.clear()
        if first.base_offset != offset:
            log.start_segment(offset)
            log.segments.sort(key=lambda segment: segment.base_offset)
            first.delete()
            log.segments.remove(first)
    finally:
        _settle(log)
    log.log_start_offset = log.cleaned_until = offset
    if log.replicas_high_watermark is not None:
        log.replicas_high_watermark = offset
    log.epochs.write()


def _settle(log: PartitionLog) -> None:
    """All that is known of the log beside its segments, after these were cut."""
    end_offset = log.end_offset
    log.cuts += 1
    log.epoch_due = True
    log.flushing.cut(end_offset)
    log.log_start_offset = min(log.log_start_offset, end_offset)
    log.cleaned_until, log.surveyed_until = min(log.cleaned_until, end_offset), min(log.surveyed_until, end_offset)
    if log.replicas_high_watermark is not None:
        log.replicas_high_watermark = min(log.replicas_high_watermark, end_offset)
    log.epochs.cut(end_offset)
    for segment in log.segments:
        if segment.gap_offset is not None and segment.gap_offset >= end_offset:
            segment.gap_offset = None
    for name in log.fs.names(log.directory):
        if name.endswith(".snapshot") and name > f"{segment_name(end_offset)}.snapshot":
            with suppress(OSError):  # one of a state that is no more; the next close removes it
                log.fs.remove(f"{log.directory}/{name}")
    if log.producers.by_id or log.transactions.aborted:
        log.replay()
