"""Which timeout expires first in a group, as far as it can be known from outside: members' timeouts from the stored generation,
the beginning of a phase as described, and signs of life from commits."""

from __future__ import annotations

from collections.abc import Iterator

from coterie.client.admin.group_explanation import NextTimeout
from coterie.observer.machine.classic import COMPLETING, PREPARING
from coterie.observer.machine.known import KnownGroup, KnownMember
from coterie.text.phrase import Phrase

OF_PHASE = {
    PREPARING: Phrase("then_joins_removed", {}),
    COMPLETING: Phrase("then_seen_syncs_removed", {}),
}
SESSION, POLL_INTERVAL = "session timeout", "max.poll.interval.ms"
PHASE = "rebalance timeout"


def next_timeout(group: KnownGroup, now_ms: int) -> NextTimeout | None:
    """None where none is known to run: heartbeats are not seen, so that of a stable group only members whose regular commits
    have stopped count, from the last one."""
    if group.described is None or group.described.epoch is not None:
        return None
    then = OF_PHASE.get(group.course.state)
    if then is not None:
        before = () if group.before is None else group.before.members  # of an observer that began in the phase
        known = [member.metadata for member in group.members.values()] or before
        timeout_ms = max((member.rebalance_timeout for member in known), default=0)
        left_ms = group.course.since_ms + timeout_ms - now_ms
        return NextTimeout(PHASE, None, max(left_ms, 0), str(then), then) if timeout_ms else None
    late = (timeout for member in group.members.values() for timeout in _of_member(member, now_ms))
    return min(late, key=lambda timeout: timeout.left_ms, default=None)


def _of_member(member: KnownMember, now_ms: int) -> Iterator[NextTimeout]:
    last_ms, every_ms = member.last_commit_ms, member.every_ms
    if last_ms is None or every_ms is None or now_ms - last_ms <= 2 * every_ms:
        return
    member_id = member.metadata.member_id
    session_ms, interval_ms = member.session_ms, member.metadata.rebalance_timeout
    if session_ms is not None and last_ms + session_ms > now_ms:
        then = Phrase("then_removed_if_dead", {})
        yield NextTimeout(SESSION, member_id, last_ms + session_ms - now_ms, str(then), then)
    if interval_ms and last_ms + interval_ms > now_ms:
        then = Phrase("then_leaves_if_idle", {})
        yield NextTimeout(POLL_INTERVAL, member_id, last_ms + interval_ms - now_ms, str(then), then)
