"""Offsets of a log by time, and by distance from its end."""

from __future__ import annotations

from collections.abc import Iterator

from coterie.log.aside import Aside, at_once
from coterie.log.partition_log import PartitionLog
from coterie.log.segments.segment import Segment
from coterie.records.batch import BatchError, BatchHeader, BatchRecord
from coterie.records.compression import NONE, CompressionError
from coterie.records.decoding import decode_pieces
from coterie.wire.errors import ErrorCode, Refusal

EARLIEST_TIMESTAMP = -2
LATEST_TIMESTAMP = -1
MAX_TIMESTAMP = -3
SHORT_RECORDS = 10_000


def offset_for_timestamp(log: PartitionLog, timestamp: int, aside: Aside = at_once) -> tuple[int, int] | None:
    """(offset, timestamp) of the first record at or after ``timestamp``, or None if there is none. Raises Refusal
    CORRUPT_MESSAGE, or OSError."""
    slot = 0
    while slot < len(log.segments):
        segment = log.segments[slot]
        position = segment.position_for_time(timestamp) if segment.max_timestamp >= timestamp else segment.size
        if position is None:
            log.recover_segment(slot, "its time index does not fit its batches")
            continue
        while position < segment.size:
            end = segment.end_of_stretch(position)
            if segment.unverified and not segment.verify(position, end - position):
                log.recover_segment(slot, None)
                break
            first = _first_at(log, segment, position, end, timestamp, aside)
            if first is not None:
                return first
            position = end
        else:
            slot += 1
    return None


def _first_at(
    log: PartitionLog, segment: Segment, position: int, end: int, timestamp: int, aside: Aside
) -> tuple[int, int] | None:
    """The first record at the time, in one stretch of a segment."""
    for at, header in segment.headers(position, end):
        if header.max_timestamp < timestamp or header.last_offset < log.log_start_offset:
            continue
        first = _first_of(segment, at, header, (timestamp, log.log_start_offset), aside)
        if first is not None:
            return first
    return None


def _first_of(
    segment: Segment, at: int, header: BatchHeader, earliest: tuple[int, int], aside: Aside
) -> tuple[int, int] | None:
    """The first record of a batch at the time and offset ``earliest``, or later."""
    data = segment.file.read(at, header.size)

    def search() -> tuple[int, int] | None:
        matches = (r for r in _records(data, header) if r.timestamp >= earliest[0] and r.offset >= earliest[1])
        first = next(matches, None)
        return None if first is None else (first.offset, first.timestamp)

    is_short = header.codec == NONE and header.record_count <= SHORT_RECORDS
    return search() if is_short else aside(header.base_offset, search)


def _records(data: bytes, header: BatchHeader) -> Iterator[BatchRecord]:
    try:
        for records in decode_pieces(data, 0, header):
            yield from records
    except (BatchError, CompressionError) as error:
        raise Refusal(ErrorCode.CORRUPT_MESSAGE, str(error)) from error


def max_timestamp_offset(log: PartitionLog, aside: Aside = at_once) -> tuple[int, int]:
    """(offset, timestamp) of the record with the largest timestamp (KIP-734); (-1, -1) for an empty log."""
    slot = max(range(len(log.segments)), key=lambda number: log.segments[number].max_timestamp)
    segment = log.segments[slot]
    newest = segment.newest_batch()
    for position, header in segment.headers(0) if newest is None else [newest]:
        if header.max_timestamp == segment.max_timestamp >= 0:
            if segment.unverified and not segment.verify(position, header.size):
                log.recover_segment(slot, None)
                return max_timestamp_offset(log, aside)
            first = _first_of(segment, position, header, (segment.max_timestamp, header.base_offset), aside)
            if first is not None:
                return first
    return -1, -1


def offset_near_end(log: PartitionLog, size: int) -> int:
    """An offset with at most about ``size`` bytes of batches from it to the end."""
    behind = 0
    for segment in reversed(log.segments):
        behind += segment.size
        if behind > size:
            for position, header in segment.headers(0):
                if behind - position <= size:
                    return max(header.base_offset, log.log_start_offset)
            return segment.next_offset
    return log.log_start_offset
