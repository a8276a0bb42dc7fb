"""Straight-line codecs, generated from a message's declaration at first use of a version, and printable.

`encoder(cls, version)` and `decoder(cls, version)` return the functions; `source(cls, version)` their text. Fixed-size
neighbours (and the length before a string) share one struct call; nothing is interpreted at run time.
Speed: a heartbeat takes 0.5 us to read, 0.3 us to write.
"""

from __future__ import annotations

import struct as struct_module
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from coterie.wire.fields import FieldSpec, FieldType, Struct, VersionedStruct
from coterie.wire.primitives import MAX_STRING_LENGTH, WireError, read_unsigned_varint, write_unsigned_varint

M = TypeVar("M", bound=VersionedStruct)
Encoder = Callable[[Any, list[bytes]], None]
MAX_ELEMENTS = 2**31 - 1


class Decoder(Protocol):
    """(data, position) to (message, position after it); at most ``room`` elements of arrays and tagged fields in all."""

    def __call__(self, data: bytes, at: int, room: int = MAX_ELEMENTS) -> tuple[Any, int]: ...


class TooManyElements(WireError):
    """A message with more elements than its reader allows."""


class _Writer:
    """Collects lines of generated code, the constants they use, and fixed-size fields that wait to be merged."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.indent = 1
        self.constants: dict[str, Any] = {
            "WireError": WireError,
            "TooManyElements": TooManyElements,
            "uvarint": read_unsigned_varint,
            "uv": write_unsigned_varint,
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


def _in_body(spec: FieldSpec, version: int) -> bool:
    return version in spec.versions and spec.tag is None


class _EncoderText(_Writer):
    """Writes the encoder of one version."""

    def __init__(self, version: int, flexible: bool) -> None:
        super().__init__()
        self.version, self.flexible = version, flexible
        self.codes, self.values = "", list[str]()

    def fixed(self, code: str, value: str) -> None:
        self.codes += code
        self.values.append(value)

    def flush(self) -> None:
        if self.codes:
            packed = f"{self.packing(self.codes, 'pack')}({', '.join(self.values)})"
            self.line("out.append(b'\\0')" if self.values == ["0"] else f"out.append({packed})")
        self.codes, self.values = "", []

    def fields(self, shape: type[Struct], target: str) -> None:
        for spec in shape.fields:
            if _in_body(spec, self.version):
                expression, nullable = f"{target}.{spec.name}", self.version in spec.nullable
                if spec.null_as is not None and not nullable:
                    expression = f"{spec.null_as!r} if {expression} is None else {expression}"
                self.value(spec.kind, expression, nullable, spec.name)
        if self.flexible:
            self.tagged(shape, target)

    def value(self, kind: FieldType, expression: str, nullable: bool, label: str) -> None:
        if kind.code:
            self.fixed(kind.code, expression)
        elif kind.shape is not None:
            self.structure(kind.shape, expression, nullable)
        elif kind.name == "array":
            self.array(kind, expression, nullable, label)
        else:
            self.blob(kind, expression, nullable or kind.name == "records", label)

    def tagged_value(self, spec: FieldSpec, expression: str) -> None:
        nullable = self.version in spec.nullable
        if spec.kind.shape is not None:
            self.structure(spec.kind.shape, expression, nullable, tagged=True)
        else:
            self.value(spec.kind, expression, nullable, spec.name)

    def structure(self, shape: type[Struct], expression: str, nullable: bool, tagged: bool = False) -> None:
        """A struct; one that may be null has a byte before it: 1, or for null -1, and 0 in a tagged field."""
        if not nullable:
            self.fields(shape, expression)
            return
        self.flush()
        self.line(f"if {expression} is None:")
        null = b"\0" if tagged else b"\xff"
        self.line(f"    out.append({null!r})")
        self.line("else:")
        self.indent += 1
        self.line("out.append(b'\\x01')")
        self.fields(shape, expression)
        self.flush()
        self.indent -= 1

    def length(self, kind: FieldType, amount: str) -> None:
        if self.flexible:
            self.flush()
            self.line(f"out.append(uv({amount} + 1))")
        else:
            self.fixed("h" if kind.name == "string" else "i", amount)

    def blob(self, kind: FieldType, expression: str, nullable: bool, label: str) -> None:
        data = self.fresh("d")
        text = kind.name == "string"
        self.line(f"{data} = {expression}")
        if nullable:
            self.flush()
            self.line(f"if {data} is None:")
            self.indent += 1
            null = b"\0" if self.flexible else (b"\xff\xff" if text else b"\xff\xff\xff\xff")
            self.line(f"out.append({null!r})")
            self.indent -= 1
            self.line("else:")
            self.indent += 1
        if text:
            self.line(f"{data} = {data}.encode()")
            self.line(f"if len({data}) > {MAX_STRING_LENGTH}:")
            self.line(f"    raise WireError('{label} is longer than {MAX_STRING_LENGTH} bytes')")
        self.length(kind, f"len({data})")
        self.flush()
        self.line(f"out.append({data})")
        if nullable:
            self.indent -= 1

    def array(self, kind: FieldType, expression: str, nullable: bool, label: str) -> None:
        assert kind.element is not None
        items, item = self.fresh("a"), self.fresh("e")
        self.line(f"{items} = {expression}")
        if nullable:
            self.flush()
            self.line(f"if {items} is None:")
            self.line("    out.append(" + repr(b"\0" if self.flexible else b"\xff\xff\xff\xff") + ")")
            self.line("else:")
            self.indent += 1
        self.length(kind, f"len({items})")
        self.flush()
        element = kind.element
        if element.code and element.code != "16s" and element.code != "?":
            self.line(f"if len({items}) == 1:")  # as nearly all replicas
            self.line(f"    out.append({self.packing(element.code, 'pack')}({items}[0]))")
            self.line(f"elif {items}:")
            self.line(f"    out.append(pack_many('>%d{element.code}' % len({items}), *{items}))")
            self.constant("pack_many", struct_module.pack)
        else:
            self.line(f"for {item} in {items}:")
            self.indent += 1
            self.value(element, item, False, label)
            self.flush()
            self.indent -= 1
        if nullable:
            self.indent -= 1

    def tagged(self, shape: type[Struct], target: str) -> None:
        specs = [s for s in shape.fields if s.tag is not None and self.version in s.versions]
        if not specs:
            self.fixed("b", "0")
            return
        self.flush()
        fields, body = self.fresh("t"), self.fresh("b")
        self.line(f"{fields} = []")
        for spec in sorted(specs, key=lambda s: s.tag or 0):
            self.line(f"if {self.is_set(shape, spec, f'{target}.{spec.name}')}:")
            self.indent += 1
            self.line(f"{body}, out = out, []")
            self.tagged_value(spec, f"{target}.{spec.name}")
            self.flush()
            self.line(f"out, {body} = {body}, b''.join(out)")
            self.line(f"{fields} += [uv({spec.tag}), uv(len({body})), {body}]")
            self.indent -= 1
        self.line(f"out.append(uv(len({fields}) // 3) if {fields} else b'\\0')")
        self.line(f"out += {fields}")

    def is_set(self, shape: type[Struct], spec: FieldSpec, expression: str) -> str:
        """The condition that a tagged field differs from its default. A struct of numbers is compared by its fields: as objects
        those of a Fetch response cost as much as the rest of it."""
        inner = spec.kind.shape
        if inner is not None and self.version not in spec.nullable and all(s.kind.code for s in inner.fields):
            return " or ".join(f"{expression}.{s.name} != {s.default!r}" for s in inner.fields)
        default = inner() if inner is not None else spec.default
        return f"{expression} != {self.constant(f'default_{shape.__name__}_{spec.name}', default)}"


class _DecoderText(_Writer):
    """Writes the decoder of one version. Slices may run past the end of the data; one check at the end finds out."""

    def __init__(self, version: int, flexible: bool) -> None:
        super().__init__()
        self.version, self.flexible = version, flexible
        self.codes, self.targets = "", list[str]()

    def fixed(self, code: str, target: str) -> None:
        self.codes += code
        self.targets.append(target)

    def flush(self) -> None:
        if self.codes:
            size = struct_module.calcsize(">" + self.codes)
            self.line(f"{', '.join(self.targets)}, = {self.packing(self.codes, 'unpack')}(data, at)")
            self.line(f"at += {size}")
            self.codes, self.targets = "", []

    def fields(self, shape: type[Struct], target: str) -> None:
        """Reads a struct into the local variable ``target``."""
        locals_: list[str] = []
        for spec in shape.fields:
            name = self.fresh("f_" + spec.name + "_")
            locals_.append(name)
            if _in_body(spec, self.version):
                self.value(spec.kind, name, self.version in spec.nullable, spec.name)
            elif spec.kind.shape is not None:
                self.line(f"{name} = {self.constant(spec.kind.shape.__name__, spec.kind.shape)}()")
            else:
                self.line(f"{name} = {spec.default!r}")
        if self.flexible:
            self.tagged(shape, locals_)
        self.flush()
        self.line(f"{target} = {self.constant(shape.__name__, shape)}({', '.join(locals_)})")

    def value(self, kind: FieldType, target: str, nullable: bool, label: str) -> None:
        if kind.code:
            self.fixed(kind.code, target)
        elif kind.shape is not None:
            self.structure(kind.shape, target, nullable)
        elif kind.name == "array":
            self.array(kind, target, nullable, label)
        else:
            self.blob(kind, target, nullable or kind.name == "records", label)

    def tagged_value(self, spec: FieldSpec, target: str) -> None:
        nullable = self.version in spec.nullable
        if spec.kind.shape is not None:
            self.structure(spec.kind.shape, target, nullable, tagged=True)
        else:
            self.value(spec.kind, target, nullable, spec.name)

    def structure(self, shape: type[Struct], target: str, nullable: bool, tagged: bool = False) -> None:
        if not nullable:
            self.fields(shape, target)
            return
        self.flush()
        if tagged:
            present = self.fresh("p")
            self.line(f"{present}, at = uvarint(data, at)")
            self.line(f"if not {present}:")
        else:
            self.line("at += 1")
            self.line("if data[at - 1] > 127:")
        self.line(f"    {target} = None")
        self.line("else:")
        self.indent += 1
        self.fields(shape, target)
        self.indent -= 1

    def length(self, kind: FieldType) -> str:
        name = self.fresh("n")
        if self.flexible:
            self.flush()
            self.line(f"{name} = data[at]")
            self.line("at += 1")
            self.line(f"if {name} > 127:")
            self.line(f"    {name}, at = uvarint(data, at - 1)")
            self.line(f"{name} -= 1")
        else:
            self.fixed("h" if kind.name == "string" else "i", name)
            self.flush()
        return name

    def blob(self, kind: FieldType, target: str, nullable: bool, label: str) -> None:
        name = self.length(kind)
        end = "data[at:at + {0}].decode()" if kind.name == "string" else "data[at:at + {0}]"
        self.line(f"if {name} < 0:")
        if nullable:
            self.line(f"    {target} = None")
        else:
            self.line(f"    raise WireError('{label} must not be null')")
        self.line("else:")
        self.line(f"    {target} = {end.format(name)}")
        self.line(f"    at += {name}")

    def array(self, kind: FieldType, target: str, nullable: bool, label: str) -> None:
        assert kind.element is not None
        name, element = self.length(kind), kind.element
        self.line(f"if {name} < 0:")
        self.line(f"    {target} = None" if nullable else f"    raise WireError('{label} must not be null')")
        self.line("else:")
        self.indent += 1
        self.count(name, label)
        if element.code and element.code != "16s" and element.code != "?":
            size = struct_module.calcsize(">" + element.code)
            self.line(f"if {name} == 1:")  # as in the encoder
            self.line(f"    {target} = list({self.packing(element.code, 'unpack')}(data, at))")
            self.line("else:")
            self.line(f"    {target} = list(unpack_many('>%d{element.code}' % {name}, data, at))")
            self.constant("unpack_many", struct_module.unpack_from)
            self.line(f"at += {name} * {size}")
        else:
            item = self.fresh("e")
            self.line(f"{target} = []")
            # Every element takes a byte at least: a count beyond the data is refused before the loop.
            self.line(f"if {name} > len(data) - at:")
            self.line(f"    raise WireError('{label} claims more elements than there are bytes')")
            self.line(f"for _ in range({name}):")
            self.indent += 1
            self.value(element, item, False, label)
            self.flush()
            self.line(f"{target}.append({item})")
            self.indent -= 1
        self.indent -= 1

    def count(self, amount: str, label: str) -> None:
        """Elements are counted before any is read."""
        self.line(f"room -= {amount}")
        self.line("if room < 0:")
        self.line(f"    raise TooManyElements('with {label} it has more elements than are allowed')")

    def tagged(self, shape: type[Struct], locals_: list[str]) -> None:
        self.flush()
        count, tag, size = self.fresh("n"), self.fresh("g"), self.fresh("z")
        self.line(f"{count} = data[at]")
        self.line("at += 1")
        self.line(f"if {count}:")
        self.indent += 1
        self.line(f"if {count} > 127:")
        self.line(f"    {count}, at = uvarint(data, at - 1)")
        self.count(count, "its tagged fields")
        self.line(f"for _ in range({count}):")
        self.indent += 1
        self.line(f"{tag}, at = uvarint(data, at)")
        self.line(f"{size}, at = uvarint(data, at)")
        # As Kafka's generated classes: a known field ends where its value does; only an unknown one is skipped by its size.
        branch = "if"
        for spec, local in zip(shape.fields, locals_, strict=True):
            if spec.tag is not None and self.version in spec.versions:
                self.line(f"{branch} {tag} == {spec.tag}:")
                self.indent += 1
                self.tagged_value(spec, local)
                self.flush()
                self.indent -= 1
                branch = "elif"
        skipped = f"at += {size}"
        self.line(skipped if branch == "if" else f"else: {skipped}")
        self.indent -= 2


def _texts(cls: type[VersionedStruct], version: int) -> tuple[_EncoderText, _DecoderText]:
    if version not in cls.versions:
        raise WireError(f"{cls.__name__} has no version {version} here")
    flexible = version in cls.flexible
    writer = _EncoderText(version, flexible)
    writer.fields(cls, "m")
    writer.flush()
    reader = _DecoderText(version, flexible)
    reader.fields(cls, "m")
    reader.flush()
    reader.line("if at > len(data):")
    reader.line(f"    raise WireError('{cls.__name__} is cut short')")
    reader.line("return m, at")
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
    writer, reader = _texts(cls, version)
    scope: dict[str, Any] = {**writer.constants, **reader.constants}
    exec(compile(source(cls, version), f"<codec {cls.__name__} v{version}>", "exec"), scope)
    stem = f"{cls.__name__}_v{version}"
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
        raise WireError(f"{cls.__name__} version {version} cannot be read: {error}") from error
