"""Fsyncs logs off the event loop: one worker thread, group commit. A durable response waits for the next fsync."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from coterie.log.partition_log import PartitionLog

logger = logging.getLogger(__name__)


class Flusher:
    """Collects dirty logs and callbacks; one fsync at a time, which all requests before it share."""

    def __init__(self, loop: asyncio.AbstractEventLoop, failed: Callable[[OSError], None]) -> None:
        self._loop, self._failed = loop, failed
        self._dirty: set[PartitionLog] = set()
        self._waiting: list[Callable[[], None]] = []
        self._running = False

    def after_sync(self, log: PartitionLog, then: Callable[[], None] | None = None) -> None:
        """Fsyncs ``log`` soon and calls ``then`` once it is on the disk."""
        self._dirty.add(log)
        if then is not None:
            self._waiting.append(then)
        if not self._running:
            self._running = True
            self._loop.create_task(self._run())

    async def _run(self) -> None:
        while self._dirty:
            dirty, waiting = self._dirty, self._waiting
            self._dirty, self._waiting = set(), []
            files = [log.segments[-1].file for log in dirty]
            for log in dirty:
                log.unflushed_messages = 0
            try:
                await self._loop.run_in_executor(None, lambda files=files: [f.sync() for f in files])  # type: ignore[misc]
            except OSError as error:
                # After a failed fsync the content of the disk is unknown, so the broker stops (as Kafka does).
                self._failed(error)
                return
            for then in waiting:
                then()
        self._running = False
