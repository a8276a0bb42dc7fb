"""Responses of a broker in a cluster to requests that it carries out in ZooKeeper."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import TypeVar

from coterie.broker.requests.pending import Pending
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode, Refusal
from coterie.zookeeper.operations import ZooKeeperError

R = TypeVar("R")

logger = logging.getLogger(__name__)
_running: set[asyncio.Task[None]] = set()


def responded_by(work: Coroutine[object, object, Message]) -> Pending:
    """The response that the work returns."""
    pending = Pending()

    async def respond() -> None:
        try:
            response = await work
        except Exception as error:
            pending.fail(error)
            return
        pending.respond(response)

    task = asyncio.get_running_loop().create_task(respond())
    _running.add(task)
    task.add_done_callback(_running.discard)
    return pending


async def refreshed(read: Callable[[], Awaitable[None]], work: Generator[None, None, R]) -> R:
    """The result of ``work`` once ``read`` has brought what ZooKeeper has; where it cannot be reached, of what was here."""
    try:
        await read()
    except ZooKeeperError as error:
        logger.info("ZooKeeper cannot be read (%r): settings are described as they were last read", error)
    return await in_turns(work)


async def in_turns(work: Generator[None, None, R]) -> R:
    """The result of the work, one step of it in each turn of the loop."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        await asyncio.sleep(0)


def refusal_of(error: Refusal | ZooKeeperError) -> Refusal:
    """A ZooKeeper that cannot be reached is an unknown server error, as in Kafka."""
    if isinstance(error, Refusal):
        return error
    return Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, f"ZooKeeper: {type(error).__name__}")
