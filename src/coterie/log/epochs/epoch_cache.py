"""The leader epochs of a log: where each began (Kafka's LeaderEpochFileCache, KIP-101 and KIP-279)."""

from __future__ import annotations

from dataclasses import dataclass, field

UNDEFINED_EPOCH = -1
UNDEFINED_OFFSET = -1


@dataclass(frozen=True, slots=True)
class EpochStart:
    """``start_offset``: the offset of the first record that a leader of that epoch has appended."""

    epoch: int
    start_offset: int


@dataclass(frozen=True, slots=True)
class EndOfEpoch:
    """The largest epoch that is not above the requested one, and the offset behind its last record."""

    epoch: int = UNDEFINED_EPOCH
    end_offset: int = UNDEFINED_OFFSET


@dataclass(slots=True)
class LeaderEpochCache:
    """``entries``: epochs and start offsets both rise."""

    entries: list[EpochStart] = field(default_factory=list)

    @property
    def latest(self) -> int:
        """UNDEFINED_EPOCH for a log without epochs."""
        return self.entries[-1].epoch if self.entries else UNDEFINED_EPOCH

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Records that the epoch begins there, unless it is the latest and has begun; returns whether it was recorded. What
        contradicts it is removed: entries with that epoch or a later one, or with that offset or a later one."""
        if self.entries and epoch == self.latest and start_offset >= self.entries[-1].start_offset:
            return False
        self.entries = [e for e in self.entries if e.epoch < epoch and e.start_offset < start_offset]
        self.entries.append(EpochStart(epoch, start_offset))
        return True

    def end_of(self, epoch: int, log_end_offset: int) -> EndOfEpoch:
        """The response of OffsetForLeaderEpoch for a log that ends at ``log_end_offset``."""
        if not self.entries or epoch == UNDEFINED_EPOCH or epoch > self.latest:
            return EndOfEpoch()
        if epoch == self.latest:
            return EndOfEpoch(epoch, log_end_offset)
        before = [e.epoch for e in self.entries if e.epoch <= epoch]
        after = next(e for e in self.entries if e.epoch > epoch)
        return EndOfEpoch(before[-1] if before else epoch, after.start_offset)

    def truncate_from_end(self, end_offset: int) -> None:
        """The log was cut to end at ``end_offset``; UNDEFINED_OFFSET removes nothing."""
        if end_offset != UNDEFINED_OFFSET:
            self.entries = [e for e in self.entries if e.start_offset < end_offset]

    def truncate_from_start(self, start_offset: int) -> None:
        """The log now begins at ``start_offset``: of the epochs before it the last one stays and begins there."""
        before = [e for e in self.entries if e.start_offset <= start_offset]
        if before:
            after = self.entries[len(before) :]
            self.entries = [EpochStart(before[-1].epoch, start_offset), *after]
