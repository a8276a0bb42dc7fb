"""Why a share group stands where it stands: whose heartbeat is due, and which partitions have no state yet.

A pure look at the state. Times in ms; the document has the fields of `coordinator.explain`, and the epochs beside them.
"""

from __future__ import annotations

from typing import Any

from coterie.coordinator.consumer.target import NO_PARTITIONS, time_to_target_ms
from coterie.coordinator.outcome import CoordinatorConfig
from coterie.coordinator.share.state import ShareGroup, ShareGroupMember, StatePartitions
from coterie.coordinator.views.modern_explanation import explained, member_session, next_timeout
from coterie.text.quantity import quantity

ASSIGNOR = "simple"
_REDELIVERED = ", and what it had acquired is delivered to others once the locks have ended"


def explain_share_group(group: ShareGroup, now_ms: int, config: CoordinatorConfig) -> dict[str, Any]:
    """The group as JSON-ready values; ``generation`` is the group epoch."""
    waiting = [_waits(m) for m in group.members.values() if m.current.member_epoch < group.assignment_epoch]
    return explained(group, now_ms, "share", ASSIGNOR, waiting) | {
        "next_timeout": next_timeout(group, now_ms, lambda member_id: _REDELIVERED),
        "verdict": _verdict(group, waiting, now_ms, config),
        "members": [_member(group, m, now_ms, config) for m in group.members.values()],
    }


def _waits(member: ShareGroupMember) -> dict[str, Any]:
    owes = "takes its part of the target assignment with its next heartbeat"
    return {"member_id": member.member_id, "client_id": member.subscription.client_id, "owes": owes}


def _verdict(group: ShareGroup, waiting: list[dict[str, Any]], now_ms: int, config: CoordinatorConfig) -> str:
    if not group.members:
        return "the group has no members"
    states = group.states or StatePartitions()
    pending = sum(len(topic.partitions) for topic in states.initializing.values())
    if pending:
        return f"the states of {quantity(pending, 'partition')} are being initialized by the share coordinator"
    if group.group_epoch > group.assignment_epoch:
        interval_ms = config.group_share_assignment_interval_ms
        left_ms = time_to_target_ms(group.assignment_timestamp_ms, interval_ms, now_ms)
        when = f"in {left_ms} ms, with the next heartbeat after that" if left_ms else "with the next heartbeat"
        return f"a target assignment is computed {when}"
    if waiting:
        return f"{quantity(len(waiting), 'member')} of {len(group.members)} took no part of the target assignment yet"
    return "every member has its part of the target assignment"


def _member(group: ShareGroup, member: ShareGroupMember, now_ms: int, config: CoordinatorConfig) -> dict[str, Any]:
    timers, timeout_ms = group.timers[member.member_id], config.group_share_session_timeout_ms
    return {
        "member_id": member.member_id,
        "group_instance_id": None,
        "client_id": member.subscription.client_id,
        "assignors": [],
        "host": member.subscription.client_host,
        **member_session(timers.session_ms, timeout_ms, now_ms),
        "heartbeat_interval_ms": config.group_share_heartbeat_interval_ms,
        "rebalance_timeout_ms": -1,
        "member_epoch": member.current.member_epoch,
        "assigned": len(member.current.assigned),
        "target": len(group.target.get(member.member_id, NO_PARTITIONS)),
    }
