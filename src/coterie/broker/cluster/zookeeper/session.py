"""A session with ZooKeeper as the drivers of a cluster use it: of a real one (`kazoo_session`), or of one in the process
(`coterie.testing`); and how a `SessionScript` is driven in the event loop: its operations go to ZooKeeper, all other effects to
a function."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Protocol, get_args

from coterie.controller.session_script import SessionScript
from coterie.zookeeper.operations import ConnectionLost, Operation, ZooKeeperError

_OPERATIONS = get_args(Operation)
RETRY_S = 0.1


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
