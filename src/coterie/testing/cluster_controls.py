"""What a test may do to the brokers of a cluster, and who leads what in it; a part of `LocalBroker`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from coterie.broker.storage.topic import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from coterie.testing.argument_checks import checked_arguments
from coterie.testing.cluster_brokers import ClusterBrokers, ClusteredBroker
from coterie.testing.loop_thread import START_S, WAIT_S

__tracebackhide__ = True  # for pytest: a failure is shown where the test called

T = TypeVar("T")


@checked_arguments
class ClusterControls(ABC):
    """Each method raises ValueError for a broker alone. ``_cluster`` is None until the start, and for a broker alone."""

    _cluster: ClusterBrokers | None

    @abstractmethod
    def _call(self, what: Callable[[], T]) -> T:
        """Carries it out on the brokers' loop."""

    @abstractmethod
    def _on_loop(self, work: Any, timeout_s: float) -> Any:
        """The result of a coroutine on the brokers' loop."""

    @abstractmethod
    def _until(self, done: Callable[[], T], wanted: str, why: Callable[[], str], timeout_s: float) -> T:
        """The first true result. Raises TimeoutError."""

    def kill(self, broker_id: int) -> None:
        """As SIGKILL. Its memory stays for `restart`, as a disk would."""
        self._on_loop(self._broker(broker_id).kill(), START_S)

    def restart(self, broker_id: int) -> None:
        """Starts a broker again, on its port, after `stop` or `kill`."""
        broker = self._broker(broker_id)
        if broker.is_running:
            raise ValueError(f"broker {broker_id} runs; stop or kill it first")
        self._on_loop(broker.start(), START_S)

    def pause(self, broker_id: int) -> None:
        """As SIGSTOP, as far as others see it: requests wait and nothing is sent, until `resume`."""
        self._call(self._broker(broker_id).pause)

    def resume(self, broker_id: int) -> None:
        """Ends what `pause` began."""
        self._call(self._broker(broker_id).resume)

    def partition(self, broker_id: int) -> None:
        """Cuts a broker off from the other brokers and from ZooKeeper, until `heal`; clients still reach it."""
        self._call(self._broker(broker_id).cut_off)

    def heal(self) -> None:
        """Ends every `partition` and `shrink_isr`, also of a broker that is down."""
        brokers = list(self._clustered().brokers.values())

        def heal() -> None:
            for broker in brokers:
                broker.heal()

        self._call(heal)

    def leader_of(self, topic: str, partition: int = 0, timeout_s: float = WAIT_S) -> int:
        """The id of the broker that leads the partition, once there is one."""
        cluster = self._clustered()
        leader = self._until(
            lambda: cluster.leader(topic, partition), f"{topic}-{partition} has no leader", lambda: "", timeout_s
        )
        assert leader is not None, "no leader, and no time-out"
        return leader.broker_id

    def coordinator_of(self, group: str, timeout_s: float = WAIT_S) -> int:
        """The id of the broker that coordinates the group, once there is one."""
        return self._coordinator(group, OFFSETS_TOPIC, timeout_s)

    def transaction_coordinator_of(self, transactional_id: str, timeout_s: float = WAIT_S) -> int:
        """The id of the broker that coordinates the transactional id, once there is one."""
        return self._coordinator(transactional_id, TRANSACTIONS_TOPIC, timeout_s)

    def _coordinator(self, key: str, coordinators_topic: str, timeout_s: float) -> int:
        cluster = self._clustered()
        coordinator = self._until(
            lambda: cluster.coordinator(key, coordinators_topic), f"{key} has no coordinator", lambda: "", timeout_s
        )
        assert coordinator is not None, "no coordinator, and no time-out"
        return coordinator.broker_id

    def in_sync(self, topic: str, partition: int = 0) -> set[int]:
        """The ids of the replicas in sync, as the partition's leader has them."""
        return self._call(lambda: self._clustered().in_sync(topic, partition))

    def move_leader(self, topic: str, partition: int, broker_id: int) -> None:
        """Has the controller make that broker, a replica in sync, the preferred leader of the partition, and elect it."""
        self._broker(broker_id)
        self._on_loop(self._clustered().move_leader(topic, partition, broker_id), START_S)

    def _move_coordinator(self, group: str) -> None:
        """To a replica in sync of the group's partition of `__consumer_offsets`. Raises ValueError where there is no other."""
        cluster, now = self._clustered(), self.coordinator_of(group)
        partition = self._call(lambda: cluster.partition_of(group))
        assert partition is not None, "a coordinator without a partition"
        others = self.in_sync(OFFSETS_TOPIC, partition) - {now}
        if not others:
            raise ValueError(f"broker {now}, the coordinator of {group}, has no other replica in sync")
        self.move_leader(OFFSETS_TOPIC, partition, min(others))

    def shrink_isr(self, topic: str, partition: int, to: Iterable[int]) -> None:
        """Takes the other replicas out of the ISR and cuts them off from the leader, which is among ``to``, until `heal`."""
        self._on_loop(self._clustered().shrink_isr(topic, partition, to), START_S)

    def _clustered(self) -> ClusterBrokers:
        if self._cluster is None:
            raise ValueError(
                "there is one broker here; begin with LocalBroker(brokers=3), or --brokers 3 beside --control"
            )
        return self._cluster

    def _broker(self, broker_id: int) -> ClusteredBroker:
        brokers = self._clustered().brokers
        if broker_id not in brokers:
            raise ValueError(f"there is no broker {broker_id}; there are {', '.join(map(str, brokers))}")
        return brokers[broker_id]
