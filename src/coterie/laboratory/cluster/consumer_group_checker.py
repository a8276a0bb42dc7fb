"""What must hold of groups of the consumer protocol whose coordinator moves (KIP-848), by what members received and what the
log of `__consumer_offsets` holds."""

from __future__ import annotations

from dataclasses import dataclass, field

from coterie.coordinator.consumer.events import (
    ConsumerEvent,
    CurrentRemoved,
    CurrentStored,
    GroupEpochRemoved,
    GroupEpochStored,
    TargetEpochStored,
)
from coterie.coordinator.consumer.state import CurrentAssignment, TopicIdPartition
from coterie.wire.messages.groups.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

MemberEpoch = tuple[str, str, int]  # group, member, member epoch


@dataclass(slots=True)
class StoredConsumerGroup:
    """A group as far as its log has been read. ``owners``: who has a partition, or must still revoke it."""

    epoch: int = 0
    members: dict[str, CurrentAssignment] = field(default_factory=dict)
    owners: dict[TopicIdPartition, str] = field(default_factory=dict)


class ConsumerGroupLogChecker:
    """Each violation is added to ``failures``."""

    def __init__(self, failures: list[str]) -> None:
        self._failures = failures
        self._assigned: dict[MemberEpoch, set[frozenset[TopicIdPartition]]] = {}
        self._groups: dict[str, StoredConsumerGroup] = {}
        self._stored: dict[MemberEpoch, set[frozenset[TopicIdPartition]]] = {}

    @property
    def epochs(self) -> int:
        """Of all members, those in which one was assigned something."""
        return len(self._assigned)

    def assigned(self, request: ConsumerGroupHeartbeatRequest, response: ConsumerGroupHeartbeatResponse) -> None:
        """What a member receives."""
        if response.assignment is None:
            return
        assigned = frozenset(
            (topic.topic_id, number) for topic in response.assignment.topic_partitions for number in topic.partitions
        )
        epoch = request.group_id, response.member_id or request.member_id, response.member_epoch
        self._assigned.setdefault(epoch, set()).add(assigned)

    # -- what the log holds ---------------------------------------------------------------------------------------------

    def has(self, group_id: str) -> bool:
        """Whether the log that was read has records of it as a group of this protocol."""
        return group_id in self._groups

    def read(self, group_id: str, event: ConsumerEvent) -> None:
        """The next record. Epochs never go back, and a partition is one member's."""
        group = self._groups.setdefault(group_id, StoredConsumerGroup())
        match event:
            case GroupEpochStored(epoch):
                if epoch <= group.epoch:
                    self._failures.append(f"{group_id} goes from epoch {group.epoch} to {epoch}")
                group.epoch = epoch
            case GroupEpochRemoved():
                self._groups[group_id] = StoredConsumerGroup()
            case TargetEpochStored(epoch):
                if epoch > group.epoch:
                    self._failures.append(f"{group_id} has a target of epoch {epoch} in epoch {group.epoch}")
            case CurrentStored(member_id, current):
                self._store(group_id, group, member_id, current)
            case CurrentRemoved(member_id):
                group.members.pop(member_id, None)
                group.owners = {p: owner for p, owner in group.owners.items() if owner != member_id}

    def _store(self, group_id: str, group: StoredConsumerGroup, member_id: str, current: CurrentAssignment) -> None:
        before, epoch = group.members.get(member_id), current.member_epoch
        if before is not None and 0 < epoch < before.member_epoch:
            self._failures.append(f"{member_id} of {group_id} goes back from epoch {before.member_epoch} to {epoch}")
        group.members[member_id] = current
        group.owners = {p: owner for p, owner in group.owners.items() if owner != member_id}
        for partition in (*current.assigned, *current.pending_revocation):
            other = group.owners.setdefault(partition, member_id)
            if other != member_id:
                self._failures.append(f"{group_id} in epoch {group.epoch}: {partition} of {other} and of {member_id}")
        self._stored.setdefault((group_id, member_id, epoch), set()).add(frozenset(current.assigned))

    def check_commit(self, group_id: str, partition: TopicIdPartition, member_id: str, epoch: int) -> None:
        """The next record is one. It is a member's, in its epoch, or in one since it got the partition (KIP-1251); and the
        partition is no other member's."""
        group = self._groups[group_id]
        current, owner = group.members.get(member_id), group.owners.get(partition, member_id)
        name = f"{group_id} has a commit of {partition} by {member_id} in epoch {epoch}"
        if current is None:
            self._failures.append(f"{name}, which is no member")
        elif owner != member_id:
            self._failures.append(f"{name}: {owner} has it")
        elif epoch != current.member_epoch:
            since = current.assignment_epoch(partition)
            if since is None or not since <= epoch < current.member_epoch:
                self._failures.append(f"{name}, which has it since {since}, and is in epoch {current.member_epoch}")

    def check_assigned(self) -> None:
        """After all logs were read: they have what members received."""
        for epoch, assigned in self._assigned.items():
            for partitions in assigned - self._stored.get(epoch, set()):
                self._failures.append(f"{epoch} was assigned {sorted(partitions)}: not in the log")
