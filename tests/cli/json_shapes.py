"""Whether a command's JSON has the shape of its class in `json_documents`: every field, of its type, and no other."""

from __future__ import annotations

import json
import types
from collections.abc import Iterator, Mapping
from dataclasses import is_dataclass
from enum import Enum
from typing import Any, NotRequired, Union, get_args, get_origin, get_type_hints, is_typeddict

from coterie.cli.parts.json_documents import json_documents

UNIONS = (types.UnionType, Union)


def documented(command: str, output: str) -> Any:
    """The parsed output of ``command``; a list of the documents where each has a line. Fails where a shape differs."""
    document = json_documents()[command]
    values = [json.loads(line) for line in output.splitlines()] if document.per_line else [json.loads(output)]
    differences = [text for value in values for text in differing(document.kind, value, command)]
    assert values, f"{command} printed nothing"
    assert not differences, "\n".join(differences)
    return values if document.per_line else values[0]


def differing(kind: Any, value: Any, path: str) -> Iterator[str]:
    """A sentence for each part of the value that is not of that kind: a TypedDict, a dataclass, list[X], tuple[X, ...],
    dict[str, X], X | Y, an Enum of texts, str, int, float, bool, None, Any."""
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is Any:
        return
    if origin in UNIONS:
        ways = [list(differing(argument, value, path)) for argument in arguments]
        yield from [] if [] in ways else (text for way in ways for text in way)
    elif is_typeddict(kind) or is_dataclass(kind):
        yield from _differing_fields(kind, value, path)
    elif origin in (list, tuple) and isinstance(value, list):
        for index, item in enumerate(value):
            yield from differing(arguments[0], item, f"{path}[{index}]")
    elif origin in (dict, Mapping) and isinstance(value, dict):
        for key, item in value.items():
            yield from differing(arguments[1], item, f"{path}.{key}")
    elif isinstance(kind, type) and issubclass(kind, Enum):
        if value not in [member.value for member in kind]:
            yield f"{path} is {value!r}, no {kind.__name__}"
    elif kind is float:
        if type(value) not in (int, float):
            yield f"{path} is {value!r}, no number"
    elif type(value) is not (types.NoneType if kind is None else origin or kind):
        yield f"{path} is {value!r}, not of type {getattr(kind, '__name__', kind)}"


def _differing_fields(kind: Any, value: Any, path: str) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"{path} is {value!r}, no {kind.__name__}"
        return
    hints = get_type_hints(kind, include_extras=True)
    required = {name for name, hint in hints.items() if get_origin(hint) is not NotRequired}
    yield from (f"{path} has no {name}" for name in sorted(required - value.keys()))
    yield from (f"{path} has {name}, which is not documented" for name in sorted(value.keys() - hints.keys()))
    for name in hints.keys() & value.keys():
        hint = hints[name]
        yield from differing(get_args(hint)[0] if name not in required else hint, value[name], f"{path}.{name}")
