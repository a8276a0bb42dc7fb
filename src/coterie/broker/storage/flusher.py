"""Fsyncs logs off the event loop: one sync at a time, group commit. A durable response waits for the next sync."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from coterie.broker.process.scheduling import Scheduler
from coterie.log.filesystem import File
from coterie.log.partition_log import PartitionLog

Synced = Callable[[OSError | None], None]
SyncFiles = Callable[[list[File], Synced], None]


def sync_in_thread(loop: asyncio.AbstractEventLoop) -> SyncFiles:
    """Syncs files in a thread of the loop's executor and reports the result on the loop."""

    def sync(files: list[File], synced: Synced) -> None:
        future = loop.run_in_executor(None, _sync_all, files)
        future.add_done_callback(lambda done: _report(done, synced))

    return sync


def _sync_all(files: list[File]) -> None:
    for file in files:
        file.sync()


def _report(done: asyncio.Future[None], synced: Synced) -> None:
    if done.cancelled():
        return  # the loop ends
    try:
        done.result()
    except OSError as error:
        synced(error)
    else:
        synced(None)


class Flusher:
    """Collects dirty logs and callbacks; one sync at a time, which all requests before it share. After a failed sync nobody
    knows what the disk holds: nothing is called any more, and ``failed`` stops the broker (as Kafka does)."""

    def __init__(self, scheduler: Scheduler, sync: SyncFiles, failed: Callable[[OSError], None]) -> None:
        self._scheduler, self._sync, self._failed = scheduler, sync, failed
        self._dirty: dict[PartitionLog, None] = {}  # in the order of their first append
        self._waiting: list[Callable[[], None]] = []
        self._syncing: dict[PartitionLog, None] = {}
        self._running = self._is_over = False

    def fail(self, error: OSError) -> None:
        """A sync failed, this one's or a log's own."""
        if not self._is_over:
            self._is_over = True
            self._failed(error)

    def is_syncing(self, log: PartitionLog) -> bool:
        """Whether something that was appended to ``log`` waits for a sync."""
        return log in self._syncing or log in self._dirty

    def after_sync(self, log: PartitionLog, then: Callable[[], None] | None = None) -> None:
        """Syncs ``log`` soon and calls ``then`` once it is on the disk."""
        self._dirty[log] = None
        if then is not None:
            self._waiting.append(then)
        if not self._running:
            self._running = True
            self._scheduler.call_soon(self._begin)

    def _begin(self) -> None:
        dirty, waiting = self._dirty, self._waiting
        self._syncing, self._dirty, self._waiting = dirty, {}, []
        for log in dirty:
            log.flushing.begin()
        ends = [(log, log.end_offset) for log in dirty]
        self._sync([log.segments[-1].file for log in dirty], partial(self._end, ends, waiting))

    def _end(
        self, ends: list[tuple[PartitionLog, int]], waiting: list[Callable[[], None]], error: OSError | None
    ) -> None:
        self._syncing = {}
        if error is not None:
            self.fail(error)
        if self._is_over:
            return
        for log, end_offset in ends:
            log.flushing.synced(end_offset)
        for then in waiting:
            then()
        if self._dirty:
            self._begin()
        else:
            self._running = False
