"""The control API in OpenAPI 3.1, made from `OPERATIONS`."""

from __future__ import annotations

from typing import Any

from coterie.testing.control.operations import OPERATIONS, ControlOperation, Parameter
from coterie.testing.control.values import Schema

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
