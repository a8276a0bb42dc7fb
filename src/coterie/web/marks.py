"""Marks of a group in the list: what a reader should look at first. No clock, no IO."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from coterie.coordinator.journal.line import JournalLine

# mark -> its meaning; the texts of the page are those of `mark.NAME` in texts.json.
MARKS: Final = {
    "waits": "a rebalance has been under way for over a second",
    "flaps": "three rebalances or more in five minutes",
    "stalls": "a partition has lag, and its committed offset has not moved for a minute",
    "lost": "the group has no coordinator",
}
WAITS_AFTER_MS = 1_000
FLAPS_WITHIN_MS, FLAPS_AT = 5 * 60_000, 3
REBALANCES = frozenset({"stable", "empty", "epoch_raised"})  # the events that end one, or stand for it
SETTLED = frozenset({"Stable", "Empty", "Dead", ""})


def marks(
    state: str, in_state_ms: int | None, rebalances_ms: Sequence[int], now_ms: int, *, stalls: bool, is_lost: bool
) -> list[str]:
    """The marks of a group; ``rebalances_ms``: when its last rebalances were."""
    recent = sum(1 for at in rebalances_ms if now_ms - at < FLAPS_WITHIN_MS)
    rules = {
        "waits": state not in SETTLED and (in_state_ms or 0) >= WAITS_AFTER_MS,
        "flaps": recent >= FLAPS_AT,
        "stalls": stalls,
        "lost": is_lost,
    }
    return [mark for mark in MARKS if rules[mark]]


def is_rebalance(line: JournalLine) -> bool:
    """Whether the line stands for a whole rebalance, with its causes."""
    return line.event in REBALANCES
