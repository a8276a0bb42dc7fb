"""The partition of `__consumer_offsets` for a group (Kafka's GroupCoordinator.partitionFor)."""

from __future__ import annotations

from functools import lru_cache


@lru_cache(256)  # a group id may have 32 KiB
def java_hash(text: str) -> int:
    """Java's String.hashCode: over UTF-16 code units, in signed 32-bit arithmetic."""
    value = 0
    units = text.encode("utf-16-be")
    for at in range(0, len(units), 2):
        value = (31 * value + (units[at] << 8 | units[at + 1])) & 0xFFFF_FFFF
    return value - 0x1_0000_0000 if value & 0x8000_0000 else value


def partition_for(group_id: str, partitions: int) -> int:
    """Kafka's Utils.abs: the absolute hash, where that of the smallest integer counts as 0."""
    value = java_hash(group_id)
    return 0 if value == -(2**31) else abs(value) % partitions
