"""From what happened to a group to the journal's lines: causes, how long each phase took, which partitions moved."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field

from coterie.assignors.blobs import decode_assignment
from coterie.coordinator import events as e
from coterie.coordinator.consumer.events import ConsumerEvent
from coterie.coordinator.consumer.journal_lines import ConsumerJournalLines, TopicName
from coterie.coordinator.consumer.state import ConsumerGroup
from coterie.coordinator.dispatch import AnyGroup
from coterie.coordinator.shard import Step
from coterie.coordinator.state import Cause, Phase, TopicPartition
from coterie.coordinator.subscriptions import CONSUMER
from coterie.journal import MOVED_SHOWN, OWNERS_SHOWN, JournalLine
from coterie.lazy_dataclass import dataclass
from coterie.wire.messages.consumer_offsets import GroupMetadataValue
from coterie.wire.primitives import WireError

_NAMES: dict[type, str] = {
    e.MemberIdReserved: "id_reserved",
    e.ReservationDropped: "id_dropped",
    e.MemberJoined: "member_joined",
    e.MemberRejoined: "member_rejoined",
    e.StaticMemberReplaced: "member_replaced",
    e.MemberRemoved: "member_removed",
    e.RebalanceWanted: "rebalance_wanted",
    e.AssignmentLost: "rebalance_wanted",
    e.RebalanceStarted: "rebalance_started",
    e.JoinPhaseExtended: "join_extended",
    e.GenerationFormed: "generation_formed",
    e.GroupRemoved: "group_removed",
}


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
        group_id, event, before, after, generation = step
        if isinstance(group, ConsumerGroup) and isinstance(event, ConsumerEvent):
            line = JournalLine(now_ms, group_id, generation, "", str(before), str(after))
            return line if self._of_consumers.fill(line, event, group) else None
        name = _NAMES.get(type(event))
        if name is None and not isinstance(event, e.GroupStored):
            return None
        story = self._stories.get(group_id)
        if story is None:
            story = self._stories[group_id] = _Story()
        line = JournalLine(now_ms, group_id, generation, name or "", str(before), str(after))
        if isinstance(event, e.GroupStored):
            return self._stored(line, story, event.value, step)
        line.members = len(group.members)
        if isinstance(event, e.RebalanceStarted):
            story.started_ms, story.causes = now_ms, [_cause(c) for c in event.causes]
            line.causes = story.causes
        elif isinstance(event, e.GenerationFormed):
            line.join_ms = _since(story.started_ms, now_ms)
            line.leader, line.protocol, line.causes = event.leader, event.protocol, story.causes
            story.formed_ms = now_ms
        elif isinstance(event, e.MemberIdReserved):
            line.causes = [{"kind": "member_joined", "member_id": event.member_id}]
        elif isinstance(event, e.GroupRemoved):
            line.causes = [_cause(event.cause)]
            self._stories.pop(group_id, None)
        else:
            if isinstance(event, e.StaticMemberReplaced):
                new = event.member.member_id
                story.owners = {tp: new if m == event.old_member_id else m for tp, m in story.owners.items()}
            self._note_cause(line, story, getattr(event, "cause", None), step)
        return line

    @staticmethod
    def _note_cause(line: JournalLine, story: _Story, cause: Cause | None, step: Step) -> None:
        if cause is not None:
            line.causes = [_cause(cause)]
            if step.phase_after == Phase.PREPARING:
                # Came while the rebalance was under way: one more reason for its result. Earlier lines have the list.
                story.causes = [*story.causes, *line.causes]

    def _stored(self, line: JournalLine, story: _Story, value: GroupMetadataValue, step: Step) -> JournalLine | None:
        if step.phase_before == step.phase_after:
            return None  # a static member's new id was stored; its own line has that
        owners = (
            owners_of((m.member_id, m.assignment) for m in value.members) if value.protocol_type == CONSUMER else {}
        )
        line.event = "stable" if value.members else "empty"
        line.members, line.leader, line.protocol = len(value.members), value.leader, value.protocol
        line.join_ms = _since(story.started_ms, story.formed_ms if value.members else line.time_ms)
        line.sync_ms = _since(story.formed_ms, line.time_ms) if value.members else None
        line.causes = story.causes
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
        self._stories[step.group_id] = _Story(owners=owners)
        return line


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
