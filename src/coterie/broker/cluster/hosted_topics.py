"""The broker's topics in a cluster, as the controller announces them, with the logs of the replicas that are here."""

from __future__ import annotations

import errno
import hashlib
from collections.abc import Callable, Iterable, Sequence

from coterie.broker.requests.turns import finish
from coterie.broker.settings import BrokerSettings
from coterie.broker.storage.flusher import Flusher
from coterie.broker.storage.topic import Partition, internal_partitions
from coterie.broker.storage.topics import Topics
from coterie.controller.changes.config_changes import SettingsChanged
from coterie.log.checked_files import UnreadableFile
from coterie.replication.replicas import Replica
from coterie.replication.states import ReplicaError, ReplicaLog, ReplicaRefusal, TopicPartition
from coterie.replication.stored_log import StoredReplicaLog

LACKS = (errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE)  # they may end


class HostedTopics:
    """A `ReplicaStorage` over `Topics`. ``role_changed`` is called for each partition whose role here is another;
    ``topics_deleted`` with the names of topics that are gone. ``known_of`` a topic: what ZooKeeper has of it, None
    where that has not been read. ``failed`` gets the error of a log that cannot be opened, made or removed, and of a folder
    that cannot be written: the broker must stop then, so that others lead."""

    def __init__(
        self,
        topics: Topics,
        flusher: Flusher,
        settings: BrokerSettings,
        cluster_id: str,
        now_ms: Callable[[], int],
        role_changed: Callable[[Partition], None],
        topics_deleted: Callable[[Iterable[str]], None],
        known_of: Callable[[str], SettingsChanged | None],
        failed: Callable[[Exception], None] = lambda error: None,
    ) -> None:
        self._topics, self._cluster_id, self._now_ms, self._settings = topics, cluster_id, now_ms, settings
        self._flusher, self._known_of, self._failed = flusher, known_of, failed
        self._role_changed, self._topics_deleted = role_changed, topics_deleted
        # A group's or a producer's partition is found by the number of all, also before all are announced.
        self._counts = internal_partitions(settings)

    # -- what the controller announces ----------------------------------------------------------------------------------

    def announced(self, partitions: Iterable[TopicPartition]) -> None:
        """These partitions exist: their topics are created here, or enlarged."""
        counts: dict[str, int] = {}
        for name, index in partitions:
            counts[name] = max(counts.get(name, self._counts.get(name, 0)), index + 1)
        for name, count in counts.items():
            self._announce(name, count)

    def _announce(self, name: str, count: int) -> None:
        known, topic = self._known_of(name), self._topics.by_name.get(name)
        if known is not None and known.exists:
            topic_id = known.topic_id or self._derived_id(name, known.created)
            self._topics.announce(name, count, topic_id, known.settings, known.topic_id)
        else:  # until its node has been read; one that is here already keeps its id
            topic_id = self._derived_id(name, -1) if topic is None else topic.topic_id
            self._topics.announce(name, count, topic_id, {} if known is None else known.settings)

    def _derived_id(self, name: str, created: int) -> bytes:
        """The id of a topic whose node has none: the same on every broker, and another for each topic of that name."""
        return hashlib.md5(f"{self._cluster_id}/{name}/{created}".encode(), usedforsecurity=False).digest()

    def forgotten(self, partitions: Iterable[TopicPartition]) -> None:
        """The topics of these partitions are deleted."""
        names = sorted({name for name, _ in partitions if name in self._topics.by_name})
        for name in names:
            try:
                finish(self._topics.deleting(self._topics.by_name[name]))
            except OSError as error:
                self._storage_failed(error)
        self._topics_deleted(names)

    def min_insync_replicas(self, topic_name: str) -> int:
        """As the topic has it, or else this broker."""
        topic = self._topics.by_name.get(topic_name)
        value = self._settings.topic_value("min.insync.replicas", {} if topic is None else topic.configs)
        assert isinstance(value, int)
        return value

    def _known(self, partition: TopicPartition) -> Partition | None:
        """None once its topic is deleted here."""
        topic = self._topics.by_name.get(partition[0])
        return None if topic is None or partition[1] >= len(topic.partitions) else topic.partitions[partition[1]]

    # -- the storage of replicas ----------------------------------------------------------------------------------------

    def open_log(self, partition: TopicPartition) -> tuple[ReplicaLog, int]:
        """The log of a replica, made where there is none, and its high watermark of the last checkpoint. Raises
        ReplicaRefusal KAFKA_STORAGE_ERROR."""
        try:
            self.announced([partition])
            log = self._topics.store(self._topics.partition(*partition))
        except (OSError, UnreadableFile) as error:
            self._storage_failed(error)
            raise ReplicaRefusal(ReplicaError.KAFKA_STORAGE_ERROR) from error
        return StoredReplicaLog(log, log.high_watermark, self._now_ms), log.high_watermark

    def roles_changed(self, replicas: Sequence[Replica]) -> None:
        """These have another role, another epoch, or none any more."""
        for replica in replicas:
            partition = self._known(replica.partition)
            if partition is None:
                continue
            partition.replica = None if replica.role is None else replica
            self._role_changed(partition)
            partition.appended()  # fetches that wait receive the error of a follower

    def high_watermark_moved(self, partition: TopicPartition, high_watermark: int) -> None:
        """The log calls the fetches that wait."""

    def after_sync(self, partition: TopicPartition, then: Callable[[], None]) -> bool:
        """Whether flush.messages wants what was appended on the disk; ``then`` is called once it is there, and not at all where
        the broker stops before."""
        hosted = self._known(partition)
        is_due = hosted is not None and hosted.sync_due()
        if is_due:
            assert hosted is not None
            self._flusher.after_sync(hosted.log, then)
        return is_due

    def remove_log(self, partition: TopicPartition) -> None:
        """The topic is deleted, or the replica is on another broker now: nothing is left of its records. Raises ReplicaRefusal
        KAFKA_STORAGE_ERROR."""
        hosted = self._known(partition)
        try:
            if hosted is None:
                self._topics.replica_logs.remove_waiting(partition)
            else:
                hosted.replica = None
                self._topics.replica_logs.remove(hosted)
        except OSError as error:
            self._storage_failed(error)
            raise ReplicaRefusal(ReplicaError.KAFKA_STORAGE_ERROR) from error

    def _storage_failed(self, error: OSError | UnreadableFile) -> None:
        """The broker must stop. Where nothing is only lacking, the writes of its logs may have failed as well, after they were
        acknowledged: no ISR with other members may count on them then."""
        if isinstance(error, OSError) and error.errno not in LACKS:
            self._topics.distrust_logs()
        self._failed(error)

    def save_high_watermarks(self) -> None:
        """Into replication-offset-checkpoint. Raises OSError. An error other than a lack of space or descriptors, such as of a
        file system that is read-only after an error, stops the broker: by this write, which is never long away, it notices that
        nothing can be stored any more."""
        try:
            self._topics.save_high_watermarks()
        except OSError as error:
            if error.errno not in LACKS:
                self._storage_failed(error)
            raise
