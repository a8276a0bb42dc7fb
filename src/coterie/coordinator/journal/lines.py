"""From what happened to a group to the journal's lines: causes, how long each phase took, which partitions moved."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from coterie.coordinator import events as e
from coterie.coordinator.consumer.events import ConsumerEvent, GroupEpochRemoved
from coterie.coordinator.consumer.state import ConsumerGroup
from coterie.coordinator.journal.generations import GenerationChange, GroupOwnership
from coterie.coordinator.journal.line import (
    MOVED_SHOWN,
    OWNERS_SHOWN,
    JournalLine,
    cause_json,
    causes_json,
    line_start,
    quote,
)
from coterie.coordinator.journal.modern_lines import (
    ConsumerJournalLines,
    StreamsJournalLines,
    TopicName,
    fill_share_line,
)
from coterie.coordinator.replay import AnyGroup
from coterie.coordinator.shard import Step
from coterie.coordinator.share.events import ShareEvent
from coterie.coordinator.share.state import ShareGroup
from coterie.coordinator.state import PREPARING, Cause, TopicPartition
from coterie.coordinator.streams.events import StreamsEvent
from coterie.coordinator.streams.state import StreamsGroup
from coterie.wire.messages.stored.consumer_offsets import GroupMetadataValue


@dataclass(slots=True)
class _Story:
    """The state of one group between two journal lines: begin of its phases, causes as JSON, owners."""

    started_ms: int | None = None
    formed_ms: int | None = None
    causes: list[str] = field(default_factory=list)
    ownership: GroupOwnership = field(default_factory=GroupOwnership)
    last_cause: Cause | None = None  # that of a member is that of the rebalance which begins by it
    last_json: str = ""

    def json_of(self, cause: Cause) -> str:
        if cause is not self.last_cause:
            text = cause_json(cause.kind, cause.member_id, cause.client_id, cause.group_instance_id, cause.reason)
            self.last_cause, self.last_json = cause, text
        return self.last_json


class JournalLines:
    """Turns steps into lines. Keeps, per group, when its phases began and who owned what in the last generation."""

    def __init__(self, topic_name: TopicName = bytes.hex) -> None:
        self._stories: dict[str, _Story] = {}
        self._of_consumers = ConsumerJournalLines(topic_name)
        self._of_streams = StreamsJournalLines()

    def loaded(self, group: AnyGroup) -> None:
        """Takes the owners from a group that was loaded from the log."""
        if isinstance(group, ConsumerGroup):
            self._of_consumers.loaded(group)
            return
        if isinstance(group, ShareGroup):
            return
        if isinstance(group, StreamsGroup):
            self._of_streams.loaded(group)
            return
        self._stories.pop(group.group_id, None)
        if group.members:
            self._stories[group.group_id] = story = _Story()
            story.ownership.loaded(group)

    def line(self, step: Step, group: AnyGroup, now_ms: int) -> JournalLine | None:
        """The line for a step; None for what is not worth one (a follower's SyncGroup)."""
        if isinstance(group, ConsumerGroup) and isinstance(step.event, ConsumerEvent):
            line = JournalLine(now_ms, step.group_id, step.generation, "", step.phase_before, step.phase_after)
            return line if self._of_consumers.fill(line, step.event, group) else None
        if isinstance(group, StreamsGroup) and isinstance(step.event, StreamsEvent):
            line = JournalLine(now_ms, step.group_id, step.generation, "", step.phase_before, step.phase_after)
            return line if self._of_streams.fill(line, step.event, group) else None
        if isinstance(group, ShareGroup) and isinstance(step.event, ShareEvent):
            line = JournalLine(now_ms, step.group_id, step.generation, "", step.phase_before, step.phase_after)
            return line if fill_share_line(line, step.event, group) else None
        text = self.classic_json(step, len(group.members), now_ms)
        return None if text is None else JournalLine.from_json(text)

    def classic_json(self, step: Step, members: int, now_ms: int) -> str | None:
        """The JSON of the line for a step of a classic group with so many members after it, without a `JournalLine`, which
        takes twice as long. It may be made later, in the order of the steps."""
        group_id, event = step.group_id, step.event
        kind = _KINDS.get(type(event))
        if kind is None and not isinstance(event, e.GroupStored):
            return None
        story = self._stories.get(group_id)
        if story is None:
            story = self._stories[group_id] = _Story()
        if kind is None:
            assert isinstance(event, e.GroupStored)
            return _stored(story, step, event.value, now_ms)
        if type(event) is e.GroupRemoved:
            del self._stories[group_id]
        name, rest = kind
        start = line_start(now_ms, group_id, step.generation, name, step.phase_before, step.phase_after)
        return f"{start}{rest(story, event, step, members, now_ms)}}}"


def _caused(story: _Story, event: _Caused, step: Step, members: int, now_ms: int) -> str:
    cause = event.cause
    if cause is None:
        return f',"members":{members}'
    text = story.json_of(cause)
    if step.phase_after == PREPARING:
        # Came while the rebalance was under way: one more reason for its result.
        story.causes.append(text)
    return f',"causes":[{text}],"members":{members}'


def _replaced(story: _Story, event: e.StaticMemberReplaced, step: Step, members: int, now_ms: int) -> str:
    story.ownership.returned([(event.member.member_id, event.member.group_instance_id)])
    return _caused(story, event, step, members, now_ms)


def _removed(story: _Story, event: e.MemberRemoved, step: Step, members: int, now_ms: int) -> str:
    story.ownership.removed(event.member_id, now_ms, is_silent=event.cause.kind == "session_timeout")
    return _caused(story, event, step, members, now_ms)


def _reserved(story: _Story, event: e.MemberIdReserved, step: Step, members: int, now_ms: int) -> str:
    return f',"causes":[{cause_json("member_joined", event.member_id)}],"members":{members}'


def _started(story: _Story, event: e.RebalanceStarted, step: Step, members: int, now_ms: int) -> str:
    story.started_ms = now_ms
    story.ownership.started(now_ms)
    story.causes = [story.json_of(cause) for cause in event.causes]
    return f'{causes_json(story.causes)},"members":{members}'


def _extended(story: _Story, event: e.JoinPhaseExtended, step: Step, members: int, now_ms: int) -> str:
    return f',"members":{members}'


def _formed(story: _Story, event: e.GenerationFormed, step: Step, members: int, now_ms: int) -> str:
    story.formed_ms = now_ms
    text = f'{causes_json(story.causes)},"leader":{quote(event.leader)},"protocol":{quote(event.protocol)}'
    join_ms = "" if story.started_ms is None else f',"join_ms":{now_ms - story.started_ms}'
    return f'{text},"members":{members}{join_ms}'


def _stored(story: _Story, step: Step, value: GroupMetadataValue, now_ms: int) -> str | None:
    before, after = step.phase_before, step.phase_after
    if before == after:
        return None  # a static member's new id was stored; its own line has that
    line = JournalLine(now_ms, step.group_id, step.generation, "stable" if value.members else "empty", before, after)
    line.members, line.leader, line.protocol = len(value.members), value.leader, value.protocol
    line.join_ms = _since(story.started_ms, story.formed_ms if value.members else now_ms)
    line.sync_ms = _since(story.formed_ms, now_ms) if value.members else None
    note_ownership(line, story.ownership.stored(value, now_ms), is_timed=story.started_ms is not None)
    owners = story.ownership.partitions.owners
    if len(owners) <= OWNERS_SHOWN:
        line.owners = by_member(owners)
    text = line.to_json(story.causes)
    story.started_ms, story.formed_ms, story.causes = None, None, []
    story.last_cause, story.last_json = None, ""
    return text


def note_ownership(line: JournalLine, change: GenerationChange, *, is_timed: bool) -> None:
    """Completes a generation's line; ``is_timed``: whether the start of the rebalance is known."""
    line.moved = [
        {"topic": topic, "partition": partition, "from": last_owner, "to": owner}
        for (topic, partition), last_owner, owner in change.changes[:MOVED_SHOWN]
    ]
    line.moved_count, line.unowned_count = change.moved, change.unowned
    if is_timed:
        line.unowned_ms, line.undetected_ms = change.unowned_ms, change.undetected_ms


_Caused = (
    e.ReservationDropped
    | e.MemberJoined
    | e.MemberRejoined
    | e.StaticMemberReplaced
    | e.MemberRemoved
    | e.RebalanceWanted
    | e.AssignmentLost
    | e.GroupRemoved
    | GroupEpochRemoved
)
# By the event: the line's name, and what writes the rest of it behind `line_start`, in the order of FIELDS.
_KINDS: dict[type, tuple[str, Callable[[_Story, Any, Step, int, int], str]]] = {
    e.MemberIdReserved: ("id_reserved", _reserved),
    e.ReservationDropped: ("id_dropped", _caused),
    e.MemberJoined: ("member_joined", _caused),
    e.MemberRejoined: ("member_rejoined", _caused),
    e.StaticMemberReplaced: ("member_replaced", _replaced),
    e.MemberRemoved: ("member_removed", _removed),
    e.RebalanceWanted: ("rebalance_wanted", _caused),
    e.AssignmentLost: ("rebalance_wanted", _caused),
    e.RebalanceStarted: ("rebalance_started", _started),
    e.JoinPhaseExtended: ("join_extended", _extended),
    e.GenerationFormed: ("generation_formed", _formed),
    e.GroupRemoved: ("group_removed", _caused),
    GroupEpochRemoved: ("group_removed", _caused),  # of a group that is a classic one since
}


def _since(start_ms: int | None, now_ms: int | None) -> int | None:
    return None if start_ms is None or now_ms is None else now_ms - start_ms


def by_member(owners: dict[TopicPartition, str]) -> dict[str, dict[str, list[int]]]:
    """The field ``owners`` of a line."""
    grouped: dict[str, dict[str, list[int]]] = {}
    for (topic, partition), member_id in sorted(owners.items()):
        grouped.setdefault(member_id, {}).setdefault(topic, []).append(partition)
    return grouped
