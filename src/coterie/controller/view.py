"""The cluster as its controller knows it (Kafka's ControllerContext)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from coterie.controller.assignment import ReplicaAssignment
from coterie.controller.config import ControllerConfig
from coterie.replication.states import PartitionState, TopicPartition


@dataclass(slots=True)
class ControllerView:
    """``live``: registered brokers and their epochs; ``leaving``: brokers that shut down. ``states``: of the partitions in
    ``assigned`` that have one. ``deleting``: topics queued for deletion; ``reassigning``: partitions whose replicas change.
    ``topic_configs``: the settings that topics have of their own."""

    config: ControllerConfig
    live: dict[int, int] = field(default_factory=dict)
    registrations: dict[int, str] = field(default_factory=dict)
    leaving: set[int] = field(default_factory=set)
    assigned: dict[TopicPartition, ReplicaAssignment] = field(default_factory=dict)
    states: dict[TopicPartition, PartitionState] = field(default_factory=dict)
    deleting: set[str] = field(default_factory=set)
    reassigning: set[TopicPartition] = field(default_factory=set)
    topic_configs: dict[str, Mapping[str, str]] = field(default_factory=dict)

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

    def assign(self, partition: TopicPartition, assignment: ReplicaAssignment) -> None:
        """The partition's replicas, in its state as well."""
        self.assigned[partition] = assignment
        if assignment.is_reassigned:
            self.reassigning.add(partition)
        if partition in self.states:
            self.states[partition] = with_replicas(self.states[partition], assignment)

    def remove_topic(self, topic: str) -> None:
        for partition in self.partitions_of(topic):
            del self.assigned[partition]
            self.states.pop(partition, None)
            self.reassigning.discard(partition)
        self.deleting.discard(topic)
        self.topic_configs.pop(topic, None)

    def unclean_leader_election_enable(self, topic: str) -> bool:
        own = self.topic_configs.get(topic, {}).get("unclean.leader.election.enable")
        return self.config.unclean_leader_election_enable if own is None else own.strip().lower() == "true"

    def min_insync_replicas(self, topic: str) -> int:
        own = self.topic_configs.get(topic, {}).get("min.insync.replicas", "").strip()
        return int(own) if own.isascii() and own.isdigit() else self.config.min_insync_replicas


def with_replicas(state: PartitionState, assignment: ReplicaAssignment) -> PartitionState:
    """The state with these replicas; leader and ISR stay."""
    return replace(
        state,
        replicas=assignment.replicas,
        adding_replicas=assignment.adding,
        removing_replicas=assignment.removing,
    )
