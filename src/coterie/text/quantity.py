"""Numbers with their nouns, and lists with an end: the one way in which a text counts things."""

from __future__ import annotations

from collections.abc import Sequence


def quantity(number: int, noun: str, plural: str = "") -> str:
    """``1 member``, ``0 members``, ``12,000 records``; ``plural``: where it is another word than the noun with an s."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


def span(ms: int) -> str:
    """A length of time for people: ``0 s``, ``4.2 s``, ``310 s``, ``12 min``, ``26 h``."""
    if ms < 10_000:
        return f"{ms / 1000:.1f} s" if ms else "0 s"
    if ms < 600_000:
        return f"{ms // 1000} s"
    return f"{ms // 60_000} min" if ms < 36_000_000 else f"{ms // 3_600_000} h"


def listed(names: Sequence[str], most: int) -> str:
    """The first ``most``, and how many more there are: ``a, b and 3 more``."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")
