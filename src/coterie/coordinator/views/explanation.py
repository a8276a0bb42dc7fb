"""Why a group stands where it stands: whom it waits for, how long yet, which timeout acts next and what it will do.

A pure look at the state; nothing is changed. Times in ms; `..._left_ms` is never negative.
"""

from __future__ import annotations

from typing import Any

from coterie.coordinator.outcome import CoordinatorConfig
from coterie.coordinator.state import Group, Member, Phase
from coterie.text.quantity import listed, quantity

MEMBERS_NAMED = 3


def explain_group(group: Group, now_ms: int, config: CoordinatorConfig) -> dict[str, Any]:
    """The group as JSON-ready values: state, members, ``waiting_for``, ``next_timeout`` and the ``verdict`` in words."""
    waiting_for = _waiting_for(group)
    next_timeout = _next_timeout(group, now_ms)
    return {
        "group": group.group_id,
        "state": group.phase.value,
        "in_state_ms": now_ms - group.phase_since_ms if group.phase_since_ms >= 0 else None,
        "generation": group.generation,
        "protocol_type": group.protocol_type,
        "protocol": group.protocol,
        "leader": group.leader,
        "waiting_for": waiting_for,
        "next_timeout": next_timeout,
        "verdict": _verdict(group, waiting_for, next_timeout),
        "members": [_member(group, m, now_ms, config) for m in group.members.values()],
        "reserved_ids": [
            {"member_id": member_id, "left_ms": max(r.deadline_ms - now_ms, 0)}
            for member_id, r in group.reservations.items()
        ],
    }


def _member(group: Group, member: Member, now_ms: int, config: CoordinatorConfig) -> dict[str, Any]:
    granted_ms = config.new_member_join_timeout_ms if member.is_new else member.session_timeout_ms
    waits = "JoinGroup" if member.member_id in group.waiting_joins else None
    waits = "SyncGroup" if member.member_id in group.waiting_syncs else waits
    return {
        "member_id": member.member_id,
        "group_instance_id": member.group_instance_id,
        "client_id": member.client_id,
        "assignors": [name for name, _ in member.protocols],
        "host": member.client_host,
        "leader": member.member_id == group.leader,
        "waits_in": waits,
        "last_heard_ms": max(now_ms - (member.deadline_ms - granted_ms), 0),
        "session_timeout_ms": member.session_timeout_ms,
        "session_left_ms": max(member.deadline_ms - now_ms, 0),
        "heartbeat_interval_ms": member.heartbeat_interval_ms if member.heartbeat_interval_ms >= 0 else None,
        "rebalance_timeout_ms": member.rebalance_timeout_ms,
    }


def _waiting_for(group: Group) -> list[dict[str, Any]]:
    """The members that hold up the present phase, with the request each still owes."""
    if group.phase == Phase.PREPARING:
        late = [(m, "has not sent JoinGroup again") for m in group.members if m not in group.waiting_joins]
        late += [(m, "was given a member id and has not joined with it") for m in group.reservations]
    elif group.phase == Phase.COMPLETING:
        leader, rest = group.leader or "", [m for m in group.pending_sync if m != group.leader]
        late = [(leader, "leads, and has not sent the assignment")] if leader in group.pending_sync else []
        late += [(m, "has not sent SyncGroup") for m in group.members if m in rest]
    else:
        late = []
    return [{"member_id": member_id, "client_id": _client(group, member_id), "owes": owes} for member_id, owes in late]


def _client(group: Group, member_id: str) -> str | None:
    member = group.members.get(member_id)
    return member.client_id if member is not None else None


def _next_timeout(group: Group, now_ms: int) -> dict[str, Any] | None:
    """The timeout that acts first: its name, whose it is, the time left, and what happens then."""
    timeouts: list[tuple[int, str, str | None, str]] = []
    if group.phase == Phase.PREPARING and group.join_deadline_ms is not None:
        if group.initial_delay_left_ms is not None:
            then = "the first generation is formed, or the delay goes on if more members have just joined"
            timeouts.append((group.join_deadline_ms, "group.initial.rebalance.delay.ms", None, then))
        else:
            timeouts.append((group.join_deadline_ms, "rebalance timeout", None, _at_join_deadline(group)))
    if group.sync_deadline_ms is not None:
        then = "the members without a SyncGroup are removed, and a new rebalance begins"
        timeouts.append((group.sync_deadline_ms, "rebalance timeout", None, then))
    for member in group.members.values():
        if not group.is_waiting(member.member_id):
            timeouts.append((member.deadline_ms, "session timeout", member.member_id, _at_session_end(group, member)))
    for member_id, reservation in group.reservations.items():
        then = "the member id expires" + (", and the rebalance no longer waits for it" if group.members else "")
        timeouts.append((reservation.deadline_ms, "session timeout", member_id, then))
    if not timeouts:
        return None
    deadline_ms, name, whose, then = min(timeouts, key=lambda f: f[0])
    return {"name": name, "member_id": whose, "left_ms": max(deadline_ms - now_ms, 0), "then": then}


def _at_join_deadline(group: Group) -> str:
    absent = [m for m in group.members.values() if m.member_id not in group.waiting_joins]
    leaving = [m.member_id for m in absent if m.group_instance_id is None]
    if not group.waiting_joins and len(leaving) < len(group.members):
        return "no member has rejoined and static members stay, so the rebalance timeout begins again"
    if not leaving:
        return "the generation is formed; static members that have not rejoined stay in it"
    verb = "is" if len(leaving) == 1 else "are"
    text = (
        f"{len(leaving)} of {quantity(len(group.members), 'member')} {verb} removed ({listed(leaving, MEMBERS_NAMED)})"
    )
    return text + (", and the group is empty" if len(leaving) == len(group.members) else ", and the others go on")


def _at_session_end(group: Group, member: Member) -> str:
    if len(group.members) == 1 and not group.reservations:
        return "the member is removed, and the group is empty"
    if group.phase != Phase.PREPARING:
        return "the member is removed, and a rebalance begins"
    last = len(group.waiting_joins) == len(group.members) - 1 and not group.reservations
    return "the member is removed" + (", and the generation is formed with the others" if last else "")


def _verdict(group: Group, waiting_for: list[dict[str, Any]], next_timeout: dict[str, Any] | None) -> str:
    """One sentence for a person."""
    late = listed([w["member_id"] for w in waiting_for], MEMBERS_NAMED)
    if group.phase == Phase.STABLE:
        return f"no rebalance is under way: generation {group.generation} has {quantity(len(group.members), 'member')}"
    if group.phase == Phase.PREPARING and group.initial_delay_left_ms is not None:
        present = quantity(len(group.members), "member")
        return f"the first rebalance is delayed so that more members can join; the group has {present}"
    if group.phase == Phase.PREPARING:
        return f"a rebalance waits for {late} to join again; {len(group.waiting_joins)} of {len(group.members)} have"
    if group.phase == Phase.COMPLETING and group.leader in group.pending_sync:
        return f"the members have joined; the leader {group.leader} has not sent the assignment yet"
    if group.phase == Phase.COMPLETING:
        return f"the assignment is stored; the group waits for {late} to fetch it"
    kept = quantity(len(group.offsets), "committed offset") if group.offsets else "no committed offsets"
    return f"the group has no members and {kept}"
