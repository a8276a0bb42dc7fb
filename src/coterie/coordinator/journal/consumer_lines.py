"""From what happened to a group of the consumer protocol to the journal's lines: what raised the group epoch, what the target
assignment moves, and of each member what it is to revoke, has released and was assigned."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from coterie.coordinator.consumer import events as c
from coterie.coordinator.consumer.state import (
    ConsumerGroup,
    ConsumerMember,
    CurrentAssignment,
    TopicId,
    TopicIdPartition,
)
from coterie.coordinator.journal.line import MOVED_SHOWN, JournalLine
from coterie.coordinator.state import Cause
from coterie.machines.ownership import OwnerChange, PartitionOwners, count_moved

TopicName = Callable[[TopicId], str]  # of an id; of a topic that is gone any text that names it


class ConsumerJournalLines:
    """Keeps, per group, what each member has and is to have, and the last owner of each partition, to say what changed."""

    def __init__(self, topic_name: TopicName) -> None:
        self._topic_name = topic_name
        self._current: dict[tuple[str, str], CurrentAssignment] = {}
        self._owners: dict[str, PartitionOwners] = {}
        self._targets: dict[str, PartitionOwners] = {}

    def loaded(self, group: ConsumerGroup) -> None:
        """Takes the assignments from a group that was loaded from the log."""
        group_id = group.group_id
        for member_id, member in group.members.items():
            self._current[group_id, member_id] = member.current
        self._owners[group_id], self._targets[group_id] = PartitionOwners(), PartitionOwners()
        self._owners[group_id].assigned({p: i for i, m in group.members.items() for p in _held(m.current)})
        self._targets[group_id].assigned(_owners(group))
        for kept in (self._owners, self._targets):
            kept[group_id].present(map(_identity, group.members.values()))

    def fill(self, line: JournalLine, event: object, group: ConsumerGroup) -> bool:
        """Completes the line of an event; False for an event that is not worth one."""
        line.members = len(group.members)
        match event:
            case c.GroupEpochStored():
                line.event = "epoch_raised"
                because(line, event.cause)
            case c.GroupEpochRemoved():
                line.event = "group_removed"
                because(line, event.cause)
                for kept in (self._owners, self._targets):
                    kept.pop(group.group_id, None)
            case c.SubscriptionRemoved(member_id, cause):
                line.event = (
                    "member_replaced" if cause is not None and cause.kind == "member_replaced" else "member_removed"
                )
                because(line, cause)
                held = _held(self._current.pop((group.group_id, member_id), None))
                self._moved(line, self._owners_in(group).released(member_id, sorted(held)))
            case c.TargetEpochStored() if group.members:  # without members nothing was computed
                line.event = "target_computed"
                targets = self._targets.setdefault(group.group_id, PartitionOwners())
                targets.present(map(_identity, group.members.values()))
                self._moved(line, sorted(targets.assigned(_owners(group))))
            case c.CurrentStored(member_id, current):
                return self._reconciled(line, group, member_id, current)
            case _:
                return False
        return True

    def _reconciled(self, line: JournalLine, group: ConsumerGroup, member_id: str, current: CurrentAssignment) -> bool:
        """A member is to revoke partitions, or it released some and got others; one without either is not worth a
        line unless it is new in its epoch."""
        before = self._current.get((group.group_id, member_id), CurrentAssignment())
        self._current[group.group_id, member_id] = current
        line.member, line.member_epoch = member_id, current.member_epoch
        if current.has_partitions_of(before):
            line.event, line.moved_count = "member_reconciled", 0
            return current.member_epoch != before.member_epoch
        released = _held(before) - _held(current)
        assigned = current.assigned.keys() - _held(before)
        revoking = current.pending_revocation.keys() - before.pending_revocation.keys()
        line.event = "member_revokes" if revoking else "member_reconciled"
        if revoking:
            self._moved(line, [OwnerChange(p, member_id, None) for p in sorted(revoking)])
            line.unowned_count = 0  # until it has released them
        else:
            owners = self._owners_in(group)
            owners.present(_identity(m) for m in [group.members.get(member_id)] if m is not None)
            self._moved(line, owners.released(member_id, sorted(released)) + owners.took(member_id, sorted(assigned)))
        return bool(revoking or released or assigned or current.member_epoch != before.member_epoch)

    def _owners_in(self, group: ConsumerGroup) -> PartitionOwners:
        return self._owners.setdefault(group.group_id, PartitionOwners())

    def _moved(self, line: JournalLine, changes: list[OwnerChange]) -> None:
        shown: list[dict[str, Any]] = [
            {"topic": self._topic_name(topic), "partition": partition, "from": last_owner, "to": owner}
            for (topic, partition), last_owner, owner in changes[:MOVED_SHOWN]
        ]
        line.moved, line.moved_count = shown, count_moved(changes)
        line.unowned_count = sum(change.owner is None for change in changes)


def because(line: JournalLine, cause: Cause | None) -> None:
    """Puts the cause into the line."""
    if cause is not None:
        fields = {
            "kind": cause.kind,
            "member_id": cause.member_id,
            "client_id": cause.client_id,
            "group_instance_id": cause.group_instance_id,
        }
        line.causes = [{name: value for name, value in fields.items() if value}]


def _held(current: CurrentAssignment | None) -> set[TopicIdPartition]:
    return set() if current is None else {*current.assigned, *current.pending_revocation}


def _identity(member: ConsumerMember) -> tuple[str, str | None]:
    return member.member_id, member.subscription.instance_id


def _owners(group: ConsumerGroup) -> dict[TopicIdPartition, str]:
    targets: Iterable[tuple[str, frozenset[TopicIdPartition]]] = group.target.items()
    return {partition: member_id for member_id, partitions in targets for partition in partitions}
