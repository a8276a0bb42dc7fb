"""How a message is declared: a class whose annotated fields say their kind and the versions that carry them.

    @message(api_key=12, versions="0-4", flexible="4+")
    class HeartbeatRequest(Message):
        group_id: str = field(string)
        group_instance_id: str | None = field(string, "3+", nullable="3+", default=None)

The class becomes a dataclass with slots. Its codec for one version is straight-line Python, generated at first use
(`codec.py`). A field that a version does not carry is left out when encoding and has its default when decoded.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Self, TypeVar, dataclass_transform

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
    return FieldType("array", element=_kind(element))


def _kind(of: FieldType | type[Struct]) -> FieldType:
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


_NO_DEFAULT: Any = object()
_ZERO = {"boolean": False, "float64": 0.0, "uuid": bytes(16), "string": "", "bytes": b"", "records": None}


def field(
    kind: FieldType | type[Struct],
    versions: str = "0+",
    *,
    nullable: str = "",
    tag: int | None = None,
    default: Any = _NO_DEFAULT,
    null_as: str | None = None,
) -> Any:
    """Declares a field: its kind, the versions that carry it, those in which it may be null, its tag if tagged, and the text
    that stands for null in the other versions."""
    kind = _kind(kind)
    carried, null = Versions.parse(versions), Versions.parse(nullable)
    meta = {"kind": kind, "versions": carried, "nullable": null, "tag": tag, "null_as": null_as}
    if default is _NO_DEFAULT:
        if kind.name == "array":
            return dataclasses.field(default_factory=list, metadata=meta)
        if kind.shape is not None:
            return dataclasses.field(default_factory=kind.shape, metadata=meta)
        default = _ZERO.get(kind.name, 0)
    return dataclasses.field(default=default, metadata=meta)


class Struct:
    """A part of a message; declared with `struct`."""

    __slots__ = ()
    fields: ClassVar[tuple[FieldSpec, ...]] = ()


class Message(Struct):
    """A whole request, response or stored value; declared with `message`."""

    __slots__ = ()
    api_key: ClassVar[int] = -1
    versions: ClassVar[Versions] = Versions(0, 0)
    flexible: ClassVar[Versions] = Versions(1, 0)

    def encode(self, version: int) -> bytes:
        """The body in that version. Raises WireError for a value that the version cannot carry."""
        from coterie.wire.codec import encode

        return encode(self, version)

    @classmethod
    def decode(cls, data: bytes, version: int, position: int = 0) -> Self:
        """The message at ``position``. Raises WireError for bytes that are not such a message."""
        from coterie.wire.codec import decode

        return decode(cls, data, version, position)[0]


S = TypeVar("S", bound=Struct)
M = TypeVar("M", bound=Message)


def _declared_default(f: dataclasses.Field[Any]) -> Any:
    """A struct's is made by its class and stands as None here."""
    if f.default is not dataclasses.MISSING:
        return f.default
    return [] if f.metadata["kind"].name == "array" else None


def _as_dataclass(cls: type[S]) -> type[S]:
    made = dataclass(slots=True)(cls)
    made.fields = tuple(
        FieldSpec(
            f.name,
            f.metadata["kind"],
            f.metadata["versions"],
            f.metadata["nullable"],
            f.metadata["tag"],
            _declared_default(f),
            f.metadata["null_as"],
        )
        for f in dataclasses.fields(made)  # type: ignore[arg-type]
    )
    return made


@dataclass_transform()  # without specifiers a checker takes every field for one with a default, which it is
def struct(cls: type[S]) -> type[S]:
    """Declares a part of a message."""
    return _as_dataclass(cls)


@dataclass_transform()  # without specifiers a checker takes every field for one with a default, which it is
def message(*, versions: str, flexible: str = "", api_key: int = -1) -> Callable[[type[M]], type[M]]:
    """Declares a message: the versions that exist here and the flexible ones (KIP-482)."""

    def declare(cls: type[M]) -> type[M]:
        made = _as_dataclass(cls)
        made.api_key = api_key
        made.versions = Versions.parse(versions)
        made.flexible = Versions.parse(flexible)
        return made

    return declare
