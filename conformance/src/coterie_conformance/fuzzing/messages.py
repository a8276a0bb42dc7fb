"""Random but repeatable values for any declared message."""

from __future__ import annotations

import random
from typing import Any

from coterie.wire.declaration import Struct
from coterie.wire.fields import FieldSpec, FieldType

KNOWN_ERRORS = (0, 3, 16, 22, 25, 27)
_RANGES = {"int8": 100, "int16": 30_000, "int32": 2**31 - 1, "int64": 2**40, "uint16": 60_000, "uint32": 2**32 - 1}


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
