"""The codecs of one version as text that mypyc compiles well: typed, and without a struct call where that is dearer than a call
of a compiled function (`native_parts`).

Only the build of the compiled edition writes them, into the modules of `messages` (`compiled_messages.py`), where `codec` looks
before it generates the text of `decoder_text` and `encoder_text`, whose layout these inherit.
"""

from __future__ import annotations

from struct import calcsize
from typing import Any

from coterie.wire.codec import MAX_ELEMENTS
from coterie.wire.decoder_text import DecoderText
from coterie.wire.encoder_text import EncoderText
from coterie.wire.fields import FieldSpec, FieldType, VersionedStruct

_READERS = {  # by struct's letter
    "b": "int8_at",
    "h": "int16_at",
    "H": "uint16_at",
    "i": "int32_at",
    "I": "uint32_at",
    "q": "int64_at",
    "d": "float64_at",
}
_TYPES = {"boolean": "bool", "float64": "float", "uuid": "bytes", "string": "str", "bytes": "bytes", "records": "bytes"}


def type_of(kind: FieldType) -> str:
    """The Python type of a field's value that is not null."""
    if kind.shape is not None:
        return kind.shape.__name__
    if kind.element is not None:
        return f"list[{type_of(kind.element)}]"
    return _TYPES.get(kind.name, "int")


def _part(kind: FieldType, flexible: bool, nullable: bool) -> str:
    """The name of a string or of bytes in the functions of `native_parts`."""
    return f"{'compact_' * flexible}{'nullable_' * nullable}{'string' if kind.name == 'string' else 'bytes'}"


class NativeDecoderText(DecoderText):
    """Writes a decoder with a type for each variable that mypy cannot infer."""

    def declare(self, target: str, kind: FieldType, nullable: bool) -> None:
        if not kind.code:
            self.line(f"{target}: {type_of(kind)}{' | None' * (nullable or kind.name == 'records')}")

    def declare_count(self, target: str) -> None:
        self.line(f"{target}: i64")

    def fixed(self, code: str, target: str) -> None:
        """Writes one read: a field is a call, and needs no flush."""
        if code == "16s":
            self.line(f"{target} = data[at : at + 16]")
        elif code == "?":
            self.line(f"{target} = data[at] != 0")
        else:
            self.line(f"{target} = {_READERS[code]}(data, at)")
        self.line(f"at += {calcsize('>' + code)}")

    def blob(self, kind: FieldType, target: str, nullable: bool, label: str) -> None:
        self.line(f"{target}, at = {_part(kind, self.flexible, nullable)}_at(data, at, {label!r})")

    def numbers(self, code: str, target: str, amount: str) -> None:
        """Writes a loop of reads."""
        self.line(f"{target} = []")
        self.line(f"for _ in range({amount}):")
        self.line(f"    {target}.append({_READERS[code]}(data, at))")
        self.line(f"    at += {calcsize('>' + code)}")


class NativeEncoderText(EncoderText):
    """Writes an encoder of attributes that have types."""

    def attribute(self, target: str, spec: FieldSpec, nullable: bool) -> str:
        expression = super().attribute(target, spec, nullable)
        may_be_null = spec.nullable.first <= spec.nullable.last and spec.null_as is None
        return f"present({expression})" if may_be_null and not nullable else expression

    def varint(self, amount: str) -> str:
        return f"write_unsigned_varint({amount})"

    def blob(self, kind: FieldType, expression: str, nullable: bool, label: str) -> None:
        self.flush()
        self.line(f"put_{_part(kind, self.flexible, nullable)}(out, {expression}, {label!r})")


def codec_text(cls: type[VersionedStruct], version: int) -> tuple[str, dict[str, Any]]:
    """The functions of one version, typed, and the constants that they use by name."""
    flexible = version in cls.flexible
    writer, reader = NativeEncoderText(version, flexible), NativeDecoderText(version, flexible)
    writer.fields(cls, "m")
    writer.flush()
    reader.message(cls)
    stem = f"{cls.__name__}_v{version}"
    lines = [f"def encode_{stem}(m: {cls.__name__}, out: list[bytes]) -> None:", *(writer.lines or ["    pass"]), ""]
    lines += [f"def decode_{stem}(data: bytes, at: i64, room: i64 = {MAX_ELEMENTS}) -> tuple[{cls.__name__}, int]:"]
    return "\n".join([*lines, *reader.lines, ""]), {**writer.constants, **reader.constants}
