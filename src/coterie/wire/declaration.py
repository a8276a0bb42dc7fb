"""How a message is declared: a class whose annotated fields say their kind and the versions that carry them.

    @message(api_key=12, versions="0-4", flexible="4+")
    class HeartbeatRequest(Message):
        group_id: str = field(string)
        group_instance_id: str | None = field(string, "3+", nullable="3+", default=None)

The class becomes a dataclass with slots. Its codec for one version, straight-line Python (`codec.py`), is generated at first
use. A field that a version does not carry is left out when encoding and has its default when decoded.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self, TypeVar, dataclass_transform

from coterie.wire.codec import decode, encode
from coterie.wire.fields import (
    FieldSpec,
    FieldType,
    Struct,
    VersionedStruct,
    Versions,
    array,
    boolean,
    bytes_,
    float64,
    int8,
    int16,
    int32,
    int64,
    kind_of,
    records,
    string,
    uint16,
    uint32,
    uuid,
)

__all__ = [
    "Message",
    "Struct",
    "array",
    "boolean",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint16",
    "uint32",
    "float64",
    "uuid",
    "string",
    "bytes_",
    "records",
    "field",
    "message",
    "struct",
]

_NO_DEFAULT: Any = object()
_ZERO = {"boolean": False, "float64": 0.0, "uuid": bytes(16), "string": "", "bytes": b"", "records": None}


class Message(VersionedStruct):
    """A whole request, response or stored value; declared with `message`."""

    __slots__ = ()

    def encode(self, version: int) -> bytes:
        """The body in that version. Raises WireError for a value that the version cannot carry."""
        return encode(self, version)

    @classmethod
    def decode(cls, data: bytes, version: int, position: int = 0) -> Self:
        """The message at ``position``. Raises WireError for bytes that are not such a message."""
        return decode(cls, data, version, position)[0]


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
    kind = kind_of(kind)
    carried, null = Versions.parse(versions), Versions.parse(nullable)
    meta = {"kind": kind, "versions": carried, "nullable": null, "tag": tag, "null_as": null_as}
    if default is _NO_DEFAULT:
        if kind.name == "array":
            return dataclasses.field(default_factory=list, metadata=meta)
        if kind.shape is not None:
            return dataclasses.field(default_factory=kind.shape, metadata=meta)
        default = _ZERO.get(kind.name, 0)
    return dataclasses.field(default=default, metadata=meta)


S = TypeVar("S", bound=Struct)
M = TypeVar("M", bound=Message)


def _declared_default(f: dataclasses.Field[Any]) -> Any:
    """A struct's is made by its class and stands as None here."""
    if f.default is not dataclasses.MISSING:
        return f.default
    return [] if f.metadata["kind"].name == "array" else None


def _spec(name: str, f: dataclasses.Field[Any]) -> FieldSpec:
    meta = f.metadata
    return FieldSpec(
        name,
        meta["kind"],
        versions=meta["versions"],
        nullable=meta["nullable"],
        tag=meta["tag"],
        default=_declared_default(f),
        null_as=meta["null_as"],
    )


def _as_dataclass(cls: type[S]) -> type[S]:
    if cls.__doc__ is None:
        cls.__doc__ = cls.__name__  # or dataclass writes the signature there, which takes a sixth of its time
    made = dataclass(slots=True, repr=False, eq=False)(cls)
    made.fields = tuple(_spec(f.name, f) for f in dataclasses.fields(made))  # type: ignore[arg-type]
    return made


@dataclass_transform()  # without specifiers a checker takes every field for one with a default, which it is
def struct(cls: type[S]) -> type[S]:
    """Declares a part of a message."""
    return _as_dataclass(cls)


def _set_versions(cls: type[Message], versions: str, flexible: str, api_key: int) -> None:
    cls.api_key, cls.versions, cls.flexible = api_key, Versions.parse(versions), Versions.parse(flexible)


@dataclass_transform()  # without specifiers a checker takes every field for one with a default, which it is
def message(*, versions: str, flexible: str = "", api_key: int = -1) -> Callable[[type[M]], type[M]]:
    """Declares a message: the versions that exist here and the flexible ones (KIP-482)."""

    def declare(cls: type[M]) -> type[M]:
        made = _as_dataclass(cls)
        _set_versions(made, versions, flexible, api_key)
        return made

    return declare
