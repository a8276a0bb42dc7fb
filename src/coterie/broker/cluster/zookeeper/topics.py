"""The topics that ZooKeeper has now, where a broker's view may be older."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from coterie.controller import nodes
from coterie.zookeeper import paths
from coterie.zookeeper.operations import Operation, Read, Znode, ZooKeeperError


class ZooKeeperTopics:
    """``apply`` carries an operation out in ZooKeeper."""

    def __init__(self, apply: Callable[[Operation], Awaitable[object]]) -> None:
        self._apply = apply
        self._tasks: set[asyncio.Task[None]] = set()

    def look_up(self, topic: str, done: Callable[[set[int] | None], None]) -> None:
        """``done`` gets the topic's partitions later, none for a topic that is deleted, or None where ZooKeeper does not
        respond."""
        task = asyncio.get_running_loop().create_task(self._look_up(topic, done))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _look_up(self, topic: str, done: Callable[[set[int] | None], None]) -> None:
        try:
            node = await self._apply(Read(paths.topic(topic)))
        except ZooKeeperError:
            done(None)
        else:
            done(set(nodes.replicas_of(node.data)) if isinstance(node, Znode) else set())

    async def close(self) -> None:
        """Look-ups that are under way are dropped."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
