"""Record batches described as data, and bytes from a Fetch described the same way.

    {"magic": 2, "codec": 0, "records": [["key", "value", 0]], "producer": <form>, "epoch": 0, "sequence": 0,
     "transactional": false, "control": false, "damage": "crc"}

A record is [key, value, milliseconds from the story's start, headers]; null is null. ``at`` replaces the time of all
records. Sources: Kafka's documentation, "Record Batch" and "Old Message Format".
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from typing import Any

import google_crc32c

from coterie.records import compression
from coterie.records.batch import CONTROL_BIT, TIMESTAMP_TYPE_BIT, TRANSACTIONAL_BIT, BatchError, batches
from coterie.records.decoding import decode_records
from coterie.records.encoding import encode_batch
from coterie.wire.primitives import WireError

Described = dict[str, Any]
DAMAGES: dict[str, tuple[str, int, int]] = {  # what is overwritten: its struct letter, where it stands, the new value
    "crc": (">I", 17, 1),
    "count": (">i", 57, 7),
    "last offset delta": (">i", 23, 5),
    "length": (">i", 8, 20),
    "magic": (">b", 16, 3),
    "negative magic": (">b", 16, -1),
    "base offset": (">q", 0, 77),
    "leader epoch": (">i", 12, 9),
}
_ATTRIBUTES_OFFSET = 21


def encode_described(described: Described, base_ms: int, resolve: Callable[[Any], int]) -> bytes:
    """The bytes of one batch or message set."""
    if "hex" in described:
        return bytes.fromhex(described["hex"])
    records = [_record(r, described.get("at", base_ms + (r[2] if len(r) > 2 else 0))) for r in described["records"]]
    if described.get("magic", 2) < 2:
        return _message_set(described["magic"], described.get("codec", 0), records)
    attributes = described.get("attributes", 0)
    codec = described.get("codec", 0)
    attributes |= codec
    attributes |= TRANSACTIONAL_BIT if described.get("transactional") else 0
    attributes |= CONTROL_BIT if described.get("control") else 0
    data = bytearray(
        encode_batch(
            records,
            codec=codec if codec <= compression.ZSTD else compression.NONE,
            producer_id=resolve(described.get("producer", -1)),
            producer_epoch=resolve(described.get("epoch", -1)),
            base_sequence=described.get("sequence", -1),
            attributes=attributes,
        )
    )
    return _damaged(data, described.get("damage", ""))


def _record(record: list[Any], at_ms: int) -> tuple[int, bytes | None, bytes | None, tuple[tuple[str, bytes], ...]]:
    key, value = (None if text is None else text.encode() for text in record[:2])
    headers = tuple((name, text.encode()) for name, text in (record[3] if len(record) > 3 else ()))
    return at_ms, key, value, headers


def _damaged(data: bytearray, damage: str) -> bytes:
    if damage == "cut short":
        return bytes(data[:-3])
    if damage == "body":
        data[-1] ^= 0xFF
        _seal(data)
    elif damage:
        letter, at, value = DAMAGES[damage]
        struct.pack_into(letter, data, at, value)
        if at > _ATTRIBUTES_OFFSET:
            _seal(data)
    return bytes(data)


def _seal(data: bytearray) -> None:
    struct.pack_into(">I", data, 17, google_crc32c.value(bytes(data[_ATTRIBUTES_OFFSET:])))


def _message_set(magic: int, codec: int, records: list[Any]) -> bytes:
    """Messages of the old formats; compressed, they stand in one wrapper."""
    plain = [_message(magic, 0, at, key, value, n) for n, (at, key, value, _) in enumerate(records)]
    if not codec:
        return b"".join(plain)
    inner = compression.compress(codec, b"".join(plain))
    return _message(magic, codec, records[-1][0], None, inner, len(records) - 1)


def _message(magic: int, codec: int, at_ms: int, *rest: Any) -> bytes:
    key, value, offset = rest
    body = struct.pack(">bb", magic, codec) + (struct.pack(">q", at_ms) if magic else b"")
    for text in (key, value):
        body += struct.pack(">i", -1 if text is None else len(text)) + (text or b"")
    return struct.pack(">qiI", offset, len(body) + 4, zlib.crc32(body)) + body


def describe_bytes(data: bytes | None, producer: Callable[[int], Any], time: Callable[[int], Any]) -> Any:
    """The records of a Fetch response: whole batches only, since a broker may cut the last one short; None stays None."""
    if data is None:
        return None
    try:
        if len(data) > 16 and data[16] < 2:
            return _describe_messages(data, time)
        return [_describe_batch(data, position, header, producer, time) for position, header in batches(data)]
    except (BatchError, WireError, compression.CompressionError, struct.error) as error:
        return f"unreadable: {type(error).__name__}"


def _describe_batch(data: bytes, position: int, header: Any, *words: Callable[[int], Any]) -> Described:
    producer, time = words
    records = decode_records(data, position, header)
    return {
        "offset": header.base_offset,
        "last": header.last_offset,
        "codec": header.codec,
        "time type": bool(header.attributes & TIMESTAMP_TYPE_BIT),
        "transactional": header.is_transactional,
        "control": header.is_control,
        "leader epoch": header.leader_epoch,
        "max timestamp": time(header.max_timestamp),
        "producer": [producer(header.producer_id), header.producer_epoch, header.base_sequence],
        "records": [
            [r.offset, time(r.timestamp), _text(r.key), _text(r.value), [[n, _text(v)] for n, v in r.headers]]
            for r in records
        ],
    }


def _describe_messages(data: bytes, time: Callable[[int], Any]) -> list[Described]:
    messages, at = list[Described](), 0
    while at + 26 <= len(data):
        offset, size, _, magic, attributes = struct.unpack_from(">qiIbb", data, at)
        if at + 12 + size > len(data):
            break
        stamp = time(struct.unpack_from(">q", data, at + 18)[0]) if magic == 1 else None
        body = at + (26 if magic == 1 else 18)
        one = {"offset": offset, "magic": magic, "codec": attributes & 7, "time": stamp}
        if not attributes & 7:
            one["value"] = _text(data[body : at + 12 + size])
        messages.append(one)
        at += 12 + size
    return messages


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode("latin-1")
