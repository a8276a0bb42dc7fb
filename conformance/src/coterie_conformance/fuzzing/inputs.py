"""Malformed inputs made from a random source: record batches whose fields lie (negative and overlong varints, counts that
are not true, lengths across a boundary), and random but repeatable values for any declared message."""

from __future__ import annotations

import random
import struct
import zlib
from typing import Any

from coterie.records import compression
from coterie.records.batch import BatchHeader
from coterie.records.encoding import sealed
from coterie.wire.declaration import Struct
from coterie.wire.fields import FieldSpec, FieldType
from coterie.wire.primitives import write_unsigned_varint

RATES = (0.0, 0.02, 0.2)  # how often a field of a batch lies
_EXTREMES = (-1, -2, -5, 0, 1, 2**31 - 1, -(2**31), 2**40, -(2**40), 2**63 - 1, -(2**63))
_DELTAS = (0, 1, -1, 5, -(10**13), 2**62, 2**63 - 1, -(2**63))
_TIMESTAMPS = (-1, 0, 5, 1_700_000_000_000, 2**62, 2**63 - 1, -(2**63))
KNOWN_ERRORS = (0, 3, 16, 22, 25, 27)
_RANGES = {"int8": 100, "int16": 30_000, "int32": 2**31 - 1, "int64": 2**40, "uint16": 60_000, "uint32": 2**32 - 1}


def malformed_batch(rng: random.Random, codec: int | None = None) -> bytes:
    """One batch of format 2 at offset 0; ``codec`` None takes any."""
    rate = rng.choice(RATES)
    count = rng.choice((1, 2, 3, rng.randrange(1, 80)))
    body = malformed_body(rng, rate, count)
    if codec is None:
        codec = rng.choice((0, 0, 0, 1, 2, 3, 4))
    claimed = _number(rng, rate, count)
    base_timestamp = rng.choice(_TIMESTAMPS)
    packed = _spoiled(rng, rate, compression.compress(codec, body)) if codec else body
    header = BatchHeader(
        base_offset=0,
        length=0,
        leader_epoch=-1,
        magic=2,
        crc=0,
        attributes=codec | (8 if rng.random() < rate else 0),
        last_offset_delta=_int32(claimed - 1),
        base_timestamp=base_timestamp,
        max_timestamp=rng.choice((base_timestamp, *_TIMESTAMPS)),
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        record_count=_int32(claimed),
    )
    return sealed(packed, header)


def malformed_body(rng: random.Random, rate: float, count: int) -> bytes:
    """The records, unfolded; sometimes with bytes after them or without the last ones."""
    body = b"".join(_record(rng, rate, index) for index in range(count))
    if rng.random() < rate:
        body += rng.randbytes(rng.randrange(1, 9))
    if rng.random() < rate:
        body = body[: rng.randrange(len(body) + 1)]
    return body


def malformed_message_set(rng: random.Random) -> bytes:
    """A message set of format 0 or 1, its CRC-32 right."""
    rate, magic = rng.choice(RATES), rng.choice((0, 1))
    messages = [_message(rng, rate, magic, 0, rng.randbytes(rng.randrange(40)), n) for n in range(rng.randrange(1, 5))]
    plain = b"".join(messages)
    codec = rng.choice((0, 1, 2, 3))
    if not codec:
        return plain
    return _message(rng, rate, magic, codec, _spoiled(rng, rate, compression.compress(codec, plain)), len(messages) - 1)


def _message(rng: random.Random, rate: float, magic: int, codec: int, value: bytes, offset: int) -> bytes:
    rest = struct.pack(">bB", magic if rng.random() >= rate else 1 - magic, codec)
    rest += struct.pack(">q", rng.choice(_TIMESTAMPS)) if magic else b""
    key = rng.choice((None, b"", b"key"))
    rest += struct.pack(">i", _int32(_number(rng, rate, -1 if key is None else len(key)))) + (key or b"")
    rest += struct.pack(">i", _int32(_number(rng, rate, len(value)))) + value
    return struct.pack(">qiI", offset, _int32(_number(rng, rate, len(rest) + 4)), zlib.crc32(rest)) + rest


def _record(rng: random.Random, rate: float, index: int) -> bytes:
    record = bytes((rng.choice((0, 0, 0x81)),))
    record += _varint(rng, rate, rng.choice(_DELTAS), 10)
    record += _varint(rng, rate, index if rng.random() >= rate else 7, 5)
    record += _blob(rng, rate, nullable=True) + _blob(rng, rate, nullable=True)
    headers = rng.choice((0, 0, 0, 1, 2))
    record += _varint(rng, rate, _number(rng, rate, headers), 5)
    for _ in range(headers):
        record += _blob(rng, rate, nullable=False) + _blob(rng, rate, nullable=True)
    return _varint(rng, rate, _number(rng, rate, len(record)), 5) + record


def _blob(rng: random.Random, rate: float, *, nullable: bool) -> bytes:
    if nullable and rng.random() < 0.2:
        return _varint(rng, rate, -1, 5)
    data = rng.randbytes(rng.choice((0, 1, 3, 10, 70, 300)))
    return _varint(rng, rate, _number(rng, rate, len(data)), 5) + data


def _number(rng: random.Random, rate: float, true: int) -> int:
    if rng.random() >= rate:
        return true
    return rng.choice((true - 1, true + 1, -true, *_EXTREMES))


def _varint(rng: random.Random, rate: float, value: int, most_bytes: int) -> bytes:
    """Zigzag; where it lies, longer than it need be, up to more bytes than are allowed."""
    raw = write_unsigned_varint(((value << 1) ^ (value >> 63)) & 0xFFFF_FFFF_FFFF_FFFF)
    if rng.random() < rate:
        more = rng.randrange(most_bytes + 2)
        raw = raw[:-1] + bytes((raw[-1] | 0x80,)) + b"\x80" * more + bytes((rng.choice((0, 1, 0x7F)),))
    return raw


def _spoiled(rng: random.Random, rate: float, packed: bytes) -> bytes:
    if rng.random() >= rate:
        return packed
    changed = bytearray(packed)
    changed[rng.randrange(len(changed))] = rng.randrange(256)
    return bytes(changed[: rng.randrange(len(changed)) if rng.random() < 0.3 else None])


def _int32(value: int) -> int:
    return (value + 2**31) % 2**32 - 2**31


def random_struct(shape: type[Struct], version: int, rng: random.Random) -> Any:
    """An instance whose fields of that version have values, and whose other fields have their defaults."""
    values = {s.name: random_field(s, version, rng) for s in shape.fields if version in s.versions}
    return shape(**values)


def random_field(spec: FieldSpec, version: int, rng: random.Random) -> Any:
    """A random value of the field's type: an error code that exists, a plausible time, or any."""
    if version in spec.nullable and rng.random() < 0.3:
        return None
    if spec.name.endswith("error_code"):
        return rng.choice(KNOWN_ERRORS)
    if spec.name.endswith("_ms") or "timestamp" in spec.name:
        return rng.randrange(0, 2**20) * 1000
    return _value(spec.kind, version, rng)


def _value(kind: FieldType, version: int, rng: random.Random) -> Any:
    if kind.shape is not None:
        return random_struct(kind.shape, version, rng)
    if kind.element is not None:
        return [_value(kind.element, version, rng) for _ in range(rng.choice((0, 1, 3)))]
    match kind.name:
        case "boolean":
            return rng.random() < 0.5
        case "uuid":
            return rng.randbytes(16)
        case "string":
            return "".join(rng.choice("abcäß漢-_. ") for _ in range(rng.choice((0, 5, 130))))
        case "bytes" | "records":
            return rng.randbytes(rng.choice((0, 7, 200)))
        case "float64":
            return rng.uniform(-1e9, 1e9)
        case _:
            return rng.randrange(0, _RANGES[kind.name])
