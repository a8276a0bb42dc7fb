"""Records of one partition that a producer sends together, and what a caller holds of each."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future
from typing import Any

from coterie.client.errors import KafkaError
from coterie.client.types import RecordMetadata, TopicPartition
from coterie.records.batch import Header

Item = tuple[int, bytes | None, bytes | None, Sequence[Header]]  # timestamp in ms, key, value, headers
Acknowledged = tuple[int, int]  # offset of the first record, time of the append in ms; -1 where there is none
DeliveryCallback = Callable[[RecordMetadata, KafkaError | None], object]

logger = logging.getLogger(__name__)


class Batch:
    """``done`` has, once the batch is acknowledged, the offset of its first record and the broker's time of the append in ms
    (-1: the records keep their own); or its KafkaError."""

    __slots__ = (
        "created_s",
        "done",
        "encoded",
        "failures",
        "items",
        "partition",
        "sequence",
        "size",
        "topic",
        "topic_partition",
    )

    def __init__(self, topic_partition: TopicPartition) -> None:
        self.topic_partition, self.topic, self.partition = topic_partition, *topic_partition
        self.done: asyncio.Future[Acknowledged] = asyncio.get_running_loop().create_future()
        self.done.add_done_callback(_retrieved)
        self.items: list[Item] = []
        self.size = 0
        self.created_s = time.monotonic()
        self.sequence = -1
        self.encoded = b""
        self.failures = 0


def _retrieved(future: asyncio.Future[Acknowledged]) -> None:
    # A caller may not look at every delivery; asyncio must not complain about those.
    if not future.cancelled():
        future.exception()


class Delivery:
    """A record on its way. Awaiting it returns a RecordMetadata, or raises KafkaError."""

    __slots__ = ("_batch", "_index")

    def __init__(self, batch: Batch, index: int) -> None:
        self._batch, self._index = batch, index

    def __await__(self) -> Generator[Any, None, RecordMetadata]:
        # Shielded: the other records of the batch share the future, and a caller that is cancelled must not end it.
        done = self._batch.done
        return self._metadata((yield from (done if done.done() else asyncio.shield(done)).__await__()))

    def _metadata(self, acknowledged: Acknowledged) -> RecordMetadata:
        base_offset, append_time_ms = acknowledged
        batch, index = self._batch, self._index
        offset = -1 if base_offset < 0 else base_offset + index
        timestamp_ms = batch.items[index][0] if append_time_ms < 0 else append_time_ms
        return RecordMetadata(batch.topic, batch.partition, offset, timestamp_ms)

    def to_future(self) -> Future[RecordMetadata]:
        """For another thread."""
        future: Future[RecordMetadata] = Future()

        def settle(done: asyncio.Future[Acknowledged]) -> None:
            error = None if done.cancelled() else done.exception()
            if done.cancelled():
                future.set_exception(asyncio.CancelledError())
            elif error is not None:
                future.set_exception(error)
            else:
                future.set_result(self._metadata(done.result()))

        future.set_running_or_notify_cancel()  # nobody takes a record back that is in its batch
        self._batch.done.add_done_callback(settle)
        return future

    def report_to(self, callback: DeliveryCallback) -> None:
        """Calls ``callback(metadata, error or None)`` once the result is known; after an error, offset and timestamp are -1.
        What it raises is logged."""

        def report(done: asyncio.Future[Acknowledged]) -> None:
            if done.cancelled():
                return
            batch, error = self._batch, done.exception()
            try:
                if isinstance(error, KafkaError):
                    callback(RecordMetadata(batch.topic, batch.partition, -1, -1), error)
                else:
                    callback(self._metadata(done.result()), None)
            except Exception:
                logger.exception("on_delivery of a record of %s-%d raised", batch.topic, batch.partition)

        self._batch.done.add_done_callback(report)
