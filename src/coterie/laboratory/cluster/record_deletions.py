"""DeleteRecords and retention in the laboratory's cluster: logs begin later, and followers that were away start anew."""

from __future__ import annotations

from contextlib import suppress

from coterie.laboratory.cluster.broker import ClusterBroker
from coterie.laboratory.cluster.disk_replica_log import DiskReplicaLog
from coterie.laboratory.cluster.process import Answer
from coterie.log.retention import delete_records, retain
from coterie.replication.states import ReplicaRefusal, TopicPartition


class RecordDeletions:
    """What was deleted so far, ``count`` times by DeleteRecords and ``retained`` times by retention. ``values``: the records;
    ``floors``: the offset before which a replica may lack them, or still have them, where it led or came back before its
    leader's start had reached it."""

    def __init__(self) -> None:
        self.count = self.retained = 0
        self.values: dict[TopicPartition, set[str]] = {}
        self.floors: dict[TopicPartition, int] = {}

    def forget(self, partition: TopicPartition) -> None:
        """A new one of that name begins."""
        self.values.pop(partition, None)
        self.floors.pop(partition, None)

    def delete(self, broker: ClusterBroker, partition: TopicPartition, answer: Answer) -> None:
        """Up to an offset that all in sync have, where the broker leads the partition with a log on a disk."""
        try:
            log = broker.replicas.leader(partition).log
        except ReplicaRefusal as refusal:
            answer(refusal.error)
            return
        if isinstance(log, DiskReplicaLog) and log.start_offset < log.high_watermark:
            before_offset = broker.world.between(log.start_offset + 1, log.high_watermark)
            deleted = {batch.value for batch in log.batches if batch.offset < before_offset}
            self.values.setdefault(partition, set()).update(deleted)
            self.floors[partition] = max(self.floors.get(partition, 0), delete_records(log.log, before_offset))
            self.count += 1
        answer(None)

    def retain(self, now_ms: int, partition: TopicPartition, log: DiskReplicaLog) -> None:
        """Applies the retention.bytes of a replica's topic, where it has one."""
        start_offset, kept_bytes = log.start_offset, log.log.config.retention_bytes
        if kept_bytes < 0:
            return
        before = log.batches
        with suppress(OSError):
            retain(log.log, now_ms)
        if log.start_offset > start_offset:
            assert log.log.size >= kept_bytes, (
                f"{partition} keeps {log.log.size} bytes of the {kept_bytes} of its retention"
            )
            self.retained += 1
            deleted = {batch.value for batch in before if batch.offset < log.start_offset}
            self.values.setdefault(partition, set()).update(deleted)
            self.floors[partition] = max(self.floors.get(partition, 0), log.start_offset)
