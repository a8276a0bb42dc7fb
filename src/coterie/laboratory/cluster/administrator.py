"""An administrator of the laboratory's cluster: creates, enlarges and deletes topics, reassigns partitions, elects leaders.

By the controller's API where a tool of Kafka 2.6 has it, by ZooKeeper's nodes where it has not, or where older tools do.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from coterie.controller import nodes
from coterie.controller.assignment import ReplicaAssignment
from coterie.controller.commands import AlterReassignments, ElectionType, ElectLeaders, ReassignmentsAltered
from coterie.laboratory.cluster.broker import ClusterBroker
from coterie.laboratory.cluster.process import Network, Process
from coterie.laboratory.cluster.record_deletions import RecordDeletions
from coterie.laboratory.cluster.topic_settings import UNCLEAN
from coterie.laboratory.zookeeper_server import ZooKeeperServer
from coterie.replication.states import TopicPartition
from coterie.wire.errors import ErrorCode
from coterie.zookeeper import paths
from coterie.zookeeper.operations import (
    ANY_VERSION,
    BadVersion,
    Create,
    List,
    NodeExists,
    Operation,
    Read,
    Write,
    Znode,
)

FOREVER_MS = 10**9
ORDERS = "orders"  # the topic that stays
EXTRA_TOPICS = ("extra-1", "extra-2", "extra-3")  # names are used again after a deletion
Target = tuple[int, ...]


class Administrator(Process):
    """``made`` is called with each new partition, ``deleted`` with each topic whose deletion was requested. ``targets``: what a
    reassignment may have left of a partition's replicas; None where that is not known, after a cancellation."""

    def __init__(self, network: Network, brokers: Mapping[int, ClusterBroker], server: ZooKeeperServer) -> None:
        super().__init__(network, "administrator")
        self.brokers, self._server = brokers, server
        self._session = server.connect(FOREVER_MS, lambda _: None)
        self.targets: dict[TopicPartition, set[Target] | None] = {}
        self._wishes: dict[TopicPartition, int] = {}  # how many reassignments and cancellations were wanted so far
        self.of_fixed_size: Container[str] = ()  # topics that are never enlarged
        self.made: Callable[[TopicPartition], None] = lambda _: None
        self.deleted: Callable[[str], None] = lambda _: None
        self.more_acts: tuple[Callable[[], None], ...] = ()
        self.record_deletions = RecordDeletions()
        self.unclean: set[str] = set()  # topics that may have had unclean elections since they were created
        self.topics = self.deletions = self.reassignments = self.alterations = 0

    # -- ZooKeeper ------------------------------------------------------------------------------------------------------

    def apply(self, operation: Operation) -> Any:
        """At once: the administrator has no faults of its own. Raises ZooKeeperError."""
        return self._server.apply(self._session, operation)

    def assignments(self, topic: str) -> tuple[dict[int, ReplicaAssignment], int]:
        """The assignments in a topic's node, with its version; ({}, -1) without one."""
        node = self.apply(Read(paths.topic(topic)))
        return (nodes.assignments_of(node.data), node.version) if isinstance(node, Znode) else ({}, -1)

    def partitions(self) -> dict[TopicPartition, ReplicaAssignment]:
        """The partitions of topics that are not deleted."""
        topics = set(self.apply(List(paths.TOPICS))) - self.deleting()
        return {(t, p): a for t in sorted(topics) for p, a in sorted(self.assignments(t)[0].items())}

    def deleting(self) -> set[str]:
        """The topics whose deletion is requested."""
        return set(self.apply(List(nodes.DELETED_TOPICS)))

    # -- what it does ---------------------------------------------------------------------------------------------------

    def act(self) -> None:
        """One of them."""
        acts = (
            self._change_topic,
            self._change_topic,
            self._enlarge,
            self._reassign,
            self._reassign,
            self._cancel,
            self.elect_preferred,
        )
        self.world.random.choice((*acts, *self.more_acts))()

    def create(self, topic: str, replicas: dict[int, Target]) -> None:
        """Creates the topic with these replicas by partition."""
        data = nodes.topic(replicas)
        self.apply(Create(paths.topic(topic), data, ephemeral=False))
        self.topics += 1
        self.unclean.discard(topic)
        for number in replicas:
            self.targets.pop((topic, number), None)
            self.made((topic, number))

    def some(self, count: int) -> Target:
        return tuple(self.world.random.sample(sorted(self.brokers), count))

    def _change_topic(self) -> None:
        """Creates it, or deletes it."""
        topic = self.world.random.choice(EXTRA_TOPICS)
        if topic in self.deleting():
            return
        if not self.assignments(topic)[0]:
            if not self._is_left_anywhere(topic):
                self.create(topic, {p: self.some(3) for p in range(self.world.between(1, 2))})
            return
        self.deletions += 1
        self.deleted(topic)
        with suppress(NodeExists):
            self.apply(Create(f"{nodes.DELETED_TOPICS}/{topic}", "", ephemeral=False))

    def _is_left_anywhere(self, topic: str) -> bool:
        """Whether a broker that was down has kept a log of a deleted topic of that name. Without topic ids, which Kafka has
        since 2.8, a broker that is down when a new one is created cannot know that its log is another's."""
        return any(partition[0] == topic for broker in self.brokers.values() for partition in broker.logs)

    def _enlarge(self) -> None:
        topics = sorted({topic for topic, _ in self.partitions()})
        topic = self.world.random.choice(topics)
        assigned, version = self.assignments(topic)
        if len(assigned) < 5 and topic not in self.of_fixed_size:
            number = len(assigned)
            data = nodes.assignments({**assigned, number: ReplicaAssignment(self.some(3))})
            with suppress(BadVersion):
                self.apply(Write(paths.topic(topic), data, version))
                self.targets.pop((topic, number), None)
                self.made((topic, number))

    def _reassign(self) -> None:
        self.reassign(self.world.random.choice(sorted(self.partitions())))

    def reassign(self, partition: TopicPartition) -> None:
        """Reassigns a partition to any three brokers."""
        target = self.some(3)
        wish = self._may_become(partition, target)
        if self.world.chance(0.2):
            with suppress(NodeExists):
                self.apply(Create(nodes.REASSIGNED, nodes.reassigned({partition: target}), ephemeral=False))
        else:
            answered = partial(self._altered, target, wish)
            self._request(partial(AlterReassignments, targets={partition: target}), answered)

    def _may_become(self, partition: TopicPartition, target: Target) -> int:
        before = {self.partitions()[partition].target}
        targets = self.targets.setdefault(partition, before)
        if targets is not None:
            targets.add(target)
        return self._wish(partition)

    def _wish(self, partition: TopicPartition) -> int:
        self._wishes[partition] = self._wishes.get(partition, 0) + 1
        return self._wishes[partition]

    def _altered(self, target: Target | None, wish: int, response: ReassignmentsAltered) -> None:
        """Nothing else is possible now, unless something else was wanted meanwhile."""
        for partition, error in response.results.items():
            if error is ErrorCode.NONE:
                self.reassignments += 1
                is_latest = wish == self._wishes[partition]
                if target is not None and is_latest and self.apply(Read(nodes.REASSIGNED)) is None:
                    self.targets[partition] = {target}

    def _cancel(self) -> None:
        reassigned = [p for p, assignment in self.partitions().items() if assignment.is_reassigned]
        if reassigned:
            partition = self.world.random.choice(reassigned)
            self.targets[partition] = None
            answered = partial(self._altered, None, self._wish(partition))
            self._request(partial(AlterReassignments, targets={partition: None}), answered)

    def alter(self, topic: str, altered: Mapping[str, str]) -> None:
        """IncrementalAlterConfigs of a topic."""
        settings = {**self.settings(topic), **altered}
        if settings.get(UNCLEAN) == "true":
            self.unclean.add(topic)
        self.alterations += 1
        self.apply(Write(nodes.topic_config(topic), nodes.settings(settings), ANY_VERSION))
        notice = nodes.config_change(nodes.TOPICS_KIND, topic)
        self.apply(Create(f"{nodes.CONFIG_CHANGES}/config_change_", notice, ephemeral=False, sequential=True))

    def settings(self, topic: str) -> dict[str, str]:
        """That the topic has of its own."""
        node = self.apply(Read(nodes.topic_config(topic)))
        return nodes.config_of(node.data) if isinstance(node, Znode) else {}

    def delete_records(self) -> None:
        """Deletes records of a partition at its leader, or at a broker that takes itself for it."""
        partition = self.world.random.choice([p for p in self.partitions() if p[0] not in self.of_fixed_size])
        leaders = [b for b in self.brokers.values() if b.alive and b.leader_of(partition) is not None]
        if leaders:
            leader = self.world.random.choice(leaders)
            delete = partial(self.record_deletions.delete, leader, partition)
            self.call(leader, delete, lambda _: None, lambda: None)

    def elect_preferred(self) -> None:
        """Has the preferred leaders of all partitions elected."""
        if self.world.chance(0.3):
            partitions = sorted(self.partitions())
            with suppress(NodeExists):
                self.apply(Create(nodes.PREFERRED_ELECTION, nodes.partitions(partitions), ephemeral=False))
        else:
            self._request(partial(ElectLeaders, kind=ElectionType.PREFERRED), lambda _: None)

    def _request(self, command: Callable[[object], Any], answered: Callable[[Any], None]) -> None:
        """To the controller, as far as one knows it is; not repeated."""
        controllers = [b for b in self.brokers.values() if b.alive and b.controller.office is not None]
        target = self.world.random.choice(controllers or [b for b in self.brokers.values() if b.alive] or [None])
        if target is not None:
            broker = target
            self.call(broker, lambda answer: broker.administer(command, answer), answered, lambda: None)
