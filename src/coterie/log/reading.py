"""Reads of a log beyond its stored batches: only decided transactions, or message sets of an old format.

Source: KIP-98 for isolation levels; Kafka's KafkaApis.handleFetchRequest and KIP-283 for Fetch 0 to 3.
"""

from __future__ import annotations

from collections.abc import Callable

from coterie.log.aside import Aside, at_once
from coterie.log.partition_log import PartitionLog
from coterie.log.producers.transactions import Aborted
from coterie.log.time_lookup import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from coterie.records.batch import BatchError, batches
from coterie.records.compression import NONE, CompressionError
from coterie.records.down_conversion import OVERSIZED, CannotConvert, to_message_set
from coterie.wire.errors import ErrorCode, Refusal

SHORT_RECORDS = 1_000
Convert = Callable[[bytes, int, int], bytes]  # as `to_message_set`


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
    convert: Convert = to_message_set,
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
            sum(header.record_count if header.codec == NONE else SHORT_RECORDS for header in headers) < SHORT_RECORDS
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
