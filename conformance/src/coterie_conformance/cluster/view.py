"""What ZooKeeper has of a cluster: brokers, controller, leaders and in-sync replicas."""

from __future__ import annotations

import json

from coterie.controller import nodes
from coterie.replication.states import PartitionState, TopicPartition
from coterie.runtime.zookeeper_session import ZooKeeperSession, connect
from coterie.zookeeper import paths
from coterie.zookeeper.operations import List, Read, Znode

_SESSION_MS, _CONNECT_MS = 30_000, 20_000


class ZooKeeperView:
    """``zookeeper``: HOST:PORT. A session of the judge's own; its methods may be called from any thread."""

    def __init__(self, zookeeper: str) -> None:
        self._session = ZooKeeperSession(connect(zookeeper, _SESSION_MS, _CONNECT_MS), lambda _: None, lambda _: None)

    def close(self) -> None:
        """Ends the session."""
        self._session.close()

    def _read(self, path: str) -> str | None:
        node = self._session.apply(Read(path))
        return node.data if isinstance(node, Znode) else None

    def controller(self) -> int | None:
        """The broker in office, or the last one while its session lives; None between two."""
        data = self._read(nodes.CONTROLLER)
        return None if data is None else int(json.loads(data)["brokerid"])

    def names(self, path: str) -> list[str]:
        """The names of the nodes below that one."""
        names = self._session.apply(List(path))
        assert isinstance(names, list)
        return names

    def is_registered(self, broker_id: int) -> bool:
        """Whether the broker's session lives."""
        return self._read(paths.broker(broker_id)) is not None

    def assignment(self, topic: str) -> dict[int, tuple[int, ...]]:
        """Partition -> replicas; empty for a topic that is not there."""
        data = self._read(paths.topic(topic))
        return {} if data is None else nodes.replicas_of(data)

    def state(self, partition: TopicPartition) -> PartitionState | None:
        """Leader, epoch and ISR."""
        node = self._session.apply(Read(paths.partition_state(*partition)))
        replicas = self.assignment(partition[0]).get(partition[1], ())
        return nodes.state_of(node, replicas) if isinstance(node, Znode) else None

    def leader(self, partition: TopicPartition) -> int | None:
        """None where there is no leader that is registered."""
        state = self.state(partition)
        return state.leader if state is not None and self.is_registered(state.leader) else None

    def is_whole(self) -> bool:
        """Whether there is a controller, and each replica of each topic is in sync."""
        return self.controller() is not None and all(map(self.are_in_sync, self.names(paths.TOPICS)))

    def are_in_sync(self, topic: str) -> bool:
        """Whether each partition has all its replicas in the ISR."""
        states = [self.state((topic, number)) for number in self.assignment(topic)]
        return bool(states) and all(state is not None and set(state.isr) == set(state.replicas) for state in states)
