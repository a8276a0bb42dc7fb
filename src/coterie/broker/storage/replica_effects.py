"""Effects of this broker's replicas, carried out: appends are acknowledged, fetches that wait are called, ISRs are written."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from coterie.broker.storage.topic import Partition
from coterie.log.log_state import Appended
from coterie.log.partition_log import PartitionLog
from coterie.replication.states import Effect, ReplicaError, TopicPartition
from coterie.replication.stored_log import LeaderAppend

Decided = Callable[[ReplicaError | None], None]


class AppendToken:
    """An append to a partition with replicas: the token of `Leader.append`. ``decided`` is called once, with None when all
    replicas in sync have the append; nobody waits where it is None."""

    __slots__ = ("decided",)

    def __init__(self, decided: Decided | None = None) -> None:
        self.decided = decided

    def decide(self, error: ReplicaError | None) -> None:
        """``error`` None: acknowledged. Calls ``decided`` at most once, however often it is called."""
        decided, self.decided = self.decided, None
        if decided is not None:
            decided(error)


def _without_driver(effects: Iterable[Effect]) -> None:
    raise AssertionError("a partition with replicas, and no replica manager")


class ReplicaEffects:
    """``act`` carries effects out, and ``notify`` calls the followers that wait for records of a partition: the cluster's
    replica manager sets both."""

    def __init__(self) -> None:
        self.act: Callable[[Iterable[Effect]], None] = _without_driver
        self.notify: Callable[[TopicPartition], None] = lambda partition: None

    def appended(self, partition: Partition, effects: Iterable[Effect]) -> None:
        """The leader of the partition has appended, with these effects."""
        self.act(effects)
        self.notify((partition.topic, partition.index))

    def append(self, partition: Partition, work: LeaderAppend, now_ms: int, decided: Decided | None = None) -> Appended:
        """Appends as the leader. Only a writer with ``decided`` waits for the other replicas, with acks=all; of a broker alone
        it is not called. Raises Refusal, OSError."""
        if not partition.in_cluster:
            return work(partition.log)
        appended, effects = partition.append(work, AppendToken(decided), now_ms, acks_all=decided is not None)
        self.appended(partition, effects)
        return appended

    def append_step(self, partition: Partition, work: LeaderAppend, now_ms: int, decided: Decided) -> None:
        """Appends one step of a transaction, with an fsync before the next where the topic's settings require it. Of a broker
        alone ``decided`` is called before this returns. Raises as `append`."""

        def step(log: PartitionLog) -> Appended:
            appended = work(log)
            partition.sync_if_due()
            return appended

        self.append(partition, step, now_ms, decided)
        partition.appended()
        if not partition.in_cluster:
            decided(None)
