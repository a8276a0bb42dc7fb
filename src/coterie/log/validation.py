"""The checks of a client's batch, and its conversion by the topic's settings.

Every batch is walked over (`records.walking`); records are made only where some are refused or the batch is written again:
a compacted topic, limits on timestamps, another compression than the producer's. Source: Kafka's LogValidator; KIP-467 for
errors per record, KIP-937 for the limits of timestamps, KIP-390 for compression levels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from coterie.log.aside import Aside, at_once
from coterie.log.config import LogConfig
from coterie.records.batch import (
    COMPRESSION_MASK,
    HEADER_BYTES,
    MAGIC,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_BIT,
    BatchError,
    BatchHeader,
    batches,
    begins_whole,
    check_crc,
    read_header,
    stamp_times,
)
from coterie.records.compression import NONE, ZSTD, CompressionError, UncompressedTooLarge, decompress, decompressed
from coterie.records.decoding import decode_records
from coterie.records.encoding import rebuild_batch, recompressed
from coterie.records.message_sets import is_legacy, to_batch
from coterie.records.walking import MAX_STORED_BYTES, Walked, walk
from coterie.wire.errors import ErrorCode, Refusal
from coterie.wire.primitives import java_long, read_varint

ERRORS_IN_MESSAGE = 3
# What takes some 10 ms where nothing is compiled; more is done aside.
SHORT_RECORDS, SHORT_BYTES, SHORT_REWRITTEN_BYTES, SHORT_OLD_BYTES = 20_000, 2**20, 2**16, 256
SMALLEST_RECORD_BYTES = 7  # a byte for each field, the key and the value null
BATCHES_FROM, ZSTD_FROM = 3, 7  # versions of Produce


@dataclass(frozen=True, slots=True)
class RecordError:
    """A record that condemns its batch, by its place in the batch."""

    batch_index: int
    message: str


class RecordsRefused(Refusal):
    """A batch refused because of ``errors`` in its records."""

    def __init__(self, code: ErrorCode, errors: Sequence[RecordError]) -> None:
        first = "; ".join(f"record {e.batch_index}: {e.message}" for e in errors[:ERRORS_IN_MESSAGE])
        super().__init__(code, f"the batch is refused for {len(errors)} of its records: {first}")
        self.errors = tuple(errors)


def produced_batch(records: bytes, version: int, aside: Aside = at_once) -> tuple[bytes, BatchHeader] | None:
    """The one batch that a Produce of that version carries for a partition, and its header: made of an old message set up
    to v2; a piece of a batch after it is cut off. None: up to v2 there may be no whole batch, which is nothing to append.
    Raises Refusal (Kafka's ProduceRequest.validateRecords)."""
    if version < BATCHES_FROM and not begins_whole(records):
        return None
    try:
        if version < BATCHES_FROM and is_legacy(records):
            convert = partial(to_batch, records)
            batch = convert() if len(records) <= SHORT_OLD_BYTES else aside("converted", convert)
            return batch, read_header(batch)
        header = read_header(records) if len(records) >= HEADER_BYTES else None
        if header is None or header.size != len(records):
            header = _only_batch(records)
            records = records[: header.size]
    except BatchError as error:
        raise Refusal(ErrorCode.CORRUPT_MESSAGE, str(error)) from error
    if header.magic != MAGIC:
        code = ErrorCode.CORRUPT_MESSAGE if not 0 <= header.magic <= MAGIC else ErrorCode.INVALID_RECORD
        raise Refusal(code, f"Produce {version} carries record batches of format {MAGIC}, not {header.magic}")
    if BATCHES_FROM <= version < ZSTD_FROM and header.codec == ZSTD:
        raise Refusal(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"Produce {version} must not carry zstd")
    return records, header


def _only_batch(records: bytes) -> BatchHeader:
    """For records that are not exactly one batch: the header of the one that they hold whole. Raises BatchError,
    Refusal."""
    if is_legacy(records):
        raise Refusal(ErrorCode.INVALID_RECORD, "an old message set in a Produce that carries record batches")
    whole = [header for _, header in batches(records)]
    if len(whole) != 1:
        raise Refusal(ErrorCode.INVALID_RECORD, f"a Produce carries one batch for a partition, not {len(whole)}")
    return whole[0]


def checked_header(data: bytes, config: LogConfig, header: BatchHeader | None = None) -> BatchHeader:
    """The header of the one batch that ``data`` is; ``header`` where it was read before. Raises Refusal."""
    try:
        if header is None:
            header = read_header(data)
        if header.magic != MAGIC:
            raise Refusal(ErrorCode.INVALID_RECORD, f"the batch has format {header.magic}; a log holds format {MAGIC}")
        if header.base_offset != 0:
            raise Refusal(ErrorCode.INVALID_RECORD, f"a producer's batch begins at offset 0, not {header.base_offset}")
        size = header.size
        if size > config.max_message_bytes:
            raise Refusal(
                ErrorCode.MESSAGE_TOO_LARGE,
                f"the batch has {size} bytes; max.message.bytes is {config.max_message_bytes}",
            )
        if size != len(data):
            raise Refusal(ErrorCode.CORRUPT_MESSAGE, "the records are not one whole batch")
        check_crc(data, 0, header)
    except BatchError as error:
        raise Refusal(ErrorCode.CORRUPT_MESSAGE, str(error)) from error
    codec = header.codec
    if codec > ZSTD:
        raise Refusal(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
    if header.record_count <= 0 or header.last_offset_delta != header.record_count - 1:
        raise Refusal(
            ErrorCode.INVALID_RECORD,
            f"the batch claims {header.record_count} records and a last offset delta of {header.last_offset_delta}",
        )
    if codec == NONE and header.record_count * SMALLEST_RECORD_BYTES > size - HEADER_BYTES:
        raise Refusal(
            ErrorCode.INVALID_RECORD, f"the batch is too short for the {header.record_count} records it claims"
        )
    if header.is_control:
        raise Refusal(ErrorCode.INVALID_RECORD, "a client may not write control batches")
    if header.producer_id >= 0 > header.base_sequence:
        raise Refusal(ErrorCode.INVALID_RECORD, f"a batch of producer {header.producer_id} has no sequence number")
    return header


def prepared(
    data: bytes, header: BatchHeader, config: LogConfig, now_ms: int, aside: Aside = at_once
) -> tuple[bytearray, BatchHeader]:
    """The batch as the log keeps it, but for its offset, with its header. Raises Refusal, `RecordsRefused` where it is
    for single records."""
    rewritten = config.compression not in (None, header.codec)
    limit_bytes = SHORT_REWRITTEN_BYTES if rewritten else SHORT_BYTES
    if header.record_count <= SHORT_RECORDS and (
        header.size <= limit_bytes or (header.codec == NONE and not rewritten)
    ):
        try:
            return _prepared(data, header, config, now_ms, limit_bytes)
        except UncompressedTooLarge:
            pass
    return aside("prepared", partial(_prepared, data, header, config, now_ms, MAX_STORED_BYTES))


def _prepared(
    data: bytes, header: BatchHeader, config: LogConfig, now_ms: int, limit_bytes: int
) -> tuple[bytearray, BatchHeader]:
    """Raises UncompressedTooLarge where the records unfold to more than ``limit_bytes`` and yet may be stored."""
    walked = _walk(data, header, limit_bytes)
    if header.codec != NONE and config.max_decompressed_message_bytes < MAX_STORED_BYTES:
        _refuse_larger_records(data, header, config.max_decompressed_message_bytes)
    _check_records(data, header, walked, config, now_ms)
    newest = walked.newest
    if header.attributes & TIMESTAMP_TYPE_BIT:
        newest = max(NO_TIMESTAMP, header.max_timestamp)  # that of every record
    codec = header.codec
    target = codec if config.compression is None else config.compression
    if target != codec:
        batch, header = _rewritten(data, header._replace(max_timestamp=newest), walked, target, config)
    elif target != NONE and not walked.consecutive:
        raise Refusal(
            ErrorCode.UNKNOWN_SERVER_ERROR, "the offset deltas of a compressed batch are not 0, 1, 2 and so on"
        )
    else:
        batch = bytearray(data)
    if config.append_time:
        header = stamp_times(batch, header, header.attributes | TIMESTAMP_TYPE_BIT, now_ms)
    elif header.attributes & TIMESTAMP_TYPE_BIT or newest != header.max_timestamp:
        header = stamp_times(batch, header, header.attributes & ~TIMESTAMP_TYPE_BIT, newest)
    return batch, header


def _walk(data: bytes, header: BatchHeader, limit_bytes: int) -> Walked:
    """Raises Refusal, with Kafka's codes: a failed decompression is an unknown error there; UncompressedTooLarge."""
    try:
        return walk(data, header, limit_bytes)
    except BatchError as error:
        raise Refusal(ErrorCode.INVALID_RECORD, str(error)) from error
    except UncompressedTooLarge as too_large:
        if limit_bytes < MAX_STORED_BYTES:
            raise
        raise Refusal(ErrorCode.MESSAGE_TOO_LARGE, str(too_large)) from too_large
    except CompressionError as damaged:
        raise Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, str(damaged)) from damaged


def _refuse_larger_records(data: bytes, header: BatchHeader, limit_bytes: int) -> None:
    """Raises Refusal for a record of more bytes, without its length, as Kafka from 4.4 on."""
    body, at = decompressed(header.codec, data[HEADER_BYTES:], MAX_STORED_BYTES), 0
    for index in range(header.record_count):
        size, at = read_varint(body, at)
        if size > limit_bytes:
            text = (
                f"record {index} has {size} bytes without compression; max.decompressed.message.bytes is {limit_bytes}"
            )
            raise Refusal(ErrorCode.INVALID_RECORD, text)
        at += size


def _rewritten(
    data: bytes, header: BatchHeader, walked: Walked, codec: int, config: LogConfig
) -> tuple[bytearray, BatchHeader]:
    """The batch in that compression, its offset deltas put right where they are not consecutive. Raises Refusal, with Kafka's
    codes: its builder fails on negative timestamps."""
    if walked.oldest < 0 and not header.attributes & TIMESTAMP_TYPE_BIT:
        raise Refusal(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            f"a batch that is compressed again must not have the timestamp {walked.oldest}",
        )
    if walked.consecutive:
        body = decompress(header.codec, data[HEADER_BYTES:])
    else:
        records = [r._replace(offset=n) for n, r in enumerate(decode_records(data, 0, header))]
        body = rebuild_batch(header._replace(attributes=header.attributes & ~COMPRESSION_MASK), records)[HEADER_BYTES:]
    rewritten = recompressed(header, body, codec, config.level)
    header = read_header(rewritten)
    if header.size > config.max_message_bytes:
        raise Refusal(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"the batch has {header.size} bytes once it is compressed again; max.message.bytes is {config.max_message_bytes}",
        )
    return bytearray(rewritten), header


def _check_records(data: bytes, header: BatchHeader, walked: Walked, config: LogConfig, now_ms: int) -> None:
    """Raises RecordsRefused: INVALID_TIMESTAMP if any record's timestamp is wrong, else INVALID_RECORD."""
    earliest, latest = now_ms - config.timestamp_before_max_ms, now_ms + config.timestamp_after_max_ms
    in_time = config.append_time or (earliest <= walked.oldest and walked.newest <= latest)
    if in_time and not (config.cleanup_compact and walked.keyless) and not header.attributes & TIMESTAMP_TYPE_BIT:
        return
    errors: list[RecordError] = []
    code = ErrorCode.INVALID_RECORD
    for index, record in enumerate(decode_records(data, 0, header)):
        if config.cleanup_compact and record.key is None:
            errors.append(RecordError(index, "a compacted topic takes no record without a key"))
        elif not config.append_time and record.timestamp != NO_TIMESTAMP:
            age_ms = java_long(now_ms - record.timestamp)
            if age_ms > config.timestamp_before_max_ms or java_long(-age_ms) > config.timestamp_after_max_ms:
                limits = f"the topic takes timestamps from {earliest} to {latest}"
                errors.append(RecordError(index, f"timestamp {record.timestamp} is out of range; {limits}"))
                code = ErrorCode.INVALID_TIMESTAMP
        elif header.attributes & TIMESTAMP_TYPE_BIT:
            errors.append(RecordError(index, "a producer must not send batches of timestamp type LogAppendTime"))
            code = ErrorCode.INVALID_TIMESTAMP
    if errors:
        raise RecordsRefused(code, errors)
