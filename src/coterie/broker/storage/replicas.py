"""A broker's replicas in a cluster, as its storage has them: their logs in the data folder, where ZooKeeper has the topics, and
their effects, carried out: appends are acknowledged, fetches that wait are called, ISRs are written.

A log of the folder waits until the controller has announced its partition: its topic may be deleted, or its replica may be on
another broker now. A partition without a replica here shares one empty log in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from coterie.broker.storage.topic import Partition, Topic
from coterie.broker.storage.topic_store import StoredLog, TopicStore
from coterie.log.config import LogConfig
from coterie.log.filesystem import MemoryFileSystem
from coterie.log.log_state import Appended
from coterie.log.partition_log import PartitionLog
from coterie.replication.states import Effect, ReplicaError, TopicPartition
from coterie.replication.stored_log import LeaderAppend

Decided = Callable[[ReplicaError | None], None]


class ReplicaLogs:
    """The logs in a folder, as ``store`` opens them."""

    def __init__(self, store: TopicStore) -> None:
        self._store = store
        self._waiting: dict[TopicPartition, PartitionLog] = {}
        self._without_replica: PartitionLog | None = None
        self._topic_ids: dict[str, bytes] = {}  # of topics whose nodes have one

    def load(self) -> None:
        """Opens the logs of the folder. Raises OSError, UnreadableFile."""
        self._waiting = self._store.load_replicas()

    def announced(self, topic: Topic, count: int, config: LogConfig, written_id: bytes | None) -> None:
        """The topic has so many partitions at least. ``written_id``: of its node; a log of another id is of a topic of that
        name that was deleted while this broker was down. Raises OSError."""
        if written_id is not None:
            self._topic_ids[topic.name] = written_id
        for index in range(len(topic.partitions), count):
            log = self._waiting.pop((topic.name, index), None)
            if log is not None and written_id is not None and not self._store.is_of_topic(log, written_id):
                log.close_files()
                self._store.set_aside(log.directory)
                log = None
            if log is not None:
                log.config = config
            partition = Partition(topic.name, index, log or self._empty(config), in_cluster=True)
            partition.is_stored = log is not None
            topic.partitions.append(partition)

    def _empty(self, config: LogConfig) -> PartitionLog:
        if self._without_replica is None:
            fs = MemoryFileSystem()
            self._without_replica = PartitionLog.open(fs, "without-replica", config, clean=True, high_watermark=0)
        return self._without_replica

    def store(self, partition: Partition, config: LogConfig) -> None:
        """The partition has a replica here: its log is in the folder. Raises OSError, UnreadableFile."""
        if not partition.is_stored:
            directory = f"{partition.topic}-{partition.index}"
            self._store.forget_checkpoints([directory])
            log = self._store.new_log(directory, config)
            if partition.topic in self._topic_ids:
                self._store.is_of_topic(log, self._topic_ids[partition.topic])
            partition.use_log(log, is_stored=True)

    def remove(self, partition: Partition) -> None:
        """The partition has no replica here any more. Raises OSError."""
        if partition.is_stored:
            log = partition.log
            partition.use_log(self._empty(log.config), is_stored=False)
            self._store.remove_log(log)

    def remove_waiting(self, partition: TopicPartition) -> None:
        """A partition that was not announced, if its log is here. Raises OSError."""
        log = self._waiting.pop(partition, None)
        if log is not None:
            self._store.remove_log(log)

    def waiting(self) -> Iterator[StoredLog]:
        """The logs of partitions that were not announced."""
        return ((topic, index, log) for (topic, index), log in self._waiting.items())


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
