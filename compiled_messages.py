"""Messages as native classes with their codecs, for the compiled edition: what the build compiles in place of their modules.

A declared message is a class of the interpreter, and its codec is text that is generated at the first use of a version: to make
a message or to read its fields costs a compiled function several times what a native class does. `native_module` writes, for
each class of a module of `coterie/wire/messages`, a class with the same fields, constructor and comparison, and the codecs of
the versions in use as `coterie/wire/native_text.py` has them. Other versions are generated at first use, as everywhere.
"""

from __future__ import annotations

import ast
import dataclasses
import importlib
from typing import Any

from coterie.wire import native_parts, native_text
from coterie.wire.apis import APIS, CLUSTER_APIS
from coterie.wire.fields import Struct, VersionedStruct, Versions
from coterie.wire.topic_names import LAST_WITHOUT_IDS

_PARTS = [name for name in vars(native_parts) if name.endswith("_at") or name.startswith("put_") or name == "present"]


def versions_in_use(cls: type[VersionedStruct]) -> list[int]:
    """Of an API the newest version that is served, the newest that has topics' names, and the newest that is not flexible,
    where most clients that are not the newest stand; of what logs and members store, every version."""
    api = APIS.get(cls.api_key) or CLUSTER_APIS.get(cls.api_key)
    if api is None:
        return list(range(cls.versions.first, cls.versions.last + 1))
    last, by_name = api.advertised.last, LAST_WITHOUT_IDS.get(cls.api_key)
    return sorted({last, last if by_name is None else by_name, _last_rigid(cls.flexible, api.advertised)})


def _last_rigid(flexible: Versions, served: Versions) -> int:
    return flexible.first - 1 if served.first < flexible.first <= served.last else served.last


def native_module(file: str, source: str) -> str:
    """The text of a module of messages, with native classes and their codecs."""
    module = importlib.import_module(f"coterie.{file.removesuffix('.py').replace('/', '.')}")
    lines, codecs, constants = source.split("\n"), list[str](), dict[str, Any]()
    classes = [node for node in ast.parse(source).body if isinstance(node, ast.ClassDef)]
    for node in reversed(classes):  # from the end, so that the lines of those before keep their numbers
        cls: type[Struct] = getattr(module, node.name)
        lines[node.decorator_list[0].lineno - 1 : node.end_lineno] = native_class(cls, node)
        if issubclass(cls, VersionedStruct):
            for version in versions_in_use(cls):
                text, used = native_text.codec_text(cls, version)
                codecs.append(text)
                constants |= used
    first = lines.index("from __future__ import annotations") + 1
    lines[first:first] = _imports()
    return "\n".join([*lines, *_constant_lines(constants), "", *codecs, ""])


def _imports() -> list[str]:
    return [
        "import struct as struct_module",
        "from typing import TYPE_CHECKING, Any, Final, cast",
        "from coterie.wire.declaration import declare_native",
        f"from coterie.wire.native_parts import {', '.join(_PARTS)}",
        "from coterie.wire.primitives import TooManyElements, WireError, skip_tagged_fields, write_unsigned_varint",
        "from coterie.wire.primitives import read_unsigned_varint as uvarint",
        "if TYPE_CHECKING: from mypy_extensions import i64",
        "LEFT_OUT: Final = object()",
    ]


def native_class(cls: type[Struct], node: ast.ClassDef) -> list[str]:
    """The lines of a class of the same fields, whose constructor takes each by place or by name, and of its declaration."""
    fields: dict[str, dataclasses.Field[Any]] = {f.name: f for f in dataclasses.fields(cls)}  # type: ignore[arg-type]
    declared: dict[str, Any] = {ast.unparse(part.target): part for part in node.body if isinstance(part, ast.AnnAssign)}
    lines = [f"class {node.name}({ast.unparse(node.bases[0])}):", f"    {(ast.get_docstring(node) or node.name)!r}"]
    lines += [f"    {name}: {f.type}" for name, f in fields.items()]
    if fields:
        parameters, values = zip(*(_parameter(f) for f in fields.values()), strict=True)
        lines += [f"    def __init__(self, {', '.join(parameters)}) -> None:"]
        lines += [f"        self.{name} = {value}" for name, value in zip(fields, values, strict=True)]
    lines += ["    def __eq__(self, other: object) -> bool:"]
    lines += [f"        if type(other) is not {node.name}: return NotImplemented"]
    lines += [f"        return {' and '.join(f'self.{name} == other.{name}' for name in fields) or 'True'}"]
    for part in node.body:
        if isinstance(part, ast.FunctionDef):
            lines += ["    " + line for line in ast.unparse(part).split("\n")]
    specs = (f"({name!r}, {str(f.type)!r}, {ast.unparse(declared[name].value)})" for name, f in fields.items())
    arguments = [node.name, f"[{', '.join(specs)}]"]
    decorator = node.decorator_list[0]
    arguments += [ast.unparse(option) for option in decorator.keywords] if isinstance(decorator, ast.Call) else []
    return [*lines, f"declare_native({', '.join(arguments)})"]


def _parameter(f: dataclasses.Field[Any]) -> tuple[str, str]:
    """A field's parameter of the constructor, and the value that the field has: None where None is allowed and given."""
    if f.default_factory is dataclasses.MISSING:
        return f"{f.name}: {f.type} = {f.default!r}", f.name
    factory: Any = f.default_factory
    made = "[]" if factory is list else f"{factory.__name__}()"
    if "None" in str(f.type):
        return f"{f.name}: object = LEFT_OUT", f"{made} if {f.name} is LEFT_OUT else cast('{f.type}', {f.name})"
    return f"{f.name}: {f.type} | None = None", f"{made} if {f.name} is None else {f.name}"


def _constant_lines(constants: dict[str, Any]) -> list[str]:
    """What the codecs use and `_imports` does not bring: functions of `struct`, and defaults of tagged fields."""
    lines = ["pack_many: Final[Any] = struct_module.pack"] if constants.pop("pack_many", None) else []
    for name, value in sorted(constants.items()):
        verb, _, codes = name.partition("_")
        if verb == "pack":
            lines.append(f"{name}: Final[Any] = struct_module.Struct('>{codes.replace('B_', '?')}').pack")
        elif verb == "default":
            lines.append(f"{name}: Final[Any] = {value!r}")
    return lines
