"""The encoder of one version of a message, as text: the function of a message and a list of its pieces."""

from __future__ import annotations

import struct as struct_module

from coterie.wire.code_text import CodeText, in_body
from coterie.wire.fields import FieldSpec, FieldType, Struct
from coterie.wire.primitives import MAX_STRING_LENGTH


class EncoderText(CodeText):
    """Writes the encoder of one version."""

    def __init__(self, version: int, flexible: bool) -> None:
        super().__init__()
        self.version, self.flexible = version, flexible
        self.codes, self.values = "", list[str]()

    def fixed(self, code: str, value: str) -> None:
        self.codes += code
        self.values.append(value)

    def flush(self) -> None:
        """Writes one pack of the fields of fixed size that were collected."""
        if self.codes:
            packed = f"{self.packing(self.codes, 'pack')}({', '.join(self.values)})"
            self.line("out.append(b'\\0')" if self.values == ["0"] else f"out.append({packed})")
        self.codes, self.values = "", []

    def fields(self, shape: type[Struct], target: str) -> None:
        """Writes a structure's fields in their order, then its tag section."""
        for spec in shape.fields:
            if in_body(spec, self.version):
                nullable = self.version in spec.nullable
                self.value(spec.kind, self.attribute(target, spec, nullable), nullable, spec.name)
        if self.flexible:
            self.tagged(shape, target)

    def attribute(self, target: str, spec: FieldSpec, nullable: bool) -> str:
        """The expression of a field's value."""
        expression = f"{target}.{spec.name}"
        if spec.null_as is None or nullable:
            return expression
        return f"{spec.null_as!r} if {expression} is None else {expression}"

    def value(self, kind: FieldType, expression: str, nullable: bool, label: str) -> None:
        """Writes the encoding of a value of any type; ``label`` names it in errors."""
        if kind.code:
            self.fixed(kind.code, expression)
        elif kind.shape is not None:
            self.structure(kind.shape, expression, nullable)
        elif kind.name == "array":
            self.array(kind, expression, nullable, label)
        else:
            self.blob(kind, expression, nullable or kind.name == "records", label)

    def tagged_value(self, spec: FieldSpec, expression: str) -> None:
        """A tagged field's value: a nullable structure has a byte in front of it that says whether it is there."""
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

    def varint(self, amount: str) -> str:
        """An unsigned varint's bytes."""
        return f"uv[{amount}]"

    def length(self, kind: FieldType, amount: str) -> None:
        """A length or a count: in flexible versions a varint of one more."""
        if self.flexible:
            self.flush()
            self.line(f"out.append({self.varint(f'{amount} + 1')})")
        else:
            self.fixed("h" if kind.name == "string" else "i", amount)

    def blob(self, kind: FieldType, expression: str, nullable: bool, label: str) -> None:
        """A string, bytes or records: the length, then the bytes."""
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
            characters, data = data, self.fresh("u")
            self.line(f"{data} = {characters}.encode()")
            self.line(f"if len({data}) > {MAX_STRING_LENGTH}:")
            self.line(f"    raise WireError('{label} is longer than {MAX_STRING_LENGTH} bytes')")
        self.length(kind, f"len({data})")
        self.flush()
        self.line(f"out.append({data})")
        if nullable:
            self.indent -= 1

    def array(self, kind: FieldType, expression: str, nullable: bool, label: str) -> None:
        """The count, then the elements: numbers by one pack, others in a loop."""
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
            self.numbers(element.code, items)
        else:
            self.line(f"for {item} in {items}:")
            self.indent += 1
            self.value(element, item, False, label)
            self.flush()
            self.indent -= 1
        if nullable:
            self.indent -= 1

    def numbers(self, code: str, items: str) -> None:
        """The elements of an array of numbers."""
        self.line(f"if len({items}) == 1:")  # as nearly all replicas
        self.line(f"    out.append({self.packing(code, 'pack')}({items}[0]))")
        self.line(f"elif {items}:")
        self.line(f"    out.append(pack_many('>%d{code}' % len({items}), *{items}))")
        self.constant("pack_many", struct_module.pack)

    def tagged(self, shape: type[Struct], target: str) -> None:
        """The tag section at the end of a structure: the fields that differ from their default."""
        specs = [s for s in shape.fields if s.tag is not None and self.version in s.versions]
        if not specs:
            self.fixed("b", "0")
            return
        self.flush()
        fields, body, around = self.fresh("t"), self.fresh("b"), self.fresh("o")
        self.line(f"{fields}: list[bytes] = []")
        for spec in sorted(specs, key=lambda s: s.tag or 0):
            self.line(f"if {self.is_set(shape, spec, f'{target}.{spec.name}')}:")
            self.indent += 1
            self.line(f"{around}, out = out, []")
            self.tagged_value(spec, f"{target}.{spec.name}")
            self.flush()
            self.line(f"out, {body} = {around}, b''.join(out)")
            self.line(f"{fields} += [{self.varint(str(spec.tag))}, {self.varint(f'len({body})')}, {body}]")
            self.indent -= 1
        self.line(f"out.append({self.varint(f'len({fields}) // 3')} if {fields} else b'\\0')")
        self.line(f"out += {fields}")

    def is_set(self, shape: type[Struct], spec: FieldSpec, expression: str) -> str:
        """The condition that a tagged field differs from its default. A struct of numbers is compared by its fields: as objects
        those of a Fetch response cost as much as the rest of it."""
        inner = spec.kind.shape
        if inner is not None and self.version not in spec.nullable and all(s.kind.code for s in inner.fields):
            return " or ".join(f"{expression}.{s.name} != {s.default!r}" for s in inner.fields)
        default = inner() if inner is not None else spec.default
        return f"{expression} != {self.constant(f'default_{shape.__name__}_{spec.name}', default)}"
