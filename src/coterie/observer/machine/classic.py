"""A classic group's stored generations as lines of the journal: what a record states, what a broker's log states, and what the
rules infer."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from coterie.coordinator.journal.generations import StoredChange, owners_of, stored_change, subscribed_topics
from coterie.coordinator.journal.line import OWNERS_SHOWN, JournalLine
from coterie.coordinator.journal.lines import by_member, note_ownership
from coterie.coordinator.journal.patterns import INFERRED, OBSERVED, UNKNOWN, Life, is_due, known_cause
from coterie.observer.logs.server_log import cause_of as kind_of
from coterie.observer.machine.known import Course, KnownGroup, KnownMember, KnownTopics
from coterie.observer.machine.rules import Cause, Departure, cause_of, fenced, why_departed, why_same_members
from coterie.wire.messages.stored.consumer_offsets import GroupMetadataValue, MemberMetadata

_MEMBER = re.compile(r"\b[Mm]ember (?P<member>\S+?)(?= |,|;|\)|$)")
_CLIENTS = "; client reason: "  # KIP-800
_BETWEEN = re.compile(r"; (?!client reason: )")
REPLACEMENTS_KEPT = 5
STABLE, EMPTY, PREPARING, COMPLETING = "Stable", "Empty", "PreparingRebalance", "CompletingRebalance"


def baseline(group: KnownGroup, value: GroupMetadataValue, time_ms: int) -> None:
    """The group as it was when the observer first saw it: there is nothing to compare it with."""
    group.stored, group.stored_ms, group.is_baseline = value, time_ms, True
    group.ownership.stored(value, time_ms)
    _take_members(group, value)


def stored_lines(group: KnownGroup, value: GroupMetadataValue, time_ms: int, topics: KnownTopics) -> list[JournalLine]:
    """The line of a stored state, if it is a new generation or a static member's return."""
    before = group.stored
    change = stored_change(before, value)
    if before is not None and value.generation == before.generation and not group.is_baseline:
        lines = _replaced(group, change, value, time_ms) if len(before.members) == len(value.members) else []
        group.ownership.returned((m.member_id, m.group_instance_id) for m in value.members)
        group.stored = value
        _take_members(group, value)
        return lines
    if group.is_baseline and before is not None and has_same_assignment(before, value):
        baseline(group, value, time_ms)  # the record of what was described
        group.is_baseline = False
        return []
    if not value.members and (before is None or not before.members):
        group.stored, group.is_baseline = value, False  # Kafka 4 also stores a group before it has any member
        return []
    return [generation_line(group, change, value, time_ms, topics)]


def has_same_assignment(before: GroupMetadataValue, value: GroupMetadataValue) -> bool:
    """Whether the same members have the same partitions."""
    return {(m.member_id, m.assignment) for m in before.members} == {(m.member_id, m.assignment) for m in value.members}


def _replaced(group: KnownGroup, change: StoredChange, value: GroupMetadataValue, time_ms: int) -> list[JournalLine]:
    lines = []
    for _, member in change.returned:
        line = JournalLine(time_ms, group.group, value.generation, "member_replaced", STABLE, STABLE)
        line.causes = [cause_of("static_member_returned", member, OBSERVED)]
        line.members = len(value.members)
        lines.append(line)
        times = group.replacements.setdefault(member.group_instance_id or "", [])
        times.append(time_ms)
        del times[:-REPLACEMENTS_KEPT]
        cause = fenced(times, member, time_ms)
        if cause is not None:
            lines += pattern(group, cause, time_ms)
    return lines


def generation_line(
    group: KnownGroup, change: StoredChange, value: GroupMetadataValue, time_ms: int, topics: KnownTopics
) -> JournalLine:
    """The line of a new generation, with its causes; the group is then in it."""
    before, course = group.stored, group.course
    is_known = before is not None or value.generation <= 1
    preparing_ms = course.preparing_ms if course.preparing_ms is not None and course.preparing_ms <= time_ms else None
    line = JournalLine(
        time_ms,
        group.group,
        value.generation,
        "stable" if value.members else "empty",
        COMPLETING if value.members else PREPARING,
        STABLE if value.members else EMPTY,
    )
    log = group.logged.pop(value.generation, None)
    gone = [(m, _departed(group, m, time_ms, preparing_ms)) for m in change.departed]
    causes = [] if log is None else _causes_in_log(log, {m.member_id: m for m in (*change.departed, *value.members)})
    named = {cause.get("member_id") for cause in causes}
    departures = [_removal_in_log(log, m) or why_departed(departure) for m, departure in gone]
    unnamed = {cause["kind"] for cause in causes if "member_id" not in cause} & {cause["kind"] for cause in departures}
    causes = [cause for cause in causes if "member_id" in cause or cause["kind"] not in unnamed]
    causes += [cause for cause in departures if cause.get("member_id") not in named]
    causes += group.notes
    group.notes = []
    causes += [cause_of("member_joined", m, OBSERVED) for m in change.joined if m.member_id not in named]
    causes += [cause_of("static_member_returned", m, OBSERVED) for _, m in change.returned if m.member_id not in named]
    if not is_known:
        causes = causes if log is not None else [known_cause("not_seen", UNKNOWN)]
    elif not causes:
        causes = _of_the_same_members(group, change, value, topics)
    line.causes = causes
    _note_times(line, group, value, time_ms, preparing_ms)
    if preparing_ms is not None:
        group.ownership.started(preparing_ms)
    kinds = {cause.get("member_id"): cause["kind"] for cause in causes}
    for m, departure in gone:
        is_silent = kinds.get(m.member_id) == "session_timeout"
        group.ownership.removed(m.member_id, departure.before_ms, is_silent=is_silent)
        group.lives.append(Life(departure.before_ms, m.member_id, m.client_id, False))
    group.lives.extend(Life(time_ms, m.member_id, m.client_id, True) for m in change.joined if is_known)
    moved = group.ownership.stored(value, time_ms)
    note_ownership(line, moved, is_timed=preparing_ms is not None)
    if len(group.ownership.partitions.owners) <= OWNERS_SHOWN:
        line.owners = by_member(group.ownership.partitions.owners)
    group.is_revoking = bool(moved.unowned and value.members)
    group.stored, group.stored_ms, group.is_baseline, group.moved_ms = value, time_ms, False, time_ms
    if course.preparing_ms is None or course.preparing_ms <= time_ms:
        group.course = Course(line.state_to, time_ms)
    _take_members(group, value)
    group.counts = _counts(group, value, topics)
    return line


def _counts(group: KnownGroup, value: GroupMetadataValue, topics: KnownTopics) -> dict[str, int]:
    """The partitions of the subscribed topics, by the metadata or, where it is older, by the assignment."""
    subscribed = {t for m in value.members for t in subscribed_topics(m) or ()}
    counts = {topic: max(topics.counts.get(topic, 0), group.counts.get(topic, 0)) for topic in subscribed}
    for topic, partition in owners_of((m.member_id, m.assignment) for m in value.members):
        counts[topic] = max(counts.get(topic, 0), partition + 1)
    return counts


def _departed(group: KnownGroup, metadata: MemberMetadata, time_ms: int, preparing_ms: int | None) -> Departure:
    member = group.member(metadata)
    bounds = [t for t in (member.missing_ms, time_ms) if t is not None]
    after_ms = member.listed_ms if member.listed_ms is not None and member.listed_ms <= time_ms else None
    return Departure(member, after_ms, min(bounds), time_ms, preparing_ms, group.stored_ms)


def _of_the_same_members(
    group: KnownGroup, change: StoredChange, value: GroupMetadataValue, topics: KnownTopics
) -> list[Cause]:
    causes = []
    for earlier, member in change.resubscribed:
        before, now = subscribed_topics(earlier) or frozenset(), subscribed_topics(member) or frozenset()
        gained = now - before
        if not before and group.is_baseline:
            continue
        if gained and before < now and all(t in group.gained or topics.was_absent(t, group.stored_ms) for t in gained):
            group.gained |= gained
            return [known_cause("regex_resolved", INFERRED, "topic_gained")]
        causes.append(cause_of("subscription_changed", member, OBSERVED))
    return causes or [why_same_members(group, value, _counts(group, value, topics))]


def _note_times(
    line: JournalLine, group: KnownGroup, value: GroupMetadataValue, time_ms: int, preparing_ms: int | None
) -> None:
    line.members, line.leader, line.protocol = len(value.members), value.leader, value.protocol
    completing_ms = group.course.completing_ms
    if preparing_ms is not None:
        line.join_ms = (time_ms if completing_ms is None else min(completing_ms, time_ms)) - preparing_ms
        if completing_ms is not None and value.members:
            line.sync_ms = max(time_ms - completing_ms, 0)


def _take_members(group: KnownGroup, value: GroupMetadataValue) -> None:
    members: dict[str, KnownMember] = {m.member_id: group.member(m) for m in value.members}
    for member in members.values():
        member.missing_ms = None
    group.members = members


def pattern(group: KnownGroup, cause: Cause, time_ms: int) -> list[JournalLine]:
    """A line for what several rebalances or a long phase show, once in ten minutes for each."""
    if not is_due(group.patterns, cause, time_ms):
        return []
    state = group.course.state or STABLE
    line = JournalLine(time_ms, group.group, group.generation, "pattern_seen", state, state)
    line.causes = [cause]
    line.members = len(group.members)
    return [line]


def _causes_in_log(row: Mapping[str, Any], members: Mapping[str, MemberMetadata]) -> list[Cause]:
    """Of a row of `coterie.observer.logs.server_log`: one for each of its reasons that has a known wording. ``members``: those
    before and after, by member id."""
    causes = []
    for reason in _BETWEEN.split(row["why"] or ""):
        stated, _, clients_reason = reason.partition(_CLIENTS)
        kind = kind_of(stated)
        if kind == "unknown":
            continue
        match = _MEMBER.search(stated)
        member = members.get(match["member"]) if match is not None else None
        cause = {"kind": kind, "evidence": OBSERVED} if member is None else cause_of(kind, member, OBSERVED)
        if clients_reason:
            cause["reason"] = clients_reason
        if cause not in causes:
            causes.append(cause)
    named = {cause["kind"] for cause in causes if "member_id" in cause}
    return [cause for cause in causes if "member_id" in cause or cause["kind"] not in named]


def _removal_in_log(row: Mapping[str, Any] | None, member: MemberMetadata) -> Cause | None:
    """How a member was removed, as the log has it."""
    if row is None or member.member_id not in row["removed"]:
        return None
    kind = "session_timeout" if member.member_id in row["silent"] else "member_left"
    return cause_of(kind, member, OBSERVED)
