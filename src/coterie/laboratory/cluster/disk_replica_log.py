"""A replica's log of the laboratory's cluster over the broker's own log, on a disk in memory."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from coterie.laboratory.cluster.replica_log import FETCHED_AT_MOST, Batch
from coterie.laboratory.disk import FaultyFileSystem
from coterie.laboratory.world import World
from coterie.log.config import LogConfig
from coterie.log.partition_log import PartitionLog
from coterie.log.segments.segment_loader import ClosedLog
from coterie.records.batch import batches
from coterie.records.decoding import decode_records
from coterie.records.encoding import encode_batch
from coterie.replication.states import NO_BYTE_LIMIT
from coterie.replication.stored_log import LeaderAppend, StoredReplicaLog

_DIRECTORY = "orders-0"
BATCH_BYTES = 90
_CONFIG = LogConfig(segment_bytes=30 * BATCH_BYTES, index_interval_bytes=5 * BATCH_BYTES)


@dataclass(slots=True)
class BrokerDisk:
    """``syncs``: each append is synced; ``leaves_holes``: of what was not synced a power cut leaves the end, too;
    ``is_full``, ``is_read_only``: nothing can be written now;
    ``fsync_ms``: how long an fsync takes now, ``stalled_ms``: how long those took that
    the broker's event loop has not waited for yet; ``now_ms``: the time of the broker's process."""

    syncs: bool = False
    leaves_holes: bool = False
    is_full: bool = False
    is_read_only: bool = False
    fsync_ms: int = 0
    stalled_ms: int = 0
    now_ms: Callable[[], int] = lambda: 0

    @contextmanager
    def spacious(self) -> Iterator[None]:
        """Never full."""
        is_full, self.is_full = self.is_full, False
        try:
            yield
        finally:
            self.is_full = is_full


class _FillingFileSystem(FaultyFileSystem):
    def __init__(self, disk: BrokerDisk) -> None:
        super().__init__()
        self._disk = disk

    def operation(self, name: str, path: str) -> None:
        """Raises OSError."""
        if self._disk.is_full and name in ("write", "reserve"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        if self._disk.is_read_only and name in ("write", "reserve"):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)
        if name == "sync":
            self._disk.stalled_ms = max(self._disk.stalled_ms, self._disk.fsync_ms)


class DiskReplicaLog(StoredReplicaLog):
    """As `MemoryReplicaLog`; each life of the broker opens the files anew."""

    fetched_bytes: ClassVar[int] = FETCHED_AT_MOST * BATCH_BYTES

    def __init__(self, world: World, disk: BrokerDisk) -> None:
        self._world, self._disk, self._fs = world, disk, _FillingFileSystem(disk)
        self._first_config = self._config = replace(_CONFIG, flush_messages=1) if disk.syncs else _CONFIG
        self._closed: ClosedLog | None = None
        self._lost_power = False
        self.open(0)

    # -- the disk -------------------------------------------------------------------------------------------------------

    def open(self, high_watermark: int) -> None:
        """A new process opens the log."""
        clean, closed = self._closed is not None or not self._fs.exists(_DIRECTORY), self._closed
        self._closed = None
        with self._disk.spacious():  # a broker that cannot open a log ends, which is no story of its own
            log = PartitionLog.open(
                self._fs,
                _DIRECTORY,
                self._config,
                clean=clean,
                lost_power=self._lost_power,
                high_watermark=high_watermark,
                closed=closed,
            )
        self._lost_power = False
        super().__init__(log, high_watermark, lambda: self._disk.now_ms())

    def configure(self, segment_bytes: int | None, retention_bytes: int | None) -> None:
        """segment.bytes and retention.bytes, None where the topic has none of its own."""
        first = self._first_config
        self._config = self.log.config = replace(
            first,
            segment_bytes=first.segment_bytes if segment_bytes is None else segment_bytes,
            retention_bytes=first.retention_bytes if retention_bytes is None else retention_bytes,
        )

    def close(self) -> None:
        """The process ends in order."""
        with suppress(OSError):
            self._closed = self.log.close()

    def sync(self) -> None:
        """All that was appended is on the disk."""
        self.log.sync()

    def power_cut(self) -> None:
        """What was not synced is lost, but for a piece of each file."""
        self._lost_power = True
        kept = self._world.random.choice((0, 0, BATCH_BYTES // 2, 3 * BATCH_BYTES))
        if not self._disk.leaves_holes:
            self._fs.crash(kept)
            return
        synced = {path: file.synced for path, file in self._fs.files.items()}
        self._fs.crash(kept and 8 * BATCH_BYTES)
        for path, file in self._fs.files.items():
            start = synced[path] + self._world.random.randrange(2 * BATCH_BYTES)
            hole = file.data[start : start + BATCH_BYTES]
            file.data[start : start + len(hole)] = bytes(len(hole))

    @property
    def batches(self) -> list[Batch]:
        """All of them, as the files have them."""
        return self.rows(b"".join(segment.file.read(0, segment.size) for segment in self.log.segments))

    # -- the log of a replica -------------------------------------------------------------------------------------------

    def append_as_leader(self, batch: Any, leader_epoch: int) -> int:
        """Appends a value."""
        offset = super().append_as_leader(self.append_of(batch), leader_epoch)
        if self._disk.syncs:
            self.sync()
        return offset

    def append_of(self, batch: Any) -> LeaderAppend:
        """The call that appends it to the log."""
        now_ms = self._now_ms()
        data = encode_batch([(now_ms, None, batch.encode(), ())])
        return lambda log: log.append(data, now_ms)

    def append_as_follower(self, batches: Sequence[Batch]) -> None:  # type: ignore[override]
        """See `ReplicaLog`."""
        super().append_as_follower([batch.data for batch in batches])
        if self._disk.syncs:
            self.sync()

    def read(  # type: ignore[override]
        self, offset: int, end_offset: int, max_bytes: int = NO_BYTE_LIMIT
    ) -> Sequence[Batch]:
        """See `ReplicaLog`."""
        return self.rows(b"".join(super().read(offset, end_offset, min(max_bytes, self.fetched_bytes))))

    @staticmethod
    def rows(data: bytes) -> list[Batch]:
        """The whole batches of it."""
        rows = []
        for at, header in batches(data):
            (record,) = decode_records(data, at, header)
            value = (record.value or b"").decode()
            rows.append(Batch(header.base_offset, header.leader_epoch, value, data[at : at + header.size]))
        return rows
