"""A replica's log of the laboratory's cluster over the broker's own log, on a disk in memory."""

from __future__ import annotations

from collections.abc import Sequence

from coterie.laboratory.cluster.replica_log import FETCHED_AT_MOST, Batch
from coterie.laboratory.world import World
from coterie.log.config import LogConfig
from coterie.log.epoch_cache import LeaderEpochCache
from coterie.log.filesystem import MemoryFileSystem
from coterie.log.loading import ClosedLog
from coterie.log.partition_log import PartitionLog
from coterie.records.batch import batches
from coterie.records.decoding import decode_records
from coterie.records.encoding import encode_batch
from coterie.replication.states import NO_BYTE_LIMIT
from coterie.replication.stored_log import StoredReplicaLog

_DIRECTORY = "orders-0"
_BATCH_BYTES = 90
_FETCHED_BYTES = FETCHED_AT_MOST * _BATCH_BYTES
_CONFIG = LogConfig(segment_bytes=30 * _BATCH_BYTES, index_interval_bytes=5 * _BATCH_BYTES)


class DiskReplicaLog:
    """As `MemoryReplicaLog`; each life of the broker opens the files anew."""

    def __init__(self, world: World) -> None:
        self._world, self._fs = world, MemoryFileSystem()
        self._closed: ClosedLog | None = None
        self._stored = self._opened(0)

    def _opened(self, high_watermark: int) -> StoredReplicaLog:
        clean, closed = self._closed is not None or not self._fs.exists(_DIRECTORY), self._closed
        self._closed = None
        log = PartitionLog.open(
            self._fs, _DIRECTORY, _CONFIG, clean=clean, high_watermark=high_watermark, closed=closed
        )
        return StoredReplicaLog(log, high_watermark, lambda: self._world.now_ms)

    # -- the disk -------------------------------------------------------------------------------------------------------

    def open(self, high_watermark: int) -> None:
        """A new process opens the log."""
        self._stored = self._opened(high_watermark)

    def close(self) -> None:
        """The process ends in order."""
        self._closed = self._stored.log.close()

    def sync(self) -> None:
        """All that was appended is on the disk."""
        self._stored.log.sync()

    def power_cut(self) -> None:
        """What was not synced is lost, but for a piece of each file."""
        self._fs.crash(self._world.random.choice((0, 0, _BATCH_BYTES // 2, 3 * _BATCH_BYTES)))

    @property
    def batches(self) -> list[Batch]:
        """All of them, as the files have them."""
        return _batches(b"".join(segment.file.read(0, segment.size) for segment in self._stored.log.segments))

    # -- the log of a replica -------------------------------------------------------------------------------------------

    @property
    def high_watermark(self) -> int:
        return self._stored.high_watermark

    @high_watermark.setter
    def high_watermark(self, offset: int) -> None:
        self._stored.high_watermark = offset

    @property
    def epochs(self) -> LeaderEpochCache:
        return self._stored.epochs

    @property
    def start_offset(self) -> int:
        return self._stored.start_offset

    @property
    def end_offset(self) -> int:
        return self._stored.end_offset

    def begin_epoch(self, leader_epoch: int) -> None:
        """See `ReplicaLog`."""
        self._stored.begin_epoch(leader_epoch)

    def append_as_leader(self, batch: str, leader_epoch: int) -> int:
        """Appends a value."""
        now_ms = self._world.now_ms
        data = encode_batch([(now_ms, None, batch.encode(), ())])
        return self._stored.append_as_leader(lambda log: log.append(data, now_ms), leader_epoch)

    def append_as_follower(self, batches: Sequence[Batch]) -> None:
        """See `ReplicaLog`."""
        self._stored.append_as_follower([batch.data for batch in batches])

    def read(self, offset: int, end_offset: int, max_bytes: int = NO_BYTE_LIMIT) -> Sequence[Batch]:
        """See `ReplicaLog`."""
        return _batches(b"".join(self._stored.read(offset, end_offset, min(max_bytes, _FETCHED_BYTES))))

    def truncate_to(self, end_offset: int) -> None:
        """See `ReplicaLog`."""
        self._stored.truncate_to(end_offset)

    def start_anew_at(self, offset: int) -> None:
        """See `ReplicaLog`."""
        self._stored.start_anew_at(offset)

    def advance_start(self, offset: int) -> None:
        """See `ReplicaLog`."""
        self._stored.advance_start(offset)


def _batches(data: bytes) -> list[Batch]:
    rows = []
    for at, header in batches(data):
        (record,) = decode_records(data, at, header)
        value = (record.value or b"").decode()
        rows.append(Batch(header.base_offset, header.leader_epoch, value, data[at : at + header.size]))
    return rows
