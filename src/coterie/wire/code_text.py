"""The text of a generated codec while it is written: lines, constants, and the struct calls that fields of fixed size share."""

from __future__ import annotations

import struct as struct_module
from typing import Any

from coterie.wire.fields import FieldSpec
from coterie.wire.primitives import (
    UNSIGNED_VARINTS,
    TooManyElements,
    WireError,
    read_unsigned_varint,
    skip_tagged_fields,
)


class CodeText:
    """Collects lines of generated code, the constants they use, and fixed-size fields that wait to be merged."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.indent = 1
        self.constants: dict[str, Any] = {
            "WireError": WireError,
            "TooManyElements": TooManyElements,
            "uvarint": read_unsigned_varint,
            "skip_tagged_fields": skip_tagged_fields,
            "uv": UNSIGNED_VARINTS,
        }
        self.names = 0

    def line(self, text: str) -> None:
        self.lines.append("    " * self.indent + text)

    def fresh(self, stem: str) -> str:
        self.names += 1
        return f"{stem}{self.names}"

    def constant(self, name: str, value: Any) -> str:
        self.constants[name] = value
        return name

    def packing(self, codes: str, verb: str) -> str:
        name = f"{verb}_{codes.replace('?', 'B_')}"
        packer = struct_module.Struct(">" + codes)
        return self.constant(name, packer.pack if verb == "pack" else packer.unpack_from)


def in_body(spec: FieldSpec, version: int) -> bool:
    """Whether that version has the field outside of the tagged fields."""
    return version in spec.versions and spec.tag is None
