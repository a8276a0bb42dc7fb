"""What the explanations of groups with an epoch have in common: the document, a member's part of it, and the timeout that acts
first. Times in ms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from coterie.coordinator.replay import ModernGroup
from coterie.text.quantity import quantity

NAMED = 3


def explained(
    group: ModernGroup, now_ms: int, protocol_type: str, protocol: str | None, waiting_for: list[dict[str, Any]]
) -> dict[str, Any]:
    """The group as JSON-ready values, but for its timeout, verdict and members; ``generation`` is the group epoch."""
    return {
        "group": group.group_id,
        "state": group.phase.value,
        "in_state_ms": max(now_ms - group.phase_since_ms, 0) if group.phase_since_ms >= 0 else None,
        "generation": group.group_epoch,
        "assignment_epoch": group.assignment_epoch,
        "protocol_type": protocol_type,
        "protocol": protocol,
        "leader": None,
        "waiting_for": waiting_for,
        "reserved_ids": [],
    }


def member_session(session_ends_ms: int, timeout_ms: int, now_ms: int) -> dict[str, Any]:
    """What every member has beside its identity: no leadership, no waiting request, and a session."""
    return {
        "leader": False,
        "waits_in": None,
        "last_heard_ms": max(now_ms - (session_ends_ms - timeout_ms), 0),
        "session_timeout_ms": timeout_ms,
        "session_left_ms": max(session_ends_ms - now_ms, 0),
    }


def next_timeout(group: ModernGroup, now_ms: int, others: Callable[[str], str]) -> dict[str, Any] | None:
    """The timeout that acts first, and what it does. ``others``: what the removal of a member means to the others, in words."""
    timeouts: list[tuple[int, str, str]] = []
    for member_id, timers in group.timers.items():
        timeouts.append((timers.session_ms, "session timeout", member_id))
        if timers.rebalance_ms is not None:
            timeouts.append((timers.rebalance_ms, "rebalance timeout", member_id))
    if not timeouts:
        return None
    ends_ms, name, member_id = min(timeouts)
    then = "the member is removed" + (others(member_id) if len(group.members) > 1 else ", and the group is empty")
    return {"name": name, "member_id": member_id, "left_ms": max(ends_ms - now_ms, 0), "then": then}


def freed(count: int, noun: str) -> str:
    """What others may be assigned, in words; "" for nothing."""
    return f", and {quantity(count, noun)} of it can be assigned to others" if count else ""


def seconds(ms: int) -> str:
    return f"{max(ms, 0) // 1000} s"
