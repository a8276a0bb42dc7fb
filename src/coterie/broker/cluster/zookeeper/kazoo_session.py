"""A `ClusterSession` with a real ZooKeeper, through kazoo and its threads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from coterie.broker.cluster.zookeeper.session import SessionEvents
from coterie.runtime.zookeeper_session import ZooKeeperLogin, ZooKeeperSession, connect
from coterie.zookeeper.operations import ConnectionLost, Operation

THREADS = 4  # the controller, the writer of ISRs and the reader of settings request one operation at a time each


class KazooSession:
    """``events`` gets nothing more once it is closed."""

    def __init__(self, events: SessionEvents) -> None:
        self._loop, self._events = asyncio.get_running_loop(), events
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="zookeeper")
        self._is_closed = False
        self._session: ZooKeeperSession

    async def open(
        self, address: str, session_timeout_ms: int, connection_timeout_ms: int, login: ZooKeeperLogin | None = None
    ) -> KazooSession:
        """Raises Unreachable where nobody responds, ExtraMissing without kazoo."""
        client = await self._in_thread(connect, address, session_timeout_ms, connection_timeout_ms, login)
        events = self._events
        of_state = {"LOST": events.expired, "SUSPENDED": events.suspended, "CONNECTED": events.connected}
        self._session = ZooKeeperSession(
            client, lambda path: self._soon(events.changed, path), lambda state: self._soon(of_state[state]), login
        )
        return self

    def _soon(self, action: Callable[..., None], *arguments: str) -> None:
        """Calls ``action`` on the loop, from one of kazoo's threads."""
        with suppress(RuntimeError):  # the loop was closed meanwhile
            self._loop.call_soon_threadsafe(self._unless_closed, action, *arguments)

    def _unless_closed(self, action: Callable[..., None], *arguments: str) -> None:
        if not self._is_closed:
            action(*arguments)

    async def _in_thread(self, function: Callable[..., Any], *arguments: object) -> Any:
        return await self._loop.run_in_executor(self._threads, function, *arguments)

    async def apply(self, operation: Operation) -> object:
        """The result. Raises ZooKeeperError."""
        if self._is_closed:
            raise ConnectionLost
        return await self._in_thread(self._session.apply, operation)

    async def close(self) -> None:
        """Ends the session: its ephemeral nodes go at once."""
        if not self._is_closed:
            self._is_closed = True
            # Not in its own threads: without ZooKeeper each of them may wait for an operation, which ends with this.
            await self._loop.run_in_executor(None, self._session.close)
            self._threads.shutdown(wait=False)
