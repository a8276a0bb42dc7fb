"""Many waits at a time, and not all: what one request has in flight."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

IN_FLIGHT = 32  # entities that one request reads or alters at a time; a turn of the loop has a step of each

T = TypeVar("T")
R = TypeVar("R")


async def each_at_once(items: Iterable[T], work: Callable[[T], Awaitable[R]]) -> list[R]:
    """The result of each, in their order; IN_FLIGHT at a time, since each waits for ZooKeeper several times."""
    items = list(items)
    results, left = dict[int, R](), iter(enumerate(items))

    async def take() -> None:
        for index, item in left:
            results[index] = await work(item)
            await asyncio.sleep(0)  # what is refused at once waits for nothing

    await asyncio.gather(*(take() for _ in items[:IN_FLIGHT]))
    return [results[index] for index in range(len(items))]
