"""`clients/java/.../Operations.java`."""

from __future__ import annotations

from coterie_conformance.languages.shapes import Argument, Kind, TypedOperation, calls, camel

PATH = "clients/java/src/main/java/coterie/testing/Operations.java"
_TYPES: dict[Kind, str] = {
    "null": "void",
    "string": "String",
    "integer": "Integer",
    "number": "Double",
    "bytes": "byte[]",
    "values": "List<byte[]>",
    "texts": "List<String>",
    "ids": "List<Integer>",
    "mapping": "Map<String, String>",
    "offsets": "List<Offset>",
    "lags": "List<Lag>",
    "documents": "List<Map<String, Object>>",
    "rule": "Rule",
}
_PASSED = {"bytes": "bytes({})", "values": "values({})", "rule": "{}.rule()"}


def source() -> str:
    """The file."""
    head = [
        "// Generated from coterie's table of operations by `python -m coterie_conformance.languages`; do not edit.",
        "package coterie.testing;",
        "",
        "import com.fasterxml.jackson.core.type.TypeReference;",
        "import java.util.LinkedHashMap;",
        "import java.util.List;",
        "import java.util.Map;",
        "",
        "/** What the control API of a broker offers; each throws {@link ControlException}. */",
        "public abstract class Operations extends Values {",
        "    protected abstract <T> T call(String operation, Map<String, Object> given, TypeReference<T> type);",
        "",
    ]
    return "\n".join(head) + "\n" + "\n".join(_method(call) for call in calls()) + "}\n"


def _method(call: TypedOperation) -> str:
    every = [*call.required, *call.optional]
    result = _TYPES[call.result]
    text = ["    /**", *(f"     * {line.replace('<', '&lt;')}" for line in call.lines)]
    if call.optional:
        text += ["     *", f"     * <p>Null is the default of {', '.join(camel(one.name) for one in call.optional)}."]
    lines = [*text, "     */", f"    public {result} {camel(call.name)}({_parameters(every)}) {{"]
    lines += ["        Map<String, Object> given = new LinkedHashMap<>();"]
    lines += [f'        given.put("{one.name}", {_passed(one)});' for one in every]
    of = "Object" if result == "void" else result
    called = f'call("{call.name}", given, new TypeReference<{of}>() {{}});'
    lines += [f"        {'' if result == 'void' else 'return '}{called}", "    }", ""]
    if call.optional:
        passed = ", ".join([*(camel(one.name) for one in call.required), *("null" for _ in call.optional)])
        lines += [f"    /** {_first_sentence(call.lines)}. */"]
        lines += [f"    public {result} {camel(call.name)}({_parameters(call.required)}) {{"]
        lines += [f"        {'' if result == 'void' else 'return '}{camel(call.name)}({passed});", "    }", ""]
    return "\n".join(lines)


def _first_sentence(lines: list[str]) -> str:
    return " ".join(lines).split(". ")[0].split("; ")[0].rstrip(".").replace("<", "&lt;")


def _parameters(arguments: list[Argument]) -> str:
    return ", ".join(f"{_TYPES[one.kind]} {camel(one.name)}" for one in arguments)


def _passed(one: Argument) -> str:
    return _PASSED.get(one.kind, "{}").format(camel(one.name))
