"""The start of a log moves up: by DeleteRecords, and by retention, which deletes whole segments."""

from __future__ import annotations

from coterie.log.partition_log import PartitionLog
from coterie.log.segments.segment import Segment
from coterie.wire.errors import ErrorCode, Refusal


def delete_records(log: PartitionLog, before_offset: int) -> int:
    """Moves the start of the log up; returns it. Raises Refusal OFFSET_OUT_OF_RANGE, or POLICY_VIOLATION where the log
    is only compacted (Kafka's Partition.deleteRecordsOnLeader)."""
    if log.config.cleanup_compact and not log.config.cleanup_delete:
        raise Refusal(ErrorCode.POLICY_VIOLATION, "a topic that is only compacted keeps its records")
    if before_offset == -1:
        before_offset = log.high_watermark
    if not 0 <= before_offset <= log.high_watermark:
        raise Refusal(ErrorCode.OFFSET_OUT_OF_RANGE)
    advance_start_offset(log, before_offset)
    return log.log_start_offset


def advance_start_offset(log: PartitionLog, offset: int) -> None:
    """The log begins at ``offset``, or where it does if that is higher. Not beyond the high watermark."""
    log.log_start_offset = max(log.log_start_offset, min(offset, log.high_watermark))
    log.epochs.start_at(log.log_start_offset)
    _drop_segments_below_start(log)


def _drop_segments_below_start(log: PartitionLog) -> None:
    while len(log.segments) > 1 and log.segments[1].base_offset <= log.log_start_offset:
        _delete(log.segments.pop(0))


def retain(log: PartitionLog, now_ms: int) -> int:
    """Deletes whole segments before the log's start, past retention.ms, or beyond retention.bytes; returns how many."""
    if not log.config.cleanup_delete:
        return 0
    deleted = len(log.segments)
    _drop_segments_below_start(log)
    deleted -= len(log.segments)
    if log.config.retention_ms >= 0:
        horizon = now_ms - log.config.retention_ms
        while _is_deletable(log) and log.segments[0].newest_ms < horizon:
            _drop_first(log)
            deleted += 1
    if log.config.retention_bytes >= 0:
        excess = log.size - log.config.retention_bytes
        while _is_deletable(log) and excess >= log.segments[0].size:
            excess -= log.segments[0].size
            _drop_first(log)
            deleted += 1
    return deleted


def _is_deletable(log: PartitionLog) -> bool:
    """Whether the first segment holds records, and none that readers wait for (Kafka's UnifiedLog.deletableSegments)."""
    first = log.segments[0]
    end_offset = log.segments[1].base_offset if len(log.segments) > 1 else first.next_offset
    return (len(log.segments) > 1 or first.size > 0) and end_offset <= log.high_watermark


def _drop_first(log: PartitionLog) -> None:
    """The active segment too, after a new one has taken its part."""
    if len(log.segments) == 1:
        log.start_segment(log.end_offset)
    first = log.segments.pop(0)
    log.log_start_offset = max(log.log_start_offset, log.segments[0].base_offset)
    log.epochs.start_at(log.log_start_offset)
    log.transactions.forget_before(log.log_start_offset)
    _delete(first)


def _delete(segment: Segment) -> None:
    try:
        segment.delete()
    finally:
        segment.close_files()
