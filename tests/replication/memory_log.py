"""A replica's log in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from coterie.log.leader_epochs import LeaderEpochCache
from coterie.replication.states import NO_BYTE_LIMIT

FETCHED_AT_MOST = 3  # batches: to catch up takes time


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
