"""The cluster as one broker knows it: brokers, controller, leaders and replicas (Kafka's MetadataCache).

A broker alone leads every partition and is the controller. In a cluster the controller's UpdateMetadata fills the view.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from coterie.broker.topic import Partition, Topic
from coterie.coordinator.partitioning import partition_for
from coterie.replication.states import NO_LEADER, PartitionState, TopicPartition
from coterie.wire.errors import ErrorCode, Refusal

_UNKNOWN = PartitionState(NO_LEADER, -1, (), 0, -1, ())  # of a partition that the controller has not announced yet


@dataclass(frozen=True, slots=True)
class LiveBroker:
    """A registered broker, with the address that clients connect to."""

    broker_id: int
    host: str
    port: int
    rack: str | None = None


@dataclass(frozen=True, slots=True)
class PartitionDescription:
    """A partition as Metadata describes it. ``error_code``: LEADER_NOT_AVAILABLE where the leader is not a live broker; then
    ``leader_id`` is -1. The lists are shared and must not be changed."""

    error_code: ErrorCode
    leader_id: int
    leader_epoch: int
    replica_ids: list[int]
    isr_ids: list[int]
    offline_ids: list[int]


class ClusterView:
    """``live``: the registered brokers by id, ``states``: what the controller has announced of each partition; both are empty
    for a broker alone. ``on_update`` and ``on_forget`` are called after these."""

    def __init__(self, node_id: int, *, is_alone: bool = True) -> None:
        self.node_id, self.is_alone = node_id, is_alone
        self.controller_id = node_id if is_alone else -1
        self.live: dict[int, LiveBroker] = {}
        self._own = _of_one_broker(node_id, 0)  # of the partition that was described last
        self.states: dict[TopicPartition, PartitionState] = {}
        self._former: dict[TopicPartition, int] = {}  # the leaders before those in ``states``
        self.on_update: Callable[[Iterable[TopicPartition]], None] = lambda partitions: None
        self.on_forget: Callable[[Iterable[TopicPartition]], None] = lambda partitions: None

    def update(
        self, controller_id: int, live: Iterable[LiveBroker], states: Mapping[TopicPartition, PartitionState]
    ) -> None:
        """UpdateMetadata: all live brokers, and the partitions whose state has changed."""
        self.controller_id = controller_id
        self.live = {broker.broker_id: broker for broker in live}
        for partition, state in states.items():
            before = self.states.get(partition, _UNKNOWN).leader
            if before not in (NO_LEADER, state.leader):
                self._former[partition] = before
        self.states.update(states)
        self.on_update(states)

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """The partitions of a deleted topic."""
        gone = list(partitions)
        for partition in gone:
            self.states.pop(partition, None)
            self._former.pop(partition, None)
        self.on_forget(gone)

    def leader_address(self, partition: TopicPartition) -> tuple[str, int] | None:
        """Where clients reach the leader; None while there is none."""
        live = self.live.get(self.states.get(partition, _UNKNOWN).leader)
        return None if live is None else (live.host, live.port)

    def former_leader(self, partition: TopicPartition) -> int | None:
        """The leader before this broker, which is one now; None where that is not known."""
        leader = self.states.get(partition, _UNKNOWN).leader
        return self._former.get(partition) if leader in (NO_LEADER, self.node_id) else leader

    def brokers(self, own_address: tuple[str, int]) -> list[LiveBroker]:
        """All of them. ``own_address``: that of this broker for the client that asks, where it is alone."""
        return [LiveBroker(self.node_id, *own_address)] if self.is_alone else list(self.live.values())

    def described(self, partition: Partition) -> PartitionDescription:
        """The partition for Metadata and DescribeTopicPartitions."""
        if self.is_alone:
            leader_epoch = partition.log.leader_epoch
            if leader_epoch != self._own.leader_epoch:
                self._own = _of_one_broker(self.node_id, leader_epoch)
            return self._own
        state = self.states.get((partition.topic, partition.index), _UNKNOWN)
        is_led = state.leader in self.live
        return PartitionDescription(
            ErrorCode.NONE if is_led else ErrorCode.LEADER_NOT_AVAILABLE,
            state.leader if is_led else NO_LEADER,
            state.leader_epoch,
            list(state.replicas),
            list(state.isr),
            [replica for replica in state.replicas if replica not in self.live],
        )

    def coordinator(self, topic: Topic | None, key: str, own_address: tuple[str, int]) -> LiveBroker:
        """The broker that leads the key's partition of ``topic``, `__consumer_offsets` or `__transaction_state`. Raises Refusal
        COORDINATOR_NOT_AVAILABLE where there is no such topic yet, or no live broker leads the partition."""
        if self.is_alone:
            return LiveBroker(self.node_id, *own_address)
        if topic is not None:
            state = self.states.get((topic.name, partition_for(key, len(topic.partitions))), _UNKNOWN)
            if state.leader in self.live:
                return self.live[state.leader]
        raise Refusal(ErrorCode.COORDINATOR_NOT_AVAILABLE)


def _of_one_broker(node_id: int, leader_epoch: int) -> PartitionDescription:
    return PartitionDescription(ErrorCode.NONE, node_id, leader_epoch, [node_id], [node_id], [])
