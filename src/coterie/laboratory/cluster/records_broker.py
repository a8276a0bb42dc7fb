"""A broker of the laboratory's cluster some of whose topics hold batches of records, of which coordinators keep their state."""

from __future__ import annotations

from coterie.laboratory.cluster.configured_broker import TopicConfiguredBroker
from coterie.laboratory.cluster.disk_replica_log import DiskReplicaLog
from coterie.laboratory.cluster.replica_log import MemoryReplicaLog
from coterie.laboratory.cluster.transactional_log import TransactionalReplicaLog
from coterie.log.partition_log import PartitionLog
from coterie.replication.states import ReplicaLog, TopicPartition


class RecordsBroker(TopicConfiguredBroker):
    """``record_topics``: their logs are on a disk in memory."""

    record_topics: frozenset[str]

    def _open_log(self, partition: TopicPartition) -> tuple[ReplicaLog, int]:
        if partition[0] in self.record_topics and partition not in self.logs:
            self.check_directory(partition)
            self.logs[partition] = self._new_log(partition)
        return super()._open_log(partition)

    def _new_log(self, partition: TopicPartition) -> TransactionalReplicaLog:
        return TransactionalReplicaLog(self.world, self.disk)

    def record_log(self, partition: TopicPartition) -> PartitionLog:
        """The log of this life of the broker."""
        log: MemoryReplicaLog | DiskReplicaLog = self.logs[partition]
        assert isinstance(log, TransactionalReplicaLog)
        return log.log

    def _epoch_of(self, partition: TopicPartition) -> int | None:
        """That in which this broker leads the partition."""
        leader = self.leader_of(partition)
        return None if leader is None else leader.state.leader_epoch
