"""The operations of the control API."""

from __future__ import annotations

from coterie.testing.control.operations import OPERATIONS
from reference_pages.markdown import code, table, text


def control_operations() -> str:
    rows = []
    for name, operation in OPERATIONS.items():
        arguments = [code(p.name) if p.is_required else f"[{code(p.name)}]" for p in operation.parameters]
        rows.append((code(name), ", ".join(arguments), text(operation.text)))
    return table(("operation", "arguments", "effect and result"), rows)
