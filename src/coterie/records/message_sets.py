"""Message sets v0 and v1, from before Apache Kafka 0.11, and batches v2 out of each other: Produce 0-2 carries them, a consumer
receives them of a log that was written then, and Fetch 0 to 3 return them.

Source: Kafka's documentation, "Old Message Format"; KIP-283. A compressed message wraps a whole message set. What is refused,
and with which code, is as in Kafka's LogValidator, AbstractLegacyRecordBatch and MemoryRecordsBuilder. What the old formats
lack is left out: headers, control batches, and in format 0 timestamps; a compressed batch stays one compressed message
(RecordsUtil.downConvert).
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import NamedTuple

from coterie.records import compression
from coterie.records.batch import (
    MAGIC,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_BIT,
    BatchError,
    BatchHeader,
    BatchRecord,
    batches,
)
from coterie.records.decoding import decode_pieces
from coterie.records.encoding import NewRecord, encode_stream, rebuild_batch
from coterie.records.walking import MAX_STORED_BYTES
from coterie.wire.errors import ErrorCode, Refusal

_ENTRY = struct.Struct(">qi")
_SMALLEST_BYTES = 14
_CODEC_MASK = 0x07
_ATTRIBUTES = 5  # where they are in a message, behind its CRC and its format


class _Message(NamedTuple):
    """A message as it stands in a set; ``data`` begins with its CRC."""

    magic: int
    codec: int
    data: bytes
    offset: int


def is_legacy(data: bytes) -> bool:
    """Whether the first entry is a message of format 0 or 1: the format byte stands at the same place in all."""
    return len(data) > 16 and data[16] < 2


def to_batch(data: bytes) -> bytes:
    """One batch v2 with the messages of the set, compressed as its wrapper was; a message cut short at the end is left
    out. Messages of format 0 have no timestamp (-1). A wrapper may unfold to as much as a stored batch. Raises Refusal."""
    first = _message_at(data, 0)
    if first is None:
        raise Refusal(ErrorCode.CORRUPT_MESSAGE, "the message set holds no whole message")
    if not first.codec:
        return encode_stream(map(_new_record, _alike(data, first)), first.codec)
    _check_crc(first)
    if _message_at(data, _ENTRY.size + len(first.data)) is not None:
        raise Refusal(ErrorCode.INVALID_RECORD, "a compressed message does not stand alone in its set")
    return encode_stream(map(_new_record, _inner(first, MAX_STORED_BYTES)), first.codec)


def _alike(data: bytes, first: _Message) -> Iterator[_Message]:
    """The messages of a set without compression."""
    for message in _messages(data):
        _check_crc(message)
        if message.codec:
            raise Refusal(ErrorCode.INVALID_RECORD, "a compressed message does not stand alone in its set")
        if message.magic != first.magic:
            raise Refusal(ErrorCode.INVALID_RECORD, "the messages of the set are of different formats")
        yield message


def _new_record(message: _Message) -> NewRecord:
    timestamp, key, value = _fields(message)
    if timestamp < NO_TIMESTAMP:
        raise Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, f"a message of the old format has the timestamp {timestamp}")
    return timestamp, key, value, ()


def readable(data: bytes, first_offset: int, *, check_crcs: bool) -> Iterator[bytes]:
    """What a consumer reads of the set from ``first_offset`` on: each message as a batch v2 at its own offsets, without a
    leader epoch, and batches v2 that follow as they are, in one piece. A message cut short at the end is left out. Raises
    BatchError for one that cannot be read, after the ones before it."""
    at = 0
    while is_legacy(data[at : at + _ENTRY.size + _SMALLEST_BYTES]):
        try:
            message = _message_at(data, at)
            batch = _batch(message, check_crcs) if message is not None and message.offset >= first_offset else b""
        except (Refusal, struct.error) as error:
            raise BatchError(str(error)) from error
        if message is None:
            return
        if batch:
            yield batch
        at += _ENTRY.size + len(message.data)
    yield data[at:]


def _batch(message: _Message, check_crcs: bool) -> bytes:
    """Offsets in a wrapper of format 1 count from 0, and its own is the last one's; its time of the append is that of all
    (AbstractLegacyRecordBatch)."""
    if check_crcs:
        _check_crc(message)
    messages = list(_inner(message)) if message.codec else [message]
    shift = message.offset - messages[-1].offset if message.magic else 0
    if shift < 0:
        raise Refusal(ErrorCode.INVALID_RECORD, "a compressed message has a lower offset than its last message")
    append_time = message.data[_ATTRIBUTES] & TIMESTAMP_TYPE_BIT if message.magic else 0
    time = _fields(message)[0]
    records = [BatchRecord(inner.offset + shift, *_fields(inner)) for inner in messages]
    if append_time:
        records = [record._replace(timestamp=time) for record in records]
    first, last = records[0], records[-1]
    span = (last.offset - first.offset, first.timestamp, first.timestamp)
    producer = (NO_PRODUCER_ID, -1, NO_SEQUENCE)
    return rebuild_batch(
        BatchHeader(first.offset, 0, -1, MAGIC, 0, append_time, *span, *producer, len(records)), records
    )


def _messages(data: bytes) -> Iterator[_Message]:
    at = 0
    while (message := _message_at(data, at)) is not None:
        yield message
        at += _ENTRY.size + len(message.data)


def _message_at(data: bytes, at: int) -> _Message | None:
    """None where it is cut short."""
    if at + _ENTRY.size > len(data):
        return None
    offset, size = _ENTRY.unpack_from(data, at)
    at += _ENTRY.size
    if size < _SMALLEST_BYTES:
        raise Refusal(ErrorCode.CORRUPT_MESSAGE, f"a message of the old format claims {size} bytes")
    if size > len(data) - at:
        return None
    magic, attributes = struct.unpack_from(">bB", data, at + 4)
    if magic not in (0, 1):
        raise Refusal(ErrorCode.INVALID_RECORD, f"message format {magic} in an old message set")
    return _Message(magic, attributes & _CODEC_MASK, data[at : at + size], offset)


def _check_crc(message: _Message) -> None:
    (crc,) = struct.unpack_from(">I", message.data)
    if zlib.crc32(message.data[4:]) != crc:
        raise Refusal(ErrorCode.CORRUPT_MESSAGE, "a message of the old format is damaged: its CRC-32 does not fit")


def _fields(message: _Message) -> tuple[int, bytes | None, bytes | None]:
    """Timestamp in ms, -1 in format 0; key; value."""
    try:
        timestamp = struct.unpack_from(">q", message.data, 6)[0] if message.magic else NO_TIMESTAMP
        key, at = _nullable(message.data, 14 if message.magic else 6)
        value, _ = _nullable(message.data, at)
    except struct.error as error:
        raise Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, f"a message of the old format is cut short: {error}") from error
    return timestamp, key, value


def _inner(wrapper: _Message, limit_bytes: int = compression.MAX_UNCOMPRESSED_BYTES) -> Iterator[_Message]:
    _, _, value = _fields(wrapper)
    if value is None or wrapper.codec == compression.ZSTD:
        raise Refusal(ErrorCode.INVALID_RECORD, "a compressed message of the old format holds no message set")
    try:
        if (wrapper.magic, wrapper.codec) == (0, compression.LZ4):
            unfolded = compression.decompress_lz4_format_0(value, limit_bytes)
        else:
            unfolded = compression.decompress(wrapper.codec, value, limit_bytes)
    except compression.UncompressedTooLarge as error:
        raise Refusal(ErrorCode.MESSAGE_TOO_LARGE, str(error)) from error
    except compression.CompressionError as error:
        raise Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)) from error
    if _message_at(unfolded, 0) is None:
        raise Refusal(ErrorCode.INVALID_RECORD, "a compressed message of the old format holds no message")
    for message in _messages(unfolded):
        if message.codec or message.magic != wrapper.magic:
            raise Refusal(
                ErrorCode.INVALID_RECORD, "a compressed message of the old format holds one that is not plain"
            )
        _check_crc(message)
        yield message


def _nullable(message: bytes, at: int) -> tuple[bytes | None, int]:
    """A negative length is null."""
    (size,) = struct.unpack_from(">i", message, at)
    at += 4
    if size < 0:
        return None, at
    if size > len(message) - at:
        raise Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, "a field of an old message runs past its end")
    return message[at : at + size], at + size


# A message that claims more bytes than follow: readers treat it as cut short, and fetch a larger response.
OVERSIZED = struct.pack(">qi", -1, 61)
_BEFORE = struct.Struct(">qiI")  # offset, length, CRC
_FORMAT_0, _FORMAT_1, _LENGTH = struct.Struct(">bbi"), struct.Struct(">bbqi"), struct.Struct(">i")


class CannotConvert(ValueError):
    """A batch whose compression the old formats do not know."""


def to_message_set(data: bytes, magic: int, first_offset: int) -> bytes:
    """The whole batches of ``data`` as a message set of format 0 or 1, at most as long as ``data`` or as its first
    converted batch: the last message may be cut short. Records of an uncompressed batch before ``first_offset`` are left
    out. Empty where nothing but control batches is there. Raises CannotConvert if the first batch is compressed with
    zstd, and stops before a later one; BatchError or CompressionError for records that cannot be read."""
    pieces: list[bytes] = []
    for position, header in batches(data):
        if header.is_control:
            continue
        if header.codec == compression.ZSTD:
            if pieces:
                break
            raise CannotConvert("batches compressed with zstd cannot be converted to an old message format")
        time_bit = header.attributes & TIMESTAMP_TYPE_BIT if magic else 0
        if header.codec == compression.NONE:
            piece = b"".join(
                _message(r, r.offset, magic, time_bit)
                for records in decode_pieces(data, position, header)
                for r in records
                if r.offset >= first_offset
            )
        else:
            piece = _wrapped(data, position, header, magic, time_bit)
        if piece:
            pieces.append(piece)
    if not pieces:
        return b""
    return b"".join(pieces)[: max(len(data), len(pieces[0]))]


def _wrapped(data: bytes, position: int, header: BatchHeader, magic: int, time_bit: int) -> bytes:
    """A compressed batch as one compressed message; empty for one without records."""
    last, newest = None, 0

    def messages() -> Iterator[bytes]:
        nonlocal last, newest
        base = None
        for records in decode_pieces(data, position, header):
            if base is None:
                base, newest = records[0].offset if magic else 0, records[0].timestamp  # format 1 counts inside from 0
            yield b"".join([_message(r, r.offset - base, magic, time_bit) for r in records])
            last, newest = records[-1].offset, max(newest, max(r.timestamp for r in records))

    value = compression.compress_pieces(header.codec, messages())
    if last is None:
        return b""
    if (magic, header.codec) == (0, compression.LZ4):
        value = compression.lz4_of_format_0(value)
    return _message(BatchRecord(last, newest, None, value), last, magic, time_bit | header.codec)


def _message(record: BatchRecord, offset: int, magic: int, attributes: int) -> bytes:
    key, value = record.key, record.value
    size = -1 if key is None else len(key)
    body = (_FORMAT_1.pack(1, attributes, record.timestamp, size) if magic else _FORMAT_0.pack(0, attributes, size)) + (
        key or b""
    )
    body += _LENGTH.pack(-1) if value is None else _LENGTH.pack(len(value)) + value
    return _BEFORE.pack(offset, len(body) + 4, zlib.crc32(body)) + body
