"""Generations that formed after the connections of all their members' JoinGroups had ended, so that no response passed. A later
response shows by its generation that there was one."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from coterie.coordinator import events as e
from coterie.coordinator.replay import restart_session
from coterie.proxy.observed.classic_group import SILENT, ObservedClassicGroup
from coterie.proxy.observed.seen import SeenRequest


def form_missed(one: ObservedClassicGroup, response: Any, kept: Collection[str]) -> None:
    """``response``: a JoinGroup's, which ends the phase; ``kept``: members that are in its generation. The others whose
    connections ended were the missed generation; who joined after it did so in the phase that ends now."""
    group, missed = one.group, response.generation_id - 1
    lost = {i: seen for i in group.waiting_joins if i not in kept and (seen := one.lost_join(i)) is not None}
    if missed <= group.generation or not lost:
        return
    later = [(group.members[i], token) for i, token in group.waiting_joins.items() if i not in lost]
    causes = [cause for cause in one.causes if cause.member_id not in lost]
    sent = [token.sent_ms for _, token in later if isinstance(token, SeenRequest)]
    began_ms = min(sent, default=group.phase_since_ms)
    for member, _ in later:
        one.replay_silently(e.MemberRemoved(member.member_id, one.cause("member_gone", member)), began_ms)
    for member_id, seen in lost.items():  # its session began with the generation, soon after it had joined
        restart_session(group, member_id, seen.sent_ms + group.members[member_id].session_timeout_ms)
    is_over = all(member.deadline_ms <= began_ms for member in group.members.values())
    was_empty = is_over and missed > group.generation + 1
    formed = e.GenerationFormed(missed - was_empty, response.protocol_name or "", next(iter(lost)), None)
    one.replay_silently(formed, group.phase_since_ms)
    if was_empty:
        one.is_whole = True
        one.remove_silent(began_ms, SILENT)
    for member, token in later:
        joined = e.MemberJoined(member, response.protocol_type or "", token, one.cause("member_joined", member))
        one.replay_silently(joined, began_ms)
    one.restart(causes, began_ms)
