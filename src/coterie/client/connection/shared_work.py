"""Work that several tasks need at once, done once: a connection, the lookup of a coordinator."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

from coterie.client.errors import KafkaError
from coterie.wire.errors import ErrorCode

R = TypeVar("R")


class Shared(Generic[R]):
    """Work under way by key. A caller that is cancelled does not end it for the others."""

    def __init__(self) -> None:
        self._tasks: dict[object, asyncio.Task[R]] = {}

    async def result(self, key: object, work: Callable[[], Coroutine[Any, Any, R]]) -> R:
        """Joins what is under way for the key, or starts it. Raises what the work raises; after `cancel` KafkaError
        NETWORK_EXCEPTION."""
        task = self._tasks.get(key)
        if task is None:
            task = self._tasks[key] = asyncio.create_task(work())
            task.add_done_callback(lambda done: self._end(key, done))
        await asyncio.wait({task})
        if task.cancelled():
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, "the client was closed")
        return task.result()

    def _end(self, key: object, task: asyncio.Task[R]) -> None:
        self._tasks.pop(key, None)
        if not task.cancelled():
            task.exception()  # its callers may all have been cancelled

    def cancel(self) -> None:
        """Ends all work under way."""
        for task in self._tasks.values():
            task.cancel()
