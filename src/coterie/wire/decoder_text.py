"""The decoder of one version of a message, as text: the function of bytes and a position."""

from __future__ import annotations

import struct as struct_module

from coterie.wire.code_text import CodeText, in_body
from coterie.wire.fields import FieldSpec, FieldType, Struct


class DecoderText(CodeText):
    """Writes the decoder of one version. Slices may run past the end of the data; one check at the end finds out."""

    def __init__(self, version: int, flexible: bool) -> None:
        super().__init__()
        self.version, self.flexible = version, flexible
        self.codes, self.targets = "", list[str]()

    def message(self, cls: type[Struct]) -> None:
        """Reads a whole message and returns it."""
        self.fields(cls, "m")
        self.flush()
        self.line("if at > len(data):")
        self.line(f"    raise WireError('{cls.__name__} is cut short')")
        self.line("return m, at")

    def declare(self, target: str, kind: FieldType, nullable: bool) -> None:
        """Names the type of a variable, in a text that has types."""

    def declare_count(self, target: str) -> None:
        """The same of a variable for a length, a count or a tag."""

    def fixed(self, code: str, target: str) -> None:
        self.codes += code
        self.targets.append(target)

    def flush(self) -> None:
        """Writes one unpack of the fields of fixed size that were collected."""
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
            is_none = spec.is_null_without_bytes
            self.declare(name, spec.kind, self.version in spec.nullable or is_none)
            if in_body(spec, self.version):
                self.value(spec.kind, name, self.version in spec.nullable, spec.name)
            elif spec.kind.shape is not None and not is_none:
                self.line(f"{name} = {self.constant(spec.kind.shape.__name__, spec.kind.shape)}()")
            else:
                self.line(f"{name} = {spec.default!r}")
        if self.flexible:
            self.tagged(shape, locals_)
        self.flush()
        self.line(f"{target} = {self.constant(shape.__name__, shape)}({', '.join(locals_)})")

    def value(self, kind: FieldType, target: str, nullable: bool, label: str) -> None:
        """Writes the decoding of a value of any type into the variable ``target``; ``label`` names it in errors."""
        if kind.code:
            self.fixed(kind.code, target)
        elif kind.shape is not None:
            self.structure(kind.shape, target, nullable)
        elif kind.name == "array":
            self.array(kind, target, nullable, label)
        else:
            self.blob(kind, target, nullable or kind.name == "records", label)

    def tagged_value(self, spec: FieldSpec, target: str) -> None:
        """A tagged field's value: a nullable structure has a byte in front of it that says whether it is there."""
        nullable = self.version in spec.nullable
        if spec.kind.shape is not None:
            self.structure(spec.kind.shape, target, nullable, tagged=True)
        else:
            self.value(spec.kind, target, nullable, spec.name)

    def structure(self, shape: type[Struct], target: str, nullable: bool, tagged: bool = False) -> None:
        """A structure's fields, behind the mark of a null where it may be null."""
        if not nullable:
            self.fields(shape, target)
            return
        self.flush()
        if tagged:
            present = self.fresh("p")
            self.declare_count(present)
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

    def length(self, kind: FieldType) -> tuple[str, str]:
        """Reads a length into a variable: its name, and the condition that it is null. In a flexible version it is one more."""
        name = self.fresh("n")
        self.declare_count(name)
        if self.flexible:
            self.flush()
            self.line(f"{name} = data[at]")
            self.line("at += 1")
            self.line(f"if {name} > 127:")
            self.line(f"    {name}, at = uvarint(data, at - 1)")
            return name, f"not {name}"
        self.fixed("h" if kind.name == "string" else "i", name)
        self.flush()
        return name, f"{name} < 0"

    def blob(self, kind: FieldType, target: str, nullable: bool, label: str) -> None:
        """A string, bytes or records: the length, then the bytes."""
        name, is_null = self.length(kind)
        self.line(f"if {is_null}:")
        if nullable:
            self.line(f"    {target} = None")
        else:
            self.line(f"    raise WireError('{label} must not be null')")
        self.line("else:")
        self.line(f"    {name} += at - 1" if self.flexible else f"    {name} += at")
        self.line(f"    {target} = data[at:{name}]" + (".decode()" if kind.name == "string" else ""))
        self.line(f"    at = {name}")

    def array(self, kind: FieldType, target: str, nullable: bool, label: str) -> None:
        """The count, then the elements: numbers by one unpack, others in a loop."""
        assert kind.element is not None
        (name, is_null), element = self.length(kind), kind.element
        self.line(f"if {is_null}:")
        self.line(f"    {target} = None" if nullable else f"    raise WireError('{label} must not be null')")
        self.line("else:")
        self.indent += 1
        if self.flexible:
            self.line(f"{name} -= 1")
        self.count(name, label)
        if element.code and element.code != "16s" and element.code != "?":
            self.numbers(element.code, target, name)
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

    def numbers(self, code: str, target: str, amount: str) -> None:
        """An array of ``amount`` numbers."""
        size = struct_module.calcsize(">" + code)
        self.line(f"if {amount} == 1:")  # as in the encoder
        self.line(f"    {target} = list({self.packing(code, 'unpack')}(data, at))")
        self.line("else:")
        self.line(f"    {target} = list(unpack_many('>%d{code}' % {amount}, data, at))")
        self.constant("unpack_many", struct_module.unpack_from)
        self.line(f"at += {amount} * {size}")

    def count(self, amount: str, label: str) -> None:
        """Elements are counted before any is read."""
        self.line(f"room -= {amount}")
        self.line("if room < 0:")
        self.line(f"    raise TooManyElements('with {label} it has more elements than are allowed')")

    def tagged(self, shape: type[Struct], locals_: list[str]) -> None:
        """The tag section at the end of a structure; unknown tags are skipped."""
        self.flush()
        known = [(spec, local) for spec, local in zip(shape.fields, locals_, strict=True) if self.has_tag(spec)]
        if not known:
            self.line("if data[at]:")
            self.line("    at, room = skip_tagged_fields(data, at, room)")
            self.line("else:")
            self.line("    at += 1")
            return
        count, tag, size = self.fresh("n"), self.fresh("g"), self.fresh("z")
        for name in (count, tag, size):
            self.declare_count(name)
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
        for at, (spec, local) in enumerate(known):
            self.line(f"{'elif' if at else 'if'} {tag} == {spec.tag}:")
            self.indent += 1
            self.tagged_value(spec, local)
            self.flush()
            self.indent -= 1
        self.line(f"else: at += {size}")
        self.indent -= 2

    def has_tag(self, spec: FieldSpec) -> bool:
        """Whether that version has the field among the tagged fields."""
        return spec.tag is not None and self.version in spec.versions
