"""A group as it is described: the course of its states between two generations, its coordinator, and, where no records can be
read, its generations too."""

from __future__ import annotations

from dataclasses import replace

from coterie.coordinator.journal.generations import stored_change
from coterie.coordinator.journal.line import JournalLine
from coterie.observer.machine.classic import (
    COMPLETING,
    EMPTY,
    PREPARING,
    STABLE,
    baseline,
    generation_line,
    has_same_assignment,
)
from coterie.observer.machine.known import KnownGroup, KnownTopics
from coterie.observer.machine.sights import Described
from coterie.wire.messages.stored.consumer_offsets import GroupMetadataValue

NO_GENERATION = -1  # no description has it


def described_lines(
    group: KnownGroup, sight: Described, topics: KnownTopics, *, reads_records: bool
) -> list[JournalLine]:
    """The lines that a description calls for."""
    lines = _coordinator_lines(group, sight)
    _note_listed(group, sight)
    lines += _course_lines(group, sight)
    group.described = sight
    is_settled = sight.state in (STABLE, EMPTY) if sight.epoch is None else True
    if not is_settled or (reads_records and group.stored is not None) or group.modern is not None:
        return lines
    generation = NO_GENERATION if sight.epoch is None else sight.epoch
    value = GroupMetadataValue(sight.protocol_type, generation, sight.protocol or None, None)
    value.members = list(sight.members)
    before = group.stored
    if before is None:
        baseline(group, value, sight.time_ms)
    elif not reads_records and not has_same_assignment(before, value):
        lines.append(generation_line(group, stored_change(before, value), value, sight.time_ms, topics))
    return lines


def _coordinator_lines(group: KnownGroup, sight: Described) -> list[JournalLine]:
    before, now = group.coordinator, sight.coordinator
    group.coordinator, group.is_lost = now or before, False
    if before is None or now is None or before[0] == now[0]:
        return []
    line = JournalLine(sight.time_ms, group.group, group.generation, "coordinator_moved", sight.state, sight.state)
    line.coordinator, line.coordinator_epoch = now
    line.coordinator_from = before[0]
    return [line]


def _note_listed(group: KnownGroup, sight: Described) -> None:
    listed = {m.member_id for m in sight.members}
    for member_id, member in group.members.items():
        if member_id in listed:
            member.listed_ms, member.missing_ms = sight.time_ms, None
        elif member.listed_ms is not None and member.missing_ms is None:
            member.missing_ms = sight.time_ms


def _course_lines(group: KnownGroup, sight: Described) -> list[JournalLine]:
    """A classic group's phases as they are first seen. A rebalance may begin and end between two descriptions."""
    course, now_ms = group.course, sight.time_ms
    if sight.state == course.state:
        return []
    before, course.state, course.since_ms, course.is_reported = course.state, sight.state, now_ms, False
    if sight.epoch is not None or sight.state not in (PREPARING, COMPLETING):
        return []
    group.moved_ms = now_ms
    event = "rebalance_started" if sight.state == PREPARING else "generation_formed"
    line = JournalLine(now_ms, group.group, group.generation, event, before or STABLE, sight.state)
    line.members = len(sight.members)
    if sight.state == PREPARING:
        course.preparing_ms, course.completing_ms = now_ms, None
    else:
        course.completing_ms = now_ms
        line.join_ms = None if course.preparing_ms is None else now_ms - course.preparing_ms
        line.generation += group.generation >= 0
    return [line]


def recall(group: KnownGroup) -> None:
    """What the last generation in the log tells of the group as it is described: all, where nothing has changed since; else the
    timeouts of the members that are still there."""
    before, stored = group.before, group.stored
    if before is None or stored is None:
        return
    group.before = None
    if group.is_baseline and has_same_assignment(stored, before):
        baseline(group, before, group.stored_ms)
        group.is_baseline = False
    for member in before.members:
        known = group.members.get(member.member_id)
        if known is not None and known.session_ms is None:
            known.metadata = replace(
                known.metadata, session_timeout=member.session_timeout, rebalance_timeout=member.rebalance_timeout
            )
