"""Generations that formed, or groups that were empty, while no JoinGroup was open whose response would have passed: the
connections of their members had ended. A later response shows by its generation that there was one."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from coterie.coordinator import events as e
from coterie.coordinator.replay import restart_session
from coterie.proxy.observed.classic_group import SILENT, ObservedClassicGroup
from coterie.proxy.observed.seen import SeenRequest

LONG_WAIT_MS = 10_000


def form_missed(one: ObservedClassicGroup, response: Any, kept: Collection[str], now_ms: int) -> None:
    """``response``: a JoinGroup's, which ends the phase; ``kept``: members that are in its generation. The others whose
    connections ended were the missed generation; who joined after it did so in the phase that ends now."""
    group, missed = one.group, response.generation_id - 1
    if missed <= group.generation:
        return
    lost = {i: seen for i in group.waiting_joins if i not in kept and (seen := one.lost_join(i)) is not None}
    later = [(group.members[i], token) for i, token in group.waiting_joins.items() if i not in lost]
    sent = [token.sent_ms for _, token in later if isinstance(token, SeenRequest)]
    began_ms = min(sent, default=group.phase_since_ms)
    for member_id, seen in lost.items():  # its session began with the generation, soon after it had joined
        restart_session(group, member_id, seen.sent_ms + group.members[member_id].session_timeout_ms)
    before = [m for m in group.members.values() if not group.is_waiting(m.member_id)]
    expired = [m for m in before if m.deadline_ms <= began_ms]
    if not lost and (not expired or len(expired) < len(before)):
        return
    earlier = [cause for time_ms, cause in one.causes if time_ms < began_ms]
    causes = [cause for time_ms, cause in one.causes if time_ms >= began_ms and cause.member_id not in lost]
    # Of these none was in the missed generation; without one, the last to expire left the group empty.
    for member in [*(expired if lost else []), *(member for member, _ in later)]:
        one.replay_silently(e.MemberRemoved(member.member_id, one.cause("member_gone", member)), began_ms)
    if lost:
        # A group that was empty waits for its initial delay alone; any other, for the members of before.
        is_over = all(member.deadline_ms <= began_ms for member in group.members.values())
        waited_ms = now_ms - max(sent, default=now_ms)
        was_empty = is_over and missed > group.generation + 1 and waited_ms < LONG_WAIT_MS
        generation, leader = missed - was_empty, next(iter(lost))
    else:
        was_empty, generation, leader = True, group.generation, expired[0].member_id
    one.replay_silently(
        e.GenerationFormed(generation, response.protocol_name or "", leader, None), group.phase_since_ms
    )
    if was_empty:
        if not lost:
            one.restart(earlier, group.phase_since_ms)
        one.remove_silent(began_ms, SILENT)
        one.end_empty(began_ms)
    for member, token in later:
        joined = e.MemberJoined(member, response.protocol_type or "", token, one.cause("member_joined", member))
        one.replay_silently(joined, began_ms)
    one.restart(causes, began_ms)
