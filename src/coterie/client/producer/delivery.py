"""What a caller holds of a record on its way: the end of its batch, and its number in the batch."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Generator
from concurrent.futures import Future
from contextvars import Context, copy_context
from typing import Any

from coterie.client.errors import KafkaError, client_error
from coterie.client.types import RecordMetadata
from coterie.producing.batch import Acknowledged, ProduceFailure, ProducerBatch

DeliveryCallback = Callable[[RecordMetadata, KafkaError | None], object]

logger = logging.getLogger(__name__)


class BatchEnd:
    """The end of a batch, and what waits for it: ``acknowledged`` is then the one result of all its records; None where they
    differ, or failed: `ProducerBatch.result_of` has it. Each task has a future of its own, so that one that is cancelled ends
    nothing for the others."""

    __slots__ = ("_callbacks", "_waiters", "acknowledged", "is_reached")

    def __init__(self) -> None:
        self.is_reached = False
        self.acknowledged: Acknowledged | None = None
        self._waiters: list[asyncio.Future[None]] = []
        self._callbacks: list[tuple[Callable[[], object], Context]] = []

    def reach(self, acknowledged: Acknowledged | None) -> None:
        """Once. What waits runs in the next turn of the loop."""
        self.is_reached, self.acknowledged = True, acknowledged
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
        for callback, context in self._callbacks:
            asyncio.get_running_loop().call_soon(callback, context=context)
        self._waiters.clear()
        self._callbacks.clear()

    def __await__(self) -> Generator[Any, None, Acknowledged | None]:
        if not self.is_reached:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            try:
                yield from waiter
            except asyncio.CancelledError:
                if not self.is_reached:
                    self._waiters.remove(waiter)
                raise
        return self.acknowledged

    def then(self, callback: Callable[[], object]) -> None:
        """Calls it in a turn of the loop after the end, in the context of this call."""
        if self.is_reached:
            asyncio.get_running_loop().call_soon(callback)
        else:
            self._callbacks.append((callback, copy_context()))


class Delivery:
    """A record on its way. Awaiting it returns a RecordMetadata, or raises KafkaError."""

    __slots__ = ("_batch", "_end", "_index")

    def __init__(self, batch: ProducerBatch, index: int, end: BatchEnd) -> None:
        self._batch, self._index, self._end = batch, index, end

    def __await__(self) -> Generator[Any, None, RecordMetadata]:
        if not self._end.is_reached:
            yield from self._end.__await__()
        return self._metadata()

    def _metadata(self) -> RecordMetadata:
        """Raises KafkaError."""
        batch, index, acknowledged = self._batch, self._index, self._end.acknowledged
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
        """The result as a future that another thread may wait for."""
        future: Future[RecordMetadata] = Future()

        def settle() -> None:
            try:
                future.set_result(self._metadata())
            except KafkaError as error:
                future.set_exception(error)

        future.set_running_or_notify_cancel()  # nobody takes a record back that is in its batch
        self._end.then(settle)
        return future

    def report_to(self, callback: DeliveryCallback) -> None:
        """Calls ``callback(metadata, error or None)`` once the result is known; after an error, offset and timestamp are -1.
        What it raises is logged."""

        def report() -> None:
            topic, partition = self._batch.partition
            metadata, failed = RecordMetadata(topic, partition, -1, -1), None
            try:
                metadata = self._metadata()
            except KafkaError as error:
                failed = error
            try:
                callback(metadata, failed)
            except Exception:
                logger.exception("on_delivery of a record of %s-%d raised", topic, partition)

        self._end.then(report)


def report_failure(batch: ProducerBatch, end: BatchEnd, callback: Callable[[KafkaError], object]) -> None:
    """Calls ``callback(error)`` with the first error of the batch, if one of its records fails."""

    def report() -> None:
        for _, result in batch.results:
            if isinstance(result, ProduceFailure):
                callback(error_of_failure(result))
                return

    end.then(report)


def failure_of(error: Exception) -> ProduceFailure:
    """An exception of an attempt as the producer's machine has it."""
    failed = client_error(error)
    return ProduceFailure(failed.code, None, failed.retriable, failed)


def error_of_failure(failure: ProduceFailure) -> KafkaError:
    """What the caller receives: the exception itself where there was one."""
    cause = failure.cause
    return cause if isinstance(cause, KafkaError) else KafkaError(failure.code, failure.message)
