"""Documents cut to what an agent's context holds: without what is absent, with the first items of a list and their number."""

from __future__ import annotations

import json
from enum import Enum
from typing import Any

Document = dict[str, Any]
MOST_TEXT = 300  # characters of one value: a client id may have 32,767
MOST_CHARACTERS = 12_000  # of a whole response: some 4,000 tokens
ABSENT: tuple[Any, ...] = (None, "", [], (), {})


def text_of(document: Document, most: int) -> str:
    """The document in JSON: of each list the first ``most`` items, fewer where it would still be too long; ``left_off`` has how
    many more there are."""
    while True:
        text = json.dumps(_cut(document, most), separators=(",", ":"), ensure_ascii=False)
        if len(text) <= MOST_CHARACTERS or not most:
            return text
        most //= 2


def _cut(document: Document, most: int) -> Document:
    brief = {name: _brief(value[:most] if isinstance(value, list) else value) for name, value in document.items()}
    left_off = {
        name: len(value) - most for name, value in document.items() if isinstance(value, list) and len(value) > most
    }
    present = {name: value for name, value in brief.items() if value == [] or value not in ABSENT}
    return present | ({"left_off": left_off} if left_off else {})


def _brief(value: Any) -> Any:
    if isinstance(value, dict):
        brief = {name: _brief(inner) for name, inner in value.items()}
        return {name: inner for name, inner in brief.items() if inner not in ABSENT}
    if isinstance(value, list | tuple):
        return [_brief(inner) for inner in value[:MOST_TEXT]]
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, str) and len(value) > MOST_TEXT:
        return value[:MOST_TEXT] + "…"
    return value
