"""What a declared message is made of: versions, the types of the wire, fields, and the classes that have them.

`declaration` makes such classes, `codec` encodes and decodes them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

FOREVER = 32_767


@dataclass(frozen=True, slots=True)
class Versions:
    """An inclusive range of versions; empty when ``first > last``."""

    first: int
    last: int

    @classmethod
    def parse(cls, text: str) -> Versions:
        """``"3"``, ``"0-4"``, ``"3+"`` or ``""`` for no version at all."""
        if not text:
            return cls(1, 0)
        if text.endswith("+"):
            return cls(int(text[:-1]), FOREVER)
        first, _, last = text.partition("-")
        return cls(int(first), int(last or first))

    def __contains__(self, version: int) -> bool:
        return self.first <= version <= self.last


@dataclass(frozen=True, slots=True)
class FieldType:
    """A type of the wire. ``code`` is its struct letter when it has a fixed size, else empty."""

    name: str
    code: str = ""
    element: FieldType | None = None
    shape: type[Struct] | None = None


boolean = FieldType("boolean", "?")
int8 = FieldType("int8", "b")
int16 = FieldType("int16", "h")
int32 = FieldType("int32", "i")
int64 = FieldType("int64", "q")
uint16 = FieldType("uint16", "H")
uint32 = FieldType("uint32", "I")
float64 = FieldType("float64", "d")
uuid = FieldType("uuid", "16s")
string = FieldType("string")
bytes_ = FieldType("bytes")
records = FieldType("records")


def array(element: FieldType | type[Struct]) -> FieldType:
    return FieldType("array", element=kind_of(element))


def kind_of(of: FieldType | type[Struct]) -> FieldType:
    return of if isinstance(of, FieldType) else FieldType("struct", shape=of)


@dataclass(frozen=True, slots=True)
class FieldSpec:
    """One field as declared. ``tag`` is None for a field in the body, its number for a tagged one; ``null_as`` what null is
    encoded as in versions that have no null, None where null is an error there."""

    name: str
    kind: FieldType
    versions: Versions
    nullable: Versions
    tag: int | None
    default: Any
    null_as: str | None

    @property
    def is_null_without_bytes(self) -> bool:
        """Whether a version that does not carry the field leaves it null. A struct in a tag is never: Kafka's default is an
        empty one there."""
        never = self.kind.shape is not None and (self.tag is not None or self.nullable.first > self.nullable.last)
        return self.default is None and not never


class Struct:
    """A part of a message; declared with `struct`."""

    __slots__ = ()
    fields: ClassVar[tuple[FieldSpec, ...]] = ()

    # Once for all of the 300 classes: generated for each of them, both take half of the time and memory of their declaration.
    def __repr__(self) -> str:
        values = ", ".join(f"{spec.name}={getattr(self, spec.name)!r}" for spec in self.fields)
        return f"{type(self).__qualname__}({values})"

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, spec.name) == getattr(other, spec.name) for spec in self.fields)


class VersionedStruct(Struct):
    """A struct with versions of its own: what `codec` encodes as a whole. `message.Message` is its only subclass."""

    __slots__ = ()
    api_key: ClassVar[int] = -1
    versions: ClassVar[Versions] = Versions(0, 0)
    flexible: ClassVar[Versions] = Versions(1, 0)
