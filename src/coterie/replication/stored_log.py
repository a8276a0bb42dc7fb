"""The log of a replica on the disk: a `ReplicaLog` over a `PartitionLog`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from coterie.log.follower_log import append_as_follower, start_anew_at, truncate_to
from coterie.log.leader_epochs import LeaderEpochCache
from coterie.log.log_state import Appended
from coterie.log.partition_log import PartitionLog
from coterie.log.reading import before
from coterie.log.retention import advance_start_offset
from coterie.replication.states import NO_BYTE_LIMIT

LeaderAppend = Callable[[PartitionLog], Appended]


class StoredReplicaLog:
    """A batch of `append_as_leader` is the call that appends it to the log, so that the driver keeps the result. A batch of
    `append_as_follower` and of `read` is a run of batches as the log has them. ``now_ms``: the time of appends."""

    def __init__(self, log: PartitionLog, high_watermark: int, now_ms: Callable[[], int]) -> None:
        self.log, self._now_ms = log, now_ms
        log.move_high_watermark(high_watermark)

    @property
    def epochs(self) -> LeaderEpochCache:
        """To be changed by this class only."""
        return self.log.epochs.cache

    @property
    def start_offset(self) -> int:
        return self.log.log_start_offset

    @property
    def end_offset(self) -> int:
        return self.log.end_offset

    @property
    def gap_offset(self) -> int | None:
        return self.log.gap_offset

    @property
    def high_watermark(self) -> int:
        assert self.log.replicas_high_watermark is not None
        return self.log.replicas_high_watermark

    @high_watermark.setter
    def high_watermark(self, offset: int) -> None:
        self.log.move_high_watermark(offset)

    def begin_epoch(self, leader_epoch: int) -> None:
        """This replica leads from here on."""
        self.log.begin_epoch(leader_epoch)

    def append_as_leader(self, batch: LeaderAppend, leader_epoch: int) -> int:
        """Returns the base offset, of the earlier batch where this one repeats it. Raises Refusal, or OSError."""
        assert leader_epoch == self.log.leader_epoch, "an append in an epoch that has not begun"
        return batch(self.log).base_offset

    def append_as_follower(self, batches: Sequence[bytes]) -> None:
        """Raises Refusal CORRUPT_MESSAGE, or OSError."""
        append_as_follower(self.log, b"".join(batches), self._now_ms())

    def read(self, offset: int, end_offset: int, max_bytes: int = NO_BYTE_LIMIT) -> Sequence[bytes]:
        """Raises OSError."""
        records = self.log.read(offset, max_bytes) if max_bytes > 0 else b""
        if end_offset < self.log.end_offset:
            records, _ = before(records, end_offset, offset)
        return [records] if records else []

    def truncate_to(self, end_offset: int) -> None:
        """Raises OSError."""
        truncate_to(self.log, end_offset)

    def start_anew_at(self, offset: int) -> None:
        """Raises OSError."""
        start_anew_at(self.log, offset)

    def advance_start(self, offset: int) -> None:
        """Raises OSError."""
        advance_start_offset(self.log, offset)
