"""`clients/typescript/src/operations.ts`."""

from __future__ import annotations

from coterie_conformance.languages.shapes import Argument, Kind, TypedOperation, calls, camel

PATH = "clients/typescript/src/operations.ts"
_TYPES: dict[Kind, str] = {
    "null": "void",
    "string": "string",
    "integer": "number",
    "number": "number",
    "bytes": "Bytes",
    "values": "Bytes[]",
    "texts": "string[]",
    "ids": "number[]",
    "mapping": "Record<string, string>",
    "offsets": "Offset[]",
    "lags": "Lag[]",
    "documents": "JournalLine[]",
    "rule": "Rule",
}
_PASSED = {"bytes": "bytes({})", "values": "{}.map(bytes)", "rule": "{}.rule"}


def source() -> str:
    """The file."""
    head = [
        "// Generated from coterie's table of operations by `python -m coterie_conformance.languages`; do not edit.",
        "",
        'import { bytes, type Bytes, type JournalLine, type Lag, type Offset, type Rule } from "./values.js";',
        "",
        "/** What the control API of a broker offers; each raises `ControlError`. */",
        "export abstract class Operations {",
        "  protected abstract call(operation: string, given: Record<string, unknown>): Promise<unknown>;",
        "",
    ]
    return "\n".join(head) + "\n" + "\n".join(_method(call) for call in calls()) + "}\n"


def _method(call: TypedOperation) -> str:
    parameters = [f"{camel(one.name)}: {_TYPES[one.kind]}" for one in call.required]
    if call.optional:
        fields = "; ".join(f"{camel(one.name)}?: {_TYPES[one.kind]}" for one in call.optional)
        parameters += [f"options: {{ {fields} }} = {{}}"]
    given = [_passed(one, camel(one.name)) for one in call.required] + [_optional(one) for one in call.optional]
    arguments = f"{{ {', '.join(given)} }}" if given else "{}"
    result = _TYPES[call.result]
    called = f'this.call("{call.name}", {arguments})'
    body = f"await {called};" if result == "void" else f"return (await {called}) as {result};"
    text = [f"   * {line}" for line in call.lines]
    signature = f"  async {camel(call.name)}({', '.join(parameters)}): Promise<{result}> {{"
    return "\n".join(["  /**", *text, "   */", signature, f"    {body}", "  }", ""])


def _passed(one: Argument, value: str) -> str:
    return f"{one.name}: " + _PASSED.get(one.kind, "{}").format(value)


def _optional(one: Argument) -> str:
    field = f"options.{camel(one.name)}"
    if one.kind not in _PASSED:
        return f"{one.name}: {field}"
    return f"{one.name}: {field} === undefined ? undefined : {_PASSED[one.kind].format(field)}"
