"""What the explanations of groups with an epoch have in common: the document, a member's part of it, and the timeout that acts
first. Times in ms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from coterie.coordinator.replay import ModernGroup
from coterie.text.phrase import NAMED, Phrase, phrase_fields


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


def next_timeout(group: ModernGroup, now_ms: int, others: Callable[[str], Phrase]) -> dict[str, Any] | None:
    """The timeout that acts first, and what it does. ``others``: what the removal of a member does where there are others."""
    timeouts: list[tuple[int, str, str]] = []
    for member_id, timers in group.timers.items():
        timeouts.append((timers.session_ms, "session timeout", member_id))
        if timers.rebalance_ms is not None:
            timeouts.append((timers.rebalance_ms, "rebalance timeout", member_id))
    if not timeouts:
        return None
    ends_ms, name, member_id = min(timeouts)
    then = others(member_id) if len(group.members) > 1 else Phrase("then_removed_empty", {})
    left_ms = max(ends_ms - now_ms, 0)
    return {"name": name, "member_id": member_id, "left_ms": left_ms, **phrase_fields("then", then)}


def freed(name: str, count: int) -> Phrase:
    """The removal of a member that has so many of what others may be assigned."""
    return Phrase(name, {"count": count}) if count else Phrase("then_removed", {})


def awaited_member(member_id: str, client_id: str, owes: Phrase) -> dict[str, Any]:
    """One of ``waiting_for``."""
    return {"member_id": member_id, "client_id": client_id, **phrase_fields("owes", owes)}


def owed_release(names: Sequence[str], since_ms: int | None, now_ms: int) -> Phrase:
    """What a member has not released, and for how long where that is known."""
    if since_ms is None:
        return Phrase("owes_release", {"partitions": tuple(names)})
    return Phrase("owes_release_for", {"partitions": tuple(names), "seconds": seconds(now_ms - since_ms)})


def awaited_of_holders(names: Sequence[str], holders: Sequence[str]) -> Phrase:
    """What others still have."""
    name = "awaits_holder" if len(holders) == 1 else "awaits_holders"
    return Phrase(name, {"partitions": tuple(names), "holders": tuple(holders)})


def computes_target(epoch: int, left_ms: int, setting: str) -> Phrase:
    """The next heartbeat does, after the interval of the setting."""
    if left_ms:
        return Phrase("computes_target_after", {"epoch": epoch, "ms": left_ms, "setting": setting})
    return Phrase("computes_target", {"epoch": epoch})


def reconciling(late: Sequence[Phrase]) -> Phrase:
    """Whom the group waits for."""
    named, more = tuple(late[:NAMED]), len(late) - NAMED
    return (
        Phrase("reconciles_more", {"late": named, "more": more}) if more > 0 else Phrase("reconciles", {"late": named})
    )


def seconds(ms: int) -> int:
    return max(ms, 0) // 1000
