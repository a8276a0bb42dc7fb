"""Markdown tables of plain cells."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

_CODE = re.compile(r"(`[^`]*`)")
_SPECIAL = re.compile(r"([\\*_<>\[\]{}$#])")


def text(plain: str) -> str:
    """Prose for a cell: what Markdown would read as markup is escaped, `code` between backticks is kept."""
    parts = _CODE.split(" ".join(plain.split()))
    escaped = [part if part.startswith("`") else _SPECIAL.sub(r"\\\1", part) for part in parts]
    return "".join(escaped).replace("|", r"\|")


def code(value: object) -> str:
    """A value in code type; empty for None and for an empty text."""
    plain = "" if value is None else str(value)
    return f"`{plain}`".replace("|", r"\|") if plain else ""


def table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; the cells are Markdown already (`text`, `code`)."""
    lines = ["| " + " | ".join(headers) + " |", "|" + "---|" * len(headers)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def sentence(plain: str) -> str:
    """With a capital at its start and a full stop at its end."""
    return plain[:1].upper() + plain[1:] + ("" if plain.endswith((".", "…")) else ".") if plain else ""
