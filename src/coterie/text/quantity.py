"""Numbers with their nouns, lists with an end, and a group's lag: the one way in which a text counts things."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

STALLED_AFTER_MS = 60_000  # a partition with lag whose committed offset does not move for so long
Partition = Mapping[str, Any]  # with "committed", "lag" and "lag_ms", each None where there is none


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


def total_lag(partitions: Collection[Partition]) -> int | None:
    """The sum in records; None where there are partitions and no lag is known."""
    known = [p["lag"] for p in partitions if p["lag"] is not None]
    return None if partitions and not known else sum(known)


def total_lag_ms(partitions: Collection[Partition]) -> int | None:
    """The longest of the partitions', in ms; None where there is lag and no partition's is known."""
    known: list[int] = [p["lag_ms"] for p in partitions if p.get("lag_ms") is not None]
    if known:
        return max(known)
    return 0 if total_lag(partitions) == 0 else None


def lag_text(partitions: Collection[Partition], offset: str = "committed offset") -> str:
    """``12 (4.2 s); 3 partitions have no committed offset``."""
    total = total_lag(partitions)
    longest_ms = total_lag_ms(partitions)
    text = "unknown" if total is None else f"{total:,}"
    if total and longest_ms is not None:
        text += f" ({span(longest_ms)})"
    missing = sum(p["committed"] is None for p in partitions)
    if not missing:
        return text
    return f"{text}; {quantity(missing, 'partition')} {'has' if missing == 1 else 'have'} no {offset}"
