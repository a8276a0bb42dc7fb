"""Straight-line codecs, generated from a message's declaration at first use of a version, and printable.

`encoder(cls, version)` and `decoder(cls, version)` return the functions; `source(cls, version)` their text. Fixed-size
neighbours (and the length before a string) share one struct call; nothing is interpreted at run time.
"""

from __future__ import annotations

import struct as struct_module
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from coterie.wire.decoder_text import DecoderText
from coterie.wire.encoder_text import EncoderText
from coterie.wire.fields import VersionedStruct
from coterie.wire.primitives import WireError

M = TypeVar("M", bound=VersionedStruct)
Encoder = Callable[[Any, list[bytes]], None]
MAX_ELEMENTS = 2**31 - 1


class Decoder(Protocol):
    """(data, position) to (message, position after it); at most ``room`` elements of arrays and tagged fields in all."""

    def __call__(self, data: bytes, at: int, room: int = MAX_ELEMENTS) -> tuple[Any, int]: ...


def _texts(cls: type[VersionedStruct], version: int) -> tuple[EncoderText, DecoderText]:
    if version not in cls.versions:
        raise WireError(f"{cls.__name__} has no version {version} here")
    flexible = version in cls.flexible
    writer = EncoderText(version, flexible)
    writer.fields(cls, "m")
    writer.flush()
    reader = DecoderText(version, flexible)
    reader.message(cls)
    return writer, reader


def source(cls: type[VersionedStruct], version: int) -> str:
    """The generated code of one version, as text to read."""
    writer, reader = _texts(cls, version)
    stem = f"{cls.__name__}_v{version}"
    return "\n".join([f"def encode_{stem}(m, out):", *(writer.lines or ["    pass"]), ""]) + "\n".join(
        ["", f"def decode_{stem}(data, at, room={MAX_ELEMENTS}):", *reader.lines, ""]
    )


_CODECS: dict[tuple[type, int], tuple[Encoder, Decoder]] = {}


def _compiled(cls: type[VersionedStruct], version: int) -> tuple[Encoder, Decoder]:
    made = _CODECS.get((cls, version))
    if made is None:
        made = _CODECS[cls, version] = _compile(cls, version)
    return made


def _compile(cls: type[VersionedStruct], version: int) -> tuple[Encoder, Decoder]:
    stem = f"{cls.__name__}_v{version}"
    writer, reader = _texts(cls, version)
    scope: dict[str, Any] = {**writer.constants, **reader.constants}
    exec(compile(source(cls, version), f"<codec {cls.__name__} v{version}>", "exec"), scope)
    return scope[f"encode_{stem}"], scope[f"decode_{stem}"]


def encoder(cls: type[VersionedStruct], version: int) -> Encoder:
    """A function that appends the message's pieces to a list."""
    return _compiled(cls, version)[0]


def encode(message: VersionedStruct, version: int) -> bytes:
    """The body in that version. Raises WireError for a value that the version cannot carry."""
    pieces: list[bytes] = []
    try:
        encoder(type(message), version)(message, pieces)
    except (struct_module.error, UnicodeEncodeError) as error:
        raise WireError(f"{type(message).__name__} version {version} cannot be written: {error}") from error
    return b"".join(pieces)


def decoder(cls: type[VersionedStruct], version: int) -> Decoder:
    """A function of (data, position) to (message, position after it); raises struct.error, IndexError,
    UnicodeDecodeError or WireError for bad bytes. `decode` makes them all WireError."""
    return _compiled(cls, version)[1]


def decode(
    cls: type[M], data: bytes, version: int, position: int = 0, max_elements: int = MAX_ELEMENTS
) -> tuple[M, int]:
    """The message at ``position`` and the position after it. Raises WireError for anything that is wrong."""
    try:
        made: tuple[M, int] = _compiled(cls, version)[1](data, position, max_elements)
        return made
    except (struct_module.error, IndexError, UnicodeDecodeError, MemoryError, OverflowError) as error:
        raise WireError(f"{cls.__name__} version {version} cannot be read: {unreadable(error)}") from error


def unreadable(error: Exception) -> str:
    """Why a decoder refused bytes; data that ends too early raises either of two errors."""
    return "it is cut short" if isinstance(error, struct_module.error | IndexError) else str(error)
