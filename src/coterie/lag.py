"""A group's total lag: a partition without a committed offset has no lag, which is not a lag of zero."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from coterie.quantity import quantity

Partition = Mapping[str, Any]  # with "committed" and "lag", each None where there is none


def total_lag(partitions: Collection[Partition]) -> int | None:
    """The sum in records; None where there are partitions and no lag is known."""
    known = [p["lag"] for p in partitions if p["lag"] is not None]
    return None if partitions and not known else sum(known)


def lag_text(partitions: Collection[Partition]) -> str:
    """``12; 3 partitions have no committed offset``."""
    total = total_lag(partitions)
    text = "unknown" if total is None else f"{total:,}"
    missing = sum(p["committed"] is None for p in partitions)
    if not missing:
        return text
    return f"{text}; {quantity(missing, 'partition')} {'has' if missing == 1 else 'have'} no committed offset"
