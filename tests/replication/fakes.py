"""What tests of replicas share: a log with records, a partition's state."""

from __future__ import annotations

from collections.abc import Iterable

from coterie.laboratory.cluster.replica_log import Batch, MemoryReplicaLog
from coterie.replication.states import PartitionState, ReplicationConfig

PARTITION = ("orders", 0)
CONFIG = ReplicationConfig(min_insync_replicas=2, replica_lag_time_max_ms=10_000, replica_fetch_backoff_ms=500)


def log_of(epochs: Iterable[int]) -> MemoryReplicaLog:
    """A log with one record in each of the epochs."""
    log = MemoryReplicaLog()
    log.append_as_follower([Batch(offset, epoch, f"{epoch}:{offset}") for offset, epoch in enumerate(epochs)])
    return log


def state(leader: int = 1, epoch: int = 5, isr: tuple[int, ...] = (1, 2, 3), version: int = 7) -> PartitionState:
    return PartitionState(leader, epoch, isr, 1, version, (1, 2, 3))
