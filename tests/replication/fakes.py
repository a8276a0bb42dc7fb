"""A replica's log in memory. What tests of replicas share: a log with records, a partition's state."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from coterie.log.leader_epochs import LeaderEpochCache
from coterie.replication.leader import Leader
from coterie.replication.states import NO_BYTE_LIMIT, Effect, PartitionState, ReplicaFetch, ReplicationConfig, WriteIsr

FETCHED_AT_MOST = 3  # batches: to catch up takes time
NOW = 1_000_000
PARTITION = ("orders", 0)
CONFIG = ReplicationConfig(min_insync_replicas=2, replica_lag_time_max_ms=10_000, replica_fetch_backoff_ms=500)


@dataclass(frozen=True, slots=True)
class Batch:
    """One record, with the epoch of the leader that appended it."""

    offset: int
    leader_epoch: int
    value: str


class MemoryReplicaLog:
    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.epochs = LeaderEpochCache()
        self.high_watermark = 0
        self.gap_offset: int | None = None

    @property
    def start_offset(self) -> int:
        return 0

    @property
    def end_offset(self) -> int:
        return len(self.batches)

    def begin_epoch(self, leader_epoch: int) -> None:
        self.epochs.assign(leader_epoch, len(self.batches))

    def append_as_leader(self, batch: str, leader_epoch: int) -> int:
        """Returns the batch's offset."""
        offset = len(self.batches)
        self.epochs.assign(leader_epoch, offset)
        self.batches.append(Batch(offset, leader_epoch, batch))
        return offset

    def append_as_follower(self, batches: Sequence[Batch]) -> None:
        """Raises AssertionError for a gap."""
        for batch in batches:
            assert batch.offset == len(self.batches), "a gap in a follower's log"
            self.epochs.assign(batch.leader_epoch, batch.offset)
            self.batches.append(batch)

    def read(self, offset: int, end_offset: int, max_bytes: int = NO_BYTE_LIMIT) -> Sequence[Batch]:
        if max_bytes <= 0:
            return []
        return self.batches[offset : min(end_offset, offset + FETCHED_AT_MOST)]

    def truncate_to(self, end_offset: int) -> None:
        """Removes the batches from ``end_offset`` on."""
        del self.batches[end_offset:]
        self.epochs.truncate_from_end(end_offset)
        if self.gap_offset is not None and self.gap_offset >= end_offset:
            self.gap_offset = None

    def start_anew_at(self, offset: int) -> None:
        raise AssertionError("no record is ever removed from the start of a log here")

    def advance_start(self, offset: int) -> None:
        assert offset == 0, "no record is ever removed from the start of a log here"


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
