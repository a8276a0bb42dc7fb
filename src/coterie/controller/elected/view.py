"""The settings of a broker's part in the cluster, and the cluster as its controller knows it (Kafka's ControllerContext)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from coterie.configuration.value_types import BOOLEAN, INT, UnfitValue
from coterie.controller.assignment import ReplicaAssignment
from coterie.replication.states import PartitionState, TopicPartition

Replica = tuple[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class ControllerConfig:
    """``registration``: what the broker's node holds. unclean.leader.election.enable and min.insync.replicas are the cluster's
    defaults for topics. ``lost_power``: the broker's folder has no clean-shutdown mark, and its machine was started since
    (another boot id): after the death of a process alone the system still has what it wrote. Or damage has left a gap in a
    log."""

    broker_id: int
    registration: str
    unclean_leader_election_enable: bool = False
    min_insync_replicas: int = 1
    auto_leader_rebalance_enable: bool = True
    leader_imbalance_per_broker_percentage: int = 10
    leader_imbalance_check_interval_seconds: int = 300
    lost_power: bool = False


@dataclass(slots=True)
class ControllerView:
    """``live``: registered brokers and their epochs; ``leaving``: brokers that shut down. ``states``: of the partitions in
    ``assigned`` that have one. ``deleting``: topics queued for deletion; ``reassigning``: partitions whose replicas change.
    ``topic_configs``: the settings that topics have of their own. ``offline_dirs``: by broker, the partitions whose replica
    there is in a log directory that has failed (Kafka's replicasOnOfflineDirs)."""

    config: ControllerConfig
    live: dict[int, int] = field(default_factory=dict)
    registrations: dict[int, str] = field(default_factory=dict)
    leaving: set[int] = field(default_factory=set)
    assigned: dict[TopicPartition, ReplicaAssignment] = field(default_factory=dict)
    states: dict[TopicPartition, PartitionState] = field(default_factory=dict)
    deleting: set[str] = field(default_factory=set)
    reassigning: set[TopicPartition] = field(default_factory=set)
    topic_configs: dict[str, Mapping[str, str]] = field(default_factory=dict)
    offline_dirs: dict[int, set[TopicPartition]] = field(default_factory=dict)

    @property
    def topics(self) -> set[str]:
        return {topic for topic, _ in self.assigned}

    def partitions_of(self, topic: str) -> list[TopicPartition]:
        return sorted(partition for partition in self.assigned if partition[0] == topic)

    def needs_leaders(self, topic: str) -> bool:
        """Whether its partitions get leaders: not while it is deleted, but for a reassignment that the deletion waits for."""
        return topic not in self.deleting or any(partition[0] == topic for partition in self.reassigning)

    def is_online(self, broker: int) -> bool:
        return broker in self.live and broker not in self.leaving

    def is_in_offline_dir(self, broker: int, partition: TopicPartition) -> bool:
        return partition in self.offline_dirs.get(broker, ())

    def is_replica_online(self, broker: int, partition: TopicPartition) -> bool:
        return self.is_online(broker) and not self.is_in_offline_dir(broker, partition)

    def live_replicas(self, partition: TopicPartition) -> Collection[int]:
        """The live brokers, also the ones in shutdown, but for brokers that have lost their replica of the partition."""
        lost = {broker for broker in self.offline_dirs if self.is_in_offline_dir(broker, partition)}
        return self.live.keys() - lost if lost else self.live

    def online_replicas(self, partition: TopicPartition) -> list[int]:
        """The partition's replicas that are online, in the order of the assignment."""
        return [r for r in self.assigned[partition].replicas if self.is_replica_online(r, partition)]

    def replicas_on(self, brokers: Collection[int]) -> list[Replica]:
        return [(p, r) for p, assignment in self.assigned.items() for r in assignment.replicas if r in brokers]

    def roles_assumed(
        self, broker: int, assumed: Collection[TopicPartition], failed: Collection[TopicPartition]
    ) -> list[Replica]:
        """A response to LeaderAndIsr: the replicas with a role, and those in a failed log directory. Returns the replicas that
        were not known to be lost. A replica that a reassignment or a deletion has removed meanwhile does not count."""
        before = self.offline_dirs.get(broker, set())
        hosted = {p for p in failed if p in self.assigned and broker in self.assigned[p].replicas}
        if before or hosted:
            self.offline_dirs[broker] = before - set(assumed) | hosted
        return [(partition, broker) for partition in sorted(hosted - before)]

    def assign(self, partition: TopicPartition, assignment: ReplicaAssignment) -> None:
        """The partition's replicas, in its state as well."""
        self.assigned[partition] = assignment
        self._forget_lost(partition, assignment.replicas)
        if assignment.is_reassigned:
            self.reassigning.add(partition)
        if partition in self.states:
            self.states[partition] = with_replicas(self.states[partition], assignment)

    def remove_topic(self, topic: str) -> None:
        """Forgets everything about the topic."""
        for partition in self.partitions_of(topic):
            del self.assigned[partition]
            self._forget_lost(partition, ())
            self.states.pop(partition, None)
            self.reassigning.discard(partition)
        self.deleting.discard(topic)
        self.topic_configs.pop(topic, None)

    def _forget_lost(self, partition: TopicPartition, replicas: Collection[int]) -> None:
        """A broker that is none of the ``replicas`` has nothing to lose."""
        for broker, partitions in self.offline_dirs.items():
            if broker not in replicas:
                partitions.discard(partition)

    def unclean_leader_election_enable(self, topic: str) -> bool:
        """By the topic's own setting, else by the broker's; False for one that cannot be read, as Kafka elects nobody then."""
        own = self.topic_configs.get(topic, {}).get("unclean.leader.election.enable")
        if own is None:
            return self.config.unclean_leader_election_enable
        try:
            return BOOLEAN.parse(own)
        except UnfitValue:
            return False

    def min_insync_replicas(self, topic: str) -> int:
        """By the topic's own setting; by the broker's where there is none, or one that cannot be read."""
        own = self.topic_configs.get(topic, {}).get("min.insync.replicas")
        try:
            return self.config.min_insync_replicas if own is None else INT.parse(own)
        except UnfitValue:
            return self.config.min_insync_replicas


def with_replicas(state: PartitionState, assignment: ReplicaAssignment) -> PartitionState:
    """The state with these replicas; leader and ISR stay."""
    return replace(
        state,
        replicas=assignment.replicas,
        adding_replicas=assignment.adding,
        removing_replicas=assignment.removing,
    )
