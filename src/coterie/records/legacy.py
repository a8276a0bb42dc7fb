"""Message sets v0 and v1, as Produce 0-2 carries them, turned into batches v2 before they reach a log.

Source: Kafka's documentation, "Old Message Format". A compressed message wraps a whole message set. What is refused, and
with which code, is as in Kafka's LogValidator, AbstractLegacyRecordBatch and MemoryRecordsBuilder.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import NamedTuple

from coterie.records import compression
from coterie.records.batch import NO_TIMESTAMP
from coterie.records.encoding import encode_batch
from coterie.wire.errors import ErrorCode, Refusal

_ENTRY = struct.Struct(">qi")
_SMALLEST_BYTES = 14
_CODEC_MASK = 0x07


class _Message(NamedTuple):
    """A message as it stands in a set; ``data`` begins with its CRC."""

    magic: int
    codec: int
    data: bytes


def is_legacy(data: bytes) -> bool:
    """Whether the first entry is a message of format 0 or 1: the format byte stands at the same place in all."""
    return len(data) > 16 and data[16] < 2


def to_batch(data: bytes) -> bytes:
    """One batch v2 with the messages of the set, compressed as its wrapper was; a message cut short at the end is left
    out. Messages of format 0 have no timestamp (-1). Raises Refusal."""
    messages = list(_messages(data))
    for message in messages:
        _check_crc(message)
    if not messages:
        raise Refusal(ErrorCode.CORRUPT_MESSAGE, "the message set holds no whole message")
    first = messages[0]
    if any(message.codec for message in messages):
        if len(messages) > 1:
            raise Refusal(ErrorCode.INVALID_RECORD, "a compressed message does not stand alone in its set")
        messages = list(_inner(first))
    items = []
    for message in messages:
        if message.magic != first.magic:
            raise Refusal(ErrorCode.INVALID_RECORD, "the messages of the set are of different formats")
        timestamp, key, value = _fields(message)
        if timestamp < NO_TIMESTAMP:
            raise Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, f"a message of the old format has the timestamp {timestamp}")
        items.append((timestamp, key, value, ()))
    return encode_batch(items, codec=first.codec)


def _messages(data: bytes) -> Iterator[_Message]:
    at = 0
    while at + _ENTRY.size <= len(data):
        _, size = _ENTRY.unpack_from(data, at)
        at += _ENTRY.size
        if size < _SMALLEST_BYTES:
            raise Refusal(ErrorCode.CORRUPT_MESSAGE, f"a message of the old format claims {size} bytes")
        if size > len(data) - at:
            return
        magic, attributes = struct.unpack_from(">bB", data, at + 4)
        if magic not in (0, 1):
            raise Refusal(ErrorCode.INVALID_RECORD, f"message format {magic} in an old message set")
        yield _Message(magic, attributes & _CODEC_MASK, data[at : at + size])
        at += size


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


def _inner(wrapper: _Message) -> Iterator[_Message]:
    _, _, value = _fields(wrapper)
    if value is None or wrapper.codec == compression.ZSTD:
        raise Refusal(ErrorCode.INVALID_RECORD, "a compressed message of the old format holds no message set")
    try:
        if (wrapper.magic, wrapper.codec) == (0, compression.LZ4):
            unfolded = compression.decompress_lz4_format_0(value)
        else:
            unfolded = compression.decompress(wrapper.codec, value)
    except compression.UncompressedTooLarge as error:
        raise Refusal(ErrorCode.MESSAGE_TOO_LARGE, str(error)) from error
    except compression.CompressionError as error:
        raise Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)) from error
    messages = list(_messages(unfolded))
    if not messages:
        raise Refusal(ErrorCode.INVALID_RECORD, "a compressed message of the old format holds no message")
    for message in messages:
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
