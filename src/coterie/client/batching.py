"""Records of one partition that a producer sends together, and what a caller holds of each."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Generator, Sequence
from typing import Any

from coterie.client.errors import KafkaError
from coterie.records.batch import Header

Item = tuple[int, bytes | None, bytes | None, Sequence[Header]]  # timestamp in ms, key, value, headers
Report = Callable[["KafkaError | None", str, int, int], object]


class Batch:
    """``done`` has the offset of the first record once the batch is acknowledged, or its KafkaError."""

    __slots__ = ("created_s", "done", "encoded", "items", "partition", "sequence", "size", "topic")

    def __init__(self, topic: str, partition: int) -> None:
        self.topic, self.partition = topic, partition
        self.done: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.done.add_done_callback(_retrieved)
        self.items: list[Item] = []
        self.size = 0
        self.created_s = time.monotonic()
        self.sequence = -1
        self.encoded = b""


def _retrieved(future: asyncio.Future[int]) -> None:
    # A caller may not look at every delivery; asyncio must not complain about those.
    if not future.cancelled():
        future.exception()


class Delivery:
    """A record on its way. Awaiting it gives (partition, offset), or raises KafkaError."""

    __slots__ = ("_batch", "_index")

    def __init__(self, batch: Batch, index: int) -> None:
        self._batch, self._index = batch, index

    def __await__(self) -> Generator[Any, None, tuple[int, int]]:
        # Shielded: the other records of the batch share the future, and a caller that is cancelled must not end it.
        done = self._batch.done
        base = yield from (done if done.done() else asyncio.shield(done)).__await__()
        return self._batch.partition, base + self._index

    def report_to(self, callback: Report) -> None:
        """``callback(error or None, topic, partition, offset)`` once it is known; the offset is -1 after an error."""

        def report(done: asyncio.Future[int]) -> None:
            error = None if done.cancelled() else done.exception()
            batch = self._batch
            if isinstance(error, KafkaError):
                callback(error, batch.topic, batch.partition, -1)
            elif not done.cancelled():
                callback(None, batch.topic, batch.partition, max(done.result() + self._index, -1))

        self._batch.done.add_done_callback(report)
