"""What a caller holds of a record on its way: its batch's future, and its number in the batch."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Generator
from concurrent.futures import Future
from typing import Any

from coterie.client.errors import KafkaError, unexpected
from coterie.client.types import RecordMetadata
from coterie.producing.batch import Acknowledged, ProduceFailure, ProducerBatch

# The one result of all records of a batch; None where they differ, or failed: `ProducerBatch.result_of` has it.
BatchFuture = asyncio.Future[Acknowledged | None]
DeliveryCallback = Callable[[RecordMetadata, KafkaError | None], object]

logger = logging.getLogger(__name__)


class Delivery:
    """A record on its way. Awaiting it returns a RecordMetadata, or raises KafkaError."""

    __slots__ = ("_batch", "_done", "_index")

    def __init__(self, batch: ProducerBatch, index: int, done: BatchFuture) -> None:
        self._batch, self._index, self._done = batch, index, done

    def __await__(self) -> Generator[Any, None, RecordMetadata]:
        # Shielded: the other records of the batch share the future, and a caller that is cancelled must not end it.
        done = self._done
        return self._metadata(done.result() if done.done() else (yield from asyncio.shield(done).__await__()))

    def _metadata(self, acknowledged: Acknowledged | None) -> RecordMetadata:
        """Raises KafkaError."""
        batch, index = self._batch, self._index
        topic, partition = batch.partition
        if acknowledged is None:
            result = batch.result_of(index)
            if isinstance(result, ProduceFailure):
                raise error_of_failure(result)
            offset, append_time_ms = result
        else:
            base_offset, append_time_ms = acknowledged
            offset = base_offset + index if base_offset >= 0 else -1
        timestamp_ms = append_time_ms if append_time_ms >= 0 else batch.items[index][0]
        return RecordMetadata(topic, partition, offset, timestamp_ms)

    def to_future(self) -> Future[RecordMetadata]:
        """For another thread."""
        future: Future[RecordMetadata] = Future()

        def settle(done: BatchFuture) -> None:
            if done.cancelled():
                future.set_exception(asyncio.CancelledError())
                return
            try:
                future.set_result(self._metadata(done.result()))
            except KafkaError as error:
                future.set_exception(error)

        future.set_running_or_notify_cancel()  # nobody takes a record back that is in its batch
        self._done.add_done_callback(settle)
        return future

    def report_to(self, callback: DeliveryCallback) -> None:
        """Calls ``callback(metadata, error or None)`` once the result is known; after an error, offset and timestamp are -1.
        What it raises is logged."""

        def report(done: BatchFuture) -> None:
            if done.cancelled():
                return
            topic, partition = self._batch.partition
            metadata, failed = RecordMetadata(topic, partition, -1, -1), None
            try:
                metadata = self._metadata(done.result())
            except KafkaError as error:
                failed = error
            try:
                callback(metadata, failed)
            except Exception:
                logger.exception("on_delivery of a record of %s-%d raised", topic, partition)

        self._done.add_done_callback(report)


def failure_of(error: Exception) -> ProduceFailure:
    """An exception of an attempt as the producer's machine has it."""
    failed = error if isinstance(error, KafkaError) else unexpected(error)
    return ProduceFailure(failed.code, None, failed.retriable, failed)


def error_of_failure(failure: ProduceFailure) -> KafkaError:
    """What the caller receives: the exception itself where there was one."""
    cause = failure.cause
    return cause if isinstance(cause, KafkaError) else KafkaError(failure.code, failure.message)
