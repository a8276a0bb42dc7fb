"""JSON documents that a broken or hostile server may send: a valid one with any part replaced, a text nested too deeply."""

from __future__ import annotations

import copy
import json
from typing import Any

from hypothesis import strategies as st

DEEP = "[" * 100_000

values: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([2**31, -(2**63), 10**4299, float("inf"), float("-inf"), float("nan"), "\ud800", "²", ""])
    | st.floats()
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


def _paths(value: Any) -> list[tuple[Any, ...]]:
    """The path of each part of a document, its own first."""
    parts: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        parts = list(value.items())
    elif isinstance(value, list):
        parts = list(enumerate(value))
    return [(), *((key, *rest) for key, part in parts for rest in _paths(part))]


def _replaced(document: Any, path: tuple[Any, ...], value: Any) -> Any:
    if not path:
        return value
    changed = copy.copy(document)
    changed[path[0]] = _replaced(document[path[0]], path[1:], value)
    return changed


def documents(valid: Any) -> st.SearchStrategy[str]:
    """The text of ``valid`` with one part, perhaps the whole, replaced by any value."""
    return st.builds(
        lambda path, value: json.dumps(_replaced(valid, path, value)), st.sampled_from(_paths(valid)), values
    )
