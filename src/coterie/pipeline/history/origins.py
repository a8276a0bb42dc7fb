"""How the cause of a rebalance is known: the column `origin`."""

from __future__ import annotations

from coterie.coordinator.journal.evidence import INFERRED, OBSERVED, UNKNOWN

BROKER = "broker"
ORIGINS = {
    BROKER: "the broker's own journal states it",
    OBSERVED: "a record, a description, a request or a line of a broker's log states it",
    INFERRED: "a rule concludes it, or the members of two generations do",
    UNKNOWN: "it is known that something happened, and not why",
}
_OF_OFFSETS = {"member_joined": OBSERVED, "subscription_changed": OBSERVED, "member_gone": UNKNOWN}


def origin_in_offsets(cause: str) -> str:
    """Of a cause by two generations alone: who came stands there, and of who is gone not why."""
    return _OF_OFFSETS.get(cause, INFERRED)
