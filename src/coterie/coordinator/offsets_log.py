"""A shard's log: its records as batches of a partition of `__consumer_offsets`, and back when it is loaded."""

from __future__ import annotations

from contextlib import suppress

from coterie.coordinator.shard import Decision, Shard
from coterie.log.partition_log import PartitionLog
from coterie.records.batch import (
    TRANSACTIONAL_BIT,
    BatchHeader,
    batches,
    decode_records,
    encode_batch,
    end_of_transaction,
    ends_transaction,
)
from coterie.wire.primitives import WireError

LOAD_CHUNK_BYTES = 4 * 1024 * 1024


class OffsetsLog:
    """One partition of `__consumer_offsets`."""

    def __init__(self, log: PartitionLog) -> None:
        self.log = log

    def append(self, decision: Decision) -> None:
        """One batch. Raises Refusal when the log refuses it, OSError when the disk fails."""
        now_ms = decision.now_ms
        items = [(now_ms, r.key, r.value, ()) for r in decision.records]
        if decision.outcome.producer is None:
            self.log.append_own(encode_batch(items), now_ms)
            return
        producer_id, epoch = decision.outcome.producer
        batch = encode_batch(
            items, producer_id=producer_id, producer_epoch=epoch, base_sequence=0, attributes=TRANSACTIONAL_BIT
        )
        self.log.append_own(batch, now_ms)

    def append_marker(self, producer_id: int, epoch: int, committed: bool, coordinator_epoch: int, now_ms: int) -> None:
        """The end of a transaction. Raises as `append`."""
        self.log.append_own(end_of_transaction(producer_id, epoch, committed, coordinator_epoch, now_ms), now_ms)

    def load(self, shard: Shard) -> int:
        """Replays the whole log into the shard, a record that nobody can read stepped over; returns how many.

        Raises BatchError for a batch that cannot be unfolded."""
        offset, loaded = self.log.log_start_offset, 0
        while offset < self.log.end_offset:
            data = self.log.read(offset, LOAD_CHUNK_BYTES)
            for position, header in batches(data):
                if header.is_control:
                    for record in decode_records(data, position, header) if header.record_count else ():
                        committed = ends_transaction(record)
                        if committed is not None:
                            shard.end_transaction(header.producer_id, committed, record.timestamp)
                else:
                    loaded += self._load_batch(shard, data, position, header)
                offset = header.last_offset + 1
        return loaded

    @staticmethod
    def _load_batch(shard: Shard, data: bytes, position: int, header: BatchHeader) -> int:
        producer_id = header.producer_id if header.is_transactional else -1
        records = decode_records(data, position, header)
        for record in records:
            with suppress(WireError):
                shard.load(record.key, record.value, record.timestamp, producer_id)
        return len(records)
