"""`clients/rust/src/operations.rs`, as rustfmt lays it out."""

from __future__ import annotations

from coterie_conformance.languages.shapes import Argument, Kind, TypedOperation, calls, pascal

PATH = "clients/rust/src/operations.rs"
_TYPES: dict[Kind, str] = {
    "null": "()",
    "string": "String",
    "integer": "i64",
    "number": "f64",
    "bytes": "Bytes",
    "values": "Vec<Bytes>",
    "texts": "Vec<String>",
    "ids": "Vec<i64>",
    "mapping": "BTreeMap<String, String>",
    "offsets": "Vec<Offset>",
    "lags": "Vec<Lag>",
    "documents": "Vec<serde_json::Value>",
    "rule": "Rule",
}
_BORROWED = {"string": "&str", "values": "&[Bytes]", "texts": "&[String]", "ids": "&[i64]", "offsets": "&[Offset]"}
_BORROWED |= {"mapping": "&BTreeMap<String, String>", "rule": "&Rule", "bytes": "&Bytes"}
_COLUMNS = 100


def source() -> str:
    """The file."""
    head = [
        "// Generated from coterie's table of operations by `python -m coterie_conformance.languages`; do not edit.",
        "",
        "use std::collections::BTreeMap;",
        "",
        "use serde::Serialize;",
        "use serde_json::json;",
        "",
        "use crate::broker::{add, Broker};",
        "use crate::values::{Bytes, Error, Lag, Offset, Rule};",
        "",
    ]
    every = calls()
    options = "\n".join(_options(call) for call in every if call.optional)
    return "\n".join(head) + f"\n{options}\nimpl Broker {{\n" + "\n".join(_method(call) for call in every) + "}\n"


def _options(call: TypedOperation) -> str:
    fields = (f"    pub {one.name}: Option<{_TYPES[one.kind]}>," for one in call.optional)
    skip = '    #[serde(skip_serializing_if = "Option::is_none")]'
    head = [f"/// What may be left out of [`Broker::{call.name}`].", "#[derive(Clone, Debug, Default, Serialize)]"]
    body = [line for field in fields for line in (skip, field)]
    return "\n".join([*head, f"pub struct {pascal(call.name)}Options {{", *body, "}", ""])


def _method(call: TypedOperation) -> str:
    parameters = ["&self", *(f"{one.name}: {_BORROWED.get(one.kind, _TYPES[one.kind])}" for one in call.required)]
    parameters += [f"options: &{pascal(call.name)}Options"] if call.optional else []
    returned = f"Result<{_TYPES[call.result]}, Error>"
    signature = f"    pub fn {call.name}({', '.join(parameters)}) -> {returned} {{"
    if len(signature) > _COLUMNS:
        rows = [f"        {one}," for one in parameters]
        signature = "\n".join([f"    pub fn {call.name}(", *rows, f"    ) -> {returned} {{"])
    required = ", ".join(f'"{one.name}": {_passed(one)}' for one in call.required)
    text = [f"    /// {line}".replace("[", "\\[").replace("]", "\\]").replace("<", "\\<") for line in call.lines]
    lines = [f"        let {'mut ' if call.optional else ''}given = json!({{{required}}});"]
    lines += ["        add(&mut given, options);"] if call.optional else []
    return "\n".join([*text, signature, *lines, f'        self.call("{call.name}", given)', "    }", ""])


def _passed(one: Argument) -> str:
    return f"{one.name}.rule" if one.kind == "rule" else one.name
