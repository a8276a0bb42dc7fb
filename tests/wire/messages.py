"""Values for any declared message from its schema alone, with the edges of every type; the same for a seed."""

from __future__ import annotations

import random
from typing import Any

from coterie.wire.apis import APIS, CLUSTER_APIS
from coterie.wire.declaration import Message, Struct
from coterie.wire.fields import FieldSpec, FieldType
from coterie.wire.messages.stored import (
    consumer_group_records,
    consumer_offsets,
    consumer_protocol,
    metadata_records,
    producer_snapshot,
    share_group_records,
    share_group_state,
    sticky_assignor,
    streams_group_records,
    transaction_state,
)

STORED = (
    consumer_group_records,
    consumer_offsets,
    consumer_protocol,
    metadata_records,
    producer_snapshot,
    share_group_records,
    share_group_state,
    sticky_assignor,
    streams_group_records,
    transaction_state,
)
EVERY: list[type[Message]] = [
    message for api in [*APIS.values(), *CLUSTER_APIS.values()] for message in (api.request, api.response)
]
EVERY += [
    member
    for module in STORED
    for member in vars(module).values()
    if isinstance(member, type) and issubclass(member, Message) and member.__module__ == module.__name__
]

_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
_UNSIGNED_BITS = {"uint16": 16, "uint32": 32}
# Lengths at which the varint of a compact length grows, beside short ones.
_TEXTS = ("", "t", "group-1", "ä" * 63, "x" * 126, "x" * 127, "漢" * 60, "\U0001f600", "\0")
_BYTES = (b"", b"\0", b"\xff" * 126, b"\0" * 127, b"x" * 16_383)


def made(shape: type[Struct], version: int, rng: random.Random) -> Any:
    """An instance of the message or the part of one; fields that the version does not carry have their defaults."""
    return shape(**{spec.name: _field(spec, version, rng) for spec in shape.fields if version in spec.versions})


def _field(spec: FieldSpec, version: int, rng: random.Random) -> Any:
    if (version in spec.nullable or spec.kind.name == "records") and rng.random() < 0.25:
        return None
    if spec.tag is not None and spec.kind.shape is None and rng.random() < 0.3:
        return spec.default
    return _value(spec.kind, version, rng)


def _value(kind: FieldType, version: int, rng: random.Random) -> Any:
    if kind.shape is not None:
        return made(kind.shape, version, rng)
    if kind.element is not None:
        return [_value(kind.element, version, rng) for _ in range(rng.choice((0, 1, 2)))]
    if kind.name in _BITS:
        half = 1 << (_BITS[kind.name] - 1)
        return rng.choice((0, 1, -1, half - 1, -half, rng.randrange(-half, half)))
    if kind.name in _UNSIGNED_BITS:
        end = 1 << _UNSIGNED_BITS[kind.name]
        return rng.choice((0, 1, end - 1, rng.randrange(end)))
    match kind.name:
        case "boolean":
            return rng.random() < 0.5
        case "float64":
            return rng.choice((0.0, -1.5, float("inf"), rng.uniform(-1e9, 1e9)))
        case "uuid":
            return rng.choice((bytes(16), rng.randbytes(16)))
        case "string":
            return rng.choice(_TEXTS)
    assert kind.name in ("bytes", "records"), kind
    return rng.choice((*_BYTES, rng.randbytes(5)))
