"""Sessions with the laboratory's ZooKeeper and with a real one, for tests that both must pass."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol, TypeVar

from coterie.controller.elected.view import ControllerConfig
from coterie.laboratory.scripts.zookeeper_server import ZooKeeperServer
from coterie.laboratory.world import World
from coterie.machines.script import Steps, Wait
from coterie.runtime.zookeeper_session import ZooKeeperSession, connect
from coterie.zookeeper.operations import Delete, List, NoNode, NotEmpty, Operation, Read, Write, ZooKeeperError
from tests.awaiting import until_in_thread

SESSION_MS = 30_000
_MARKER = "/marker"
T = TypeVar("T")


class Connection(Protocol):
    """A session. ``events``: the paths whose watches have fired, complete after `settle`."""

    events: list[str]

    def apply(self, operation: Operation) -> object: ...

    def other(self) -> Connection:
        """Another session with the same server."""

    def settle(self) -> None: ...

    def close(self) -> None: ...


class SimulatedConnection:
    def __init__(self, server: ZooKeeperServer | None = None) -> None:
        self.events: list[str] = []
        self._server = server or ZooKeeperServer(World(1))
        self._session = self._server.connect(SESSION_MS, self.events.append)

    def apply(self, operation: Operation) -> object:
        return self._server.apply(self._session, operation)

    def other(self) -> SimulatedConnection:
        return SimulatedConnection(self._server)

    def settle(self) -> None:
        self._server.world.run_until(self._server.world.now_ms + 1_000)

    def close(self) -> None:
        self._server.close(self._session)


class RealConnection:
    def __init__(self, address: str) -> None:
        self.events: list[str] = []
        self._address, self._others = address, list[RealConnection]()
        self.client: Any = connect(address, SESSION_MS, 10_000)
        self._session = ZooKeeperSession(self.client, self.events.append, lambda _: None)

    def apply(self, operation: Operation) -> object:
        return self._session.apply(operation)

    def other(self) -> RealConnection:
        self._others.append(RealConnection(self._address))
        return self._others[-1]

    def settle(self) -> None:
        """Events come in order: a last one of its own is behind them."""
        self.apply(Read(_MARKER, watch=True))
        self.apply(Write(_MARKER, ""))
        until_in_thread(lambda: _MARKER in self.events, "the marker's event")
        self.events.remove(_MARKER)

    def close(self) -> None:
        for other in self._others:
            other.close()
        self._session.close()

    def clear(self) -> None:
        """Nothing is left for the next test."""
        delete_all(self, "/")


def delete_all(connection: Connection, path: str) -> None:
    names = connection.apply(List(path))
    assert isinstance(names, list)
    for name in names:
        child = f"{path.rstrip('/')}/{name}"
        if child != "/zookeeper":
            delete_all(connection, child)
            with suppress(NoNode, NotEmpty):
                connection.apply(Delete(child))


class Elected:
    """As an `OfficeSession` needs its machine."""

    def __init__(self) -> None:
        self.config = ControllerConfig(1, "", min_insync_replicas=2)
        self.now_ms = 0

    def perform(self, operation: Operation) -> Steps[Any]:
        return (yield operation)


def carry_out(steps: Steps[T], apply: Callable[[Operation], object]) -> tuple[T | None, list[object]]:
    """Until their end, or until they wait: their result, and the effects that are no operations."""
    effects: list[object] = []
    step, sent = steps.send, None
    try:
        while True:
            effect = step(sent)
            step, sent = steps.send, None
            if isinstance(effect, Wait):
                return None, [*effects, effect]
            if not isinstance(effect, Operation):
                effects.append(effect)
                continue
            try:
                sent = apply(effect)
            except ZooKeeperError as error:
                step, sent = steps.throw, error
    except StopIteration as end:
        return end.value, effects
