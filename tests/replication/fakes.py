"""What tests of replicas share: a log with records, a partition's state."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from coterie.replication.leader import Leader
from coterie.replication.states import Effect, PartitionState, ReplicaFetch, ReplicationConfig, WriteIsr
from tests.replication.memory_log import Batch, MemoryReplicaLog

NOW = 1_000_000
PARTITION = ("orders", 0)
CONFIG = ReplicationConfig(min_insync_replicas=2, replica_lag_time_max_ms=10_000, replica_fetch_backoff_ms=500)


def log_of(epochs: Iterable[int]) -> MemoryReplicaLog:
    """A log with one record in each of the epochs."""
    log = MemoryReplicaLog()
    log.append_as_follower([Batch(offset, epoch, f"{epoch}:{offset}") for offset, epoch in enumerate(epochs)])
    return log


def state(leader: int = 1, epoch: int = 5, isr: tuple[int, ...] = (1, 2, 3), version: int = 7) -> PartitionState:
    return PartitionState(leader, epoch, isr, 1, version, (1, 2, 3))


def leader(
    log: MemoryReplicaLog, of: PartitionState | None = None, high_watermark: int = 0, at_least: int = 2
) -> Leader:
    config = replace(CONFIG, min_insync_replicas=at_least)
    made = Leader(1, PARTITION, log, config, of or state(), high_watermark, NOW)
    made.begin(NOW)
    return made


def fetch(by: int, offset: int, epoch: int = 5) -> ReplicaFetch:
    return ReplicaFetch(by, epoch, offset, 0)


def written(effects: list[Effect]) -> list[tuple[int, ...]]:
    return [e.state.isr for e in effects if isinstance(e, WriteIsr)]
