"""The values of operations as JSON: each type of an argument or a result has one `JsonForm`, with its JSON Schema.

Bytes are a text, taken as UTF-8, or ``{"base64": "..."}``; a mapping by partition is a list of objects; a fault rule is the
number under which the server keeps it.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from coterie.coordinator.journal.line import JournalLine
from coterie.testing.faults import FaultRule
from coterie.wire.errors import ErrorCode

Json = Any
Schema = dict[str, Any]


class Rules(Protocol):
    """The fault rules that are known, by number."""

    def number(self, rule: FaultRule) -> int:
        """That of a rule, which is known from now on."""

    def rule(self, number: int) -> FaultRule:
        """Raises LookupError."""


@dataclass(frozen=True)
class JsonForm:
    """``read``: JSON to a value; raises TypeError or ValueError for JSON that is no such value. ``write``: a value to JSON. The
    server reads arguments and writes results, a client the other way."""

    schema: Schema
    read: Callable[[Json, Rules], Any]
    write: Callable[[Any, Rules], Json]


def _same(value: Any, rules: Rules) -> Any:
    return value


def _read_bytes(value: Json, rules: Rules) -> bytes:
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, dict) and value.keys() == {"base64"} and isinstance(value["base64"], str):
        try:
            return base64.b64decode(value["base64"], validate=True)
        except binascii.Error as error:
            raise ValueError(f"{value['base64'][:40]!r} is not base64") from error
    raise TypeError('bytes are a text, or {"base64": "..."}')


def _write_bytes(value: bytes, rules: Rules) -> Json:
    return {"base64": base64.b64encode(value).decode()}


def _read_values(value: Json, rules: Rules) -> list[bytes]:
    if not isinstance(value, list) or not value:
        raise TypeError("values must be a list of at least one")
    return [_read_bytes(one, rules) for one in value]


def _write_values(value: Iterable[bytes], rules: Rules) -> Json:
    return [_write_bytes(one, rules) for one in value]


def _by_partition(number: str) -> JsonForm:
    """(topic, partition) -> int, as a list of objects whose third field is ``number``."""
    names = ("topic", "partition", number)

    def read(value: Json, rules: Rules) -> dict[tuple[str, int], int]:
        if not isinstance(value, list) or not all(isinstance(row, dict) and row.keys() == {*names} for row in value):
            raise TypeError(f"{number}s must be a list of objects with {', '.join(names)}")
        return {(row["topic"], row["partition"]): row[number] for row in value}

    def write(value: Mapping[tuple[str, int], int], rules: Rules) -> Json:
        return [{"topic": topic, "partition": index, number: each} for (topic, index), each in sorted(value.items())]

    properties = {"topic": _TEXT, "partition": _INTEGER, number: _INTEGER}
    row = {"type": "object", "properties": properties, "required": [*names], "additionalProperties": False}
    return JsonForm({"type": "array", "items": row}, read, write)


def _read_number(value: Json, rules: Rules) -> FaultRule:
    if type(value) is not int:
        raise TypeError("rule must be the number that hold, fail, delay, cut or lose_response returned")
    return rules.rule(value)


def _write_number(rule: FaultRule, rules: Rules) -> Json:
    return rules.number(rule)


def _read_rule(value: Json, rules: Rules) -> FaultRule:
    return rules.rule(value["rule"])


def _write_rule(rule: FaultRule, rules: Rules) -> Json:
    return {"rule": rules.number(rule), "api": rule.api, "times_left": rule.times, "held": len(rule.held)}


def _read_ids(value: Json, rules: Rules) -> set[int]:
    if not isinstance(value, list):
        raise TypeError("ids must be a list")
    return set(value)


def _write_ids(value: Iterable[int], rules: Rules) -> Json:
    return sorted(value)


def _read_lines(value: Json, rules: Rules) -> list[JournalLine]:
    return [JournalLine.from_json(json.dumps(one)) for one in value]


def _write_lines(value: Iterable[JournalLine], rules: Rules) -> Json:
    return [json.loads(line.to_json()) for line in value]


def _write_code(value: Any, rules: Rules) -> Json:
    return value.name if isinstance(value, ErrorCode) else value


def _write_mapping(value: Mapping[str, str], rules: Rules) -> Json:
    return dict(value)


def one_of(names: Iterable[str]) -> JsonForm:
    """A text that is one of these names; the method checks it."""
    return JsonForm({"type": "string", "enum": sorted(names)}, _same, _same)


_TEXT: Schema = {"type": "string"}
_INTEGER: Schema = {"type": "integer"}
_TEXTS: Schema = {"type": "object", "additionalProperties": _TEXT}
_BASE64: Schema = {
    "type": "object",
    "properties": {"base64": {"type": "string", "contentEncoding": "base64"}},
    "required": ["base64"],
    "additionalProperties": False,
}
_BYTES: Schema = {"oneOf": [{"type": "string", "description": "taken as UTF-8"}, _BASE64]}
_RULE: Schema = {
    "type": "object",
    "properties": {"rule": _INTEGER, "api": _TEXT, "times_left": _INTEGER, "held": _INTEGER},
    "required": ["rule", "api", "times_left", "held"],
}
_IDS = JsonForm({"type": "array", "items": _INTEGER}, _read_ids, _write_ids)
_OFFSETS = _by_partition("offset")

# By the annotation of a parameter or a result.
FORMS: dict[str, JsonForm] = {
    "str": JsonForm(_TEXT, _same, _same),
    "int": JsonForm(_INTEGER, _same, _same),
    "float": JsonForm({"type": "number", "minimum": 0}, _same, _same),
    "bytes": JsonForm(_BYTES, _read_bytes, _write_bytes),
    "None": JsonForm({"type": "null"}, _same, _same),
    "ErrorCode | str": JsonForm(one_of(ErrorCode.__members__).schema, _same, _write_code),
    "Mapping[str, str]": JsonForm(_TEXTS, _same, _write_mapping),
    "dict[str, str]": JsonForm(_TEXTS, _same, _write_mapping),
    "list[str]": JsonForm({"type": "array", "items": _TEXT}, _same, _same),
    "list[JournalLine]": JsonForm({"type": "array", "items": {"type": "object"}}, _read_lines, _write_lines),
    "set[int]": _IDS,
    "Iterable[int]": _IDS,
    "Mapping[tuple[str, int], int]": _OFFSETS,
    "dict[tuple[str, int], int]": _OFFSETS,
    "FaultRule": JsonForm(_RULE, _read_rule, _write_rule),
}
# Where a name says more than its annotation.
VALUES = JsonForm({"type": "array", "items": _BYTES, "minItems": 1}, _read_values, _write_values)
RULE_NUMBER = JsonForm(_INTEGER, _read_number, _write_number)
LAGS = _by_partition("lag")
