"""Reads of a log beyond its stored batches: only decided transactions, or message sets of an old format; offsets by time, and
by distance from the end; and a whole log in pieces, as a coordinator loads it.

Source: KIP-98 for isolation levels; Kafka's KafkaApis.handleFetchRequest and KIP-283 for Fetch 0 to 3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from coterie.log.aside import Aside, at_once
from coterie.log.partition_log import PartitionLog
from coterie.log.producer_states import Aborted
from coterie.log.segments.segment import Segment
from coterie.records.batch import BatchError, BatchHeader, BatchRecord, batches
from coterie.records.compression import NONE, CompressionError
from coterie.records.decoding import decode_pieces
from coterie.records.message_sets import OVERSIZED, CannotConvert, to_message_set
from coterie.wire.errors import ErrorCode, Refusal

EARLIEST_TIMESTAMP = -2
LATEST_TIMESTAMP = -1
MAX_TIMESTAMP = -3
CHUNK_BYTES = 256 * 1024
_CONVERTED_AT_ONCE = 1_000
_LOOKED_AT_ONCE = 10_000
_Convert = Callable[[bytes, int, int], bytes]  # as `to_message_set`


def read_visible(log: PartitionLog, offset: int, max_bytes: int, *, at_least_one: bool) -> bytes:
    """As `PartitionLog.read`, but nothing from the high watermark on."""
    records = log.read(offset, max_bytes, at_least_one=at_least_one)
    return before(records, log.high_watermark, offset)[0] if log.has_hidden_tail else records


def read_committed(
    log: PartitionLog, offset: int, max_bytes: int, *, at_least_one: bool
) -> tuple[bytes, list[Aborted]]:
    """As `PartitionLog.read`, but nothing from the first open transaction on; and which of the rest were aborted."""
    records = log.read(offset, max_bytes, at_least_one=at_least_one)
    records, upper = before(records, log.last_stable_offset, offset)
    return records, log.transactions.aborted_between(offset, upper)


def before(records: bytes, limit: int, offset: int) -> tuple[bytes, int]:
    """The batches that end before the offset ``limit``, and the offset behind them; ``offset`` where there are none."""
    upper = offset
    for position, header in batches(records):
        if header.last_offset >= limit:  # the log may begin, and be stable, within the batch
            return records[:position], upper
        upper = header.last_offset + 1
    return records, upper


def read_message_set(
    log: PartitionLog,
    offset: int,
    max_bytes: int,
    magic: int,
    *,
    at_least_one: bool,
    aside: Aside = at_once,
    convert: _Convert = to_message_set,
) -> bytes:
    """As `PartitionLog.read`, but a message set of format 0 or 1, empty where only control batches follow. Raises
    Refusal UNSUPPORTED_COMPRESSION_TYPE for zstd, UNSUPPORTED_VERSION where message.downconversion.enable is off."""
    if not log.config.downconversion:
        raise Refusal(ErrorCode.UNSUPPORTED_VERSION)
    next_offset = offset
    while True:
        data = read_visible(log, next_offset, max_bytes, at_least_one=at_least_one)
        headers = [header for _, header in batches(data)]
        if not headers:
            return data

        def converted(data: bytes = data, last: int = headers[-1].last_offset) -> tuple[bytes, int]:
            return convert(data, magic, offset), last

        is_short = (
            sum(header.record_count if header.codec == NONE else _CONVERTED_AT_ONCE for header in headers)
            < _CONVERTED_AT_ONCE
        )
        try:
            message_set, last = converted() if is_short else aside(next_offset, converted)
        except CannotConvert as error:
            raise Refusal(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, str(error)) from error
        except (BatchError, CompressionError) as damaged:
            raise Refusal(ErrorCode.CORRUPT_MESSAGE, str(damaged)) from damaged
        if message_set:
            return message_set
        next_offset = last + 1


def cut_short(log: PartitionLog, offset: int, max_bytes: int) -> bytes:
    """The response of Fetch 0 to 2, whose limit also holds for the first batch, in place of a larger one: a message that is cut
    short; nothing where no batch is larger."""
    if max_bytes > 0 and any(
        header.size > max_bytes for _, header in batches(read_visible(log, offset, 1, at_least_one=True))
    ):
        return OVERSIZED
    return b""


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

    is_short = header.codec == NONE and header.record_count <= _LOOKED_AT_ONCE
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


def offsets_before(log: PartitionLog, timestamp: int, limit: int, now_ms: int) -> list[int]:
    """The response of ListOffsets 0: up to ``limit`` of the segments' start offsets and the log's end, the newest first, of
    the segments last written at ``timestamp`` (ms) or before; -1 stands for the end, -2 for the start. Raises Refusal
    for a negative limit. Source: Kafka 2.6's Log.legacyFetchOffsetsBefore."""
    if limit < 0:
        raise Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, f"max_num_offsets is {limit}")
    known = [(max(s.base_offset, log.log_start_offset), s.modified_ms) for s in log.segments]
    if log.segments[-1].size:
        known.append((log.high_watermark, now_ms))
    if timestamp == EARLIEST_TIMESTAMP:
        known = known[:1]
    elif timestamp != LATEST_TIMESTAMP:
        while known and known[-1][1] > timestamp:
            known.pop()
    return sorted((offset for offset, _ in known[-limit:] if limit), reverse=True)


@dataclass(frozen=True, slots=True)
class SkippedBatch:
    """A batch whose checksum is right and of which records cannot be read: its offsets, the last included, and why."""

    first_offset: int
    last_offset: int
    problem: str

    def __str__(self) -> str:
        return f"the batch with offsets {self.first_offset} to {self.last_offset} cannot be read ({self.problem})"


def chunks(log: PartitionLog) -> Iterator[tuple[bytes, list[tuple[int, BatchHeader]]]]:
    """The bytes of some batches, with the position and the header of each. Ends at the end of the log, or where damage took
    what came before the end. Raises BatchError, OSError."""
    offset = log.log_start_offset
    while offset < log.end_offset:
        data = log.read(offset, CHUNK_BYTES)
        if not data:
            return
        headers = list(batches(data))
        yield data, headers
        offset = headers[-1][1].last_offset + 1
