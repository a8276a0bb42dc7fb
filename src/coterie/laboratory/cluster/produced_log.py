"""A replica's log of the laboratory's cluster whose batches are those of real producers: several records in each."""

from __future__ import annotations

from coterie.laboratory.cluster.replica_log import Batch
from coterie.laboratory.cluster.transactional_log import TransactionalReplicaLog
from coterie.records.batch import batches
from coterie.records.decoding import decode_records


class ProducedReplicaLog(TransactionalReplicaLog):
    """``batches`` has one row for each record, whose ``data`` is its whole batch."""

    @property
    def batches(self) -> list[Batch]:
        """All of them, as the files have them."""
        data = b"".join(segment.file.read(0, segment.size) for segment in self.log.segments)
        return [
            Batch(record.offset, header.leader_epoch, (record.value or b"").decode(), data[at : at + header.size])
            for at, header in batches(data)
            for record in decode_records(data, at, header)
        ]
