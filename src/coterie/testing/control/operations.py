"""What the control API offers: the public methods of `ControlledBroker`, each with its parameters and their JSON; and all of
it in OpenAPI 3.1."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from coterie.coordinator.journal.line import JournalLine
from coterie.testing.control.values import FORMS, LAGS, RULE_NUMBER, VALUES, Json, JsonForm, Rules, Schema, one_of
from coterie.testing.faults import FAILABLE
from coterie.testing.local_broker import LocalBroker

# By another name than the method's.
RENAMED = {"addresses": "bootstrap_servers", "hold_until_release": "hold", "journal_lines": "journal"}
# Public methods that are no operation.
LEFT_OUT = {
    "start": "the process does",
    "hold": "a with-block; the operation hold is hold_until_release",
    "deny": "a with-block; an admin creates ACLs",
}
_REQUIRED = {("stop", "broker_id")}  # the process stops the others
_PARAMETERS = {
    ("fail", "api"): one_of(FAILABLE),
    ("produce", "values"): VALUES,
    ("release", "rule"): RULE_NUMBER,
    ("until_held", "rule"): RULE_NUMBER,
}
_RESULTS = {"lag": LAGS}
PATH = "/v1/"
# By status: what a response other than 200 means.
ERRORS = {
    400: "An argument is missing, unknown or wrong, or the broker is not in a state for it.",
    404: "There is no such member, rule or operation.",
    409: "Kafka's refusal; `code` is its name.",
    504: "What was waited for did not come in time; the error says where the group stands.",
}
_ERROR: Schema = {
    "type": "object",
    "properties": {"error": {"type": "string"}, "code": {"type": "string"}},
    "required": ["error"],
}


class ControlledBroker(LocalBroker):
    """A `LocalBroker` as the control API has it: with what is an attribute, or takes a with-block, as methods."""

    def addresses(self) -> str:
        """The bootstrap.servers of clients: HOST:PORT, of a cluster those of all brokers with commas."""
        return self.bootstrap_servers

    def journal_lines(self, group: str | None = None) -> list[JournalLine]:
        """The journal since the start or the last reset, of one group or of all: objects as `coterie groups history --json` has
        them, with the causes of each rebalance."""
        return [line for line in self.journal if group in (None, line.group)]


@dataclass(frozen=True)
class Parameter:
    """``is_rest``: Python's ``*values``."""

    name: str
    form: JsonForm
    is_required: bool
    default: Json
    is_rest: bool


@dataclass(frozen=True)
class ControlOperation:
    """``method``: its name in `ControlledBroker`; ``text``: its docstring."""

    name: str
    method: str
    text: str
    parameters: tuple[Parameter, ...]
    result: JsonForm

    def run(self, broker: ControlledBroker, given: Mapping[str, Json], rules: Rules) -> Json:
        """Raises TypeError and ValueError for wrong arguments, else as the method does."""
        names = [p.name for p in self.parameters]
        unknown = [name for name in given if name not in names]
        if unknown:
            raise TypeError(f"{self.name} takes {', '.join(names) or 'nothing'}, not {unknown[0]}")
        rest: list[Any] = []
        values: dict[str, Any] = {}
        for parameter in self.parameters:
            value = given.get(parameter.name)
            if value is None and parameter.is_required:
                raise TypeError(f"{self.name} needs {parameter.name}")
            if value is None:
                continue
            read = parameter.form.read(value, rules)
            if parameter.is_rest:
                rest = read
            else:
                values[parameter.name] = read
        method = getattr(broker, self.method)
        if rest:  # the parameters before *values are passed by position
            before = [values.pop(p.name) for p in takewhile(lambda p: not p.is_rest, self.parameters)]
            return self.result.write(method(*before, *rest, **values), rules)
        return self.result.write(method(**values), rules)


def _form(annotation: str) -> JsonForm:
    return FORMS[annotation.removesuffix(" | None")]


def _operation(method: str) -> ControlOperation:
    function = getattr(ControlledBroker, method)
    signature = inspect.signature(function)
    parameters = [
        Parameter(
            name,
            _PARAMETERS.get((method, name)) or _form(one.annotation),
            (method, name) in _REQUIRED or one.default is inspect.Parameter.empty,
            None if one.default is inspect.Parameter.empty else one.default,
            one.kind is inspect.Parameter.VAR_POSITIONAL,
        )
        for name, one in signature.parameters.items()
        if name != "self"
    ]
    result = _RESULTS.get(method) or _form(signature.return_annotation)
    return ControlOperation(
        RENAMED.get(method, method), method, inspect.getdoc(function) or "", tuple(parameters), result
    )


def _methods() -> list[str]:
    return [
        name
        for name, _ in inspect.getmembers(ControlledBroker, inspect.isfunction)
        if not name.startswith("_") and name not in LEFT_OUT
    ]


OPERATIONS = {one.name: one for one in sorted(map(_operation, _methods()), key=lambda one: one.name)}


def document(version: str) -> dict[str, Any]:
    """The whole description, as JSON."""
    description = (
        "What a test may do to a coterie broker. Each operation is a POST with its arguments as a JSON object; the response "
        "has its result under `result`. Bytes are a text, taken as UTF-8, or an object with base64."
    )
    return {
        "openapi": "3.1.0",
        "info": {"title": "coterie control API", "version": version, "description": description},
        "paths": {f"{PATH}{name}": {"post": _post(operation)} for name, operation in OPERATIONS.items()},
        "components": {
            "schemas": {"Error": _ERROR},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _post(operation: ControlOperation) -> dict[str, Any]:
    result = {"type": "object", "properties": {"result": operation.result.schema}, "required": ["result"]}
    refused = {"$ref": "#/components/schemas/Error"}
    responses: dict[str, Any] = {"200": {"description": "Done.", "content": _json(result)}}
    responses |= {str(status): {"description": text, "content": _json(refused)} for status, text in ERRORS.items()}
    arguments = {
        "type": "object",
        "properties": {p.name: _property(p) for p in operation.parameters},
        "required": [p.name for p in operation.parameters if p.is_required],
        "additionalProperties": False,
    }
    return {
        "operationId": operation.name,
        "description": " ".join(operation.text.split()),
        "requestBody": {"content": _json(arguments)},
        "responses": responses,
    }


def _property(parameter: Parameter) -> Schema:
    schema = dict(parameter.form.schema)
    return schema if parameter.default is None else schema | {"default": parameter.default}


def _json(schema: Schema) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}
