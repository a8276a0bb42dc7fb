"""What must hold of groups whose coordinator moves, by what members received and what the log of `__consumer_offsets` holds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from coterie.assignors.blobs import decode_assignment
from coterie.coordinator.consumer.events import ConsumerEvent
from coterie.coordinator.events import Event, GroupRemoved, GroupStored, OffsetStored
from coterie.coordinator.state import TopicPartition
from coterie.coordinator.stored import from_record
from coterie.laboratory.cluster.consumer_group_checker import ConsumerGroupLogChecker
from coterie.laboratory.cluster.group_broker import READ_TOPIC_ID
from coterie.log.chunks import chunks
from coterie.log.partition_log import PartitionLog
from coterie.records.decoding import decode_keys_and_values
from coterie.wire.messages.groups.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from coterie.wire.messages.groups.sync_group import SyncGroupRequest, SyncGroupResponse
from coterie.wire.messages.stored.consumer_offsets import GroupMetadataValue

Generation = tuple[str, int]  # of a group
Committed = tuple[str, TopicPartition, int, str]  # group, partition, offset, metadata


@dataclass(slots=True)
class StoredGroup:
    """A group as far as its log has been read. ``offsets``: the acknowledged ones."""

    generation: int = 0
    members: dict[str, frozenset[TopicPartition]] = field(default_factory=dict)
    offsets: dict[TopicPartition, int] = field(default_factory=dict)


class ClusterGroupChecker:
    """Each violation is added to ``failures``. A commit's metadata is the generation and the id of the member that sent it."""

    def __init__(self, failures: list[str]) -> None:
        self._failures = failures
        self.consumers = ConsumerGroupLogChecker(failures)
        self._owners: dict[tuple[Generation, TopicPartition], str] = {}
        self._assigned: dict[tuple[Generation, str], frozenset[TopicPartition]] = {}
        self._acknowledged: set[Committed] = set()

    @property
    def generations(self) -> int:
        """Of all groups of the classic protocol, those in which a member was assigned something."""
        return len({generation for generation, _ in self._assigned})

    @property
    def commits(self) -> int:
        """Acknowledged offsets."""
        return len(self._acknowledged)

    # -- what members receive -------------------------------------------------------------------------------------------

    def assigned(self, request: SyncGroupRequest, response: SyncGroupResponse) -> None:
        """Of one generation a partition has one owner, whichever broker answers."""
        generation, member_id = (request.group_id, request.generation_id), request.member_id
        partitions = frozenset(decode_assignment(response.assignment))
        self._assigned[generation, member_id] = partitions
        owner = request.group_instance_id or member_id
        for partition in partitions:
            other = self._owners.setdefault((generation, partition), owner)
            if other != owner:
                self._failures.append(f"{partition} has owners {other} and {owner} in generation {generation}")

    def committed(self, request: OffsetCommitRequest, response: OffsetCommitResponse) -> None:
        """The offsets that are acknowledged."""
        accepted = {
            (topic.name, row.partition_index)
            for topic in response.topics
            for row in topic.partitions
            if not row.error_code
        }
        self._acknowledged |= {
            (request.group_id, partition, row.committed_offset, row.committed_metadata or "")
            for topic in request.topics
            for row in topic.partitions
            if (partition := (topic.name, row.partition_index)) in accepted
        }

    # -- what the log holds ---------------------------------------------------------------------------------------------

    def check_logs(self, logs: Mapping[int, PartitionLog]) -> None:
        """At rest; nothing was removed from the logs by then."""
        stored: dict[tuple[Generation, str], set[frozenset[TopicPartition]]] = {}
        commits: set[Committed] = set()
        for log in logs.values():
            groups: dict[str, StoredGroup] = {}
            for group_id, event in _events(log):
                group = groups.setdefault(group_id, StoredGroup())
                if isinstance(event, ConsumerEvent):
                    self.consumers.read(group_id, event)
                elif isinstance(event, GroupStored):
                    self._check_generation(group_id, group, event.value)
                    for member_id, partitions in group.members.items():
                        stored.setdefault(((group_id, group.generation), member_id), set()).add(partitions)
                elif isinstance(event, GroupRemoved):
                    groups[group_id] = StoredGroup()
                elif isinstance(event, OffsetStored):
                    commits.add(self._checked_commit(group_id, group, event))
        for (generation, member_id), partitions in self._assigned.items():
            if partitions not in stored.get((generation, member_id), set()):
                self._failures.append(f"{member_id} was assigned {sorted(partitions)} in {generation}: not in the log")
        self.consumers.check_assigned()
        for lost in sorted(self._acknowledged - commits):
            self._failures.append(f"an acknowledged commit is not in the log: {lost}")

    def _check_generation(self, group_id: str, group: StoredGroup, value: GroupMetadataValue) -> None:
        """Generations never go back; of one, each partition has one owner."""
        if value.generation < group.generation:
            self._failures.append(f"{group_id} goes back from generation {group.generation} to {value.generation}")
        group.generation = value.generation
        group.members = {m.member_id: frozenset(decode_assignment(m.assignment)) for m in value.members}
        owned = [partition for partitions in group.members.values() for partition in partitions]
        if len(owned) != len(set(owned)):
            self._failures.append(f"{group_id}: a partition has two owners in generation {value.generation}")

    def _checked_commit(self, group_id: str, group: StoredGroup, event: OffsetStored) -> Committed:
        """Offsets never go back behind one that was acknowledged. Behind another they may: a member that has waited too long
        for the replicas reads on from what they have."""
        partition, committed = (event.topic, event.partition), event.committed
        generation, member_id = committed.metadata.split(" ", 1)
        if self.consumers.has(group_id):
            self.consumers.check_commit(group_id, (READ_TOPIC_ID, event.partition), member_id, int(generation))
        else:
            self._check_owner(group_id, group, partition, member_id, int(generation))
        before = group.offsets.get(partition, 0)
        if committed.offset < before:
            self._failures.append(f"{group_id}: {partition} goes back from {before} to {committed.offset}")
        row = group_id, partition, committed.offset, committed.metadata
        if row in self._acknowledged:
            group.offsets[partition] = committed.offset
        return row

    def _check_owner(
        self, group_id: str, group: StoredGroup, partition: TopicPartition, member_id: str, generation: int
    ) -> None:
        """A commit is of the newest generation that was stored, or of a later one that no SyncGroup has ended; in that
        generation the partition is nobody else's."""
        name = f"a commit of {partition} by {member_id} in generation {generation}"
        if generation < group.generation:
            self._failures.append(f"{group_id} in generation {group.generation} has {name}")
        owners = [m for m, partitions in group.members.items() if partition in partitions]
        if generation == group.generation and owners not in ([], [member_id]):
            self._failures.append(f"{group_id} has {name}: {owners[0]} owns it")


def _events(log: PartitionLog) -> Iterator[tuple[str, Event]]:
    """Of each record, in their order, with its group."""
    for data, headers in chunks(log):
        for at, header in headers:
            for key, value, _ in decode_keys_and_values(data, at, header):
                read = from_record(key, value)
                assert read is not None, "a record of no group"
                yield read
