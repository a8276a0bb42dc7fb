"""The data of replication: what the controller decides of a partition, and what replicas request of each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Protocol

from coterie.log.leader_epochs import EndOfEpoch, LeaderEpochCache

TopicPartition = tuple[str, int]
NO_LEADER = -1
LEADER_DURING_DELETE = -2  # in UpdateMetadata: the partition's topic is deleted
NO_EPOCH = -1
EPOCH_DURING_DELETE = -2  # in StopReplica: whatever the replica's epoch is
NO_BYTE_LIMIT = 2**31 - 1


@dataclass(frozen=True, slots=True)
class PartitionState:
    """A partition's state node in ZooKeeper, with the version of the node. The version fences writers of the ISR: a write that
    names another version is refused. A reassignment (KIP-455) adds and removes some of the ``replicas``."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    controller_epoch: int
    version: int
    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...] = ()
    removing_replicas: tuple[int, ...] = ()

    def within_assignment(self) -> PartitionState:
        """Without the members of the ISR that are no longer assigned: Kafka's controller completes a reassignment with the
        target's ``replicas`` first, and takes the others out of the ISR in a later request."""
        assigned = tuple(r for r in self.isr if r in self.replicas)
        return self if assigned == self.isr else replace(self, isr=assigned)

    def check_epoch(self, current_leader_epoch: int) -> None:
        """KIP-320; NO_EPOCH is not checked. Raises ReplicaRefusal FENCED_LEADER_EPOCH for a replica or client of an earlier
        leader, and UNKNOWN_LEADER_EPOCH for one that knows of a later one."""
        if NO_EPOCH < current_leader_epoch < self.leader_epoch:
            raise ReplicaRefusal(ReplicaError.FENCED_LEADER_EPOCH)
        if current_leader_epoch > self.leader_epoch:
            raise ReplicaRefusal(ReplicaError.UNKNOWN_LEADER_EPOCH)


@dataclass(frozen=True, slots=True)
class StoppedReplica:
    """``leader_epoch``: that of the partition, EPOCH_DURING_DELETE while its topic is deleted, or NO_EPOCH."""

    leader_epoch: int
    delete: bool = False


@dataclass(frozen=True, slots=True)
class ReplicationConfig:
    """The settings min.insync.replicas, replica.lag.time.max.ms and replica.fetch.backoff.ms."""

    min_insync_replicas: int = 1
    replica_lag_time_max_ms: int = 30_000
    replica_fetch_backoff_ms: int = 1_000


class ReplicaError(Enum):
    """Kafka's error codes, by name, that replicas return."""

    UNKNOWN_SERVER_ERROR = -1
    NOT_LEADER_OR_FOLLOWER = 6
    OFFSET_OUT_OF_RANGE = 1
    STALE_CONTROLLER_EPOCH = 11
    NOT_ENOUGH_REPLICAS = 19
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20
    KAFKA_STORAGE_ERROR = 56
    FENCED_LEADER_EPOCH = 74
    UNKNOWN_LEADER_EPOCH = 75
    STALE_BROKER_EPOCH = 77


class ReplicaRefusal(Exception):
    """A request is refused with Kafka's error."""

    def __init__(self, error: ReplicaError) -> None:
        super().__init__(error.name)
        self.error = error


class ReplicaLog(Protocol):
    """The local log of a replica. Batches are opaque: each knows its offsets and its leader epoch. ``high_watermark`` is set by
    the replica's role."""

    high_watermark: int

    @property
    def epochs(self) -> LeaderEpochCache: ...

    @property
    def start_offset(self) -> int: ...

    @property
    def end_offset(self) -> int: ...

    @property
    def gap_offset(self) -> int | None:
        """The first offset whose records damage took out of the log, where others follow."""

    def begin_epoch(self, leader_epoch: int) -> None:
        """The replica leads in that epoch, from the log's end on, which goes into ``epochs``."""

    def append_as_leader(self, batch: Any, leader_epoch: int) -> int:
        """Returns the base offset."""

    def append_as_follower(self, batches: Sequence[Any]) -> None:
        """Appends batches as the leader sent them; epochs that are new go into ``epochs``."""

    def read(self, offset: int, end_offset: int, max_bytes: int = NO_BYTE_LIMIT) -> Sequence[Any]:
        """Some batches from that offset on, none of them behind ``end_offset``; the first whole whatever its size, unless
        ``max_bytes`` is 0."""

    def truncate_to(self, end_offset: int) -> None:
        """Cuts the log, and ``epochs`` with it."""

    def start_anew_at(self, offset: int) -> None:
        """Removes everything; the log begins and ends at that offset."""

    def advance_start(self, offset: int) -> None:
        """The log begins at that offset, as the leader's does; nothing is done where it begins there or behind."""


@dataclass(frozen=True, slots=True)
class EpochLookup:
    """OffsetForLeaderEpoch of one partition, from a follower in ``current_leader_epoch``."""

    current_leader_epoch: int
    epoch: int


@dataclass(frozen=True, slots=True)
class ReplicaFetch:
    """Fetch of one partition by a replica."""

    replica_id: int
    current_leader_epoch: int
    fetch_offset: int
    start_offset: int
    max_bytes: int = NO_BYTE_LIMIT


@dataclass(frozen=True, slots=True)
class ReplicaFetched:
    """The response to a replica's Fetch; ``end_offset``: of the leader's log."""

    batches: Sequence[Any]
    high_watermark: int
    start_offset: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class WriteIsr:
    """Effect: write the state to the partition's node, if its version is still ``state.version``; the result goes to
    `Leader.isr_written` or `Leader.isr_refused`."""

    partition: TopicPartition
    state: PartitionState


@dataclass(frozen=True, slots=True)
class AppendDecided:
    """Effect: the append of that token is decided: acknowledged, or refused with the error."""

    token: object
    error: ReplicaError | None = None


@dataclass(frozen=True, slots=True)
class HighWatermarkMoved:
    """Effect: consumers may read up to there."""

    partition: TopicPartition
    high_watermark: int


@dataclass(frozen=True, slots=True)
class FollowerStartMoved:
    """Effect: a follower's log begins elsewhere, and the partition's low watermark may have moved."""

    partition: TopicPartition


Effect = WriteIsr | AppendDecided | HighWatermarkMoved | FollowerStartMoved

__all__ = [
    "NO_LEADER",
    "Effect",
    "EndOfEpoch",
    "EpochLookup",
    "FollowerStartMoved",
    "ReplicaFetch",
    "ReplicaFetched",
    "HighWatermarkMoved",
    "PartitionState",
    "AppendDecided",
    "ReplicaError",
    "ReplicaLog",
    "ReplicaRefusal",
    "ReplicationConfig",
    "StoppedReplica",
    "TopicPartition",
    "WriteIsr",
]
