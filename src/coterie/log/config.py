"""A topic's settings as its logs need them."""

from __future__ import annotations

from dataclasses import dataclass

NO_LIMIT = 2**63 - 1


@dataclass(slots=True)
class LogConfig:
    """Names and defaults are Kafka's. ``compression`` None keeps what the producer chose; ``level`` None is the
    codec's default."""

    segment_bytes: int = 1024**3
    segment_ms: int = 604_800_000
    retention_bytes: int = -1
    retention_ms: int = 604_800_000
    max_message_bytes: int = 1_048_588
    max_decompressed_message_bytes: int = 2**31 - 9
    index_interval_bytes: int = 4096
    flush_messages: int = NO_LIMIT
    flush_ms: int = NO_LIMIT
    append_time: bool = False
    timestamp_before_max_ms: int = NO_LIMIT
    timestamp_after_max_ms: int = NO_LIMIT
    compression: int | None = None
    level: int | None = None
    downconversion: bool = True
    preallocate: bool = False
    cleanup_delete: bool = True
    cleanup_compact: bool = False
    delete_retention_ms: int = 86_400_000
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = NO_LIMIT

    @property
    def largest_batch_bytes(self) -> int:
        """A larger batch is refused, its header included."""
        return min(self.max_message_bytes, self.segment_bytes)

    @property
    def roll_ms(self) -> int:
        """The age at which the active segment is closed: a compacted log closes it in time for max.compaction.lag.ms."""
        return min(self.segment_ms, self.max_compaction_lag_ms) if self.cleanup_compact else self.segment_ms
