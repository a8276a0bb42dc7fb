"""Regular expressions of clients: RE2, which takes linear time whatever the pattern, by Google's binding of it. Kafka uses it
for Java (RE2/J). Python's `re` would let a client hold the broker up.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any


class BadPattern(ValueError):
    """Not an expression of RE2; the text says why."""


@cache
def _engine() -> tuple[Any, Any]:
    """RE2 and its options, loaded with the first pattern: a broker without one does without its 3 MB."""
    import re2

    silent = re2.Options()
    silent.log_errors = False
    return re2, silent


def matcher(pattern: str) -> Callable[[str], bool]:
    """Whether the pattern is the whole of a name. Raises BadPattern."""
    re2, silent = _engine()
    try:
        compiled = re2.compile(pattern, silent)
    except re2.error as error:
        reason = error.args[0] if error.args else error
        raise BadPattern(reason.decode() if isinstance(reason, bytes) else str(reason)) from error
    return lambda name: compiled.fullmatch(name) is not None


def subscription_problem(pattern: str) -> str | None:
    """The text of INVALID_REGULAR_EXPRESSION for a member's pattern; None for a good one."""
    try:
        matcher(pattern)
    except BadPattern as error:
        return f"SubscribedTopicRegex `{pattern}` is not a valid regular expression: {error}."
    return None
