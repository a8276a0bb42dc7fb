"""Responses of a broker in a cluster to requests that it carries out in ZooKeeper."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine

from coterie.broker.requests.pending import Pending
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode, Refusal
from coterie.zookeeper.operations import ZooKeeperError

_running: set[asyncio.Task[None]] = set()


def answered_by(work: Coroutine[object, object, Message]) -> Pending:
    """The response that the work returns."""
    pending = Pending()

    async def answer() -> None:
        try:
            response = await work
        except Exception as error:
            pending.fail(error)
            return
        pending.answer(response)

    task = asyncio.get_running_loop().create_task(answer())
    _running.add(task)
    task.add_done_callback(_running.discard)
    return pending


def refusal_of(error: Refusal | ZooKeeperError) -> Refusal:
    """A ZooKeeper that cannot be reached is an unknown server error, as in Kafka."""
    if isinstance(error, Refusal):
        return error
    return Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, f"ZooKeeper: {type(error).__name__}")
