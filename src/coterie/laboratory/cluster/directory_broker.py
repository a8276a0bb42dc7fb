"""A broker of the laboratory's cluster whose log directory fails while it lives."""

from __future__ import annotations

from collections.abc import Collection

from coterie.controller import nodes
from coterie.laboratory.cluster.broker import ClusterBroker
from coterie.laboratory.cluster.process import ZOOKEEPER
from coterie.replication.states import ReplicaError, ReplicaLog, ReplicaRefusal, TopicPartition
from coterie.zookeeper.operations import Create, ZooKeeperError

ANNOUNCED_AGAIN_MS = 500


class DirectoryBroker(ClusterBroker):
    """A broker with one directory, as coterie's, stops where nothing can be written there. Of one with two, as Apache Kafka's
    may be, the replicas in the other one go on; it announces the failure, and responds to LeaderAndIsr with
    KAFKA_STORAGE_ERROR for the ``offline`` replicas. ``has_failed``: of the only directory. The next start has all directories
    again."""

    has_two_directories = has_failed = False
    offline: frozenset[TopicPartition] = frozenset()

    def start(self) -> None:
        self.has_failed, self.offline = False, frozenset()
        self.disk.is_read_only = False
        super().start()

    def fail_directory(self) -> None:
        """The only one, as a file system that is read-only after an error: what was written is there."""
        self.has_failed = self.disk.is_read_only = True

    def fail_fsync(self) -> None:
        """The broker stops at once; what was not synced is lost, and its next start does not trust its logs
        (`BootFile.forget`)."""
        self.lost_power = True
        for log in self.logs.values():
            log.power_cut()
        self._stop_at_once()

    def lose_directory(self, lost: Collection[TopicPartition]) -> None:
        """That of these replicas, of two (ReplicaManager.handleLogDirFailure)."""
        self.offline |= frozenset(lost)
        effects = [e for p in lost if (replica := self.replicas.partitions.pop(p, None)) for e in replica.stop()]
        self.roles_changed()
        self._act(effects)
        self._announce()

    def _announce(self) -> None:
        path, data = f"{nodes.LOG_DIR_EVENTS}/log_dir_event_", nodes.log_dir_event(self.number)
        try:
            if not self.network.is_cut(self.name, ZOOKEEPER):
                self.server.apply(self._session, Create(path, data, ephemeral=False, sequential=True))
                return
        except ZooKeeperError:
            pass  # of a session that has expired
        self.later(ANNOUNCED_AGAIN_MS, self._announce)

    def _stop_at_once(self) -> None:
        """Without a controlled shutdown: others lead once the session has ended."""
        self.alive = False
        self.server.close(self._session)

    def _checkpoint(self) -> None:
        """As `HostedTopics.save_high_watermarks`."""
        if self.has_failed:
            self._stop_at_once()
        else:
            super()._checkpoint()

    def _open_log(self, partition: TopicPartition) -> tuple[ReplicaLog, int]:
        self.check_directory(partition)
        return super()._open_log(partition)

    def _delete_log(self, partition: TopicPartition) -> None:
        self.check_directory(partition)
        super()._delete_log(partition)

    def check_directory(self, partition: TopicPartition) -> None:
        """Raises ReplicaRefusal."""
        if self.has_failed:
            self.later(0, self._stop_at_once)
        if self.has_failed or partition in self.offline:
            raise ReplicaRefusal(ReplicaError.KAFKA_STORAGE_ERROR)
