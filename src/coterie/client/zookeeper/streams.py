"""A message stream: one queue of fetched chunks for one consumer thread.

Several partitions may share a queue. Iterating advances each partition's consumed offset; a rebalance clears the queue,
and what a stream had in hand with it, so that nothing is handed out that may be another consumer's by now.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from dataclasses import dataclass
from typing import NamedTuple

from coterie.client.types import Record


class MessageAndMetadata(NamedTuple):
    """A record and where it came from."""

    topic: str
    partition: int
    record: Record


@dataclass(slots=True, eq=False)
class PartitionTopicInfo:
    """A partition that is read: what to fetch, where it is put, how far it is fetched and consumed."""

    topic: str
    partition: int
    stream: Stream
    fetched_offset: int
    consumed_offset: int


class Stream:
    """Iterate it in one thread. Ends when the consumer is closed, or after consumer.timeout.ms without a message; raises
    what made the consumer fail."""

    def __init__(self, topic: str, thread_id: str, chunks: int, timeout_ms: int) -> None:
        self.topic, self.thread_id = topic, thread_id
        self._room, self._timeout_s = chunks, None if timeout_ms < 0 else timeout_ms / 1000
        self._queue: deque[tuple[PartitionTopicInfo, deque[Record]]] = deque()  # the first is the one in hand
        self._changed = threading.Condition()
        self.ended = False
        self._error: Exception | None = None
        self._fatal = False

    def __iter__(self) -> Stream:
        return self

    def __next__(self) -> MessageAndMetadata:
        """Waits for the next message."""
        message = self.take(self._timeout_s)
        if message is None:
            raise StopIteration
        return message

    def take(self, timeout_s: float | None = 0.0) -> MessageAndMetadata | None:
        """The next message; None when none came in time (``timeout_s`` None: waits for ever), or the stream has ended.
        Raises what made the consumer fail."""
        end_s = None if timeout_s is None else time.monotonic() + timeout_s
        with self._changed:
            while not self._queue:
                if self._error is not None:
                    error, self._error = self._error, self._error if self._fatal else None
                    raise error
                left_s = None if end_s is None else end_s - time.monotonic()
                if self.ended or (left_s is not None and left_s <= 0):
                    return None
                self._changed.wait(left_s)
            return self._hand_out()

    def _hand_out(self) -> MessageAndMetadata:
        info, records = self._queue[0]
        record = records.popleft()
        info.consumed_offset = record.offset + 1
        if not records:
            self._queue.popleft()
            self._changed.notify_all()
        return MessageAndMetadata(info.topic, info.partition, record)

    def put(self, info: PartitionTopicInfo, records: list[Record], stopping: threading.Event) -> bool:
        """Waits for room; False when the fetcher is stopped first."""
        with self._changed:
            while len(self._queue) >= self._room and not stopping.is_set():
                self._changed.wait()
            if stopping.is_set():
                return False
            self._queue.append((info, deque(records)))
            self._changed.notify_all()
            return True

    def wake(self) -> None:
        """Has a fetcher that waits for room see that it is to stop."""
        with self._changed:
            self._changed.notify_all()

    def clear(self) -> None:
        """Forgets what is fetched and not handed out."""
        with self._changed:
            self._queue.clear()
            self._changed.notify_all()

    def fail(self, error: Exception, *, fatal: bool) -> None:
        """The next `take` raises it; every later one too if it is ``fatal``."""
        with self._changed:
            self._error, self._fatal = error, fatal
            self._changed.notify_all()

    def end(self) -> None:
        """The stream ends once what is fetched is taken."""
        with self._changed:
            self.ended = True
            self._changed.notify_all()
