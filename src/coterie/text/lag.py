"""A group's total lag: a partition without a committed offset has no lag, which is not a lag of zero."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from coterie.text.quantity import quantity, span

STALLED_AFTER_MS = 60_000  # a partition with lag whose committed offset does not move for so long
Partition = Mapping[str, Any]  # with "committed", "lag" and "lag_ms", each None where there is none


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
