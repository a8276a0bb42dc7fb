"""A share fetch that waits until it can acquire min.bytes of records (Kafka's DelayedShareFetch)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from coterie.broker.process.loggers import LogLines
from coterie.broker.process.scheduling import Timer
from coterie.broker.share.hosted_share_partition import HostedSharePartition
from coterie.broker.share.share_hosting import ShareHosting
from coterie.broker.share.share_sessions import SharedPartition
from coterie.log.producer_states import Aborted
from coterie.log.reading import read_committed, read_visible
from coterie.records.batch import BatchHeader, batches
from coterie.share.acquiring import RECORD_LIMIT, Acquired, Acquiring, LogBatch
from coterie.wire.errors import ErrorCode, Refusal

FIRST_READ_BYTES, READ_GROWTH = 131_072, 4


@dataclass(frozen=True, slots=True)
class ShareFetching:
    """What a ShareFetch requests."""

    group_id: str
    member_id: str
    max_bytes: int
    min_bytes: int
    max_records: int
    batch_size: int
    acquire_mode: int
    reads_committed: bool


@dataclass(frozen=True, slots=True)
class AcquiredData:
    """The records of one partition, of which the member may process ``acquired``."""

    records: bytes
    acquired: Sequence[Acquired]


Fetched = AcquiredData | Refusal
FetchedParts = Callable[[Mapping[SharedPartition, Fetched]], None]


@dataclass(frozen=True, slots=True)
class _Read:
    """What the log has from an offset on."""

    offset: int
    records: bytes
    log_batches: Sequence[LogBatch]


class WaitingShareFetch:
    """``done`` is called once, with each partition of which something is known: records, none, or an error."""

    def __init__(self, hosting: ShareHosting, fetching: ShareFetching, done: FetchedParts, log_lines: LogLines) -> None:
        self._hosting, self._fetching, self._done, self._log_lines = hosting, fetching, done, log_lines
        self._hosted: dict[SharedPartition, HostedSharePartition] = {}
        self._refused: dict[SharedPartition, Refusal] = {}
        self._timer: Timer | None = None
        self._is_over = False

    def start(self, partitions: Sequence[SharedPartition], wait_ms: int) -> None:
        """Loads the share partitions that are not here yet; fetches now, or within ``wait_ms``."""
        if not self._fetching.max_records or not self._fetching.max_bytes:
            self._finish({})
            return
        for named in partitions:
            try:
                hosted = self._hosting.host(self._fetching.group_id, named)
            except Refusal as refusal:
                self._refused[named] = refusal
                continue
            self._hosted[named] = hosted
            hosted.load(partial(self._loaded, named))
        if not self._hosted:
            self._finish({})
            return
        if self._try():
            return
        for hosted in self._hosted.values():
            hosted.watchers[self._changed] = None
            hosted.partition.watchers[self._changed] = None
        self._timer = self._hosting.scheduler.call_later(max(wait_ms, 0) / 1000, self._expired)

    def stop(self) -> None:
        """Ends the wait without a response."""
        self._is_over = True
        if self._timer is not None:
            self._timer.cancel()
        for hosted in self._hosted.values():
            hosted.watchers.pop(self._changed, None)
            hosted.partition.watchers.pop(self._changed, None)

    def _loaded(self, named: SharedPartition, refusal: Refusal | None) -> None:
        if refusal is not None:
            self._refused[named] = refusal
            self._hosted.pop(named, None)

    def _changed(self) -> None:
        if not self._is_over:
            self._try()

    def _expired(self) -> None:
        if not self._is_over:
            self._finish(self._read_all())

    def _try(self) -> bool:
        """Fetches if there is enough; returns whether it did."""
        if self._refused and not self._hosted:
            self._finish({})
            return True
        reads = self._read_all()
        failed = any(isinstance(read, Refusal) for read in reads.values())
        count = sum(len(read.records) for read in reads.values() if isinstance(read, _Read))
        if not reads or (count < self._fetching.min_bytes and not failed):
            return False
        self._finish(reads)
        return True

    # -- reading ------------------------------------------------------------------------------------------------------

    def _read_all(self) -> dict[SharedPartition, _Read | Refusal]:
        """Of each share partition that has room. The bytes are divided among them."""
        acquirable = {named: hosted for named, hosted in self._hosted.items() if hosted.has_room}
        reads: dict[SharedPartition, _Read | Refusal] = {}
        max_bytes = self._fetching.max_bytes
        each, left = divmod(max_bytes, len(acquirable) or 1)
        first = True
        for named, hosted in acquirable.items():
            read = reads[named] = self._read(hosted, each + left, first)
            left = 0
            first = first and not (isinstance(read, _Read) and read.records)
        return reads

    def _read(self, hosted: HostedSharePartition, max_bytes: int, first: bool) -> _Read | Refusal:
        log, offset = hosted.partition.log, hosted.state.next_fetch_offset()
        try:
            hosted.partition.check_leader()
            return self._acquirable(hosted, offset, max_bytes, first)
        except Refusal as refusal:
            return refusal
        except OSError as error:
            self._log_lines.warning("%s cannot be read: %s", log.directory, error)
            return Refusal(ErrorCode.KAFKA_STORAGE_ERROR)

    def _acquirable(self, hosted: HostedSharePartition, offset: int, max_bytes: int, first: bool) -> _Read:
        """From ``offset`` on what can be acquired: to the end of the window, and the most records beyond it. A fetch names no
        such limit in bytes, so it is read in pieces that grow."""
        log, fetching = hosted.partition.log, self._fetching
        last = max(hosted.state.end_offset, offset) + fetching.max_records
        size, aborted = max(FIRST_READ_BYTES, fetching.min_bytes), list[Aborted]()
        while True:
            size = min(size, max_bytes)
            if fetching.reads_committed:
                records, aborted = read_committed(log, offset, size, at_least_one=first)
                end = log.last_stable_offset
            else:
                records, end = read_visible(log, offset, size, at_least_one=first), log.high_watermark
            log_batches = [_log_batch(header, aborted) for _, header in batches(records)]
            reached = log_batches[-1].last if log_batches else offset - 1
            if size == max_bytes or reached >= min(last, end - 1):
                return _Read(offset, records, log_batches)
            size *= READ_GROWTH

    # -- the end ------------------------------------------------------------------------------------------------------

    def _finish(self, reads: Mapping[SharedPartition, _Read | Refusal]) -> None:
        self.stop()
        fetched: dict[SharedPartition, Fetched] = {}
        count = 0
        for named, read in reads.items():
            if isinstance(read, Refusal):
                fetched[named] = self._fetched_instead(self._hosted[named], read)
                continue
            acquired = self._acquire(self._hosted[named], read, count)
            count += sum(part.size for part in acquired)
            fetched[named] = AcquiredData(_sliced(read.records, acquired), acquired)
        self._done(fetched | self._refused)

    @staticmethod
    def _fetched_instead(hosted: HostedSharePartition, refusal: Refusal) -> Fetched:
        """An offset outside the log is no error: the start offset moves to that of the log, and the next fetch reads on."""
        if refusal.code is not ErrorCode.OFFSET_OUT_OF_RANGE:
            return refusal
        hosted.log_start_moved(hosted.partition.log.log_start_offset)
        return AcquiredData(b"", [])

    def _acquire(self, hosted: HostedSharePartition, read: _Read, count: int) -> list[Acquired]:
        fetching = self._fetching
        request = Acquiring(
            fetching.member_id,
            fetching.max_records - count,
            fetching.batch_size,
            fetching.acquire_mode == RECORD_LIMIT,
            self._hosting.clock.now_ms(),
        )
        return hosted.acquire(request, read.offset, read.log_batches)


def _log_batch(header: BatchHeader, aborted: Sequence[Aborted]) -> LogBatch:
    """A batch is aborted if it lies in an aborted transaction of its producer, whose marker is none of it."""
    is_aborted = (
        header.is_transactional
        and not header.is_control
        and any(
            each.producer_id == header.producer_id and each.first_offset <= header.last_offset < each.last_offset
            for each in aborted
        )
    )
    return LogBatch(header.base_offset, header.last_offset, is_aborted)


def _sliced(records: bytes, acquired: Sequence[Acquired]) -> bytes:
    """The batches from that of the first acquired record to that of the last."""
    if not acquired:
        return b""
    first, last = acquired[0].first, acquired[-1].last
    start, end = 0, len(records)
    for position, header in batches(records):
        if header.last_offset < first:
            start = position + header.size
        elif header.base_offset > last:
            end = position
            break
    return records[start:end]
