"""The settings of the sharing machine."""

from __future__ import annotations

from dataclasses import dataclass, field

from coterie.machines.backoff import Backoff

BATCH_OPTIMIZED, RECORD_LIMIT = 0, 1  # share.acquire.mode (KIP-1206)


@dataclass(frozen=True, slots=True)
class SharingConfig:
    """Kafka's settings of a share consumer; times in ms. ``acquire_mode``: BATCH_OPTIMIZED acquires whole batches, RECORD_LIMIT
    never more than ``max_poll_records``, of one broker at a time."""

    group_id: str
    member_id: str
    min_bytes: int = 1
    max_bytes: int = 52_428_800
    max_wait_ms: int = 500
    max_poll_records: int = 500
    acquire_mode: int = BATCH_OPTIMIZED
    check_crcs: bool = True
    backoff: Backoff = field(default_factory=Backoff)
