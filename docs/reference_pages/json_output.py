"""The documents that commands print with `--json`, from their classes in `coterie.cli.parts.json_documents`."""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping
from dataclasses import is_dataclass
from enum import Enum
from typing import Any, NotRequired, Union, get_args, get_origin, get_type_hints, is_typeddict

from coterie.cli.parts.json_documents import json_documents
from reference_pages.markdown import code, table, text

_NAMES = {str: "string", int: "integer", float: "number", bool: "boolean", types.NoneType: "null", Any: "any value"}


def json_commands() -> str:
    """Each command, and the document that it prints."""
    rows = []
    for command, document in sorted(json_documents().items()):
        meaning = document.meaning or ("one on each line" if document.per_line else "")
        rows.append((code(f"coterie {command}"), type_text(document.kind), text(meaning)))
    return table(("command", "document", ""), rows)


def json_objects() -> str:
    """A heading, the meaning and the fields of each class that a document contains, by name."""
    kinds: dict[str, Any] = {}
    for document in json_documents().values():
        kinds |= {kind.__name__: kind for kind in objects_in(document.kind)}
    return "\n".join(_object(kind) for _, kind in sorted(kinds.items()))


def objects_in(kind: Any, around: tuple[Any, ...] = ()) -> Iterator[Any]:
    """The TypedDicts and dataclasses of a type, also those of their fields; one ``around`` it contains itself."""
    if kind not in around and (is_typeddict(kind) or is_dataclass(kind)):
        yield kind
        for hint in get_type_hints(kind).values():
            yield from objects_in(hint, (*around, kind))
    for argument in get_args(kind):
        yield from objects_in(argument, around)


def type_text(kind: Any) -> str:
    """A type as JSON has it, in Markdown: `list of GroupRow` with a link, `string or null`."""
    origin, arguments = get_origin(kind), get_args(kind)
    if kind in _NAMES:
        return _NAMES[kind]
    if is_typeddict(kind) or is_dataclass(kind):
        return f"[{kind.__name__}](#{kind.__name__.lower()})"
    if origin in (types.UnionType, Union):
        return " or ".join(type_text(argument) for argument in arguments)
    if origin in (list, tuple):
        return f"list of {type_text(arguments[0])}"
    if origin in (dict, Mapping):
        return f"object of {type_text(arguments[1])}"
    if isinstance(kind, type) and issubclass(kind, Enum):
        return ", ".join(code(member.value) for member in kind)
    raise TypeError(f"{kind} has no JSON form")


def _object(kind: Any) -> str:
    rows = []
    for name, hint in get_type_hints(kind, include_extras=True).items():
        optional = get_origin(hint) is NotRequired
        rows.append(
            (code(name), type_text(get_args(hint)[0] if optional else hint), "may be absent" if optional else "")
        )
    return f"### {kind.__name__}\n\n{text((kind.__doc__ or '').replace('``', '`'))}\n\n{table(('field', 'type', ''), rows)}"
