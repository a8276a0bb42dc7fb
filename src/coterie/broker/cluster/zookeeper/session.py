"""A session with ZooKeeper as the drivers of a cluster use it: a real one, through kazoo and its threads, or one in the process
(`coterie.testing`); and how a `SessionScript` is driven in the event loop: its operations go to ZooKeeper, all other effects to
a function."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Protocol, get_args

from coterie.controller.session_script import SessionScript
from coterie.runtime.zookeeper_session import ZooKeeperLogin, ZooKeeperSession, connect
from coterie.zookeeper.operations import ConnectionLost, Operation, ZooKeeperError

_OPERATIONS = get_args(Operation)
RETRY_S = 0.1
THREADS = 4  # the controller, the writer of ISRs and the reader of settings request one operation at a time each


class SessionEvents(Protocol):
    """What happens to a session; all of it in the event loop."""

    def changed(self, path: str) -> None:
        """A watch of that path fired."""

    def suspended(self) -> None:
        """The connection is lost; the session may live on."""

    def connected(self) -> None:
        """The connection is back, of the old session or of a new one."""

    def expired(self) -> None:
        """The session is over; what follows belongs to a new one."""


class ClusterSession(Protocol):
    """One broker's session; after an expiry, the next one."""

    async def apply(self, operation: Operation) -> object:
        """The result. Raises ZooKeeperError."""

    async def close(self) -> None:
        """Ends the session: its ephemeral nodes go at once."""


# Raises ZooKeeperError.
OpenSession = Callable[[SessionEvents], Awaitable[ClusterSession]]


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


class ScriptTask:
    """Call `wake` after each input of the machine; `run` ends when the machine has finished."""

    def __init__(
        self,
        machine: SessionScript,
        apply: Callable[[Operation], Awaitable[object]],
        effect: Callable[[Any], None],
        now_ms: Callable[[], int],
    ) -> None:
        self.machine = machine
        self._apply, self._effect, self._now_ms = apply, effect, now_ms
        self._woken = asyncio.Event()

    def wake(self) -> None:
        self._woken.set()

    async def run(self) -> None:
        """Carries out each effect of the machine in turn; an operation that fails is its refusal. Ends when the machine
        has finished."""
        machine = self.machine
        while True:
            self._woken.clear()
            effect = machine.next(self._now_ms())
            if effect is None:
                if machine.finished:
                    return
                await woken(self._woken, machine.next_deadline_ms(), self._now_ms())
            elif isinstance(effect, _OPERATIONS):
                await self._carry_out(effect)
            else:
                self._effect(effect)
                machine.respond()

    async def _carry_out(self, operation: Operation) -> None:
        try:
            result = await self._apply(operation)
        except ConnectionLost as error:
            await asyncio.sleep(RETRY_S)  # or a session that refuses at once holds the loop
            self.machine.refuse(error)
        except ZooKeeperError as error:
            self.machine.refuse(error)
        else:
            self.machine.respond(result)


async def woken(event: asyncio.Event, due_ms: int | None, now_ms: int) -> None:
    """Returns when the event is set, or at ``due_ms``; None: not by itself."""
    try:
        async with asyncio.timeout(None if due_ms is None else max(due_ms - now_ms, 0) / 1000):
            await event.wait()
    except TimeoutError:
        return
