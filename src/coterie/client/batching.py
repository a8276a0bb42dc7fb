"""What a caller holds of a record on its way: its batch's future, and its number in the batch."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Generator
from concurrent.futures import Future
from typing import Any

from coterie.client.errors import KafkaError, unexpected
from coterie.client.types import RecordMetadata
from coterie.producing.batch import ProduceFailure, ProducerBatch

DeliveryCallback = Callable[[RecordMetadata, KafkaError | None], object]

logger = logging.getLogger(__name__)


class Delivery:
    """A record on its way. Awaiting it returns a RecordMetadata, or raises KafkaError."""

    __slots__ = ("_batch", "_done", "_index")

    def __init__(self, batch: ProducerBatch, index: int, done: asyncio.Future[None]) -> None:
        self._batch, self._index, self._done = batch, index, done

    def __await__(self) -> Generator[Any, None, RecordMetadata]:
        # Shielded: the other records of the batch share the future, and a caller that is cancelled must not end it.
        done = self._done
        if not done.done():
            yield from asyncio.shield(done).__await__()
        result = self._result()
        if isinstance(result, KafkaError):
            raise result
        return result

    def _result(self) -> RecordMetadata | KafkaError:
        batch, index = self._batch, self._index
        result = batch.result_of(index)
        if isinstance(result, ProduceFailure):
            return error_of_failure(result)
        offset, append_time_ms = result
        topic, partition = batch.partition
        return RecordMetadata(topic, partition, offset, batch.items[index][0] if append_time_ms < 0 else append_time_ms)

    def to_future(self) -> Future[RecordMetadata]:
        """For another thread."""
        future: Future[RecordMetadata] = Future()

        def settle(done: asyncio.Future[None]) -> None:
            if done.cancelled():
                future.set_exception(asyncio.CancelledError())
                return
            result = self._result()
            if isinstance(result, KafkaError):
                future.set_exception(result)
            else:
                future.set_result(result)

        future.set_running_or_notify_cancel()  # nobody takes a record back that is in its batch
        self._done.add_done_callback(settle)
        return future

    def report_to(self, callback: DeliveryCallback) -> None:
        """Calls ``callback(metadata, error or None)`` once the result is known; after an error, offset and timestamp are -1.
        What it raises is logged."""

        def report(done: asyncio.Future[None]) -> None:
            if done.cancelled():
                return
            topic, partition = self._batch.partition
            try:
                result = self._result()
                if isinstance(result, KafkaError):
                    callback(RecordMetadata(topic, partition, -1, -1), result)
                else:
                    callback(result, None)
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
