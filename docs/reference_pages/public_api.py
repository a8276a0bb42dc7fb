"""What is public, name by name: a line for each export of the public modules and for each public member of its classes.

`lines` makes docs/reference/public_api.txt (`python -m tests.test_public_api`); the page of the Python API has the `exports`.
A name that is not in the list may change in any version.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from enum import Enum
from types import ModuleType
from typing import Any, is_typeddict

from coterie.client.admin.each import Each
from coterie.client.blocking.admin_each import BlockingEach

FIXTURES = "coterie.pytest_plugin"
MODULES: dict[str, tuple[str, ...]] = {  # module -> its public names; () for its __all__
    "coterie": ("__version__",),
    "coterie.client": (),
    "coterie.client.blocking": (),
    "coterie.pipeline.queries": ("lag", "stop_gracefully"),
    "coterie.pipeline.session": ("JavaMissing", "make_session"),
    "coterie.testing": (),
}
PARTS: dict[str, tuple[str, type]] = {  # attributes whose class has no export
    "coterie.client.Admin": ("each", Each),
    "coterie.client.blocking.BlockingAdmin": ("each", BlockingEach),
}
SIMPLE = (str, int, float, bool, type(None))


def exports(module: ModuleType) -> list[str]:
    """The public names of a public module, sorted."""
    return sorted(MODULES[module.__name__] or module.__all__)


def lines() -> list[str]:
    """Every public name with its parameters and types, sorted by name. A name that a second module exports too is a line
    ``NAME = FIRST NAME``."""
    entries: dict[str, str] = {}
    first: dict[int, str] = {}
    for module_name in MODULES:
        module = importlib.import_module(module_name)
        for export in exports(module):
            name, value = f"{module_name}.{export}", getattr(module, export)
            if inspect.isclass(value) and id(value) in first:
                entries[name] = f"{name} = {first[id(value)]}"
                continue
            first[id(value)] = name
            entries |= _class(name, value) if inspect.isclass(value) else {name: _value(name, value)}
    entries |= {f"{FIXTURES}.{name}": line for name, line in _fixtures()}
    return [entries[name] for name in sorted(entries)]


def names(listed: list[str]) -> dict[str, str]:
    """Line by qualified name, of lines as `lines` makes them."""
    return {_name_of(line): line for line in listed}


def _name_of(line: str) -> str:
    words = line.removeprefix("class ").removeprefix("async ").removeprefix("fixture ")
    return words.partition("(")[0].partition(":")[0].partition(" ")[0]


def _value(name: str, value: object) -> str:
    if callable(value):
        return _function(name, value)
    return f"{name}: {type(value).__name__}"


def _function(name: str, function: Callable[..., Any], *, drop_self: bool = False) -> str:
    """As in the source, with the annotations' own text; a default that is no plain value is ``...``."""
    signature = inspect.signature(function)
    prefix = "async " if inspect.iscoroutinefunction(function) else ""
    returned = "" if signature.return_annotation is signature.empty else f" -> {_text(signature.return_annotation)}"
    return f"{prefix}{name}({', '.join(_parameters(signature, drop_self=drop_self))}){returned}"


def _parameters(signature: inspect.Signature, *, drop_self: bool) -> Iterator[str]:
    after_star = False
    for parameter in list(signature.parameters.values())[int(drop_self) :]:
        if parameter.kind is parameter.KEYWORD_ONLY and not after_star:
            yield "*"
        after_star = after_star or parameter.kind in (parameter.KEYWORD_ONLY, parameter.VAR_POSITIONAL)
        stars = "*" * ((parameter.kind is parameter.VAR_POSITIONAL) + 2 * (parameter.kind is parameter.VAR_KEYWORD))
        annotation = "" if parameter.annotation is parameter.empty else f": {_text(parameter.annotation)}"
        yield f"{stars}{parameter.name}{annotation}{_default(parameter)}"


def _default(parameter: inspect.Parameter) -> str:
    if parameter.default is parameter.empty:
        return ""
    is_plain = isinstance(parameter.default, SIMPLE) and not isinstance(parameter.default, Enum)
    return f" = {parameter.default!r}" if is_plain else " = ..."


def _text(annotation: object) -> str:
    """An annotation's own text, or that of the object it is (in NamedTuples and TypedDicts), there without modules."""
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__forward_arg__", None)
    if text is not None:
        return str(text)
    return re.sub(
        r"\b(?:[a-z_]+\.)+(?=[A-Z])", "", annotation.__name__ if isinstance(annotation, type) else str(annotation)
    )


def _class(name: str, owner: type) -> dict[str, str]:
    """The class and its public members, those of bases in coterie that are not public themselves included."""
    bases = ", ".join(base.__name__ for base in owner.__bases__ if base is not object)
    entries = {name: f"class {name}" + (f"({bases})" if bases else "")}
    if issubclass(owner, Enum):
        return entries | {f"{name}.{m.name}": f"{name}.{m.name} = {m.value!r}" for m in owner}
    if is_typeddict(owner):
        hints = owner.__annotations__.items()
        return entries | {f'{name}["{key}"]': f'{name}["{key}"]: {_text(kind)}' for key, kind in hints}
    if "__init__" in vars(owner) and inspect.isfunction(vars(owner)["__init__"]):
        entries |= _constructor(name, vars(owner)["__init__"], drop_self=True)
    elif not issubclass(owner, BaseException) and not getattr(owner, "_is_protocol", False):
        entries |= _constructor(name, owner, drop_self=False)
    for base in (*private_bases(owner), owner):
        entries |= _members(name, base)
    return entries


def private_bases(owner: type) -> list[type]:
    """The bases in coterie that are not public themselves, the furthest first."""
    return [
        base
        for base in reversed(owner.__mro__)
        if base is not owner and base.__module__.startswith("coterie") and not _is_public(base)
    ]


def _constructor(name: str, function: Callable[..., Any], *, drop_self: bool) -> dict[str, str]:
    parameters = _parameters(inspect.signature(function), drop_self=drop_self)
    return {f"{name}.__init__": f"{name}.__init__({', '.join(parameters)})"}


def _is_public(owner: type) -> bool:
    return any(getattr(importlib.import_module(m), owner.__name__, None) is owner for m in MODULES)


def _members(name: str, owner: type) -> dict[str, str]:
    entries = {f"{name}.{attribute}": f"{name}.{attribute}{kind}" for attribute, kind in _attributes(owner).items()}
    for attribute, value in vars(owner).items():
        member = f"{name}.{attribute}"
        function = getattr(value, "__func__", value)
        if attribute.startswith("_"):
            continue
        if isinstance(value, property) and value.fget is not None:
            entries[member] = f"{member}: {_text(value.fget.__annotations__.get('return'))}"
        elif inspect.isfunction(function):
            entries[member] = _function(member, function, drop_self=not isinstance(value, staticmethod))
    if (part := PARTS.get(name)) is not None:
        attribute, kind = part
        entries |= _members(f"{name}.{attribute}", kind)
    return entries


def _attributes(owner: type) -> dict[str, str]:
    """Fields, and what the methods set: each with its annotation, where the source has one."""
    if is_dataclass(owner):
        return {f.name: f": {f.type}" for f in fields(owner) if not f.name.startswith("_")}
    if hasattr(owner, "_fields"):
        return {f: f": {_text(owner.__annotations__[f])}" for f in owner._fields}
    attributes: dict[str, str] = {}
    for method in (
        node for node in ast.walk(_source(owner)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ):
        arguments = [*method.args.args, *method.args.kwonlyargs]
        annotations = {a.arg: f": {ast.unparse(a.annotation)}" for a in arguments if a.annotation is not None}
        for target, value, annotation in _assignments(method):
            if _is_public_attribute(target):
                argument = annotations.get(value.id, "") if isinstance(value, ast.Name) else ""
                attributes[target.attr] = attributes.get(target.attr) or annotation or argument
    return attributes


def _source(owner: type) -> ast.Module:
    return ast.parse(textwrap.dedent(inspect.getsource(owner)))


def _assignments(method: ast.AST) -> Iterator[tuple[ast.Attribute, ast.expr | None, str]]:
    """Every attribute that is assigned to, with the value and the annotation; tuples item by item."""
    for node in ast.walk(method):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Attribute):
            yield node.target, node.value, f": {ast.unparse(node.annotation)}"
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                is_both = isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple)
                targets = target.elts if isinstance(target, ast.Tuple) else [target]
                values = (
                    node.value.elts if is_both and isinstance(node.value, ast.Tuple) else [node.value] * len(targets)
                )
                pairs = zip(targets, values, strict=False)
                yield from ((one, value, "") for one, value in pairs if isinstance(one, ast.Attribute))


def _is_public_attribute(node: ast.Attribute) -> bool:
    return isinstance(node.value, ast.Name) and node.value.id == "self" and not node.attr.startswith("_")


def _fixtures() -> Iterator[tuple[str, str]]:
    """The pytest fixtures, by their source: pytest wraps the functions."""
    module = importlib.import_module(FIXTURES)
    for node in ast.parse(inspect.getsource(module)).body:
        if isinstance(node, ast.FunctionDef) and any("fixture" in ast.unparse(d) for d in node.decorator_list):
            returned = ast.unparse(node.returns) if node.returns else ""
            yield node.name, f"fixture {FIXTURES}.{node.name}: {returned}"
