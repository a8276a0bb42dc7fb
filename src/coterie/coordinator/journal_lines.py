"""From what happened to a group to the journal's lines: causes, how long each phase took, which partitions moved."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import field
from typing import Any

from coterie.assignors.blobs import decode_assignment
from coterie.coordinator import events as e
from coterie.coordinator.consumer.events import ConsumerEvent
from coterie.coordinator.consumer.journal_lines import ConsumerJournalLines, TopicName
from coterie.coordinator.consumer.state import ConsumerGroup
from coterie.coordinator.dispatch import AnyGroup
from coterie.coordinator.shard import Step
from coterie.coordinator.state import PREPARING, Cause, TopicPartition
from coterie.coordinator.subscriptions import CONSUMER
from coterie.journal import MOVED_SHOWN, OWNERS_SHOWN, JournalLine
from coterie.lazy_dataclass import dataclass
from coterie.wire.primitives import WireError


@dataclass(slots=True)
class _Story:
    """The state of one group between two journal lines: begin of its phases, causes, last owners."""

    started_ms: int | None = None
    formed_ms: int | None = None
    causes: list[dict[str, str]] = field(default_factory=list)
    owners: dict[TopicPartition, str] = field(default_factory=dict)


class JournalLines:
    """Turns steps into lines. Keeps, per group, when its phases began and who owned what in the last generation."""

    def __init__(self, topic_name: TopicName = bytes.hex) -> None:
        self._stories: dict[str, _Story] = {}
        self._of_consumers = ConsumerJournalLines(topic_name)

    def loaded(self, group: AnyGroup) -> None:
        """Takes the owners from a group that was loaded from the log."""
        if isinstance(group, ConsumerGroup):
            self._of_consumers.loaded(group)
            return
        self._stories[group.group_id] = _Story(
            owners=owners_of((m.member_id, m.assignment) for m in group.members.values())
        )

    def line(self, step: Step, group: AnyGroup, now_ms: int) -> JournalLine | None:
        """The line for a step; None for what is not worth one (a follower's SyncGroup)."""
        if isinstance(group, ConsumerGroup) and isinstance(step.event, ConsumerEvent):
            line = JournalLine(now_ms, step.group_id, step.generation, "", step.phase_before, step.phase_after)
            return line if self._of_consumers.fill(line, step.event, group) else None
        return self.classic_line(step, len(group.members), now_ms)

    def classic_line(self, step: Step, members: int, now_ms: int) -> JournalLine | None:
        """The same for a group of the classic protocol, of which the step and the number of members are enough: it may be
        made later, in the order of the steps."""
        kind = _KINDS.get(type(step.event))
        if kind is None:
            return None
        group_id, event = step.group_id, step.event
        story = self._stories.get(group_id)
        if story is None:
            story = self._stories[group_id] = _Story()
        name, fill = kind
        line = JournalLine(
            now_ms, group_id, step.generation, name, step.phase_before, step.phase_after, members=members
        )
        worth = fill(line, story, event)
        if type(event) is e.GroupRemoved:
            del self._stories[group_id]
        return line if worth else None


def _caused(line: JournalLine, story: _Story, event: _Caused) -> bool:
    cause = event.cause
    if cause is not None:
        line.causes = [_cause(cause)]
        if line.state_to == PREPARING:
            # Came while the rebalance was under way: one more reason for its result. Earlier lines have the list.
            story.causes = [*story.causes, *line.causes]
    return True


def _replaced(line: JournalLine, story: _Story, event: e.StaticMemberReplaced) -> bool:
    new = event.member.member_id
    story.owners = {tp: new if m == event.old_member_id else m for tp, m in story.owners.items()}
    return _caused(line, story, event)


def _reserved(line: JournalLine, story: _Story, event: e.MemberIdReserved) -> bool:
    line.causes = [{"kind": "member_joined", "member_id": event.member_id}]
    return True


def _started(line: JournalLine, story: _Story, event: e.RebalanceStarted) -> bool:
    story.started_ms = line.time_ms
    line.causes = story.causes = [_cause(c) for c in event.causes]
    return True


def _extended(line: JournalLine, story: _Story, event: e.JoinPhaseExtended) -> bool:
    return True


def _formed(line: JournalLine, story: _Story, event: e.GenerationFormed) -> bool:
    line.join_ms = _since(story.started_ms, line.time_ms)
    line.leader, line.protocol, line.causes = event.leader, event.protocol, story.causes
    story.formed_ms = line.time_ms
    return True


def _removed(line: JournalLine, story: _Story, event: e.GroupRemoved) -> bool:
    line.causes = [_cause(event.cause)]
    return True


def _stored(line: JournalLine, story: _Story, event: e.GroupStored) -> bool:
    if line.state_from == line.state_to:
        return False  # a static member's new id was stored; its own line has that
    value = event.value
    has_members = bool(value.members)
    line.event = "stable" if has_members else "empty"
    line.members, line.leader, line.protocol = len(value.members), value.leader, value.protocol
    line.join_ms = _since(story.started_ms, story.formed_ms if has_members else line.time_ms)
    line.sync_ms = _since(story.formed_ms, line.time_ms) if has_members else None
    line.causes = story.causes
    owners = owners_of((m.member_id, m.assignment) for m in value.members) if value.protocol_type == CONSUMER else {}
    moved = [
        {"topic": topic, "partition": partition, "from": story.owners.get((topic, partition)), "to": owner}
        for (topic, partition), owner in owners.items()
        if story.owners.get((topic, partition)) != owner
    ]
    unowned = [
        {"topic": topic, "partition": partition, "from": owner, "to": None}
        for (topic, partition), owner in story.owners.items()
        if (topic, partition) not in owners
    ]
    moved += unowned
    line.moved_count, line.moved, line.unowned_count = len(moved), moved[:MOVED_SHOWN], len(unowned)
    if len(owners) <= OWNERS_SHOWN:
        line.owners = _by_member(owners)
    story.started_ms, story.formed_ms, story.causes, story.owners = None, None, [], owners
    return True


_Caused = (
    e.ReservationDropped
    | e.MemberJoined
    | e.MemberRejoined
    | e.StaticMemberReplaced
    | e.MemberRemoved
    | e.RebalanceWanted
    | e.AssignmentLost
)
# By the event: the line's name, and what completes the line and the story; False for an event that is not worth a line.
_KINDS: dict[type, tuple[str, Callable[[JournalLine, _Story, Any], bool]]] = {
    e.MemberIdReserved: ("id_reserved", _reserved),
    e.ReservationDropped: ("id_dropped", _caused),
    e.MemberJoined: ("member_joined", _caused),
    e.MemberRejoined: ("member_rejoined", _caused),
    e.StaticMemberReplaced: ("member_replaced", _replaced),
    e.MemberRemoved: ("member_removed", _caused),
    e.RebalanceWanted: ("rebalance_wanted", _caused),
    e.AssignmentLost: ("rebalance_wanted", _caused),
    e.RebalanceStarted: ("rebalance_started", _started),
    e.JoinPhaseExtended: ("join_extended", _extended),
    e.GenerationFormed: ("generation_formed", _formed),
    e.GroupStored: ("", _stored),
    e.GroupRemoved: ("group_removed", _removed),
}


def _since(start_ms: int | None, now_ms: int | None) -> int | None:
    return None if start_ms is None or now_ms is None else now_ms - start_ms


def _cause(cause: Cause) -> dict[str, str]:
    fields = {"kind": cause.kind}
    if cause.member_id:
        fields["member_id"] = cause.member_id
    if cause.client_id:
        fields["client_id"] = cause.client_id
    if cause.group_instance_id:
        fields["group_instance_id"] = cause.group_instance_id
    if cause.reason:
        fields["reason"] = cause.reason
    return fields


def owners_of(assignments: Iterable[tuple[str, bytes]]) -> dict[TopicPartition, str]:
    """Owner of each partition, from members' ids and assignment bytes."""
    owners: dict[TopicPartition, str] = {}
    for member_id, data in assignments:
        try:
            owners.update((topic_partition, member_id) for topic_partition in decode_assignment(data))
        except WireError:
            continue  # another kind of client's own format: the journal then has no owners
    return owners


def _by_member(owners: dict[TopicPartition, str]) -> dict[str, dict[str, list[int]]]:
    grouped: dict[str, dict[str, list[int]]] = {}
    for (topic, partition), member_id in sorted(owners.items()):
        grouped.setdefault(member_id, {}).setdefault(topic, []).append(partition)
    return grouped
