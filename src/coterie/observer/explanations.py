"""What a group is doing, from outside: as `coterie groups why` explains it where the broker is not coterie, and which timeout
expires first, as far as it can be known: members' timeouts from the stored generation, the beginning of a phase as described,
and signs of life from commits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from coterie.client.admin.group_explanation import GroupExplanation, MemberExplanation, NextTimeout, PartitionProgress
from coterie.client.admin_types import GroupState
from coterie.coordinator.journal.line import JournalLine, cause_text
from coterie.observer.machine.classic import COMPLETING, EMPTY, PREPARING, STABLE
from coterie.observer.machine.known import KnownGroup, KnownMember
from coterie.text.phrase import Phrase
from coterie.text.quantity import total_lag, total_lag_ms

OF_PHASE = {
    PREPARING: Phrase("then_joins_removed", {}),
    COMPLETING: Phrase("then_seen_syncs_removed", {}),
}
SESSION, POLL_INTERVAL = "session timeout", "max.poll.interval.ms"
PHASE = "rebalance timeout"
OF_A_JOURNAL = Phrase("unseen_in_journal", {})


def seen_explanation(
    group: KnownGroup,
    lines: Sequence[JournalLine],
    partitions: tuple[PartitionProgress, ...],
    now_ms: int,
    watched_ms: int,
) -> GroupExplanation:
    """Of a described group. ``lines``: what the observer wrote while it watched the group, for ``watched_ms``."""
    described, course = group.described, group.course
    assert described is not None
    leader, verdict = None if group.stored is None else group.stored.leader, _verdict(group, lines)
    unseen = Phrase("unseen", {"watched_ms": watched_ms})
    in_state_ms = now_ms - course.since_ms
    rows = [{"committed": p.committed, "lag": p.lag, "lag_ms": p.lag_ms} for p in partitions]
    known = [group.members.get(m.member_id) or KnownMember(m) for m in described.members]
    return GroupExplanation(
        group.group,
        GroupState(described.state),
        in_state_ms if in_state_ms < watched_ms else None,
        group.generation if described.epoch is None else described.epoch,
        described.protocol_type or None,
        described.protocol or None,
        leader,
        (),
        next_timeout(group, now_ms),
        str(verdict),
        tuple(_member(member, leader, now_ms) for member in known),
        (),
        partitions,
        total_lag(rows),
        (),
        total_lag_ms(rows),
        str(unseen),
        verdict,
        unseen,
    )


def _member(member: KnownMember, leader: str | None, now_ms: int) -> MemberExplanation:
    m, last_ms = member.metadata, member.last_commit_ms
    return MemberExplanation(
        m.member_id,
        m.group_instance_id,
        m.client_id,
        (),
        m.client_host,
        m.member_id == leader,
        None,
        None if last_ms is None else max(now_ms - last_ms, 0),
        member.session_ms,
        None,
        m.rebalance_timeout or None,
        None,
        None,
    )


def _verdict(group: KnownGroup, lines: Sequence[JournalLine]) -> Phrase:
    assert group.described is not None
    state, members = group.described.state, {"members": len(group.described.members)}
    phrases = {
        STABLE: Phrase("seen_stable", members),
        EMPTY: Phrase("empty", {}),
        PREPARING: Phrase("seen_joining", members),
        COMPLETING: Phrase("seen_syncing", members),
    }
    phrase, happened = phrases.get(state, Phrase("seen_in_state", {"state": state, **members})), last_events(lines)
    if happened:
        return Phrase("and_watched", {"phrase": phrase, "happened": happened})
    return Phrase("and_nothing_moved", {"phrase": phrase}) if state in (STABLE, EMPTY) else phrase


def last_events(lines: Iterable[JournalLine]) -> tuple[Phrase, ...]:
    """The last lines that say why."""
    return tuple(map(_event, [line for line in lines if line.why()][-2:]))


def _event(line: JournalLine) -> Phrase:
    causes = tuple(Phrase("cause", {"text": cause_text(cause), **cause}) for cause in line.causes)
    because = causes if causes and line.coordinator is None else (Phrase("cause", {"text": line.why()}),)
    name = "because" if line.event == "stable" else "event_because"
    return Phrase(name, {"event": line.event.replace("_", " "), "causes": because})


def journal_explanation(lines: Sequence[JournalLine], now_ms: int) -> GroupExplanation:
    """Of the group whose lines these are, oldest first and at least one."""
    last, happened = lines[-1], last_events(lines)
    verdict = Phrase("last_in_journal", {"happened": happened}) if happened else Phrase("no_cause_in_journal", {})
    stable = next((line for line in reversed(lines) if line.owners is not None or line.leader is not None), last)
    owners = stable.owners or {}
    partitions = tuple(
        PartitionProgress(topic, partition, member_id, None, None, None, None, False)
        for member_id, topics in owners.items()
        for topic, numbers in topics.items()
        for partition in numbers
    )
    members = tuple(
        MemberExplanation(
            member_id, None, "", (), "", member_id == stable.leader, None, None, None, None, None, None, None
        )
        for member_id in owners
    )
    return GroupExplanation(
        last.group,
        GroupState(last.state_to),
        now_ms - last.time_ms,
        last.generation,
        None,
        stable.protocol,
        stable.leader,
        (),
        None,
        str(verdict),
        members,
        (),
        partitions,
        None,
        (),
        None,
        str(OF_A_JOURNAL),
        verdict,
        OF_A_JOURNAL,
    )


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
