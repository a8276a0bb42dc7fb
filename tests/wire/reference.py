"""Kafka's protocol guide ("Protocol Primitive Types", KIP-482) as an interpreter of declarations: field by field, slow, each
read bounded by the data, and with no code in common with the generated codecs that it judges."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

from coterie.wire.declaration import Message, Struct
from coterie.wire.fields import FieldSpec, FieldType

Unknown = Callable[[type[Struct]], Sequence[tuple[int, bytes]]]
_INTEGERS = {"int8": (1, True), "int16": (2, True), "int32": (4, True), "int64": (8, True)}
_INTEGERS |= {"uint16": (2, False), "uint32": (4, False)}


class Refused(Exception):
    """Bytes that are no such message."""


def none(_shape: type[Struct]) -> Sequence[tuple[int, bytes]]:
    return ()


# -- writing ---------------------------------------------------------------------------------------------------------------


def unsigned_varint(value: int) -> bytes:
    """Groups of seven bits, the lowest first; all bytes but the last have their highest bit set."""
    groups = [value >> shift & 0x7F for shift in range(0, max(value.bit_length(), 1), 7)]
    return bytes(group | 0x80 for group in groups[:-1]) + bytes(groups[-1:])


def encode(message: Message, version: int, unknown: Unknown = none) -> bytes:
    """The message; in each of its structs also the tagged fields (tag, bytes) that ``unknown`` returns for the struct."""
    return _Writer(version, version in type(message).flexible, unknown).struct(message)


class _Writer:
    def __init__(self, version: int, flexible: bool, unknown: Unknown) -> None:
        self.version, self.flexible, self.unknown = version, flexible, unknown

    def struct(self, value: Struct) -> bytes:
        specs = [s for s in value.fields if self.version in s.versions]
        out = b"".join(self.field(s, getattr(value, s.name)) for s in specs if s.tag is None)
        if not self.flexible:
            return out
        tagged = {
            s.tag: self.field(s, of)
            for s in specs
            if s.tag is not None and (of := getattr(value, s.name)) != default(s)
        }
        tagged |= dict(self.unknown(type(value)))
        out += unsigned_varint(len(tagged))
        for tag in sorted(tag for tag in tagged if tag is not None):
            out += unsigned_varint(tag) + unsigned_varint(len(tagged[tag])) + tagged[tag]
        return out

    def field(self, spec: FieldSpec, value: Any) -> bytes:
        nullable = self.version in spec.nullable or spec.kind.name == "records"
        if spec.kind.shape is not None and nullable:
            null = b"\xff" if spec.tag is None else b"\x00"
            return null if value is None else b"\x01" + self.struct(value)
        return self.value(spec.kind, value)

    def value(self, kind: FieldType, value: Any) -> bytes:
        if kind.shape is not None:
            return self.struct(value)
        if kind.name in _INTEGERS:
            size, signed = _INTEGERS[kind.name]
            return int(value).to_bytes(size, "big", signed=signed)
        match kind.name:
            case "boolean":
                return b"\x01" if value else b"\x00"
            case "float64":
                return struct.pack(">d", value)
            case "uuid":
                return bytes(value)
        if kind.element is not None:
            pieces = [] if value is None else [self.value(kind.element, item) for item in value]
            return self.length(4, None if value is None else len(pieces)) + b"".join(pieces)
        raw = value.encode("utf-8") if kind.name == "string" and value is not None else value
        return self.length(2 if kind.name == "string" else 4, None if raw is None else len(raw)) + (raw or b"")

    def length(self, size: int, of: int | None) -> bytes:
        if self.flexible:
            return unsigned_varint(0 if of is None else of + 1)
        return (-1 if of is None else of).to_bytes(size, "big", signed=True)


def default(spec: FieldSpec) -> Any:
    """What a field is where no bytes say so."""
    return spec.kind.shape() if spec.kind.shape is not None and not spec.is_null_without_bytes else spec.default


# -- reading ---------------------------------------------------------------------------------------------------------------


def decode(cls: type[Message], data: bytes, version: int, position: int = 0) -> tuple[Any, int]:
    """The message and the position after it. Raises Refused."""
    reader = _Reader(data, position, version, version in cls.flexible)
    return reader.struct(cls), reader.position


class _Reader:
    def __init__(self, data: bytes, position: int, version: int, flexible: bool) -> None:
        self.data, self.position, self.version, self.flexible = data, position, version, flexible

    def take(self, size: int) -> bytes:
        if size < 0 or self.position + size > len(self.data):
            raise Refused(f"{size} bytes at {self.position} of {len(self.data)}")
        self.position += size
        return self.data[self.position - size : self.position]

    def unsigned_varint(self) -> int:
        value = 0
        for shift in range(0, 35, 7):
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise Refused("a varint of more than 5 bytes")

    def struct(self, shape: type[Struct]) -> Any:
        values = {s.name: default(s) for s in shape.fields}
        specs = [s for s in shape.fields if self.version in s.versions]
        for spec in specs:
            if spec.tag is None:
                values[spec.name] = self.field(spec)
        if self.flexible:
            known = {s.tag: s for s in specs if s.tag is not None}
            for _ in range(self.unsigned_varint()):
                tag, size = self.unsigned_varint(), self.unsigned_varint()
                if tag in known:  # Kafka's generated classes read it and do not look at the size
                    values[known[tag].name] = self.field(known[tag])
                else:
                    self.take(size)
        return shape(**values)

    def field(self, spec: FieldSpec) -> Any:
        nullable = self.version in spec.nullable or spec.kind.name == "records"
        if spec.kind.shape is not None and nullable:
            null = self.take(1)[0] >= 0x80 if spec.tag is None else self.unsigned_varint() == 0
            return None if null else self.struct(spec.kind.shape)
        value = self.value(spec.kind)
        if value is None and not nullable:
            raise Refused(f"{spec.name} is null")
        return value

    def value(self, kind: FieldType) -> Any:
        if kind.shape is not None:
            return self.struct(kind.shape)
        if kind.name in _INTEGERS:
            size, signed = _INTEGERS[kind.name]
            return int.from_bytes(self.take(size), "big", signed=signed)
        match kind.name:
            case "boolean":
                return self.take(1) != b"\0"
            case "float64":
                return struct.unpack(">d", self.take(8))[0]
            case "uuid":
                return self.take(16)
        length = self.length(2 if kind.name == "string" else 4)
        if length < 0:
            return None
        if kind.element is not None:
            if length > len(self.data) - self.position:  # an element has a byte at least
                raise Refused(f"{length} elements")
            return [self.element(kind.element) for _ in range(length)]
        raw = self.take(length)
        if kind.name != "string":
            return raw
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError as error:
            raise Refused(str(error)) from error

    def element(self, kind: FieldType) -> Any:
        value = self.value(kind)
        if value is None:
            raise Refused("an element is null")
        return value

    def length(self, size: int) -> int:
        return self.unsigned_varint() - 1 if self.flexible else int.from_bytes(self.take(size), "big", signed=True)


# -- counting --------------------------------------------------------------------------------------------------------------


def elements(value: Struct, version: int) -> int:
    """Elements of arrays and tagged fields, which is what a reader may bound."""
    flexible = isinstance(value, Message) and version in type(value).flexible
    return _elements(value, version, flexible)


def _elements(value: Struct, version: int, flexible: bool) -> int:
    count = 0
    for spec in value.fields:
        held = getattr(value, spec.name)
        if version not in spec.versions or (spec.tag is not None and (not flexible or held == default(spec))):
            continue
        count += spec.tag is not None
        for item in held if isinstance(held, list) else [held]:
            count += isinstance(held, list)
            count += _elements(item, version, flexible) if isinstance(item, Struct) else 0
    return count
