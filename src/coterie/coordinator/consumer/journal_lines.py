"""From what happened to a group of the consumer protocol to the journal's lines: what raised the group epoch, what the target
assignment moves, and of each member what it is to revoke, has released and was assigned."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from coterie.coordinator.consumer import events as c
from coterie.coordinator.consumer.state import ConsumerGroup, CurrentAssignment, TopicId, TopicIdPartition
from coterie.coordinator.state import Cause
from coterie.journal import MOVED_SHOWN, JournalLine

TopicName = Callable[[TopicId], str]  # of an id; of a topic that is gone any text that names it
Moves = list[tuple[TopicIdPartition, str | None, str | None]]  # from one member id to another; None: to or from nobody


class ConsumerJournalLines:
    """Keeps, per group, what each member has and is to have, to say what changed."""

    def __init__(self, topic_name: TopicName) -> None:
        self._topic_name = topic_name
        self._current: dict[tuple[str, str], CurrentAssignment] = {}
        self._target: dict[str, dict[TopicIdPartition, str]] = {}

    def loaded(self, group: ConsumerGroup) -> None:
        """Takes the assignments from a group that was loaded from the log."""
        for member_id, member in group.members.items():
            self._current[group.group_id, member_id] = member.current
        self._target[group.group_id] = _owners(group)

    def fill(self, line: JournalLine, event: object, group: ConsumerGroup) -> bool:
        """Completes the line of an event; False for an event that is not worth one."""
        line.members = len(group.members)
        match event:
            case c.GroupEpochStored():
                line.event = "epoch_raised"
                self._because(line, event.cause)
            case c.GroupEpochRemoved():
                line.event = "group_removed"
                self._because(line, event.cause)
                self._target.pop(group.group_id, None)
            case c.SubscriptionRemoved(member_id, cause):
                line.event = (
                    "member_replaced" if cause is not None and cause.kind == "member_replaced" else "member_removed"
                )
                self._because(line, cause)
                self._moved(
                    line,
                    [(p, member_id, None) for p in sorted(_held(self._current.pop((group.group_id, member_id), None)))],
                )
            case c.TargetEpochStored():
                line.event = "target_computed"
                before, after = self._target.get(group.group_id, {}), _owners(group)
                changed = sorted({partition for partition, _ in before.items() ^ after.items()})
                self._moved(line, [(p, before.get(p), after.get(p)) for p in changed])
                self._target[group.group_id] = after
            case c.CurrentStored(member_id, current):
                return self._reconciled(line, group.group_id, member_id, current)
            case _:
                return False
        return True

    def _reconciled(self, line: JournalLine, group_id: str, member_id: str, current: CurrentAssignment) -> bool:
        """A member is asked to revoke partitions, or it released some and got others; one without either is not worth a
        line unless it is new in its epoch."""
        before = self._current.get((group_id, member_id), CurrentAssignment())
        self._current[group_id, member_id] = current
        line.member, line.member_epoch = member_id, current.member_epoch
        if current.has_partitions_of(before):
            line.event, line.moved_count = "member_reconciled", 0
            return current.member_epoch != before.member_epoch
        released = _held(before) - _held(current)
        assigned = current.assigned.keys() - _held(before)
        asked = current.pending_revocation.keys() - before.pending_revocation.keys()
        line.event = "member_revokes" if asked else "member_reconciled"
        if asked:
            self._moved(line, [(p, member_id, None) for p in sorted(asked)])
        else:
            moves: Moves = [(p, member_id, None) for p in sorted(released)]
            self._moved(line, moves + [(p, None, member_id) for p in sorted(assigned)])
        return bool(asked or released or assigned or current.member_epoch != before.member_epoch)

    @staticmethod
    def _because(line: JournalLine, cause: Cause | None) -> None:
        if cause is not None:
            fields = {
                "kind": cause.kind,
                "member_id": cause.member_id,
                "client_id": cause.client_id,
                "group_instance_id": cause.group_instance_id,
            }
            line.causes = [{name: value for name, value in fields.items() if value}]

    def _moved(self, line: JournalLine, moves: Moves) -> None:
        shown: list[dict[str, Any]] = [
            {"topic": self._topic_name(topic), "partition": partition, "from": source, "to": target}
            for (topic, partition), source, target in moves[:MOVED_SHOWN]
        ]
        line.moved_count, line.moved = len(moves), shown


def _held(current: CurrentAssignment | None) -> set[TopicIdPartition]:
    return set() if current is None else {*current.assigned, *current.pending_revocation}


def _owners(group: ConsumerGroup) -> dict[TopicIdPartition, str]:
    targets: Iterable[tuple[str, frozenset[TopicIdPartition]]] = group.target.items()
    return {partition: member_id for member_id, partitions in targets for partition in partitions}
