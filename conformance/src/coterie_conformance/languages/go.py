"""`clients/go/operations.go`."""

from __future__ import annotations

from coterie_conformance.languages.shapes import Argument, Kind, TypedOperation, calls, pascal

PATH = "clients/go/operations.go"
_TYPES: dict[Kind, str] = {
    "string": "string",
    "integer": "int",
    "number": "float64",
    "bytes": "[]byte",
    "values": "[][]byte",
    "texts": "[]string",
    "ids": "[]int",
    "mapping": "map[string]string",
    "offsets": "[]Offset",
    "lags": "[]Lag",
    "documents": "[]map[string]any",
    "rule": "Rule",
}
_PASSED = {"bytes": "text({})", "values": "texts({})", "rule": "{}.Number"}
_ACRONYMS = {"Api": "API", "Id": "ID", "Ms": "Ms", "Isr": "ISR"}


def source() -> str:
    """The file."""
    head = [
        "// Code generated from coterie's table of operations by `python -m coterie_conformance.languages`; DO NOT EDIT.",
        "",
        "package coterie",
        "",
    ]
    return "\n".join(head) + "\n" + "\n".join(_method(call) for call in calls())


def _method(call: TypedOperation) -> str:
    name = _exported(call.name)
    parameters = [f"{_local(one.name)} {_TYPES[one.kind]}" for one in call.required]
    lines = [_options(call, name)] if call.optional else []
    parameters += [f"options *{name}Options"] if call.optional else []
    returned = "error" if call.result == "null" else f"({_TYPES[call.result]}, error)"
    lines += [_comment(name, call.lines)]
    lines += [f"func (b *Broker) {name}({', '.join(parameters)}) {returned} {{"]
    lines += ["\targuments := map[string]any{" + ", ".join(_passed(one) for one in call.required) + "}"]
    if call.optional:
        lines += ["\tif options != nil {", *(_optional(one) for one in call.optional), "\t}"]
    if call.result == "null":
        lines += [f'\treturn b.call("{call.name}", arguments, nil)', "}", ""]
    else:
        lines += [f"\tvar result {_TYPES[call.result]}"]
        lines += [f'\terr := b.call("{call.name}", arguments, &result)', "\treturn result, err", "}", ""]
    return "\n".join(lines)


def _comment(name: str, lines: list[str]) -> str:
    return "\n".join(f"// {line}" for line in [f"{name}: {lines[0]}", *lines[1:]])


def _options(call: TypedOperation, name: str) -> str:
    width = max(len(_exported(one.name)) for one in call.optional)  # as gofmt aligns them
    fields = [f"\t{_exported(one.name):{width}} {'*' * one.is_nullable}{_TYPES[one.kind]}" for one in call.optional]
    return "\n".join(
        [f"// {name}Options has what may be left out of {name}.", f"type {name}Options struct {{", *fields, "}", ""]
    )


def _passed(one: Argument) -> str:
    return f'"{one.name}": ' + _PASSED.get(one.kind, "{}").format(_local(one.name))


def _optional(one: Argument) -> str:
    field = f"options.{_exported(one.name)}"
    return f'\t\tset(arguments, "{one.name}", {_PASSED.get(one.kind, "{}").format(field)})'


def _exported(name: str) -> str:
    words = pascal(name)
    for word, acronym in _ACRONYMS.items():
        words = words.removesuffix(word) + acronym if words.endswith(word) else words
    return words


def _local(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(_ACRONYMS.get(word.capitalize(), word.capitalize()) for word in others)
