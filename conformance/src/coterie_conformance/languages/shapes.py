"""The operations of the control API as a statically typed language sees them."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from coterie.testing.control.operations import OPERATIONS, ControlOperation, Parameter

Kind = str  # a key of each language's table of types
WIDTH = 116


def kind_of(schema: Mapping[str, Any]) -> Kind:
    """What a value is, by its JSON Schema."""
    if "oneOf" in schema:
        return "bytes"
    if schema["type"] == "array":
        return _LISTS[kind_of(schema["items"])]
    if schema["type"] == "object":
        return _object(schema)
    return str(schema["type"])


_LISTS = {
    "bytes": "values",
    "string": "texts",
    "integer": "ids",
    "offset": "offsets",
    "lag": "lags",
    "document": "documents",
}


def _object(schema: Mapping[str, Any]) -> Kind:
    properties = schema.get("properties", {})
    for name in ("rule", "offset", "lag"):
        if name in properties:
            return name
    return "mapping" if "additionalProperties" in schema else "document"


@dataclass(frozen=True)
class Argument:
    """``is_nullable``: an optional one whose absence is no value of its kind."""

    name: str
    kind: Kind
    is_nullable: bool


@dataclass(frozen=True)
class TypedOperation:
    """An operation; ``lines``: what it does, wrapped."""

    name: str
    lines: list[str]
    required: list[Argument]
    optional: list[Argument]
    result: Kind


def calls() -> list[TypedOperation]:
    """Every operation, in the order of names."""
    return [_call(operation) for operation in OPERATIONS.values()]


def _call(operation: ControlOperation) -> TypedOperation:
    arguments = [(p.is_required, Argument(p.name, _kind(p), _is_nullable(p))) for p in operation.parameters]
    return TypedOperation(
        operation.name,
        textwrap.wrap(" ".join(operation.text.replace("`", "").split()), WIDTH),
        [one for is_required, one in arguments if is_required],
        [one for is_required, one in arguments if not is_required],
        kind_of(operation.result.schema),
    )


def _kind(parameter: Parameter) -> Kind:
    """A rule is passed by its number."""
    return "rule" if parameter.name == "rule" else kind_of(parameter.form.schema)


def _is_nullable(parameter: Parameter) -> bool:
    return not parameter.is_required and parameter.default is None and kind_of(parameter.form.schema) == "integer"


def camel(name: str) -> str:
    """create_topic -> createTopic."""
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)


def pascal(name: str) -> str:
    """create_topic -> CreateTopic."""
    return "".join(word.capitalize() for word in name.split("_"))
