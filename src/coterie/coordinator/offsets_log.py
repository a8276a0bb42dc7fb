"""A shard's log: its records as batches of a partition of `__consumer_offsets`, and back when it is loaded."""

from __future__ import annotations

from coterie.coordinator.shard import Shard
from coterie.coordinator.stored import StoredRecord
from coterie.log.partition_log import PartitionLog
from coterie.records.batch import batches, decode_records, encode_batch
from coterie.wire.primitives import WireError

LOAD_CHUNK_BYTES = 4 * 1024 * 1024


class OffsetsLog:
    """One partition of `__consumer_offsets`."""

    def __init__(self, log: PartitionLog) -> None:
        self.log = log

    def append(self, records: list[StoredRecord], now_ms: int) -> None:
        """One batch. Raises Refusal when the log refuses it, OSError when the disk fails."""
        self.log.append(encode_batch([(now_ms, r.key, r.value, ()) for r in records]), now_ms)

    def load(self, shard: Shard) -> int:
        """Replays the whole log into the shard, a record that nobody can read stepped over; returns how many.

        Raises BatchError for a batch that cannot be unfolded."""
        offset, loaded = self.log.log_start_offset, 0
        while offset < self.log.end_offset:
            data = self.log.read(offset, LOAD_CHUNK_BYTES)
            for position, header in batches(data):
                if not header.is_control:
                    for record in decode_records(data, position, header):
                        loaded += 1
                        try:
                            shard.load(record.key, record.value, record.timestamp)
                        except WireError:
                            continue
                offset = header.last_offset + 1
        return loaded
