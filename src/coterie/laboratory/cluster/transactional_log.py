"""A replica's log of the laboratory's cluster with transactions: the broker's own, on a disk in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from coterie.laboratory.cluster.disk_replica_log import DiskReplicaLog
from coterie.laboratory.cluster.replica_log import Batch
from coterie.log.appended import Appended
from coterie.log.partition_log import PartitionLog
from coterie.records.batch import batches
from coterie.replication.states import NO_BYTE_LIMIT

_FETCHED_BYTES = 600
LeaderAppend = Callable[[PartitionLog], Appended]


class TransactionalReplicaLog(DiskReplicaLog):
    """A batch of `append_as_leader` is the call that appends it; batches may be control batches."""

    @property
    def log(self) -> PartitionLog:
        """The log as this life of the broker has opened it."""
        return self._stored.log

    @property
    def batches(self) -> list[Batch]:
        """All of them, as the files have them."""
        return _rows(b"".join(segment.file.read(0, segment.size) for segment in self._stored.log.segments))

    def append_as_leader(self, batch: LeaderAppend, leader_epoch: int) -> int:  # type: ignore[override]
        """See `ReplicaLog`. Raises Refusal."""
        return self._stored.append_as_leader(batch, leader_epoch)

    def read(self, offset: int, end_offset: int, max_bytes: int = NO_BYTE_LIMIT) -> Sequence[Batch]:
        """See `ReplicaLog`."""
        return _rows(b"".join(self._stored.read(offset, end_offset, min(max_bytes, _FETCHED_BYTES))))


def _rows(data: bytes) -> list[Batch]:
    rows = []
    for at, header in batches(data):
        whole = data[at : at + header.size]
        if len(whole) == header.size:
            rows.append(Batch(header.base_offset, header.leader_epoch, "", whole))
    return rows
