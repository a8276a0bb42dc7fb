"""A shard's log: its records as batches of a partition of `__consumer_offsets`, and back when it is loaded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from coterie.coordinator.shard import Decision, Shard
from coterie.log.log_state import Appended
from coterie.log.partition_log import PartitionLog
from coterie.log.reading import SkippedBatch, chunks
from coterie.records.batch import TRANSACTIONAL_BIT, BatchError, BatchHeader
from coterie.records.compression import CompressionError
from coterie.records.decoding import decode_keys_and_values
from coterie.records.encoding import encode_batch
from coterie.records.markers import end_of_transaction, marker_of
from coterie.wire.primitives import WireError

DIVIDED_RECORDS = 1_000  # tombstones of at most some 560 bytes: well below message.max.bytes


class OffsetsLog:
    """One partition of `__consumer_offsets`. ``skipped``: batches that the last load could not read, wholly or in part."""

    def __init__(self, log: PartitionLog) -> None:
        self.log = log
        self.skipped: list[SkippedBatch] = []

    def batch_bytes(self) -> int:
        """What a batch may hold, its header included."""
        return self.log.config.largest_batch_bytes

    def append(self, decisions: Sequence[Decision]) -> Appended:
        """One batch; several for what may be divided. That comes alone, as do the records of a transaction. Returns the last
        one. Raises Refusal when the log refuses it, OSError when the disk fails."""
        last = decisions[-1]
        now_ms, producer = last.now_ms, last.outcome.producer
        items = [(decision.now_ms, r.key, r.value, ()) for decision in decisions for r in decision.records]
        if last.outcome.divisible and len(items) > DIVIDED_RECORDS:
            starts = range(0, len(items), DIVIDED_RECORDS)
            return [self.log.append_records(items[at : at + DIVIDED_RECORDS], now_ms) for at in starts][-1]
        if producer is None:
            return self.log.append_records(items, now_ms)
        assert len(decisions) == 1, "a transaction's records share their batch with others"
        producer_id, epoch = producer
        batch = encode_batch(
            items, producer_id=producer_id, producer_epoch=epoch, base_sequence=0, attributes=TRANSACTIONAL_BIT
        )
        return self.log.append_own(batch, now_ms)

    def append_marker(
        self,
        producer_id: int,
        epoch: int,
        committed: bool,
        coordinator_epoch: int,
        now_ms: int,
        *,
        bumps_epoch: bool = False,
    ) -> Appended:
        """The end of a transaction; ``bumps_epoch`` as in `PartitionLog.append_own`. Raises as `append`."""
        marker = end_of_transaction(producer_id, epoch, committed, coordinator_epoch, now_ms)
        return self.log.append_own(marker, now_ms, bumps_epoch=bumps_epoch)

    def load(self, shard: Shard) -> int:
        """Replays the whole log into the shard, but for what is ``skipped``; returns the number of records."""
        return sum(self.load_by_chunks(shard))

    def load_by_chunks(self, shard: Shard) -> Iterator[int]:
        """The same in pieces of some milliseconds, so that a driver can do other things in between."""
        self.skipped = []
        for data, headers in chunks(self.log):
            loaded = 0
            for position, header in headers:
                try:
                    loaded += self._load_batch(shard, data, position, header)
                except (BatchError, CompressionError, WireError) as error:
                    self.skipped.append(SkippedBatch(header.base_offset, header.last_offset, str(error)))
            yield loaded

    @staticmethod
    def _load_batch(shard: Shard, data: bytes, position: int, header: BatchHeader) -> int:
        """The number of records. Raises BatchError, CompressionError where none can be read, WireError once all that can be
        are loaded."""
        if header.is_control:
            committed = marker_of(data, position, header)
            if committed is not None:
                shard.end_transaction(header.producer_id, committed, header.max_timestamp)
            return 0
        producer_id, epoch = (header.producer_id, header.producer_epoch) if header.is_transactional else (-1, -1)
        records = decode_keys_and_values(data, position, header)
        failed: WireError | None = None
        for key, value, timestamp_ms in records:
            try:
                shard.load(key, value, timestamp_ms, producer_id, epoch)
            except WireError as error:
                failed = error
        if failed is not None:
            raise failed
        return len(records)
