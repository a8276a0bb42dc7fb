"""What must hold of the replicas of a cluster: while a story runs, at each of its steps, and once all is at rest."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from coterie.broker.storage.topic import INTERNAL_TOPICS, OFFSETS_TOPIC, TRANSACTIONS_TOPIC, Partition
from coterie.controller import nodes
from coterie.controller.assignment import ReplicaAssignment
from coterie.log.partition_log import PartitionLog
from coterie.records.batch import batches
from coterie.records.decoding import decode_records
from coterie.replication.leader import UNKNOWN_OFFSET, Leader
from coterie.replication.states import TopicPartition
from coterie.testing.cluster_brokers import ClusterBrokers, ClusteredBroker
from coterie.zookeeper import paths
from coterie.zookeeper.operations import List, Read, Znode
from coterie_conformance.stories.administration import MIN_ISR, RETENTION_BYTES, AdministeredTopic, Administration

READ_BYTES = 1 << 20
COMPACTED = (OFFSETS_TOPIC, TRANSACTIONS_TOPIC)


@dataclass(slots=True)
class CommittedLog:
    """The batches of a partition that were once before a high watermark: their bytes by base offset. ``checked``: up to where
    each broker's log was compared, in its present process."""

    end: int = 0
    batches: dict[int, bytes] = field(default_factory=dict)


class ClusterChecker:
    """Compares the logs of all brokers with each other, and roles and settings with what ZooKeeper has."""

    def __init__(self, cluster: ClusterBrokers, administration: Administration, *, rebalances_leaders: bool) -> None:
        self._cluster, self._administration = cluster, administration
        self._rebalances_leaders = rebalances_leaders
        self._committed: dict[tuple[TopicPartition, bytes], CommittedLog] = {}
        self._leaders: dict[tuple[TopicPartition, bytes, int], int] = {}  # by epoch
        self._may_lose: set[tuple[TopicPartition, bytes]] = set()
        self.elections = 0

    # -- at each step -----------------------------------------------------------------------------------------------------

    def look(self) -> None:
        """An epoch has one leader; what was once before a high watermark stays. Raises AssertionError."""
        for broker, topic_id, partition in self._partitions():
            replica = partition.replica
            assert replica is not None
            key = (partition.topic, partition.index), topic_id
            if isinstance(replica.role, Leader):
                number = self._leaders.setdefault((*key, replica.leader_epoch), broker.broker_id)
                assert number == broker.broker_id or not self._is_id_of(*key), (
                    f"{key[0]} is led by {number} and {broker.broker_id} in epoch {replica.leader_epoch}"
                )
                self._note_committed(key, partition.log, replica.role)

    def _is_id_of(self, partition: TopicPartition, topic_id: bytes) -> bool:
        """Whether it is the id of the present topic. Until a broker has read a topic's node, the topic has an id there that all
        topics of its name have had."""
        node = self._read(paths.topic(partition[0]))
        return node is not None and nodes.topic_id_of(node.data) == topic_id

    def _partitions(self) -> Iterator[tuple[ClusteredBroker, bytes, Partition]]:
        for broker in self._cluster.live():
            for topic in list(broker.broker.topics.by_name.values()):
                for partition in topic.partitions:
                    if partition.replica is not None:
                        yield broker, topic.topic_id, partition

    def _note_committed(self, key: tuple[TopicPartition, bytes], log: PartitionLog, leader: Leader) -> None:
        """Of a leader whose high watermark is that of its epoch."""
        committed = self._committed.setdefault(key, CommittedLog())
        if self._has_unclean_elections(key[0][0]):
            self._may_lose.add(key)
        end = log.high_watermark  # what is to be synced is not before it until then
        if leader.is_behind_epoch or end <= committed.end:
            return
        for base, data in _batches(log, max(committed.end, log.log_start_offset), end):
            committed.batches[base] = data
        committed.end = end

    def _has_unclean_elections(self, name: str) -> bool:
        topic = self._administration.topics.get(name)
        return topic is not None and topic.may_lose

    # -- at rest ----------------------------------------------------------------------------------------------------------

    def missing(self) -> str | None:
        """What is not at rest yet: deletions, reassignments, leaders, ISRs, high watermarks, transactions, settings, and what
        the controller has yet to do: a client may have given up waiting for it."""
        for broker in self._cluster.live():
            machine = None if broker.broker.member is None else broker.broker.member.driver.machine
            if machine is not None and machine.office is not None and machine.events:
                return f"the controller {broker.broker_id} has yet to do {list(machine.events)}"
        if deleting := self._children(nodes.DELETED_TOPICS):
            return f"topics {deleting} are not deleted"
        for partition, assignment in self._assignments().items():
            if assignment.is_reassigned:
                return f"the reassignment of {partition} has not ended: {assignment}"
            if text := self._not_whole(partition, assignment.replicas):
                return text
        return self._left_over() or self._unapplied_settings()

    def _children(self, path: str) -> list[str]:
        children = self._cluster.zookeeper.apply(List(path))
        assert isinstance(children, list)
        return children

    def _read(self, path: str) -> Znode | None:
        node = self._cluster.zookeeper.apply(Read(path))
        return node if isinstance(node, Znode) else None

    def _assignments(self) -> dict[TopicPartition, ReplicaAssignment]:
        assigned: dict[TopicPartition, ReplicaAssignment] = {}
        for name in sorted(self._children(paths.TOPICS)):
            node = self._read(paths.topic(name))
            if node is not None:
                assigned |= {(name, number): each for number, each in nodes.assignments_of(node.data).items()}
        return assigned

    def _replica(self, number: int, partition: TopicPartition) -> Partition | None:
        broker = self._cluster.brokers[number]
        topic = broker.broker.topics.by_name.get(partition[0]) if broker.is_running else None
        if topic is None or partition[1] >= len(topic.partitions):
            return None
        held = topic.partitions[partition[1]]
        return held if held.replica is not None and held.replica.role is not None else None

    def _not_whole(self, partition: TopicPartition, replicas: tuple[int, ...]) -> str | None:
        held = [self._replica(number, partition) for number in replicas]
        logs = [each.log for each in held if each is not None]
        roles = [each.replica.role for each in held if each is not None and each.replica is not None]
        leaders = [role for role in roles if isinstance(role, Leader)]
        if len(logs) != len(replicas) or len(leaders) != 1:
            return f"{partition} has {len(logs)} replicas on {replicas} and {len(leaders)} leaders"
        leader = leaders[0]
        if self._rebalances_leaders and leader.broker_id != replicas[0]:
            return f"{partition} on {replicas} is led by {leader.broker_id}"
        if open_transactions := logs[roles.index(leader)].transactions.open:
            return f"{partition} has open transactions of the producers {list(open_transactions)}"
        if set(leader.state.isr) != set(replicas):
            return f"{partition} on {replicas} has the ISR {leader.state.isr}"
        if any(remote.end_offset == UNKNOWN_OFFSET for remote in leader.remotes.values()):
            return f"a replica of {partition} has not fetched from the leader {leader.broker_id} yet"
        if partition[0] not in INTERNAL_TOPICS and any(log.end_offset != leader.high_watermark for log in logs):
            return (
                f"{partition} ends at {[log.end_offset for log in logs]}, its high watermark is {leader.high_watermark}"
            )
        return None

    def _left_over(self) -> str | None:
        assigned = self._assignments()
        for broker, _, held in self._partitions():
            partition = held.topic, held.index
            if partition not in assigned:
                return f"broker {broker.broker_id} has {partition}, which was deleted"
            if broker.broker_id not in assigned[partition].replicas:
                return f"broker {broker.broker_id} has {partition}, which is on {assigned[partition].replicas}"
        return None

    def _unapplied_settings(self) -> str | None:
        for broker, _, held in self._partitions():
            altered = self._altered(held.topic)
            assert held.replica is not None
            in_force = {
                MIN_ISR: str(held.replica.config.min_insync_replicas),
                RETENTION_BYTES: str(held.log.config.retention_bytes),
            }
            for key, value in in_force.items():
                if altered.get(key, value) != value:
                    return f"{held.topic} at broker {broker.broker_id} has {key}={value}, and {altered[key]} was set"
        for broker in self._cluster.live():
            office = broker.broker.member.driver.machine.office if broker.broker.member is not None else None
            for name in () if office is None else tuple(office.view.topics):
                assert office is not None
                if dict(office.view.topic_configs.get(name, {})) != self._altered(name):
                    return f"the controller {broker.broker_id} has old settings of {name}"
        return None

    def _altered(self, name: str) -> dict[str, str]:
        node = self._read(nodes.topic_config(name))
        return {} if node is None else dict(nodes.config_of(node.data))

    def states(self) -> dict[TopicPartition, Znode | None]:
        """The states of the partitions, as ZooKeeper has them: at rest none is written, however the clocks run."""
        return {partition: self._read(paths.partition_state(*partition)) for partition in self._assignments()}

    # -- the end ----------------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Once nothing is `missing`. Raises AssertionError."""
        for partition, assignment in self._assignments().items():
            held = [self._replica(number, partition) for number in assignment.replicas]
            logs = [each.log for each in held if each is not None]
            topic = self._administration.topics.get(partition[0])
            floor = max(log.log_start_offset for log in logs)
            if topic is None or not topic.has_retention:
                requested = self._administration.work.history.delete_requested
                most = requested.get(partition, 0) if topic is None else topic.deleted_before.get(partition[1], 0)
                assert floor <= most, f"{partition} begins at {floor}, and the deletion requested ends at {most}"
            if partition[0] in COMPACTED:  # each broker by itself
                continue
            end = min(log.end_offset for log in logs)  # of what groups go on writing some have more
            contents = [dict(_batches(log, floor, end)) for log in logs]
            for number, content in zip(assignment.replicas, contents, strict=True):
                assert content == contents[0], (
                    f"the logs of {partition} of {assignment.replicas[0]} and {number} differ"
                )
            self._check_committed(partition, floor, end, contents[0])
            if topic is not None:
                _check_administered(topic, self._administration, partition[1], floor, contents[0])

    def _check_committed(self, partition: TopicPartition, floor: int, end: int, content: dict[int, bytes]) -> None:
        topic_id = next(t for b, t, held in self._partitions() if (held.topic, held.index) == partition)
        key = partition, topic_id
        committed = self._committed.get(key, CommittedLog())
        if key in self._may_lose:
            return
        for base, data in committed.batches.items():
            if floor <= base < end:
                assert content.get(base) == data, f"{partition}: the batch at {base} was committed and is another now"


def _check_administered(
    topic: AdministeredTopic, administration: Administration, number: int, floor: int, content: dict[int, bytes]
) -> None:
    """What was acknowledged is there; what was acknowledged before a deletion is not."""
    if not topic.is_written:
        return
    values = dict(_values(content))
    former = administration.former.get(topic.name, set())
    for offset, value in values.items():
        assert value not in former, f"{topic.name}-{number} has {value!r} of a deleted topic at {offset}"
    if topic.may_lose:
        return
    for (partition, offset), value in topic.acknowledged.items():
        if partition == number and offset >= floor:
            has = values.get(offset)
            assert has == value, f"{value!r} was acknowledged at {topic.name}-{number} {offset}, where {has!r} is"


def _batches(log: PartitionLog, begin: int, end: int) -> Iterator[tuple[int, bytes]]:
    offset = begin
    while offset < end:
        data = log.read(offset, READ_BYTES)
        if not data:
            return
        for position, header in batches(data):
            if header.base_offset >= end:
                return
            if header.last_offset >= begin:
                yield header.base_offset, data[position : position + header.size]
            offset = header.last_offset + 1


def _values(content: dict[int, bytes]) -> Iterator[tuple[int, bytes]]:
    for data in content.values():
        for position, header in batches(data):
            if not header.is_control:
                for record in decode_records(data, position, header):
                    yield record.offset, bytes(record.value or b"")
