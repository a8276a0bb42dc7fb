"""A replica's log of the laboratory's cluster with transactions: the broker's own, on a disk in memory."""

from __future__ import annotations

from typing import ClassVar

from coterie.laboratory.cluster.disk_replica_log import DiskReplicaLog
from coterie.laboratory.cluster.replica_log import Batch
from coterie.records.batch import batches
from coterie.replication.stored_log import LeaderAppend


class TransactionalReplicaLog(DiskReplicaLog):
    """A batch of `append_as_leader` is the call that appends it; batches may be control batches."""

    fetched_bytes: ClassVar[int] = 600

    def append_of(self, batch: LeaderAppend) -> LeaderAppend:
        """See `DiskReplicaLog`."""
        return batch

    @staticmethod
    def rows(data: bytes) -> list[Batch]:
        """The batches, without their values."""
        return [
            Batch(header.base_offset, header.leader_epoch, "", data[at : at + header.size])
            for at, header in batches(data)
        ]
