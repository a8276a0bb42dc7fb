"""Where the coordinator of a group or a transactional id is, as long as that is right."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from coterie.client.cluster import GROUP, Cluster
from coterie.client.errors import KafkaError
from coterie.client.retrying import Retrying
from coterie.client.sharing import Shared
from coterie.wire.errors import ErrorCode

R = TypeVar("R")


class Coordinator:
    """Looked up at first use, and again after `forget`."""

    def __init__(self, cluster: Cluster, key: str, kind: int = GROUP) -> None:
        self.cluster, self.key, self._kind = cluster, key, kind
        self._lookup: Shared[int] = Shared()

    async def node(self) -> int:
        """Its node id. Raises KafkaError."""
        node = self.cluster.known.coordinator(self.key, self._kind)
        if node is None:
            node = await self._lookup.result(None, lambda: self.cluster.find_coordinator(self.key, self._kind))
        return node

    def forget(self) -> None:
        self.cluster.known.forget_coordinator(self.key, self._kind)

    async def until_done(self, work: Callable[[int], Awaitable[R]]) -> R:
        """Runs ``work(node)`` again after errors that call for it, until default.api.timeout.ms is over. Raises
        KafkaError."""
        settings = self.cluster.settings
        retrying = Retrying(settings)
        while True:
            try:
                return await work(await self.node())
            except KafkaError as error:
                if not error.retriable:
                    raise
                if error.code != ErrorCode.CONCURRENT_TRANSACTIONS:
                    self.forget()
                pause_s = retrying.next_pause_s(settings.default_api_timeout_ms / 1000)
                if pause_s is None:
                    raise
                await asyncio.sleep(pause_s)
