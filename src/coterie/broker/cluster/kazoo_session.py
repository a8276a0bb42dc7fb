"""A `ClusterSession` with a real ZooKeeper, through kazoo and its threads."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

from coterie.broker.cluster.zookeeper_session import SessionEvents
from coterie.zookeeper.operations import Operation
from coterie.zookeeper_session import ZooKeeperSession, connect

THREADS = 2  # the controller and the writer of ISRs request one operation at a time each


class KazooSession:
    """Use `open_kazoo_session`."""

    def __init__(self, session: ZooKeeperSession, threads: ThreadPoolExecutor) -> None:
        self._session, self._threads = session, threads

    async def apply(self, operation: Operation) -> object:
        """The result. Raises ZooKeeperError."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._session.apply, operation)

    async def close(self) -> None:
        """Ends the session: its ephemeral nodes go at once."""
        await asyncio.get_running_loop().run_in_executor(self._threads, self._session.close)
        self._threads.shutdown(wait=False)


async def open_kazoo_session(
    address: str, session_timeout_ms: int, connection_timeout_ms: int, events: SessionEvents
) -> KazooSession:
    """Raises Unreachable where nobody answers, ExtraMissing without kazoo."""
    loop = asyncio.get_running_loop()
    threads = ThreadPoolExecutor(THREADS, thread_name_prefix="zookeeper")
    client = await loop.run_in_executor(threads, connect, address, session_timeout_ms, connection_timeout_ms)
    of_state = {"LOST": events.expired, "SUSPENDED": events.suspended, "CONNECTED": events.connected}

    def changed(path: str) -> None:
        _soon(loop, lambda: events.changed(path))

    return KazooSession(ZooKeeperSession(client, changed, lambda state: _soon(loop, of_state[state])), threads)


def _soon(loop: asyncio.AbstractEventLoop, action: object) -> None:
    """From one of kazoo's threads; after the loop's end nothing is left to be notified."""
    assert callable(action)
    if not loop.is_closed():
        loop.call_soon_threadsafe(action)
