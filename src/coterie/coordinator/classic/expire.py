"""The end of a member's session, reservation or rebalance deadline (scenarios: tests/spec/timers.txt)."""

from __future__ import annotations

from coterie.coordinator import events as e
from coterie.coordinator.classic.leave import remove_member
from coterie.coordinator.outcome import Context, Outcome
from coterie.coordinator.state import Cause, Group


def decide_member_expired(group: Group, member_id: str, ctx: Context, *, at_once: bool = False) -> Outcome:
    """Removes a silent member or an unused id. A member that waits for a response of ours is not silent. ``at_once``: as if
    its time were up."""
    reservation = group.reservations.get(member_id)
    if reservation is not None:
        if reservation.deadline_ms > ctx.now_ms and not at_once:
            return Outcome()
        return Outcome([e.ReservationDropped(member_id, Cause("session_timeout", member_id))])
    member = group.members.get(member_id)
    if member is None or (member.deadline_ms > ctx.now_ms and not at_once):
        return Outcome()
    if group.is_waiting(member_id) and not member.is_new and not at_once:
        return Outcome(deadlines=[(member_id, ctx.now_ms + member.session_timeout_ms)])
    kind = "join_timeout" if member.is_new else "session_timeout"
    outcome = Outcome()
    remove_member(group, member_id, Cause(kind, member_id, member.client_id, member.group_instance_id), outcome)
    return outcome
