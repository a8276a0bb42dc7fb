"""Source as mypyc compiles it well: the methods of dataclasses, classes that are open to heirs, and constants.

mypyc leaves the methods of a dataclass to the interpreter, where `__init__` costs five times as much as a compiled one, and
`__eq__` makes two tuples: `write_out` adds the same `__init__` as text to each dataclass of these modules, and the same
`__eq__` and `__hash__` to those that are compared often. They are inserted on blank lines, so line numbers do not change.
mypyc knows no decorator but `dataclass`, so that a `value` (`coterie/values.py`) becomes a frozen one.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections import Counter
from itertools import takewhile

from compiled_modules import GROUPS, OPEN

CONSTANT = re.compile("_?[A-Z][A-Z0-9_]*")
VARIED = frozenset({"MANY", "MAX_STORED_BYTES", "SWEPT_FROM"})  # constants that a test changes
OPEN_TO_HEIRS = "@mypyc_attr(allow_interpreted_subclasses=True)"


def compares(file: str) -> bool:
    """Whether objects of a module's classes are compared often: those of the laboratory and of the machines that it checks. A
    broker's are not, and a comparison and a hash take 3 KB of its memory for each class."""
    return any(file.partition("/")[0] in rooms for rooms in GROUPS.values())


def write_out(source: str, bases: frozenset[str] = frozenset(), *, comparisons: bool = True) -> str:
    """The source with `__init__`, and with ``comparisons`` `__eq__` and `__hash__`, in each dataclass that has fields of its
    own only, blank lines for them, and no heirs: it is not one of ``bases``."""
    source = _with_dataclasses(source)
    lines = source.split("\n")
    tree = ast.parse(source)
    classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    imports = ["from typing import Final"] if _make_constants_final(tree, lines) else []
    for node in classes:
        if node.name in OPEN:
            imports.append("from typing import TYPE_CHECKING")
            _open_class(node, lines)
    for node in classes:
        if not node.bases and not node.keywords and node.name not in bases | OPEN:
            _write_out_class(node, lines, comparisons)
    loaded = sorted(set().union(*(_builtins_of(node) for node in classes if node.decorator_list)))
    if loaded:
        imports.append(f"from builtins import {', '.join(loaded)}")
    if imports:
        blank = lines.index("from __future__ import annotations") + 1
        assert not lines[blank], f"no blank line for {imports}"
        lines[blank] = "; ".join(dict.fromkeys(imports))
    return "\n".join(lines)


def _make_constants_final(tree: ast.Module, lines: list[str]) -> bool:
    """Declares the module's constants as such; whether there are any. mypyc looks others up by name at each use."""
    stored = Counter(n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
    made = False
    for node in tree.body:
        pairs = _assigned(node)
        if (
            pairs
            and all(CONSTANT.fullmatch(name) and stored[name] == 1 for name, _ in pairs)
            and not (VARIED & dict(pairs).keys())
        ):
            at, made = node.lineno - 1, True
            if isinstance(node, ast.AnnAssign):
                kind = ast.unparse(node.annotation)
                lines[at] = lines[at].replace(f": {kind} =", f": Final[{kind}] =", 1)
            elif len(pairs) == 1:
                lines[at] = lines[at].replace(" =", ": Final =", 1)
            else:
                lines[at] = "; ".join(f"{name}: Final = {ast.unparse(value)}" for name, value in pairs)
    return made


def _assigned(node: ast.stmt) -> list[tuple[str, ast.expr]]:
    """The names that a statement gives a value each, with the value's expression; none for a type, and none for an enum's
    member: what is compared with a final one is narrowed to it, and what mypy then takes for unreachable is not compiled."""
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
        return [(node.target.id, node.value)]
    if not isinstance(node, ast.Assign) or len(node.targets) > 1 or isinstance(node.value, ast.Attribute):
        return []
    if _name_of(node.value) in ("TypeVar", "ParamSpec"):
        return []
    target, value = node.targets[0], node.value
    if isinstance(target, ast.Name):
        return [(target.id, value)]
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and node.lineno == node.end_lineno:
        return [(ast.unparse(name), each) for name, each in zip(target.elts, value.elts, strict=True)]
    return []


def _builtins_of(node: ast.ClassDef) -> set[str]:
    """The builtin types of a dataclass's fields that mypyc takes for globals of the module: `object` and exceptions."""
    names = {ast.unparse(part.annotation) for part in node.body if isinstance(part, ast.AnnAssign)}
    kinds = {name: getattr(builtins, name, int) for name in names}
    return {name for name, kind in kinds.items() if kind is object or issubclass(kind, BaseException)}


def _open_class(node: ast.ClassDef, lines: list[str]) -> None:
    """Marks a class of `OPEN` for mypyc, on the two blank lines before it; mypy_extensions is not imported at run time."""
    assert not any(lines[at] for at in (node.lineno - 3, node.lineno - 2)), f"no blank lines for {node.name}"
    lines[node.lineno - 3] = "if TYPE_CHECKING: from mypy_extensions import mypyc_attr"
    lines[node.lineno - 2] = OPEN_TO_HEIRS


def _with_dataclasses(source: str) -> str:
    """The source with a frozen dataclass in the place of each `value`, on the same lines."""
    source = source.replace("from coterie.values import value\n", "from coterie.lazy_dataclass import dataclass\n")
    return source.replace("@value\n", "@dataclass(frozen=True, slots=True)\n")


def bases_of(source: str) -> set[str]:
    """The names of the classes that others in this source inherit from."""
    classes = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ClassDef))
    return {ast.unparse(base).rpartition(".")[2] for node in classes for base in node.bases}


def _write_out_class(node: ast.ClassDef, lines: list[str], comparisons: bool) -> None:
    decorator = next((d for d in node.decorator_list if _name_of(d) == "dataclass"), None)
    if decorator is None:
        return
    options = ast.unparse(decorator)
    constructor = _constructor(node)
    with_hash = "frozen=True" in options or "unsafe_hash=True" in options
    comparison = _comparison(node, with_hash=with_hash) if comparisons and "eq=False" not in options else []
    blanks = _blank_lines(node, lines)
    left_out = ""
    for option, methods in (("init=False, ", [constructor] if constructor else []), ("eq=False, ", comparison)):
        if methods and len(methods) <= len(blanks):
            left_out += option
            for method in methods:
                lines[blanks.pop(0)] = f"    {method}  # type: ignore[misc, return-value]"
    at = decorator.lineno - 1
    if left_out and isinstance(decorator, ast.Call):
        lines[at] = lines[at].replace("dataclass(", f"dataclass({left_out}", 1).replace(", )", ")")
    elif left_out:
        lines[at] += f"({left_out.rstrip(', ')})"


def _fields(node: ast.ClassDef) -> list[tuple[str, str, ast.expr | None]] | None:
    """Name, type and default of each field; None where one of them is not given by the object that is made."""
    fields = []
    for part in node.body:
        if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name):
            kind = ast.unparse(part.annotation)
            if kind.startswith(("ClassVar", "InitVar", "KW_ONLY")):
                return None
            fields.append((part.target.id, kind, part.value))
    return fields


def _options_of(value: ast.expr | None) -> dict[str | None, ast.expr]:
    """The arguments of a default that is a `field`."""
    if isinstance(value, ast.Call) and _name_of(value) == "field":
        return {keyword.arg: keyword.value for keyword in value.keywords}
    return {}


def _has_method(node: ast.ClassDef, *names: str) -> bool:
    return any(isinstance(part, ast.FunctionDef) and part.name in names for part in node.body)


def _constructor(node: ast.ClassDef) -> str | None:
    """The `__init__` that `dataclass` would make, on one line; None where that is not a matter of fields with defaults."""
    fields = _fields(node)
    if not fields or _has_method(node, "__init__", "__post_init__"):
        return None
    parameters, assignments = ["self"], []
    for name, kind, value in fields:
        options = _options_of(value)
        if options:
            factory = options.pop("default_factory", None)
            if options or factory is None or "None" in kind or isinstance(factory, ast.Lambda):
                return None
            parameters.append(f"{name}: {kind} | None = None")
            assignments.append(f"self.{name} = {ast.unparse(factory)}() if {name} is None else {name}")
        else:
            parameters.append(f"{name}: {kind}" + ("" if value is None else f" = {ast.unparse(value)}"))
            assignments.append(f"self.{name} = {name}")
    return f"def __init__({', '.join(parameters)}) -> None: {'; '.join(assignments)}"


def _comparison(node: ast.ClassDef, *, with_hash: bool) -> list[str]:
    """The `__eq__` that `dataclass` would make, and the `__hash__`, each on one line; none where the class has its own. As in
    the comparison of two tuples, what is the same object is equal."""
    fields = _fields(node)
    if fields is None or _has_method(node, "__eq__", "__hash__"):
        return []
    compared = [(name, kind) for name, kind, value in fields if "compare" not in _options_of(value)]
    equal = [
        f"self.{name} == other.{name}"
        if kind in ("bool", "bytes", "int", "str")
        else f"(self.{name} is other.{name} or self.{name} == other.{name})"
        for name, kind in compared
    ]
    text = f"({' and '.join(equal) or True}) if type(other) is {node.name} else NotImplemented"
    values = "".join(f"self.{name}, " for name, _ in compared)
    hashed = [f"def __hash__(self) -> int: return hash(({values}))"] if with_hash else []
    return [f"def __eq__(self, other: object) -> bool: return {text}", *hashed]


def _blank_lines(node: ast.ClassDef, lines: list[str]) -> list[int]:
    """The indexes of the blank lines between two statements of the class's body, and of those behind it."""
    ends = [part.end_lineno or 0 for part in node.body]
    gaps = [range(end, after.lineno - 1) for end, after in zip(ends, node.body[1:], strict=False)]
    inside = [at for gap in gaps for at in gap if not lines[at].strip()]
    behind = list(takewhile(lambda at: not lines[at].strip(), range(ends[-1], len(lines))))
    return inside + behind


def _name_of(node: ast.expr) -> str:
    if isinstance(node, ast.Call):
        node = node.func
    return node.id if isinstance(node, ast.Name) else ""
