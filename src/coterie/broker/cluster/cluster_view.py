"""The cluster as one broker knows it: brokers, controller, leaders and replicas (Kafka's MetadataCache).

A broker alone leads every partition and is the controller. In a cluster the controller's UpdateMetadata fills the view.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from coterie.broker.storage.topic import Partition, Topic
from coterie.coordinator.partitioning import partition_for
from coterie.replication.states import NO_LEADER, PartitionState, TopicPartition
from coterie.wire.errors import ErrorCode, Refusal

LISTENER_NOT_FOUND_FROM = 6  # version of Metadata
_UNKNOWN = PartitionState(NO_LEADER, -1, (), 0, -1, ())  # of a partition that the controller has not announced yet


@dataclass(frozen=True, slots=True)
class LiveBroker:
    """A registered broker, with the address that clients connect to. ``has_listener``: whether that is a listener as this
    broker's; clients of this one can reach no other (such as a broker of Apache Kafka's that listens with SSL alone)."""

    broker_id: int
    host: str
    port: int
    rack: str | None = None
    has_listener: bool = True


@dataclass(frozen=True, slots=True)
class PartitionDescription:
    """A partition as Metadata describes it. ``error_code``: LEADER_NOT_AVAILABLE where the leader is not a live broker,
    LISTENER_NOT_FOUND where clients cannot reach it; then ``leader_id`` is -1. REPLICA_NOT_AVAILABLE, in version 0 alone: the
    lists lack a member that clients cannot reach. The lists are shared and must not be changed."""

    error_code: ErrorCode
    leader_id: int
    leader_epoch: int
    replica_ids: list[int]
    isr_ids: list[int]
    offline_ids: list[int]


class ClusterView:
    """``live``: the registered brokers by id, ``states``: what the controller has announced of each partition, ``offline``: the
    replicas that it called offline, of the partitions that have some; all are empty for a broker alone. ``on_update`` and
    ``on_forget`` are called after these."""

    def __init__(self, node_id: int, *, is_alone: bool = True) -> None:
        self.node_id, self.is_alone = node_id, is_alone
        self.controller_id = node_id if is_alone else -1
        self.live: dict[int, LiveBroker] = {}
        self._own = _of_one_broker(node_id, 0)  # of the partition that was described last
        self.states: dict[TopicPartition, PartitionState] = {}
        self.offline: dict[TopicPartition, tuple[int, ...]] = {}
        self._former: dict[TopicPartition, int] = {}  # the leaders before those in ``states``
        self.on_update: Callable[[Iterable[TopicPartition]], None] = lambda partitions: None
        self.on_forget: Callable[[Iterable[TopicPartition]], None] = lambda partitions: None

    def update(
        self,
        controller_id: int,
        live: Iterable[LiveBroker],
        states: Mapping[TopicPartition, PartitionState],
        offline: Mapping[TopicPartition, tuple[int, ...]] | None = None,
    ) -> None:
        """UpdateMetadata: all live brokers, and the partitions whose state has changed, with their offline replicas."""
        self.controller_id = controller_id
        self.live = {broker.broker_id: broker for broker in live}
        for partition, state in states.items():
            before = self.states.get(partition, _UNKNOWN).leader
            if before not in (NO_LEADER, state.leader):
                self._former[partition] = before
            self.offline.pop(partition, None)
        self.states.update(states)
        self.offline.update(offline or {})
        self.on_update(states)

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """The partitions of a deleted topic."""
        gone = list(partitions)
        for partition in gone:
            self.states.pop(partition, None)
            self._former.pop(partition, None)
            self.offline.pop(partition, None)
        self.on_forget(gone)

    def has_whole(self, topic: Topic) -> bool:
        """Whether the topic has all partitions that the controller has announced. Before, it has the replicas that LeaderAndIsr
        has put here, or waits for its settings: a client that saw these alone would share out a part of the topic."""
        name, count = topic.name, len(topic.partitions)
        return self.is_alone or ((name, 0) in self.states and (name, count) not in self.states)

    def leader_address(self, partition: TopicPartition) -> tuple[str, int] | None:
        """Where clients reach the leader; None while there is none."""
        live = self.live.get(self.states.get(partition, _UNKNOWN).leader)
        return None if live is None else (live.host, live.port)

    def former_leader(self, partition: TopicPartition) -> int | None:
        """The leader before this broker, which is one now; None where that is not known."""
        leader = self.states.get(partition, _UNKNOWN).leader
        return self._former.get(partition) if leader in (NO_LEADER, self.node_id) else leader

    def brokers(self, own_address: tuple[str, int]) -> list[LiveBroker]:
        """All that clients can reach. ``own_address``: that of this broker for the client of the request, where it is alone."""
        if self.is_alone:
            return [LiveBroker(self.node_id, *own_address)]
        return [broker for broker in self.live.values() if broker.has_listener]

    def _is_reachable(self, broker_id: int) -> bool:
        return broker_id in self.live and self.live[broker_id].has_listener

    def described(self, partition: Partition, metadata_version: int = LISTENER_NOT_FOUND_FROM) -> PartitionDescription:
        """The partition for DescribeTopicPartitions, and for Metadata of that version."""
        if self.is_alone:
            leader_epoch = partition.log.leader_epoch
            if leader_epoch != self._own.leader_epoch:
                self._own = _of_one_broker(self.node_id, leader_epoch)
            return self._own
        key = (partition.topic, partition.index)
        state, offline = self.states.get(key, _UNKNOWN), self.offline.get(key, ())
        error = self._error_of(state, metadata_version)
        is_led = self._is_reachable(state.leader)
        replica_ids, isr_ids = list(state.replicas), list(state.isr)
        if metadata_version == 0:
            replica_ids, isr_ids = ([r for r in ids if self._is_reachable(r)] for ids in (replica_ids, isr_ids))
        return PartitionDescription(
            error,
            state.leader if is_led else NO_LEADER,
            state.leader_epoch,
            replica_ids,
            isr_ids,
            [replica for replica in state.replicas if replica in offline or replica not in self.live],
        )

    def _error_of(self, state: PartitionState, metadata_version: int) -> ErrorCode:
        if self._is_reachable(state.leader):
            is_whole = metadata_version > 0 or all(map(self._is_reachable, (*state.replicas, *state.isr)))
            return ErrorCode.NONE if is_whole else ErrorCode.REPLICA_NOT_AVAILABLE
        is_live = state.leader in self.live and metadata_version >= LISTENER_NOT_FOUND_FROM
        return ErrorCode.LISTENER_NOT_FOUND if is_live else ErrorCode.LEADER_NOT_AVAILABLE

    def coordinator(self, topic: Topic | None, key: str, own_address: tuple[str, int]) -> LiveBroker:
        """The broker that leads the key's partition of ``topic``, `__consumer_offsets` or `__transaction_state`. Raises Refusal
        COORDINATOR_NOT_AVAILABLE where there is no such topic yet, or no broker that clients can reach leads the partition."""
        if self.is_alone:
            return LiveBroker(self.node_id, *own_address)
        if topic is not None:
            state = self.states.get((topic.name, partition_for(key, len(topic.partitions))), _UNKNOWN)
            if self._is_reachable(state.leader):
                return self.live[state.leader]
        raise Refusal(ErrorCode.COORDINATOR_NOT_AVAILABLE)


def _of_one_broker(node_id: int, leader_epoch: int) -> PartitionDescription:
    return PartitionDescription(ErrorCode.NONE, node_id, leader_epoch, [node_id], [node_id], [])
