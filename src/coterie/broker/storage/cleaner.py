"""Compacts the logs of cleanup.policy=compact, one after the other: the reading and writing in a thread, the rest here."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from coterie.broker.process.scheduling import Clock
from coterie.broker.settings import BrokerSettings
from coterie.broker.storage.topics import Topics
from coterie.log.compaction import clean, plan, swapping
from coterie.log.partition_log import PartitionLog
from coterie.records.batch import BatchError
from coterie.records.compression import CompressionError

logger = logging.getLogger(__name__)

SHORTEST_BACKOFF_MS = 10  # log.cleaner.backoff.ms may be 0, which must not keep the loop from its other work


class Cleaner:
    """Looks for dirty logs every log.cleaner.backoff.ms, from when the groups are loaded on: a reader that takes a log
    piece by piece must not miss the marker of a transaction whose records it has read."""

    def __init__(self, topics: Topics, clock: Clock, settings: BrokerSettings) -> None:
        self._topics, self._clock, self._settings = topics, clock, settings

    async def run(self, groups_loaded: Callable[[], Awaitable[None]]) -> None:
        """Runs until it is cancelled; returns at once without log.cleaner.enable."""
        await groups_loaded()
        if not self._settings.current.log_cleaner_enable:
            return
        while True:
            await asyncio.sleep(max(self._settings.current.log_cleaner_backoff_ms, SHORTEST_BACKOFF_MS) / 1000)
            for log in [log for log in self._topics.every_log() if log.config.cleanup_compact]:
                await self.compact(log)

    async def compact(self, log: PartitionLog) -> None:
        """Compacts a log, if it is dirty enough, unless its topic is deleted. A failure is logged, and retried later."""
        if log.is_closed:
            return
        try:
            wanted = plan(log, self._clock.now_ms())
            if wanted is None:
                return
            cleaned = await asyncio.to_thread(clean, wanted)
            for _ in swapping(log, cleaned):
                await asyncio.sleep(0)
            if not cleaned.is_in_place:
                return
        except (OSError, BatchError, CompressionError) as error:
            if log.is_closed:
                return
            logger.error("%s could not be compacted: %s", log.directory, error)
            if isinstance(error, BatchError):
                log.verify()  # what is damaged goes, with a finding
            return
        self._topics.save_cleaned_offsets()
        logger.info("compacted %s: %d of %d records stay", log.directory, cleaned.records_after, cleaned.records_before)
