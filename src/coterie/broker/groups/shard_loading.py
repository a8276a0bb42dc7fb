"""Partitions of coordinators are loaded one after another, a chunk at a time: at a start, and where this broker becomes their
coordinator."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Generic, Protocol, TypeVar

from coterie.broker.process.scheduling import Scheduler
from coterie.broker.storage.topic import Partition
from coterie.records.batch import BatchError
from coterie.wire.errors import Refusal

logger = logging.getLogger(__name__)


class Loadable(Protocol):
    """A partition with the coordinator's state of it. ``resigned``: another broker is the coordinator now."""

    partition: Partition
    resigned: bool
    loaded: bool

    @property
    def shard(self) -> object:
        """The state that is loaded; another one after each election."""

    def load_by_chunks(self) -> Iterator[int]:
        """Loads it, but for batches that cannot be read; yields the number of records in each chunk. Raises BatchError,
        Refusal."""


H = TypeVar("H", bound=Loadable)


class ShardLoading(Generic[H]):
    """``finished`` gets each shard whose partition was read to its end. ``seconds``: how long the first load took."""

    def __init__(self, scheduler: Scheduler, finished: Callable[[H], None]) -> None:
        self._scheduler, self._finished = scheduler, finished
        self._waiting: deque[H] = deque()
        self._when_idle: list[Callable[[], None]] = []
        self._chunks: Iterator[int] | None = None
        self._records, self._topic = 0, ""
        self._started_s = scheduler.time()
        self.seconds = 0.0

    def add(self, every: Iterable[H]) -> None:
        """Loads these after what loads now."""
        self._waiting += every
        if self._chunks is None:
            self._records, self._started_s = 0, self._scheduler.time()
            self._chunks = self._load()
            self._scheduler.call_soon(self._next)

    def when_idle(self, callback: Callable[[], None]) -> None:
        """Calls ``callback`` once nothing loads, at once where nothing does."""
        if self._chunks is None:
            callback()
        else:
            self._when_idle.append(callback)

    def stop(self) -> None:
        """Nothing more is loaded; callbacks of `when_idle` are not called."""
        self._waiting.clear()
        self._chunks = None

    def _next(self) -> None:
        """Loads one chunk; other work of the scheduler comes between two chunks."""
        if self._chunks is None:
            return
        if next(self._chunks, None) is not None:
            self._scheduler.call_soon(self._next)
            return
        self._chunks = None
        self.seconds = self.seconds or self._scheduler.time() - self._started_s
        logger.info("loaded %d records of %s", self._records, self._topic)
        callbacks, self._when_idle = self._when_idle, []
        for callback in callbacks:
            callback()

    def _load(self) -> Iterator[int]:
        while self._waiting:
            hosted = self._waiting.popleft()
            self._topic = hosted.partition.topic
            for count in self.load(hosted):
                self._records += count
                yield count

    def load(self, hosted: H) -> Iterator[int]:
        """Reads one partition chunk by chunk; yields the number of records in each. Ends where the shard has moved away
        meanwhile."""
        shard = hosted.shard
        try:
            for count in hosted.load_by_chunks():
                yield count
                if hosted.shard is not shard or hosted.resigned:
                    return
        except (BatchError, Refusal) as error:
            logger.error("%s-%d cannot be read whole: %s", hosted.partition.topic, hosted.partition.index, error)
        if not hosted.resigned:
            hosted.loaded = True
            self._finished(hosted)
